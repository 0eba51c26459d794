package images

import (
	"errors"
	"fmt"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/net/wire"
	"github.com/mqd-broker/mqd/test/history"
)

// insistent is an idempotent producer that sends each batch twice, and in the next life
// again as long as it has no answer.
type insistent struct {
	s     *script
	id    int64
	epoch int16
	next  map[*part]uint32
	open  []*insisted // batches without an answer, in order
}

// insisted is a batch on its way.
type insisted struct {
	to    *part
	m     history.Message // the only one in it
	frame []byte
	at    int64 // offset; -1: there was no answer
}

// insistentSender is the number of an insistent producer in the messages: those of
// lives are smaller.
const insistentSender = 1 << 20

func (s *script) newInsistent() *insistent {
	c := &insistent{s: s, next: map[*part]uint32{}}
	s.admin(func(corr uint32) []byte { return wire.AppendProducerInitRequest(nil, corr) }, func(body []byte) error {
		r, err := wire.DecodeProducerInitResponse(body)
		if err != nil || r.Code != wire.CodeNone {
			return fmt.Errorf("producer id: %v %s %w", r.Code, r.Message, err)
		}
		c.id, c.epoch = r.Producer, r.Epoch
		return nil
	})
	return c
}

// send sends a new batch, twice, and does not wait.
func (c *insistent) send(p *part, size int) {
	s := c.s
	m := history.Message{Stream: p.stream, Producer: insistentSender, Seq: c.next[p]}
	c.next[p]++
	b := batch.NewBuilder(nil, maxBatch)
	b.SetProducer(c.id, c.epoch, int32(m.Seq))
	s.must(b.Append(&batch.Record{Value: history.Append(nil, m, size), Timestamp: s.w.Wall() / 1e6}))
	s.l.add(event{kind: evSent, part: p, m: m})
	one := &insisted{to: p, m: m, frame: b.Finish(batch.CodecNone), at: -1}
	c.open = append(c.open, one)
	c.twice(one)
}

// again sends what is unanswered, behind a start.
func (c *insistent) again() {
	var left []*insisted
	for _, one := range c.open {
		if one.at < 0 {
			left = append(left, one)
		}
	}
	c.open = left
	for _, one := range left {
		c.twice(one)
	}
}

func (c *insistent) twice(one *insisted) {
	s := c.s
	for range 2 {
		s.pending++
		req := wire.ProduceRequest{Topic: one.to.topic.id, Partition: one.to.n, Batch: one.frame}
		s.link.do(func(corr uint32) []byte { return wire.AppendProduceRequest(nil, corr, &req) }, func(h *wire.Header, body []byte) {
			s.pending--
			if h != nil {
				s.x.err = errors.Join(s.x.err, c.answered(one, h, body))
			}
		})
	}
}

func (c *insistent) answered(one *insisted, h *wire.Header, body []byte) error {
	if h.IsError() {
		return fmt.Errorf("%v: an error in place of an answer", one.m)
	}
	a, err := wire.DecodeProduceResponse(body)
	switch {
	case err != nil || a.Code != wire.CodeNone:
		return fmt.Errorf("%v: %v %s %w", one.m, a.Code, a.Message, err)
	case one.at < 0:
		one.at = a.BaseOffset
		c.s.l.add(event{kind: evAcked, part: one.to, m: one.m, offset: a.BaseOffset, class: classOf(a.Class)})
	case one.at != a.BaseOffset:
		return fmt.Errorf("%v: acknowledged at %d and at %d", one.m, one.at, a.BaseOffset)
	}
	return nil
}

// retries repeats everything at once and behind every crash: nothing is there twice, and
// no repetition is answered before its original is durable.
func retries(s *script) {
	s.up(1)
	tp := s.create("retries", 2, history.Flushed)
	c := s.newInsistent()
	s.watch(true)
	for life := range 3 {
		for i := range 6 {
			c.send(tp.parts[i%2], 60+i*300)
			s.rest(time.Duration(i%3) * 50 * time.Microsecond)
		}
		for i := range 3 { // some of which reach the disk and find no time for an answer
			c.send(tp.parts[i%2], 90)
			s.rest(time.Duration(10+life*30) * time.Microsecond)
		}
		s.down([]end{endCut, endKill, endCut}[life], []sim.Keep{sim.KeepRandom, 0, sim.KeepNone}[life])
		s.up(1)
		c.again()
		if life > 0 {
			s.settle()
		}
	}
}
