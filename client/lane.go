package client

import (
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

// lane is a producer's way to one partition, and where batches form.
//
// Nothing ever waits for company. With nothing in flight a record goes at once,
// alone if need be. While batches are in flight, the open batch fills; it goes
// when it has the wanted size, or when the last answer is in. Once as many
// batches are in flight as are allowed, the open batch grows on to its maximum
// and full ones queue behind each other: that is the pressure under which
// batches get large. Batches leave in the order in which they were opened, over
// one link, so the partition keeps the order of the appends.
type lane struct {
	p         *Producer
	partition int32
	id        atomicTopicID

	mu         sync.Mutex
	link       *link.Link
	next       *link.Link // to change to when nothing is in flight; nil: stay
	open       *sendBatch
	backlog    []*sendBatch // full, behind those in flight
	inflight   int
	unresolved []*sendBatch // all of the above, in order
	unsent     []*sendBatch // have an outcome and wait for unlock to end them
	seq        sequence
}

// atomicTopicID can be read while it is replaced.
type atomicTopicID struct{ p atomic.Pointer[wire.TopicID] }

func (a *atomicTopicID) Load() wire.TopicID    { return *a.p.Load() }
func (a *atomicTopicID) Store(id wire.TopicID) { a.p.Store(&id) }

// outcome is how a batch ended.
type outcome struct {
	base       int64
	appendTime int64
	class      Class
	err        error
}

// urgency says what an append does about sending.
type urgency uint8

const (
	// sendDue sends what the lane's rule lets go.
	sendDue urgency = iota
	// sendLater leaves the open batch open: more of the same call follows.
	sendLater
)

// errNoRoom is how append says that the producer's buffer is full.
var errNoRoom = errors.New("no room")

// append adds a record to the open batch. The error is [errNoRoom], with the
// bytes that are missing, or final. kick is the link that has work to do, nil
// if none; the caller wakes it after the lock is gone. A record without a
// timestamp gets that of its batch.
func (ln *lane) append(r *batch.Record, u urgency) (t Ticket, kick *link.Link, missing int64, err error) {
	p := ln.p
	ln.mu.Lock()
	defer ln.unlock()
	if p.closed.Load() {
		return Ticket{}, nil, 0, ErrClosed
	}
	untimed := r.Timestamp == batch.NoTimestamp
	size := 0
	if b := ln.open; b != nil {
		if untimed {
			r.Timestamp = b.stamp
		}
		if size = b.pack.Builder.Size() + b.pack.Builder.SizeOf(r); size > p.cfg.max {
			ln.shut()
			kick = ln.dispatch(u)
		}
	}
	b := ln.open
	if b == nil {
		if b, missing, err = ln.begin(r); err != nil {
			return Ticket{}, kick, missing, err
		}
		if untimed {
			r.Timestamp = b.stamp
		}
		size = b.pack.Builder.Size() + b.pack.Builder.SizeOf(r)
	}
	k := b.pack
	if want := memory.ChargeFor(size); want > k.Charged {
		if !p.space.Take(want - k.Charged) {
			return Ticket{}, kick, want - k.Charged, errNoRoom
		}
		k.Charged = want
	}
	if err := k.Builder.Append(r); err != nil {
		if ln.open == nil {
			b.release()
		}
		return Ticket{}, kick, 0, err
	}
	if ln.open == nil {
		ln.open = b
		ln.unresolved = append(ln.unresolved, b)
	}
	t = Ticket{b: b, index: b.count}
	b.count++
	if l := ln.dispatch(u); l != nil {
		kick = l
	}
	return t, kick, 0, nil
}

// begin makes a batch that has room for r. The error is [errNoRoom], with the
// bytes that are missing, or that r fits nowhere.
func (ln *lane) begin(r *batch.Record) (*sendBatch, int64, error) {
	p := ln.p
	least := batch.HeaderSize + batch.MinRecordSize + len(r.Key) + len(r.Value)
	most := least + recordSlack
	for i := range r.Headers {
		most += len(r.Headers[i].Key) + len(r.Headers[i].Value) + headerSlack
	}
	charge := memory.ChargeFor(most)
	switch {
	case least > p.maxBatch:
		return nil, 0, fmt.Errorf("%w: a batch of at least %d bytes, the limit is %d", ErrTooLarge, least, p.maxBatch)
	case charge > p.space.Limit:
		return nil, 0, fmt.Errorf("%w: a batch needs %d bytes, the buffer has %d", ErrTooLarge, charge, p.space.Limit)
	case !p.space.Take(charge):
		return nil, charge, errNoRoom
	}
	now := time.Now()
	ld := memory.Relaxed
	if ln.inflight >= p.cfg.window {
		ld = memory.Pressed
	}
	b := p.slab.next()
	b.lane, b.base, b.stamp, b.pack = ln, -1, now.UnixMilli(), p.packers.Get(ld)
	b.pack.Charged = charge
	if p.c.cfg.hooks.OnSend != nil {
		b.opened = now
	}
	return b, 0, nil
}

// What a record and a header may need beyond the smallest record and their
// bytes, for their varints.
const (
	recordSlack = 32
	headerSlack = 10
)

// due reports whether the open batch goes now.
func (ln *lane) due(u urgency) bool {
	b := ln.open
	if b == nil || u == sendLater {
		return false
	}
	return ln.inflight == 0 || int(b.count) >= ln.p.cfg.messages || b.pack.Builder.Size() >= ln.p.cfg.bytes
}

// shut ends the open batch and puts it behind the others.
func (ln *lane) shut() {
	ln.backlog = append(ln.backlog, ln.open)
	ln.open = nil
	ln.p.turn(ln.partition)
}

// dispatch hands batches to the link while more may be in flight. It returns
// the link if that has work now. The lock is held.
func (ln *lane) dispatch(u urgency) (kick *link.Link) {
	for ln.inflight < ln.p.cfg.window && !ln.seq.again {
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
			ln.refuse(b, ErrClosed)
			continue
		}
		ln.inflight++
		kick = ln.link
	}
	return kick
}

