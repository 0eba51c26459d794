package portable

import (
	"fmt"
	"runtime"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// wakerMark is what epoll calls the waker, which is no socket.
const wakerMark = -1

// waker lets other threads end a wait of the loop. Whoever has something for the
// loop publishes it first and looks at asleep then; the loop sets asleep first and
// looks for something then. One of them sees the other, so that nothing is missed,
// and a loop that does not sleep costs others no system call.
type waker struct {
	// called says that Wake was called since the last waiting Poll ended.
	called atomic.Bool
	asleep atomic.Bool
	// ringing is the number of threads that may be about to use fd.
	ringing atomic.Int32
	fd      int // an eventfd, known to epoll
}

// init makes the eventfd and has epoll watch it. It is never read: epoll reports
// every write, and its counter would be full after centuries.
func (w *waker) init(epoll int) error {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("portable: eventfd: %w", err)
	}
	w.fd = fd
	if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | edge, Fd: wakerMark}); err != nil {
		return fmt.Errorf("portable: epoll_ctl: %w", err)
	}
	return nil
}

// wake is for those who want no more than a turn of the loop.
func (w *waker) wake() {
	if !w.called.Load() && !w.called.Swap(true) {
		w.ring()
	}
}

// ring wakes the loop if it sleeps. The second look keeps a late caller from writing
// to a descriptor that close has given back.
func (w *waker) ring() {
	if !w.asleep.Load() {
		return
	}
	w.ringing.Add(1)
	if w.asleep.Load() {
		signal(w.fd)
	}
	w.ringing.Add(-1)
}

// close is called by the loop, which sleeps no more.
func (w *waker) close() {
	for w.ringing.Load() != 0 {
		runtime.Gosched()
	}
	if w.fd >= 0 {
		_ = unix.Close(w.fd)
	}
}
