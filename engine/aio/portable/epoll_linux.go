package portable

import (
	"fmt"
	"math"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// maxEvents is how many events epoll gives at once.
	maxEvents = 128
	// bellMark is what epoll calls the bell, which is no socket.
	bellMark = -1
	// edge has epoll report changes and not states.
	edge = unix.EPOLLET & math.MaxUint32
)

// epoll is a poller by epoll(7). Its bell is an eventfd that is never read: epoll
// reports every write, and the counter would be full after centuries.
type epoll struct {
	fd, bell int
	events   [maxEvents]unix.EpollEvent
}

var _ poller = (*epoll)(nil)

// newPoller makes the poller, or the simple one.
func newPoller(onlyEverywhere bool) (poller, error) {
	if onlyEverywhere {
		return newPollSet()
	}
	e := &epoll{fd: -1, bell: -1}
	if err := e.open(); err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

func (e *epoll) open() (err error) {
	if e.fd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("portable: epoll_create1: %w", err)
	}
	if e.bell, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("portable: eventfd: %w", err)
	}
	if err = unix.EpollCtl(e.fd, unix.EPOLL_CTL_ADD, e.bell, &unix.EpollEvent{Events: unix.EPOLLIN | edge, Fd: bellMark}); err != nil {
		return fmt.Errorf("portable: epoll_ctl: %w", err)
	}
	return nil
}

func (e *epoll) add(fd int) error {
	const interest = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLPRI | unix.EPOLLRDHUP | edge
	return unix.EpollCtl(e.fd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: interest, Fd: int32(fd)})
}

// remove fails only for a descriptor that is closed, which epoll has forgotten.
func (e *epoll) remove(fd int) { _ = unix.EpollCtl(e.fd, unix.EPOLL_CTL_DEL, fd, nil) }

func (e *epoll) wait(d *Driver, wait time.Duration) syscall.Errno {
	n, errno := awaitEvents(e.fd, e.events[:], wait)
	if errno != 0 {
		return errno
	}
	for i := range e.events[:n] {
		if v := &e.events[i]; v.Fd != bellMark {
			const special = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR | unix.EPOLLPRI
			d.note(int(v.Fd), v.Events&(unix.EPOLLIN|special) != 0,
				v.Events&(unix.EPOLLOUT|unix.EPOLLHUP|unix.EPOLLERR) != 0, v.Events&special != 0)
		}
	}
	return 0
}

// one is what is added to the bell's counter.
var one = uint64(1)

func (e *epoll) ring() {
	_, _, _ = syscall.RawSyscall(unix.SYS_WRITE, uintptr(e.bell), uintptr(unsafe.Pointer(&one)), unsafe.Sizeof(one))
}

func (e *epoll) close() {
	for _, fd := range [...]int{e.fd, e.bell} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// noPwait2 says that epoll_pwait2 (Linux 5.11) is missing; old filters of containers
// say EPERM to what they do not know.
var noPwait2 atomic.Bool

// awaitEvents waits for events, wait at most, and returns their number. Without
// epoll_pwait2 the wait is whole milliseconds.
func awaitEvents(epoll int, events []unix.EpollEvent, wait time.Duration) (int, syscall.Errno) {
	to := uintptr(unsafe.Pointer(unsafe.SliceData(events)))
	if wait <= 0 {
		n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll), to, uintptr(len(events)), 0, 0, 0)
		return int(n), errno
	}
	if !noPwait2.Load() {
		ts := unix.NsecToTimespec(int64(wait))
		n, _, errno := syscall.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(epoll), to, uintptr(len(events)), uintptr(unsafe.Pointer(&ts)), 0, 0)
		if errno != unix.ENOSYS && errno != unix.EPERM {
			return int(n), errno
		}
		noPwait2.Store(true)
	}
	const longest = math.MaxInt32
	ms := min((wait+time.Millisecond-1)/time.Millisecond, longest)
	n, _, errno := syscall.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll), to, uintptr(len(events)), uintptr(ms), 0, 0)
	return int(n), errno
}
