package lane

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mqd-broker/mqd/client/internal/link"
	"github.com/mqd-broker/mqd/client/internal/memory"
	"github.com/mqd-broker/mqd/net/wire"
)

// Batch is one batch of a producer: a request, and what its receipts point
// to. It is never used again, so a receipt stays good for as long as somebody
// holds it. Batches are made in slabs; a record costs no allocation.
type Batch struct {
	lane  *Lane
	count int32
	bytes int   // of the frame, once encoded
	stamp int64 // when it was begun, in milliseconds since 1970
	pack  *memory.Packer

	opened, wrote time.Time
	ctx           context.Context // of the first append; nil without [Shared.Watched]
	handed        atomic.Int64    // nanoseconds from wrote until the frame was out; 0 until then
	claim         uint32          // number of the open claim, 0 without one, under the lane's lock
	ripe          bool            // does not wait for company, under the lane's lock

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
	outcome  Outcome
	resolved atomic.Bool
}

// Topic is the name of the topic that the batch goes to.
func (b *Batch) Topic() string { return b.lane.p.Topic }

// Partition is where in the topic it goes.
func (b *Batch) Partition() int32 { return b.lane.partition }

// Len is the number of records, of a batch that has its outcome.
func (b *Batch) Len() int { return int(b.count) }

// Resolved reports whether the batch has its outcome, and whoever has to know of it does.
func (b *Batch) Resolved() bool { return b.resolved.Load() }

// Outcome is how the batch ended, once it has: when it is resolved, and already for
// [Host.Tell] and [Host.Ended].
func (b *Batch) Outcome() Outcome { return b.outcome }

// Sent is the size of the batch's frame in bytes, 0 if there was none, when the batch was
// begun and when the frame was made, for the last time; for [Host.Tell].
func (b *Batch) Sent() (bytes int, opened, wrote time.Time) { return b.bytes, b.opened, b.wrote }

// Context is that with which the batch was begun; for [Host.Tell].
func (b *Batch) Context() context.Context {
	if b.ctx == nil {
		return context.Background()
	}
	return b.ctx
}

// Handed is how long the operating system has taken to take the frame; for [Host.Tell]. It
// is not known yet when the answer was faster than whoever wrote it: then it is most, which
// is when the answer came.
func (b *Batch) Handed(most time.Duration) time.Duration {
	if d := b.handed.Load(); d > 0 {
		return min(time.Duration(d), most)
	}
	return most
}

// Op implements [link.Request].
func (b *Batch) Op() wire.Op { return wire.OpProduce }

// Answered implements [link.Request].
func (b *Batch) Answered() bool { return !b.lane.p.NoAck }

// Encode finishes the batch, once, and puts the frame's header before it.
func (b *Batch) Encode(corr uint32) []byte {
	k, p := b.pack, b.lane.p
	if seq := &b.lane.seq; k.Frame == nil {
		if seq.on {
			k.Builder.SetProducer(seq.id, b.coded.epoch, b.coded.sequence)
		}
		k.Frame = k.Builder.Finish(p.Codec)
		b.bytes = len(k.Frame)
	}
	b.stampPlace(k.Frame)
	req := wire.ProduceRequest{Topic: b.lane.id.Load(), Partition: b.lane.partition, MinClass: p.MinClass}
	if p.NoAck {
		req.Ack = wire.AckNone
	}
	wire.AppendProduceRequestHeader(k.Frame[:0], corr, &req, len(k.Frame)-memory.Room)
	b.wrote = time.Now()
	return k.Frame
}

// release gives the batch's memory back.
func (b *Batch) release() {
	p, k := b.lane.p, b.pack
	if k == nil {
		return
	}
	b.pack = nil
	p.drop(k)
}

// Written implements [link.Request].
func (b *Batch) Written() {
	if b.lane.p.Watched {
		b.handed.Store(max(1, int64(time.Since(b.wrote))))
	}
	if b.lane.seq.on {
		b.lane.written(b)
		return
	}
	b.release()
	if !b.Answered() {
		b.lane.resolve(nil, b, Outcome{Base: -1})
	}
}

// Deliver implements [link.Request].
func (b *Batch) Deliver(cur *link.Link, f *link.Frame) error {
	p, ln := b.lane.p, b.lane
	if f.IsError() {
		e, err := wire.DecodeErrorResponse(f.Body)
		if err != nil {
			return err
		}
		if !ln.seq.on || !ln.answered(cur, b, e.Code) {
			ln.resolve(cur, b, Outcome{Base: -1, Err: p.Host.Refused(ln.partition, &wire.ProduceResponse{Code: e.Code, Message: e.Message})})
		}
		return nil
	}
	resp, err := wire.DecodeProduceResponse(f.Body)
	if err != nil {
		return err
	}
	out := Outcome{Base: resp.BaseOffset, Class: resp.Class, AppendTime: resp.AppendTime}
	if resp.Code != wire.CodeNone {
		out = Outcome{Base: -1, Err: p.Host.Refused(ln.partition, &resp)}
	}
	if ln.seq.on && ln.answered(cur, b, resp.Code) {
		return nil
	}
	ln.resolve(cur, b, out)
	return nil
}

// Fail implements [link.Request].
func (b *Batch) Fail(err error, sent bool) {
	if b.lane.seq.on {
		var repeat bool
		if repeat, sent = b.lane.failed(b, err, sent); repeat {
			return
		}
	} else {
		b.release()
	}
	b.lane.resolve(nil, b, Outcome{Base: -1, Err: b.lane.p.Host.Failed(b.lane.partition, err, sent)})
}

// slabBatches is how many batches are made at a time.
const slabBatches = 32

// slab hands out new batches.
type slab struct {
	mu   sync.Mutex
	free []Batch
}

func (s *slab) next() *Batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.free) == 0 {
		s.free = make([]Batch, slabBatches)
	}
	b := &s.free[0]
	s.free = s.free[1:]
	return b
}
