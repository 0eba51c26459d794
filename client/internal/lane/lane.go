// Package lane is how a producer's records reach the partitions of a topic: for each
// partition a lane, in which batches form, leave in order, and come to their outcomes.
// What the outcomes mean to the application is package client's.
package lane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/client/internal/link"
	"github.com/mqd-broker/mqd/client/internal/memory"
	"github.com/mqd-broker/mqd/net/wire"
)

// What a record and a header may need beyond the smallest record and their
// bytes, for their varints.
const (
	recordSlack = 32
	headerSlack = 10
)

var (
	// ErrNoRoom: the producer's memory is all in use.
	ErrNoRoom = errors.New("no room")

	// ErrTooLarge: a record fits into no batch. Package client passes it on.
	ErrTooLarge = errors.New("mqd: too large")
)

// Lane is a producer's way to one partition, and where batches form.
//
// Nothing waits for company, unless the producer has a linger. With nothing in flight a
// record goes at once, alone if need be. While batches are in flight, the open batch fills; it goes
// when it has the wanted size, or when the last answer is in. Once as many
// batches are in flight as are allowed, the open batch grows on to its maximum
// and full ones queue behind each other: that is the pressure under which
// batches get large. Batches leave in the order in which they were opened, over
// one link, so the partition keeps the order of the appends.
type Lane struct {
	p         *Shared
	partition int32
	id        atomicTopicID

	mu         sync.Mutex
	link       *link.Link
	next       *link.Link // to change to when nothing is in flight; nil: stay
	open       *Batch
	backlog    []*Batch // full, behind those in flight
	inflight   int
	unresolved []*Batch // all of the above, in order
	unsent     []*Batch // have an outcome and wait for unlock to end them
	seq        sequence
	timer      *time.Timer // of the linger; nil until the first one
	ticking    bool        // the timer will fire
	claims     uint32      // numbers them
}

// atomicTopicID can be read while it is replaced.
type atomicTopicID struct{ p atomic.Pointer[wire.TopicID] }

func (a *atomicTopicID) Load() wire.TopicID    { return *a.p.Load() }
func (a *atomicTopicID) Store(id wire.TopicID) { a.p.Store(&id) }

// Outcome is how a batch ended: the offset of its first record, -1 without one, when by
// the broker's clock it was appended, in nanoseconds since 1970, and the class that it
// has reached; or an error.
type Outcome struct {
	Base       int64
	AppendTime int64
	Class      wire.Class
	Err        error
}

// Receipt says where in a batch a record is.
type Receipt struct {
	Batch *Batch
	Index int32
}

// Urgency says what an append does about sending.
type Urgency uint8

const (
	// SendDue sends what the lane's rule lets go.
	SendDue Urgency = iota
	// SendLater leaves the open batch open: more of the same call follows.
	SendLater
	// SendNow ends the linger of the record's batch.
	SendNow
)

// Append adds a record to the open batch. The error is [ErrNoRoom], with the
// bytes that are missing, or final. kick is the link that has work to do, nil
// if none; the caller wakes it after the lock is gone. A record without a
// timestamp gets that of its batch. ctx is what [Batch.Context] returns if the record begins
// one.
func (ln *Lane) Append(ctx context.Context, r *batch.Record, u Urgency) (t Receipt, kick *link.Link, missing int64, err error) {
	ln.mu.Lock()
	defer ln.unlock()
	return ln.add(ctx, r, u, false)
}

