package sim

import "github.com/mqd-broker/mqd/internal/invariant"

// Hold keeps chosen operations from being performed: a flush that hangs, a disk
// that stalls, a receiver that sleeps.
type Hold struct {
	w        *World
	filter   Filter
	released bool
	events   []event // held operations, and steps of coroutines
	blocked  int     // helper goroutines of a RealTime world
}

// Hold holds every operation that f chooses, from now on and among those in
// flight, until it is released. A receive or an accept is held when it is armed;
// one that is armed already goes on.
func (w *World) Hold(f Filter) *Hold {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := &Hold{w: w, filter: f}
	w.holds = append(w.holds, h)
	return h
}

// held parks the event if a hold wants it.
func (w *World) held(s *subject, e event) bool {
	if h := w.holder(s); h != nil {
		h.events = append(h.events, e)
		w.cond.Broadcast()
		return true
	}
	return false
}

// holder is the hold that wants s, or nil.
func (w *World) holder(s *subject) *Hold {
	for _, h := range w.holds {
		if h.filter.match(s) {
			return h
		}
	}
	return nil
}

// holdHere blocks a helper's goroutine while a hold wants s.
func (w *World) holdHere(s *subject) {
	for {
		h := w.holder(s)
		if h == nil || s.d.dead {
			return
		}
		h.blocked++
		w.cond.Broadcast()
		w.cond.Wait()
		h.blocked--
	}
}

// Release lets the held operations go on, in the order in which they came.
func (h *Hold) Release() {
	w := h.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if h.released {
		invariant.Violated("sim: a hold was released twice")
	}
	h.released = true
	for i, o := range w.holds {
		if o == h {
			w.holds = append(w.holds[:i:i], w.holds[i+1:]...)
			break
		}
	}
	h.let(len(h.events))
	w.cond.Broadcast()
}

// ReleaseOne lets the operation go on that was held first, and holds the others.
// Of helpers in a RealTime world it frees none. It reports whether there was one.
func (h *Hold) ReleaseOne() bool {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	n := min(1, len(h.events))
	h.let(n)
	return n == 1
}

func (h *Hold) let(n int) {
	for _, e := range h.events[:n] {
		e.freed = true
		h.w.at(0, e)
	}
	h.events = append([]event(nil), h.events[n:]...)
	h.w.arm()
}

// Count is the number of operations that are held now.
func (h *Hold) Count() int {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	return h.count()
}

func (h *Hold) count() int {
	n := h.blocked
	for i := range h.events {
		e := &h.events[i]
		if e.kind == evHelper && !e.d.dead || e.kind == evOp && e.d.alive(e.slot, e.gen) {
			n++
		}
	}
	return n
}

// Wait blocks, in a RealTime world, until at least n operations are held.
func (h *Hold) Wait(n int) {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	if h.w.opt.Mode != RealTime {
		invariant.Violated("sim: nothing happens in a virtual world while somebody waits")
	}
	for h.count() < n {
		h.w.cond.Wait()
	}
}
