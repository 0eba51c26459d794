package lane

import "context"

// waiter is one goroutine in [Batch.Wait].
type waiter struct {
	ch   chan struct{} // holds one token
	next *waiter
}

// newWaiter takes a waiter from the producer's pool. A pool of all producers would bring
// channels from one bubble of testing/synctest to another, which ends the program.
func (p *Shared) newWaiter() *waiter {
	if w, ok := p.waiters.Get().(*waiter); ok {
		return w
	}
	return &waiter{ch: make(chan struct{}, 1)}
}

// Wait blocks until the batch is resolved or ctx ends, with its cause.
func (b *Batch) Wait(ctx context.Context) error {
	ln := b.lane
	ln.mu.Lock()
	if b.resolved.Load() {
		ln.mu.Unlock()
		return nil
	}
	w := ln.p.newWaiter()
	w.next = b.waiters
	b.waiters = w
	ln.mu.Unlock()

	select {
	case <-w.ch:
		ln.p.waiters.Put(w)
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
	ln.p.waiters.Put(w)
	if resolved {
		return nil
	}
	return context.Cause(ctx)
}

// leave takes a waiter off the list. The lane's lock is held.
func (b *Batch) leave(w *waiter) {
	at := &b.waiters
	for *at != w {
		at = &(*at).next
	}
	*at = w.next
	w.next = nil
}

// wakeAll wakes every waiter. The lane's lock is held.
func (b *Batch) wakeAll() {
	for w := b.waiters; w != nil; {
		next := w.next
		w.next = nil
		w.ch <- struct{}{} // never waits: the channel holds one token
		w = next
	}
	b.waiters = nil
}
