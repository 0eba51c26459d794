package sim

import (
	"fmt"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/net/wire"
	"github.com/mqd-broker/mqd/test/history"
)

// producer sends batches, several at a time, over a connection of its own.
type producer struct {
	r        *run
	link     *link
	number   uint32 // new with each connection: what was unanswered may still arrive
	seqs     map[*part]uint32
	inFlight int
	depth    int
	quiet    int64 // sends nothing before this time
	builder  *batch.Builder
	limit    int    // of the builder, in bytes
	batch    []byte // memory of the newest one
	message  message
}

func (r *run) newProducer() *producer {
	p := &producer{r: r, depth: 1 + r.rng.IntN(12)}
	p.link = r.newLink(p.renew)
	p.renew()
	return p
}

func (p *producer) renew() {
	p.r.senders++
	p.number, p.seqs = p.r.senders, map[*part]uint32{}
}

func (p *producer) act(now int64) {
	p.link.keep(now)
	p.link.tidy()
	if p.link.stage != ready || !p.r.loading || now < p.quiet {
		return
	}
	if p.r.sparse {
		p.quiet = now + int64(p.r.rng.IntN(200_000))
	}
	for n := 1 + p.r.rng.IntN(p.r.most(3)); n > 0 && p.inFlight < p.depth && p.link.stage == ready; n-- {
		if to := p.r.anyPart(); to != nil {
			p.produce(to)
		}
	}
}

// size draws the number of messages in a batch and the size of each.
func (p *producer) size() (n, size int) {
	if p.r.sparse {
		return 1, history.MinSize
	}
	limit := p.r.cfg.MaxMessageBytes - 200
	switch p.r.rng.IntN(40) {
	case 0:
		return 1, limit - p.r.rng.IntN(64) // as large as can be
	case 2, 9:
		n = 1 + p.r.rng.IntN(64)
		return n, history.MinSize + p.r.rng.IntN(max(1, min(limit, 32<<10)/(n+1)-history.MinSize-32))
	case 3, 4, 5, 6:
		return 1, history.MinSize + p.r.rng.IntN(min(12<<10, limit-history.MinSize))
	}
	return 1 + p.r.rng.IntN(4), history.MinSize + p.r.rng.IntN(400)
}

// begin begins a batch in the memory of the one before.
func (p *producer) begin() *batch.Builder {
	if limit := p.r.cfg.MaxMessageBytes; limit == p.limit {
		p.builder.Reset(p.batch[:0])
	} else {
		p.builder, p.limit = batch.NewBuilder(p.batch[:0], limit), limit
	}
	return p.builder
}

func (p *producer) produce(to *part) {
	s := p.build(to)
	req := wire.ProduceRequest{Topic: to.topic.id, Partition: to.n, Batch: p.batch}
	p.r.op(opProduce)
	p.inFlight++
	p.link.do(func(dst []byte, corr uint32) []byte { return wire.AppendProduceRequest(dst, corr, &req) },
		func(h wire.Header, body []byte, lost bool) {
			p.inFlight--
			p.outcome(&s, h, body, lost)
		})
}

// build builds a batch, which is sent from now on.
func (p *producer) build(to *part) sentBatch {
	r := p.r
	n, size := p.size()
	first := p.seqs[to]
	b := p.begin()
	for i := range n {
		m := history.Message{Stream: to.stream, Producer: p.number, Seq: first + uint32(i)}
		rec := p.message.record(to, m, size, r.w.Wall()/1e6)
		if i > 0 && !b.Fits(&rec) {
			n = i
			break
		}
		if err := b.Append(&rec); err != nil {
			r.failf("build: %v", err)
		}
		to.p.Sent(m)
	}
	p.seqs[to] = first + uint32(n)
	codec := batch.CodecNone
	if r.rng.IntN(16) == 0 {
		codec = batch.CodecLz4
	}
	p.batch = b.Finish(codec)
	to.p.SentBytes(len(p.batch))
	r.largest = max(r.largest, len(p.batch))
	s := sentBatch{to: to, first: history.Message{Stream: to.stream, Producer: p.number, Seq: first}, n: n, bytes: len(p.batch), changes: to.topic.changes}
	s.certain = to.topic.altered == certain
	return s
}

// sentBatch is a batch on its way.
type sentBatch struct {
	to      *part
	first   history.Message
	n       int
	bytes   int
	changes int  // of the topic's class when it was sent
	certain bool // what its class was then
}

// outcome notes what became of a batch.
func (p *producer) outcome(s *sentBatch, h wire.Header, body []byte, lost bool) {
	r, to, each := p.r, s.to, s.each
	if lost || to.topic.going || to.topic.gone {
		each(func(m history.Message, _ int64) { to.p.Unknown(m) })
		return
	}
	if h.IsError() {
		code := r.refusal(h, body)
		each(func(m history.Message, _ int64) { r.settle(to, m, code) })
		return
	}
	a, err := wire.DecodeProduceResponse(body)
	switch {
	case err != nil:
		r.failf("produce: %v", err)
	case a.Code != wire.CodeNone:
		r.refused(a.Code, a.Message)
		p.quiet = r.w.Now() + int64(r.rng.IntN(300_000))
		each(func(m history.Message, _ int64) { r.settle(to, m, a.Code) })
	default:
		r.acked += s.n
		each(func(m history.Message, i int64) { to.p.AckedAs(m, a.BaseOffset+i, history.Class(a.Class)) })
		to.p.Appended(a.BaseOffset, s.n, s.bytes, a.AppendTime, r.clockNow(), history.Class(a.Class))
		if s.certain && s.changes == to.topic.changes && a.Class < wire.Class(to.topic.class) {
			r.failf("%v: acknowledged as %v, the class is %v", to, a.Class, to.topic.class)
		}
	}
}