// add is Append with the lock held, and as it may be forced to go beyond the producer's
// memory.
func (ln *Lane) add(ctx context.Context, r *batch.Record, u Urgency, forced bool) (t Receipt, kick *link.Link, missing int64, err error) {
	p := ln.p
	if p.closed.Load() {
		return Receipt{}, nil, 0, link.ErrClosed
	}
	untimed := r.Timestamp == batch.NoTimestamp
	size := 0
	if b := ln.open; b != nil {
		if untimed {
			r.Timestamp = b.stamp
		}
		if size = b.pack.Builder.Size() + b.pack.Builder.SizeOf(r); size > p.Max || b.claim != 0 {
			ln.shut()
			kick = ln.dispatch(u)
		}
	}
	b := ln.open
	if b == nil {
		headers := 0
		for i := range r.Headers {
			headers += len(r.Headers[i].Key) + len(r.Headers[i].Value) + headerSlack
		}
		if b, missing, err = ln.begin(ctx, len(r.Key)+len(r.Value), headers, forced); err != nil {
			return Receipt{}, kick, missing, err
		}
		if untimed {
			r.Timestamp = b.stamp
		}
		size = b.pack.Builder.Size() + b.pack.Builder.SizeOf(r)
	}
	if missing = p.charge(b.pack, size, forced); missing > 0 {
		return Receipt{}, kick, missing, ErrNoRoom
	}
	if err := b.pack.Builder.Append(r); err != nil {
		if ln.open == nil {
			b.release()
		}
		return Receipt{}, kick, 0, err
	}
	ln.open = b
	t, l := ln.added(b, u)
	if l != nil {
		kick = l
	}
	return t, kick, 0, nil
}

// added counts a record that the open batch has got, and sends what is due. The lock is held.
func (ln *Lane) added(b *Batch, u Urgency) (Receipt, *link.Link) {
	if b.count == 0 {
		ln.unresolved = append(ln.unresolved, b)
	}
	t := Receipt{b, b.count}
	b.count++
	b.ripe = b.ripe || u == SendNow
	return t, ln.dispatch(u)
}

// begin makes a batch that has room for a record of n bytes, key and value, and its headers.
// The error is [ErrNoRoom], with the bytes that are missing, or that the record fits nowhere.
func (ln *Lane) begin(ctx context.Context, n, headers int, forced bool) (*Batch, int64, error) {
	p := ln.p
	least := batch.HeaderSize + batch.MinRecordSize + n
	charge := memory.ChargeFor(least + headers + recordSlack)
	switch {
	case least > p.MaxBatch:
		return nil, 0, fmt.Errorf("%w: a batch of at least %d bytes, the limit is %d", ErrTooLarge, least, p.MaxBatch)
	case forced:
		p.Space.Force(charge)
	case charge > p.Space.Limit:
		return nil, 0, fmt.Errorf("%w: a batch needs %d bytes, the buffer has %d", ErrTooLarge, charge, p.Space.Limit)
	case !p.Space.Take(charge):
		return nil, charge, ErrNoRoom
	}
	now := time.Now()
	ld := memory.Relaxed
	if ln.inflight >= p.Window {
		ld = memory.Pressed
	}
	b := p.slab.next()
	b.lane, b.outcome.Base, b.stamp, b.pack = ln, -1, now.UnixMilli(), p.Packers.Get(ld)
	b.pack.Charged = charge
	b.opened = now
	if p.Watched {
		b.ctx = ctx
	}
	if b.ripe = p.Linger == 0; !b.ripe {
		ln.tick(p.Linger)
	}
	return b, 0, nil
}

// due reports whether the open batch goes now.
func (ln *Lane) due(u Urgency) bool {
	b := ln.open
	if b == nil || b.count == 0 || u == SendLater {
		return false
	}
	return ln.inflight == 0 && b.ripe || int(b.count) >= ln.p.Messages || b.pack.Builder.Size() >= ln.p.Bytes
}

// shut ends the open batch and puts it behind the others. Of one that has no record yet a
// claim keeps the memory.
func (ln *Lane) shut() {
	b := ln.open
	if ln.open = nil; b.count == 0 {
		b.release()
		return
	}
	ln.backlog = append(ln.backlog, b)
	ln.p.Host.Turn(ln.partition)
}

// dispatch hands batches to the link while more may be in flight. It returns
// the link if that has work now. The lock is held.
func (ln *Lane) dispatch(u Urgency) (kick *link.Link) {
	for ln.inflight < ln.p.Window && !ln.seq.again {
		if len(ln.backlog) == 0 {
			if !ln.due(u) {
				return kick
			}
			ln.shut()
		}
		b := ln.backlog[0]
		ln.backlog = slices.Delete(ln.backlog, 0, 1)
		if ln.inflight == 0 && ln.next != nil {
			ln.link, ln.next = ln.next, nil
		}
		if !ln.handOver(b) {
			ln.refuse(b, link.ErrClosed)
			continue
		}
		ln.inflight++
		kick = ln.link
	}
	return kick
}

