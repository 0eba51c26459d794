package client

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/mqd-broker/mqd/client/internal/link"
	"github.com/mqd-broker/mqd/client/internal/memory"
	"github.com/mqd-broker/mqd/net/wire"
)

// sendBatch is one batch of a producer: a request, and what its tickets point
// to. It is never used again, so a ticket stays good for as long as somebody
// holds it. Batches are made in slabs; a record costs no allocation.
type sendBatch struct {
	lane  *lane
	count int32
	bytes int   // of the frame, once encoded
	stamp int64 // when it was begun, in milliseconds since 1970
	pack  *memory.Packer

	opened, wrote time.Time // only with a hook

	// Of an idempotent producer, under the lane's lock: the batch's place, and whether an
	// answer and the end of a write are to come.
	place   place
	out     bool
	writing bool
	wasSent bool // the broker may have it
	final   bool // it has its outcome and is still being written
	// Whoever has handed it to the link leaves these to Encode.
	coded   place // in the frame
	restamp bool  // which has another one

	waiters *waiter // under the lane's lock

	// Set once, by whoever ends the batch, before resolved is.
	base       int64
	appendTime int64
	class      Class
	err        error
	resolved   atomic.Bool
}

func (b *sendBatch) Op() wire.Op    { return wire.OpProduce }
func (b *sendBatch) Answered() bool { return !b.lane.p.cfg.noAck }

// encode finishes the batch, once, and puts the frame's header before it.
func (b *sendBatch) Encode(corr uint32) []byte {
	k, p := b.pack, b.lane.p
	if seq := &b.lane.seq; k.Frame == nil {
		if seq.on {
			k.Builder.SetProducer(seq.id, b.coded.epoch, b.coded.sequence)
		}
		k.Frame = k.Builder.Finish(p.cfg.codec)
		b.bytes = len(k.Frame)
	}
	b.stampPlace(k.Frame)
	req := wire.ProduceRequest{Topic: b.lane.id.Load(), Partition: b.lane.partition, MinClass: p.cfg.minClass}
	if p.cfg.noAck {
		req.Ack = wire.AckNone
	}
	wire.AppendProduceRequestHeader(k.Frame[:0], corr, &req, len(k.Frame)-memory.Room)
	if !b.opened.IsZero() {
		b.wrote = time.Now()
	}
	return k.Frame
}

// release gives the batch's memory back.
func (b *sendBatch) release() {
	p, k := b.lane.p, b.pack
	if k == nil {
		return
	}
	b.pack = nil
	p.space.Give(k.Charged)
	k.Charged = 0
	p.packers.Put(k)
}

func (b *sendBatch) Written() {
	if b.lane.seq.on {
		b.lane.written(b)
		return
	}
	b.release()
	if !b.Answered() {
		b.lane.resolve(nil, b, outcome{base: -1})
	}
}

func (b *sendBatch) Deliver(cur *link.Link, f *link.Frame) error {
	p, ln := b.lane.p, b.lane
	if f.IsError() {
		e, err := decodeError(f, "produce", p.topic.name, ln.partition)
		if err != nil {
			return err
		}
		if !ln.seq.on || !ln.answered(cur, b, e.Code) {
			ln.resolve(cur, b, outcome{base: -1, err: e})
		}
		return nil
	}
	resp, err := wire.DecodeProduceResponse(f.Body)
	if err != nil {
		return err
	}
	out := outcome{base: resp.BaseOffset, class: resp.Class, appendTime: resp.AppendTime}
	if resp.Code != wire.CodeNone {
		e := codeError("produce", p.topic.name, ln.partition, resp.Code, resp.Message)
		if resp.ValidHigh > 0 {
			e.ValidLow, e.ValidHigh = max(resp.ValidLow, 0), resp.ValidHigh
		}
		out = outcome{base: -1, err: e}
		if resp.Code == wire.CodeUnknownTopic || resp.Code == wire.CodeUnknownPartition {
			p.c.refresh()
		}
	}
	if ln.seq.on && ln.answered(cur, b, resp.Code) {
		return nil
	}
	ln.resolve(cur, b, out)
	return nil
}

func (b *sendBatch) Fail(err error, sent bool) {
	if b.lane.seq.on {
		var repeat bool
		if repeat, sent = b.lane.failed(b, err, sent); repeat {
			return
		}
	} else {
		b.release()
	}
	out := outcome{base: -1}
	if sent {
		out.err = unknownError("produce", b.lane.p.topic.name, b.lane.partition, err)
	} else {
		out.err = refusal("produce", b.lane.p.topic.name, b.lane.partition, err)
	}
	b.lane.resolve(nil, b, out)
}

// settle sets the outcome.
func (b *sendBatch) settle(out outcome) {
	b.base, b.class, b.appendTime, b.err = out.base, out.class, out.appendTime, out.err
}

// sendInfo describes the batch to a hook.
func (b *sendBatch) sendInfo() SendInfo {
	info := SendInfo{
		Topic: b.lane.p.topic.name, Partition: b.lane.partition,
		Records: int(b.count), Bytes: b.bytes,
		BaseOffset: b.base, Class: b.class, Err: b.err,
	}
	if !b.wrote.IsZero() {
		info.Queued = b.wrote.Sub(b.opened)
		info.Answered = time.Since(b.wrote)
	}
	if b.err == nil && b.appendTime > 0 {
		info.AppendTime = time.Unix(0, b.appendTime)
	}
	return info
}

// slabBatches is how many batches are made at a time.
const slabBatches = 32

// slab hands out new batches.
type slab struct {
	mu   sync.Mutex
	free []sendBatch
}

func (s *slab) next() *sendBatch {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.free) == 0 {
		s.free = make([]sendBatch, slabBatches)
	}
	b := &s.free[0]
	s.free = s.free[1:]
	return b
}