// handOver hands a batch to the link for the first time. The lock is held.
func (ln *lane) handOver(b *sendBatch) bool {
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
func (ln *lane) resolve(cur *link.Link, b *sendBatch, out outcome) {
	b.settle(out)
	ln.tell(b)
	ln.mu.Lock()
	ln.inflight--
	ln.end(b)
	kick := ln.dispatch(sendDue)
	ln.unlock()
	if kick != nil && kick != cur {
		kick.Kick()
	}
}

// tell calls the hook for a batch that has its outcome. Nobody has been woken for
// the batch yet, so whoever waited for it finds the hook's work done. No lock is
// held.
func (ln *lane) tell(b *sendBatch) {
	if h := ln.p.c.cfg.hooks.OnSend; h != nil {
		h(b.sendInfo())
	}
}

// refuse gives a batch that no link takes its outcome. unlock ends it. The lock is
// held.
func (ln *lane) refuse(b *sendBatch, err error) {
	b.release()
	b.settle(outcome{base: -1, err: opError("produce", ln.p.topic.name, ln.partition, err)})
	ln.unsent = append(ln.unsent, b)
}

// unlock unlocks the lane and ends what was refused under the lock: a hook may call
// the producer, so it is not called with the lock held.
func (ln *lane) unlock() {
	unsent := ln.unsent
	ln.unsent = nil
	ln.mu.Unlock()
	for _, b := range unsent {
		ln.tell(b)
		ln.mu.Lock()
		ln.end(b)
		ln.mu.Unlock()
	}
}

// end wakes who waits for a batch that has its outcome, and counts it before. The
// lock is held.
func (ln *lane) end(b *sendBatch) {
	ln.p.ended(b)
	if i := slices.Index(ln.unresolved, b); i >= 0 {
		ln.unresolved = slices.Delete(ln.unresolved, i, i+1)
	}
	b.resolved.Store(true)
	b.wakeAll()
}

// push sends what is open as far as the window allows, and returns all batches
// that are not resolved yet.
func (ln *lane) push() (pending []*sendBatch, kick *link.Link) {
	ln.mu.Lock()
	defer ln.unlock()
	if ln.open != nil {
		ln.shut()
	}
	kick = ln.dispatch(sendDue)
	return slices.Clone(ln.unresolved), kick
}

// abandon fails what was never handed to the link.
func (ln *lane) abandon(err error) {
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

// moved takes the partition's new owner and its topic's id.
func (ln *lane) moved(to *link.Link, id wire.TopicID) {
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