// settle notes the outcome of a message that was refused with a code.
func (r *run) settle(to *part, m history.Message, code wire.Code) {
	if code.OutcomeUnknown() {
		to.p.Unknown(m)
	} else {
		to.p.Refused(m)
	}
}

// consumer follows partitions with long polls.
type consumer struct {
	r      *run
	link   *link
	parity int // of the partitions that it follows
	next   int64
}

func (r *run) newConsumer(parity int) *consumer {
	c := &consumer{r: r, parity: parity}
	c.link = r.newLink(nil)
	return c
}

func (c *consumer) act(now int64) {
	c.link.keep(now)
	c.link.tidy()
	if c.link.stage != ready || !c.r.loading || now < c.next {
		return
	}
	c.next = now + int64(c.r.rng.IntN(60_000))
	for _, tp := range c.r.alive() {
		for i, p := range tp.parts {
			if i%2 == c.parity && !p.fetching && c.r.rng.IntN(3) == 0 {
				c.fetch(p)
			}
		}
	}
}

func (c *consumer) fetch(p *part) {
	r := c.r
	req := wire.FetchRequest{
		Topic: p.topic.id, Partition: p.n, Offset: p.next,
		MaxBytes: []uint32{1, 700, 16 << 10, 256 << 10}[r.rng.IntN(4)],
	}
	if r.rng.IntN(2) == 0 {
		req.MaxWait, req.MinBytes = uint32(1+r.rng.IntN(30)), uint32(r.rng.IntN(3000))
	}
	r.op(opFetch)
	p.fetching = true
	life, least := r.lives, p.p.Start()
	c.link.do(func(dst []byte, corr uint32) []byte { return wire.AppendFetchRequest(dst, corr, &req) },
		func(h wire.Header, body []byte, lost bool) {
			p.fetching = false
			if lost || p.topic.going || life != r.lives {
				return
			}
			if h.IsError() {
				r.refusal(h, body)
				return
			}
			f, err := wire.DecodeFetchResponse(body)
			if err != nil {
				r.failf("fetch: %v", err)
			}
			c.fetched(p, &req, &f, least)
		})
}

func (c *consumer) fetched(p *part, req *wire.FetchRequest, f *wire.FetchResponse, least int64) {
	r := c.r
	if f.Code != wire.CodeNone {
		if f.Code == wire.CodeCorrupt && r.fault.kind == sawReadFailed {
			return // what cannot be read counts as damaged
		}
		if f.Code == wire.CodeOffsetOutOfRange && req.Offset < f.LogStart {
			r.cover(sawBelowStart)
			r.saw(p, least, f.LogStart, f.Durable, f.End)
			p.tail.Trimmed(f.LogStart)
			p.next = max(p.next, f.LogStart)
			return
		}
		if f.Code == wire.CodeOffsetOutOfRange || f.Code == wire.CodeCorrupt {
			r.failf("%v: fetch at %d: %v, valid %d to %d", p, req.Offset, f.Code, f.LogStart, f.Durable)
		}
		r.refused(f.Code, "")
		return
	}
	r.saw(p, least, f.LogStart, f.Durable, f.End)
	if f.Durable < p.durable {
		r.failf("%v: durable %d after %d", p, f.Durable, p.durable)
	}
	p.durable = f.Durable
	r.records(p, f, p.next, func(offset int64, value []byte) {
		p.tail.Record(offset, value)
		p.next = offset + 1
	})
	p.next = max(p.next, f.NextOffset)
}

// records passes the records of an answer from an offset on, and checks that none lies
// above the durable offset. It returns the offset behind the last batch, from if there is none.
func (r *run) records(p *part, f *wire.FetchResponse, from int64, each func(offset int64, value []byte)) (next int64) {
	next = from
	for rest := f.Batches; len(rest) > 0; {
		var one []byte
		var err error
		if one, rest, err = batch.Split(rest); err != nil {
			r.failf("%v: fetch at %d: %v", p, from, err)
		}
		h, it, err := r.decoder.Open(one)
		if err != nil {
			r.failf("%v: fetch at %d: %v", p, from, err)
		}
		if h.LastOffset() >= f.Durable {
			r.failf("%v: offset %d was served, the durable offset is %d", p, h.LastOffset(), f.Durable)
		}
		for it.Next() {
			if rec := it.Record(); rec.Offset >= from {
				each(rec.Offset, r.content(p, &rec))
			}
		}
		if it.Err() != nil {
			r.failf("%v: fetch at %d: %v", p, from, it.Err())
		}
		next = max(next, h.LastOffset()+1)
	}
	return next
}

// refusal is the code of an error response.
func (r *run) refusal(h wire.Header, body []byte) wire.Code {
	e, err := wire.DecodeErrorResponse(body)
	if err != nil {
		r.failf("error response to %v: %v", h.Op, err)
	}
	r.refused(e.Code, e.Message)
	return e.Code
}

// refused notes that something was refused, and fails when nobody refuses that.
func (r *run) refused(code wire.Code, message string) {
	switch code {
	case wire.CodeStorageError:
		if !r.broken {
			r.failf("a storage error without a fault: %s", message)
		}
		r.cover(sawStorageError)
	case wire.CodeBackpressure:
		r.cover(sawBackpressure)
	case wire.CodeShuttingDown:
		r.cover(sawShuttingDown)
	default:
		r.failf("refused: %v %s", code, message)
	}
}

func (r *run) nameOfTopic() string {
	r.named++
	if r.kafka { // whose requests name topics: one to a topic that has gone would meet another
		return fmt.Sprintf("topic-%d", r.named)
	}
	return fmt.Sprintf("topic-%d", r.named%5) // names come back
}
