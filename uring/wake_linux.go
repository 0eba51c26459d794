package uring

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// waker ends a blocking Poll from another thread.
//
// The two flags make a handshake: a waker sets pending and then looks at asleep;
// the loop sets asleep and then looks at pending. Whoever comes second sees the
// other, so no wake-up is lost; and only a loop that sleeps costs its waker a
// system call, and only the first of its wakers.
type waker struct {
	pending atomic.Bool
	asleep  atomic.Bool
	fd      int // an eventfd that the ring polls
	// writers is the number of wakers that are about to write to fd.
	writers atomic.Int32
	// calls counts the wake-ups that took a system call.
	calls atomic.Uint64
}

// one is what is added to the eventfd's counter.
var one = uint64(1)

func (w *waker) init() error {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("uring: making an eventfd: %w", err)
	}
	w.fd = fd
	return nil
}

func (w *waker) wake() {
	if w.pending.Load() || w.pending.Swap(true) {
		return
	}
	if !w.asleep.Load() {
		return
	}
	// The second look keeps a late waker from writing to a descriptor that
	// close has given back, and that may be a data file by now.
	w.writers.Add(1)
	if w.asleep.Load() {
		w.calls.Add(1)
		// The counter is never read: the poll fires on every write. It
		// would take five hundred years to fill.
		_, _, _ = syscall.RawSyscall(unix.SYS_WRITE, uintptr(w.fd), uintptr(unsafe.Pointer(&one)), unsafe.Sizeof(one))
	}
	w.writers.Add(-1)
}

// close is called by the loop, which sleeps no more.
func (w *waker) close() {
	for w.writers.Load() != 0 {
		runtime.Gosched()
	}
	if w.fd > 0 {
		_ = unix.Close(w.fd)
	}
}

// Wake ends the present or next blocking Poll. Any thread may call it.
func (d *Driver) Wake() { d.waker.wake() }

// armWake has the ring poll the eventfd. It stays armed until the kernel ends it.
func (d *Driver) armWake() {
	if d.wakeArmed {
		return
	}
	if e := d.sqe(); e != nil {
		prepareWakePoll(e, d.waker.fd)
		d.wakeArmed = true
	}
}
