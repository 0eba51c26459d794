package ringbuf

import (
	"sync/atomic"

	"github.com/mqd-broker/mqd/internal/invariant"
)

// Bounds of a ring's capacity, in slots. A capacity is a power of two.
const (
	MinCapacity = 2
	MaxCapacity = 1 << 20
)

// lineSize is the distance, in bytes, at which two fields are certain not to
// disturb each other. x86 fetches 64-byte lines in pairs and some arm64 cores
// have lines of 128 bytes, so 128 it is for all.
const lineSize = 128

// linePad stands between fields that different threads write.
type linePad [lineSize]byte

// SPSC is a bounded ring of T from one producer thread to one consumer thread.
//
// Both ends count slots from zero upwards and never wrap their counters; slot n
// lives at n modulo the capacity. Four counters describe the ring:
//
//	released ≤ taken ≤ published ≤ pushed ≤ released + capacity
//
// The producer owns pushed and published, the consumer owns taken and released.
// Only published and released are atomic: published hands filled slots to the
// consumer, released hands emptied ones back. The other two are plain, and the
// distance between each plain counter and its atomic twin is a batch: any number
// of Push calls become visible by one Publish, any number of Take calls by one
// Release. An atomic store costs as much as several slot copies, and each one
// takes the counter's cache line away from the other core; a batch pays once.
//
// Each end also remembers the last value it read of the other end's counter.
// While the remembered value still leaves room (or still promises messages), no
// shared line is read at all. A remembered value is only ever too old, so it
// makes a ring look too full or too empty, never the reverse.
//
// The counters stand on lines of their own, each atomic apart from the plain
// ones beside it, so that a consumer polling an empty ring does not slow down
// the pushes that precede a Publish. Consumed slots are zeroed, so that a ring
// keeps no pointer alive.
//
// Use [NewSPSC]; a ring must not be copied. Nothing allocates after it.
type SPSC[T any] struct {
	_     linePad
	slots []T // cold: the header never changes

	_        linePad
	pushed   uint64 // producer: slots filled, published or not
	headSeen uint64 // producer: released as last read

	_         linePad
	published atomic.Uint64 // producer writes, consumer reads

	_        linePad
	taken    uint64 // consumer: slots emptied, released or not
	tailSeen uint64 // consumer: published as last read

	_        linePad
	released atomic.Uint64 // consumer writes, producer reads
	_        linePad
}

// NewSPSC makes a ring of the given capacity in slots: a power of two from
// [MinCapacity] to [MaxCapacity]. Another capacity is a bug of the caller.
func NewSPSC[T any](capacity int) *SPSC[T] {
	if capacity < MinCapacity || capacity > MaxCapacity || capacity&(capacity-1) != 0 {
		invariant.Violated("ringbuf: a ring's capacity is a power of two within its bounds")
	}
	return &SPSC[T]{slots: make([]T, capacity)}
}

// Cap returns the number of slots.
func (r *SPSC[T]) Cap() int { return len(r.slots) }

// Push fills the next slot without making it visible to the consumer; see
// [SPSC.Publish]. It reports false, and does nothing, when the ring is full.
// Producer only.
func (r *SPSC[T]) Push(v T) bool {
	if r.pushed-r.headSeen == uint64(len(r.slots)) && !r.refreshHead() {
		return false
	}
	r.slots[r.pushed&uint64(len(r.slots)-1)] = v
	r.pushed++
	return true
}

// Publish makes everything pushed so far visible to the consumer, by at most one
// atomic store. Producer only.
func (r *SPSC[T]) Publish() {
	if r.pushed != r.published.Load() {
		r.published.Store(r.pushed)
	}
}

// Free returns how many slots can certainly be pushed now. Producer only.
func (r *SPSC[T]) Free() int {
	r.refreshHead()
	return len(r.slots) - int(r.pushed-r.headSeen)
}

// Take empties the next visible slot without handing it back to the producer;
// see [SPSC.Release]. It reports false when nothing is visible. Consumer only.
func (r *SPSC[T]) Take() (v T, ok bool) {
	if r.taken == r.tailSeen && !r.refreshTail() {
		return v, false
	}
	slot := &r.slots[r.taken&uint64(len(r.slots)-1)]
	v = *slot
	var zero T
	*slot = zero
	r.taken++
	return v, true
}

// Release hands everything taken so far back to the producer, by at most one
// atomic store. Consumer only.
func (r *SPSC[T]) Release() {
	if r.taken != r.released.Load() {
		r.released.Store(r.taken)
	}
}

// Pop is Take followed by Release: right for a ring whose messages come one by
// one. Consumer only.
func (r *SPSC[T]) Pop() (v T, ok bool) {
	if v, ok = r.Take(); ok {
		r.released.Store(r.taken)
	}
	return v, ok
}

// Peek returns what Take would return and leaves it in place. Consumer only.
func (r *SPSC[T]) Peek() (v T, ok bool) {
	if r.taken == r.tailSeen && !r.refreshTail() {
		return v, false
	}
	return r.slots[r.taken&uint64(len(r.slots)-1)], true
}

// Empty reports that nothing is visible to Take. It always reads the producer's
// counter unless messages are already known to be there: one atomic load.
// Consumer only.
func (r *SPSC[T]) Empty() bool {
	return r.taken == r.tailSeen && !r.refreshTail()
}

// refreshHead reads how far the consumer has released and reports whether a slot
// is free.
func (r *SPSC[T]) refreshHead() bool {
	r.headSeen = r.released.Load()
	used := r.pushed - r.headSeen
	if used > uint64(len(r.slots)) {
		invariant.Violated("ringbuf: a ring holds no more than its capacity")
	}
	return used < uint64(len(r.slots))
}

// refreshTail reads how far the producer has published and reports whether a
// message is there.
func (r *SPSC[T]) refreshTail() bool {
	r.tailSeen = r.published.Load()
	if r.tailSeen-r.taken > uint64(len(r.slots)) {
		invariant.Violated("ringbuf: a ring publishes no more than its capacity")
	}
	return r.taken != r.tailSeen
}
