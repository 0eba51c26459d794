package uring

import (
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/internal/invariant"
)

// state says where the operation of a slot is.
type state uint8

const (
	stateFree state = iota
	// stateQueued: in the backlog, or about to get an entry.
	stateQueued
	// stateFlying: in an entry, or the kernel's.
	stateFlying
	// stateWaiting: to be tried again later.
	stateWaiting
)

// slot is the driver's side of an operation in flight. The kernel knows an
// operation by its slot's number and generation and never by a pointer.
type slot struct {
	op  *aio.Op
	due int64 // stateWaiting: when to try again, nanoseconds of the clock
	gen uint32
	// next links free slots.
	next      uint32
	state     state
	cancelled bool
}

const (
	// noSlot ends the list of free slots.
	noSlot = ^uint32(0)
	// internalSlot marks completions that belong to no operation; what
	// would be the generation says which they are.
	internalSlot = noSlot
)

// genMask keeps generations to 31 bits: the topmost bit of user data marks
// cancellations in the backlog.
const genMask = 1<<31 - 1

// User data of the driver's own entries.
const (
	wakeData   = uint64(1)<<32 | uint64(internalSlot)
	ignoreData = uint64(2)<<32 | uint64(internalSlot)
)

// slots is a table of operations with a list of free entries. It starts with
// room for Options.Entries and grows beyond: receives that stay armed for hours
// must not keep the slots that a write waits for. Callers own the operations, so
// their number is bounded by callers.
type slots struct {
	tab  []slot
	free uint32
}

func newSlots(n int) slots {
	s := slots{free: noSlot}
	s.grow(n)
	return s
}

// grow adds n free slots, the lowest to be used first.
func (s *slots) grow(n int) {
	at := len(s.tab)
	s.tab = append(s.tab, make([]slot, n)...)
	for i := len(s.tab) - 1; i >= at; i-- {
		s.tab[i] = slot{gen: 1, next: s.free}
		s.free = uint32(i)
	}
}

// full reports whether there is no free slot.
func (s *slots) full() bool { return s.free == noSlot }

// take gives op a free slot.
func (s *slots) take(op *aio.Op) uint32 {
	i := s.free
	e := &s.tab[i]
	s.free = e.next
	e.op, e.cancelled, e.state = op, false, stateQueued
	op.Drv.Slot = i
	return i
}

// release frees slot i. Its generation moves on, so that a completion which
// comes too late is recognised.
func (s *slots) release(i uint32) {
	e := &s.tab[i]
	e.op, e.state = nil, stateFree
	e.gen = (e.gen + 1) & genMask
	e.next = s.free
	s.free = i
}

// userData is what the kernel gives back with the completion.
func (s *slots) userData(i uint32) uint64 { return uint64(s.tab[i].gen)<<32 | uint64(i) }

// find returns the slot that a completion is for. One that belongs to nothing in
// flight means that the kernel still had memory which its owner thought free.
func (s *slots) find(userData uint64) uint32 {
	i, gen := uint32(userData), uint32(userData>>32)
	if int64(i) >= int64(len(s.tab)) || s.tab[i].gen != gen || s.tab[i].state != stateFlying {
		invariant.Violated("uring: a completion belongs to an operation in flight")
	}
	return i
}

// of returns op's slot if op has one.
func (s *slots) of(op *aio.Op) (uint32, bool) {
	i := op.Drv.Slot
	if int64(i) >= int64(len(s.tab)) || s.tab[i].op != op {
		return 0, false
	}
	return i, true
}