// handOver hands a batch to the link for the first time. The lock is held.
func (ln *Lane) handOver(b *Batch) bool {
	s := &ln.seq
	if !s.on {
		return ln.link.Enqueue(b)
	}
	s.number(b)
	if !s.handOver(ln.link, b) {
		return false
	}
	s.flight = append(s.flight, b)
	return true
}

// resolve ends a batch that was handed to the link and lets the next ones go.
// cur is the link on whose reader this happens, which sends by itself; else nil.
func (ln *Lane) resolve(cur *link.Link, b *Batch, out Outcome) {
	b.outcome = out
	ln.tell(b)
	ln.mu.Lock()
	ln.inflight--
	ln.end(b)
	kick := ln.dispatch(SendDue)
	ln.unlock()
	if kick != nil && kick != cur {
		kick.Kick()
	}
}

// tell has the host hear of a batch, and keeps nothing of who appended to it.
func (ln *Lane) tell(b *Batch) {
	ln.p.Host.Tell(b)
	b.ctx = nil
}

// refuse gives a batch that no link takes its outcome. unlock ends it. The lock is
// held.
func (ln *Lane) refuse(b *Batch, err error) {
	b.release()
	b.outcome = Outcome{Base: -1, Err: ln.p.Host.Failed(ln.partition, err, false)}
	ln.unsent = append(ln.unsent, b)
}

// unlock unlocks the lane, tells of a pause and ends what was refused under the lock: a hook
// may call the producer, so it is not called with the lock held.
func (ln *Lane) unlock() {
	unsent, pause, why := ln.unsent, ln.seq.pause, ln.seq.why
	ln.unsent, ln.seq.pause = nil, 0
	ln.mu.Unlock()
	if pause > 0 {
		ln.p.Host.Paused(ln.partition, pause, why)
	}
	for _, b := range unsent {
		ln.tell(b)
		ln.mu.Lock()
		ln.end(b)
		ln.mu.Unlock()
	}
}

// end wakes who waits for a batch that has its outcome, and counts it before. The
// lock is held.
func (ln *Lane) end(b *Batch) {
	ln.p.Host.Ended(b)
	if i := slices.Index(ln.unresolved, b); i >= 0 {
		ln.unresolved = slices.Delete(ln.unresolved, i, i+1)
	}
	b.resolved.Store(true)
	b.wakeAll()
}

// Push sends what is open as far as the window allows, and returns all batches
// that are not resolved yet.
func (ln *Lane) Push() (pending []*Batch, kick *link.Link) {
	ln.mu.Lock()
	defer ln.unlock()
	if ln.open != nil {
		ln.shut()
	}
	kick = ln.dispatch(SendDue)
	return slices.Clone(ln.unresolved), kick
}

// Abandon fails what was never handed to the link.
func (ln *Lane) Abandon(err error) {
	ln.mu.Lock()
	defer ln.unlock()
	if ln.open != nil {
		ln.shut()
	}
	for _, b := range ln.backlog {
		ln.refuse(b, err)
	}
	clear(ln.backlog)
	ln.backlog = ln.backlog[:0]
	ln.giveUp(err)
}

// Moved takes the partition's new owner and its topic's id.
func (ln *Lane) Moved(to *link.Link, id wire.TopicID) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.id.Load() != id {
		ln.id.Store(id)
	}
	ln.next = nil
	if to != ln.link {
		ln.next = to
	}
}

// Send sends what an append has held back and what waits for company, as far as that is due.
// It returns the link that has work then.
func (ln *Lane) Send() *link.Link {
	ln.mu.Lock()
	defer ln.unlock()
	if ln.open != nil {
		ln.open.ripe = true
	}
	return ln.dispatch(SendDue)
}

// Partition is where the lane leads.
func (ln *Lane) Partition() int32 { return ln.partition }

// Route is the link in use, and the one to change to when nothing is in flight, if any.
func (ln *Lane) Route() (now, next *link.Link) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	return ln.link, ln.next
}
