package sim

import (
	"bytes"
	"slices"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/net/wire"
	"github.com/mqd-broker/mqd/test/history"
)

// retrier is an idempotent producer. It outlives its connections and the lives of the
// broker: what is not acknowledged it sends again, in order, until it is, and now and then
// it sends a batch twice at once. So nothing of it may be there twice, an answer to a
// repetition says where the first one is, and promises as much.
type retrier struct {
	r       *run
	link    *link
	number  uint32 // in histories, for the whole run
	id      int64  // noID until the broker has given one
	asking  bool
	seqs    []*sequence
	quiet   int64 // does nothing before this time
	builder *batch.Builder
	mem     []byte
	message message
}

const noID = -1

// sequence is what a retrier sends to a partition.
type sequence struct {
	to       *part
	next     uint32     // sequence number
	queue    []*unacked // in order
	sent     int        // of the queue, on this connection
	inFlight int        // answers that are to come
	again    bool       // everything has to be sent again, when none is to come any more
}

// unacked is a batch without an acknowledgement.
type unacked struct {
	sentBatch
	data  []byte
	time  int64 // of its append, by the acknowledgement
	life  int   // in which it was made
	acked int   // in which it was acknowledged
	place int64 // offset that an acknowledgement has named, noID before
}

// window is how many batches the broker remembers.
const window = 5

func (r *run) newRetrier() *retrier {
	r.senders++
	p := &retrier{r: r, number: r.senders, id: noID, builder: batch.NewBuilder(nil, 16<<10)}
	p.link = r.newLink(nil)
	return p
}

func (p *retrier) act(now int64) {
	p.link.keep(now)
	p.link.tidy()
	if p.link.stage != ready || !p.r.loading || now < p.quiet || p.asking {
		return
	}
	if p.id == noID {
		p.ask()
		return
	}
	p.seqs = slices.DeleteFunc(p.seqs, (*sequence).over)
	for _, s := range p.seqs {
		p.resume(s)
	}
	if p.r.sparse {
		p.quiet = now + int64(p.r.rng.IntN(200_000))
	}
	if to := p.r.anyPart(); to != nil && p.r.rng.IntN(2) == 0 {
		p.produce(to)
	}
}

// ask asks for a producer id.
func (p *retrier) ask() {
	p.asking = true
	if p.link.kafka {
		p.askKafka()
		return
	}
	p.link.do(wire.AppendProducerInitRequest, func(h wire.Header, body []byte, lost bool) {
		p.asking = false
		if lost {
			return
		}
		if h.IsError() {
			p.r.refusal(h, body)
			return
		}
		a, err := wire.DecodeProducerInitResponse(body)
		if err != nil {
			p.r.failf("producer id: %v", err)
		}
		p.called(a.Producer, a.Code, a.Message)
	})
}

// called notes the answer to a request for a producer id.
func (p *retrier) called(id int64, code wire.Code, message string) {
	switch {
	case code != wire.CodeNone:
		p.r.refused(code, message)
		p.quiet = p.r.w.Now() + int64(p.r.rng.IntN(300_000))
	case p.r.producers[id]:
		p.r.failf("producer id %d was given out twice", id)
	default:
		p.id = id
		p.r.producers[p.id] = true
	}
}

// over ends the sequence of a partition that is being deleted.
func (s *sequence) over() bool {
	if !s.to.topic.going || s.inFlight > 0 {
		return false
	}
	for _, u := range s.queue {
		u.each(func(m history.Message, _ int64) { s.to.p.Unknown(m) })
	}
	return true
}

// each calls f for the messages of a batch.
func (s *sentBatch) each(f func(m history.Message, i int64)) {
	for i := range s.n {
		m := s.first
		m.Seq += uint32(i)
		f(m, int64(i))
	}
}

// resume sends what has to be sent again.
func (p *retrier) resume(s *sequence) {
	if s.again && s.inFlight == 0 {
		s.again, s.sent = false, 0
	}
	for !s.again && s.sent < len(s.queue) && p.link.stage == ready {
		u := s.queue[s.sent]
		s.sent++
		p.transmit(s, u)
	}
}

func (p *retrier) sequence(to *part) *sequence {
	for _, s := range p.seqs {
		if s.to == to {
			return s
		}
	}
	s := &sequence{to: to}
	p.seqs = append(p.seqs, s)
	return s
}

