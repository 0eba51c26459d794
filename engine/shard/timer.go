package shard

import "github.com/mqd-broker/mqd/internal/invariant"

// Firer is told when a timer is due, on the loop.
type Firer interface {
	Fire(t *Timer, now int64)
}

// Timer is a single-shot timer. Its owner embeds it and arms it with Loop.Arm.
type Timer struct {
	// Owner is told when the timer is due. It may arm it again.
	Owner Firer
	// Tag is the owner's, to tell its timers apart.
	Tag uint64

	when int64
	slot int // position in the heap plus one; 0 when not armed
}

// Armed reports whether the timer waits to fire.
func (t *Timer) Armed() bool { return t.slot > 0 }

// When is the time for which the timer is armed, in nanoseconds of the clock.
func (t *Timer) When() int64 { return t.when }

// Arm sets t to fire at when, in nanoseconds of the loop's clock. A timer that is
// armed is moved.
func (l *Loop) Arm(t *Timer, when int64) { l.timers.arm(t, when) }

// ArmBy has a timer fire at when, unless it fires sooner.
func (l *Loop) ArmBy(t *Timer, when int64) {
	if !t.Armed() || t.when > when {
		l.Arm(t, when)
	}
}

// Disarm takes t back. A timer that is not armed is left alone.
func (l *Loop) Disarm(t *Timer) {
	if t.slot > 0 {
		l.timers.remove(t.slot - 1)
	}
}

// timerBudget is the number of timers fired per turn.
const timerBudget = 256

// timerHeap is a binary heap of armed timers, the earliest first. Timers know
// their position, so that moving and removing one costs O(log n) and allocates
// nothing.
type timerHeap struct {
	heap []*Timer
}

// next is when the earliest timer is due.
func (h *timerHeap) next() (int64, bool) {
	if len(h.heap) == 0 {
		return 0, false
	}
	return h.heap[0].when, true
}

// run fires timers that are due and returns how many.
func (h *timerHeap) run(now int64) int {
	n := 0
	for n < timerBudget && len(h.heap) > 0 && h.heap[0].when <= now {
		t := h.heap[0]
		h.remove(0)
		t.Owner.Fire(t, now)
		n++
	}
	return n
}

func (h *timerHeap) arm(t *Timer, when int64) {
	if t.Owner == nil {
		invariant.Violated("shard: a timer without an owner was armed")
	}
	t.when = when
	if t.slot == 0 {
		h.heap = append(h.heap, t)
		t.slot = len(h.heap)
		h.up(t.slot - 1)
		return
	}
	i := t.slot - 1
	h.up(i)
	h.down(t.slot - 1)
}

func (h *timerHeap) remove(i int) {
	t := h.heap[i]
	last := len(h.heap) - 1
	moved := h.heap[last]
	h.heap[last] = nil
	h.heap = h.heap[:last]
	t.slot = 0
	if i == last {
		return
	}
	h.heap[i] = moved
	moved.slot = i + 1
	h.up(i)
	h.down(moved.slot - 1)
}

func (h *timerHeap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if h.heap[parent].when <= h.heap[i].when {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

func (h *timerHeap) down(i int) {
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(h.heap); c++ {
			if h.heap[c].when < h.heap[least].when {
				least = c
			}
		}
		if least == i {
			return
		}
		h.swap(i, least)
		i = least
	}
}

func (h *timerHeap) swap(i, j int) {
	h.heap[i], h.heap[j] = h.heap[j], h.heap[i]
	h.heap[i].slot, h.heap[j].slot = i+1, j+1
}
