package portable

import (
	"runtime"
	"sync/atomic"
)

// waker lets other threads end a wait of the loop. Whoever has something for the
// loop publishes it first and looks at asleep then; the loop sets asleep first and
// looks for something then. One of them sees the other, so that nothing is missed,
// and a loop that does not sleep costs others no system call.
type waker struct {
	// called says that Wake was called since the last waiting Poll ended.
	called atomic.Bool
	asleep atomic.Bool
	// ringing is the number of threads that may be about to use the poller.
	ringing atomic.Int32
	poller  poller
}

// wake is for those who want no more than a turn of the loop.
func (w *waker) wake() {
	if !w.called.Load() && !w.called.Swap(true) {
		w.ring()
	}
}

// ring wakes the loop if it sleeps. The second look keeps a late caller from a poller
// that is closed.
func (w *waker) ring() {
	if !w.asleep.Load() {
		return
	}
	w.ringing.Add(1)
	if w.asleep.Load() {
		w.poller.ring()
	}
	w.ringing.Add(-1)
}

// settle is called by the loop, which sleeps no more, before the poller is closed.
func (w *waker) settle() {
	for w.ringing.Load() != 0 {
		runtime.Gosched()
	}
}