// produce sends a new batch, and perhaps at once a second time.
func (p *retrier) produce(to *part) {
	r, s := p.r, p.sequence(to)
	if s.again || len(s.queue) >= window {
		return
	}
	first := history.Message{Stream: to.stream, Producer: p.number, Seq: s.next}
	u := &unacked{place: noID, life: r.lives, sentBatch: sentBatch{to: to, first: first, n: 1 + r.rng.IntN(4), changes: to.topic.changes}}
	u.certain = to.topic.altered == certain
	b := p.builder
	b.Reset(p.mem[:0])
	b.SetProducer(p.id, 0, int32(s.next))
	size := history.MinSize + r.rng.IntN(300)
	u.each(func(m history.Message, _ int64) {
		rec := p.message.record(to, m, size, r.w.Wall()/1e6)
		if err := b.Append(&rec); err != nil {
			r.failf("build: %v", err)
		}
		to.p.Sent(m)
	})
	s.next += uint32(u.n)
	p.mem = b.Finish(batch.CodecNone)
	u.data = bytes.Clone(p.mem)
	u.bytes = len(u.data)
	to.p.SentBytes(u.bytes)
	r.largest = max(r.largest, u.bytes)
	s.queue = append(s.queue, u)
	p.resume(s)
	if r.rng.IntN(4) == 0 && p.link.stage == ready {
		p.transmit(s, u)
	}
}

// transmit sends a batch.
func (p *retrier) transmit(s *sequence, u *unacked) {
	p.r.op(opProduce)
	s.inFlight++
	if p.link.kafka {
		p.transmitKafka(s, u)
		return
	}
	req := wire.ProduceRequest{Topic: u.to.topic.id, Partition: u.to.n, Batch: u.data}
	p.link.do(func(dst []byte, corr uint32) []byte { return wire.AppendProduceRequest(dst, corr, &req) },
		func(h wire.Header, body []byte, lost bool) {
			s.inFlight--
			p.outcome(s, u, h, body, lost)
		})
}

// outcome notes what became of a batch, or of its repetition.
func (p *retrier) outcome(s *sequence, u *unacked, h wire.Header, body []byte, lost bool) {
	r, to := p.r, s.to
	if lost || to.topic.going || to.topic.gone {
		s.again = true
		return
	}
	if h.IsError() {
		r.refusal(h, body)
		s.again = true
		return
	}
	a, err := wire.DecodeProduceResponse(body)
	if err != nil {
		r.failf("produce: %v", err)
	}
	p.judged(s, u, &a)
}

// judged notes an answer about a batch.
func (p *retrier) judged(s *sequence, u *unacked, a *wire.ProduceResponse) {
	r := p.r
	switch {
	case a.Code == wire.CodeNone:
		p.acked(s, u, a)
	case u.place != noID: // the other one has been acknowledged
	case a.Code == wire.CodeOutOfOrderSequence && (s.again || s.queue[0] != u):
		s.again = true
	default:
		r.refused(a.Code, a.Message)
		s.again = true
		p.quiet = r.w.Now() + int64(r.rng.IntN(300_000))
	}
}

// acked notes an acknowledgement, which is the first one or agrees with that.
func (p *retrier) acked(s *sequence, u *unacked, a *wire.ProduceResponse) {
	r := p.r
	if s.to.topic.altered == certain && u.certain && u.changes == s.to.topic.changes && a.Class < wire.Class(s.to.topic.class) {
		r.failf("%v: acknowledged as %v, the class is %v", s.to, a.Class, s.to.topic.class)
	}
	if u.place != noID {
		if u.place != a.BaseOffset {
			r.failf("%v: a batch was acknowledged at %d, and again at %d", s.to, u.place, a.BaseOffset)
		}
		if u.acked == r.lives && u.time != a.AppendTime {
			r.failf("%v: the batch at %d was appended at %d, and again at %d", s.to, u.place, u.time, a.AppendTime)
		}
		return
	}
	u.place, u.time, u.acked = a.BaseOffset, a.AppendTime, r.lives
	if u.life == r.lives && !p.link.kafka { // behind a start the time is that of the round in the journal
		s.to.p.Appended(a.BaseOffset, u.n, u.bytes, a.AppendTime, r.clockNow(), history.Class(a.Class))
	}
	r.acked += u.n
	u.each(func(m history.Message, i int64) { s.to.p.AckedAs(m, a.BaseOffset+i, history.Class(a.Class)) })
	i := slices.Index(s.queue, u)
	s.queue = slices.Delete(s.queue, i, i+1)
	if i < s.sent {
		s.sent--
	}
}
