package client

import (
	"context"
	"sync"
)

// Ticket is the receipt for a record that was queued: it says later which
// offset the record got. A small value, to copy and to drop at will.
type Ticket struct {
	b     *sendBatch
	index int32 // of the record in its batch
}

// waiter is one goroutine in [Ticket.Wait].
type waiter struct {
	ch   chan struct{} // holds one token
	next *waiter
}

var waiters = sync.Pool{New: func() any { return &waiter{ch: make(chan struct{}, 1)} }}

// Done reports whether Wait returns at once.
func (t Ticket) Done() bool { return t.b == nil || t.b.resolved.Load() }

// Wait returns the record's position once the topic's durability class is
// reached. When ctx ends first the error is [ErrOutcomeUnknown], never a
// failure: the record is still on its way. It may be called any number of
// times.
func (t Ticket) Wait(ctx context.Context) (Position, error) {
	b := t.b
	if b == nil {
		return Position{Offset: -1}, opError("produce", "", -1, invalid("a ticket that no record was queued for"))
	}
	if !b.resolved.Load() {
		if err := b.wait(ctx); err != nil {
			return t.position(-1), err
		}
	}
	if b.err != nil {
		return t.position(-1), b.err
	}
	if b.base < 0 {
		return t.position(-1), nil // without acknowledgement
	}
	return t.position(b.base + int64(t.index)), nil
}

// Class is the durability class that the record has reached; 0 until then.
func (t Ticket) Class() Class {
	if t.b == nil || !t.b.resolved.Load() {
		return 0
	}
	return t.b.class
}

func (t Ticket) position(offset int64) Position {
	return Position{Topic: t.b.lane.p.topic.name, Partition: t.b.lane.partition, Offset: offset}
}

// wait blocks until the batch is resolved or ctx ends.
func (b *sendBatch) wait(ctx context.Context) error {
	ln := b.lane
	ln.mu.Lock()
	if b.resolved.Load() {
		ln.mu.Unlock()
		return nil
	}
	w := waiters.Get().(*waiter)
	w.next = b.waiters
	b.waiters = w
	ln.mu.Unlock()

	select {
	case <-w.ch:
		waiters.Put(w)
		return nil
	case <-ctx.Done():
	}
	ln.mu.Lock()
	resolved := b.resolved.Load()
	if !resolved {
		b.leave(w)
	}
	ln.mu.Unlock()
	if resolved {
		<-w.ch
	}
	waiters.Put(w)
	if resolved {
		return nil
	}
	return unknownError("produce", ln.p.topic.name, ln.partition, contextError(ctx))
}

// leave takes a waiter off the list. The lane's lock is held.
func (b *sendBatch) leave(w *waiter) {
	at := &b.waiters
	for *at != w {
		at = &(*at).next
	}
	*at = w.next
	w.next = nil
}

// wakeAll wakes every waiter. The lane's lock is held.
func (b *sendBatch) wakeAll() {
	for w := b.waiters; w != nil; {
		next := w.next
		w.next = nil
		w.ch <- struct{}{} // never waits: the channel holds one token
		w = next
	}
	b.waiters = nil
}
