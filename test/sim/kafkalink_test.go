package sim

import (
	"encoding/binary"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mqd-broker/mqd/net/wire"
)

// mostPatience is how long an answer to a Kafka client may be out, as long as the broker lives
// and the connection stands: longer than anything that a request waits for.
const mostPatience = int64(30 * time.Second)

// kafkaCall is a request that waits for its answer.
type kafkaCall struct {
	corr   int32
	sent   int64 // time
	into   kmsg.Response
	answer func(a kmsg.Response) // nil: there will be none
}

var toKafka = kmsg.NewRequestFormatter(kmsg.FormatterClientID("sim"))

func (r *run) newKafkaLink(broken func()) *link {
	l := r.newLink(broken)
	l.kafka = true
	return l
}

// ask sends a request of a version. The answer is valid during the call, and nil if the
// connection ends without one: then the request may have been carried out or not.
func (l *link) ask(version int16, q kmsg.Request, answer func(a kmsg.Response)) {
	l.tell(version, q)
	into := q.ResponseKind()
	into.SetVersion(version)
	l.calls = append(l.calls, kafkaCall{corr: int32(l.corr), sent: l.r.w.Now(), into: into, answer: answer})
}

// tell sends a request that has no answer.
func (l *link) tell(version int16, q kmsg.Request) {
	l.corr++
	q.SetVersion(version)
	l.out = append(l.out, toKafka.AppendRequest(nil, q, int32(l.corr))...)
	l.push()
}

// parseKafka takes whole answers off what was received. They have to come in the order of
// their requests.
func (l *link) parseKafka() {
	at := 0
	for l.stage < leaving && len(l.got)-at >= 4 {
		n := int(binary.BigEndian.Uint32(l.got[at:]))
		if n < 4 || n > maxAnswer {
			l.r.failf("an answer of %d bytes", n)
		}
		if len(l.got)-at-4 < n {
			break
		}
		body := l.got[at+4 : at+4+n]
		at += 4 + n
		corr := int32(binary.BigEndian.Uint32(body))
		if len(l.calls) == 0 || l.calls[0].corr != corr {
			l.r.failf("answer %d is not the next of %d that wait", corr, len(l.calls))
		}
		c := l.calls[0]
		l.calls = l.calls[1:]
		l.decode(c.into, body[4:])
		c.answer(c.into)
	}
	l.got = l.got[:copy(l.got, l.got[at:])]
}

// decode reads an answer, of which no byte may be left.
func (l *link) decode(a kmsg.Response, body []byte) {
	if a.IsFlexible() {
		if body[0] != 0 {
			l.r.failf("the header of an answer %d has %d tags", a.Key(), body[0])
		}
		body = body[1:]
	}
	if err := a.ReadFrom(body); err != nil {
		l.r.failf("answer %d version %d: %v", a.Key(), a.GetVersion(), err)
	}
	if len(body) < 4<<10 {
		if n := len(a.AppendTo(nil)); n != len(body) {
			l.r.failf("answer %d version %d has %d bytes, and means %d", a.Key(), a.GetVersion(), len(body), n)
		}
	}
}

// overdue fails when a request has waited for too long.
func (l *link) overdue(now int64) {
	if len(l.calls) > 0 && now-l.calls[0].sent > mostPatience {
		c := &l.calls[0]
		l.r.failf("request %d with key %d has had no answer for %v", c.corr, c.into.Key(), time.Duration(now-c.sent))
	}
}

// loseCalls tells those who wait that there will be no answer.
func (l *link) loseCalls() {
	lost := l.calls
	l.calls = nil
	for _, c := range lost {
		c.answer(nil)
	}
}

// codeOfKafka is the code of the native protocol that says the same.
func (r *run) codeOfKafka(what any, code int16) wire.Code {
	switch code {
	case 0:
		return wire.CodeNone
	case 1:
		return wire.CodeOffsetOutOfRange
	case 2:
		return wire.CodeCorrupt
	case 5:
		return wire.CodeNotReady
	case 6:
		return wire.CodeShuttingDown
	case 7:
		return wire.CodeBackpressure
	case 45:
		return wire.CodeOutOfOrderSequence
	case 56:
		return wire.CodeStorageError
	}
	r.failf("%v: a Kafka client hears %d", what, code)
	return 0
}
