package portable

import (
	"math"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/mqd-broker/mqd/engine/aio"
	"golang.org/x/sys/unix"
)

// maxTransfer is the most that one system call is asked to read or write, in bytes.
// Linux caps a transfer just below 2 GiB; this keeps the rest of a capped one aligned.
const maxTransfer = 1 << 30

// edge has epoll report changes and not states.
const edge = unix.EPOLLET & math.MaxUint32

// calls are the system calls of the data path; tests put faults in their place. Those
// on files may block, those on sockets do not. Results are the kernel's.
type calls interface {
	pread(fd int, b []byte, off int64) (int, syscall.Errno)
	pwrite(fd int, b []byte, off int64, durable bool) (int, syscall.Errno)
	fdatasync(fd int) syscall.Errno
	accept(fd int) (int, syscall.Errno)
	recv(fd int, b []byte) (int, syscall.Errno)
	send(fd int, m *unix.Msghdr) (int, syscall.Errno)
}

// host is the machine's kernel.
type host struct{}

func (host) pread(fd int, b []byte, off int64) (int, syscall.Errno) {
	n, _, errno := syscall.Syscall6(unix.SYS_PREAD64, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), uintptr(off), 0, 0)
	return int(n), errno
}

func (host) pwrite(fd int, b []byte, off int64, durable bool) (int, syscall.Errno) {
	if !durable {
		n, _, errno := syscall.Syscall6(unix.SYS_PWRITE64, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), uintptr(off), 0, 0)
		return int(n), errno
	}
	v := unix.Iovec{Base: unsafe.SliceData(b)}
	v.SetLen(len(b))
	// The offset is one register on the 64-bit machines that the broker runs on.
	n, _, errno := syscall.Syscall6(unix.SYS_PWRITEV2, uintptr(fd), uintptr(unsafe.Pointer(&v)), 1, uintptr(off), 0, unix.RWF_DSYNC)
	return int(n), errno
}

func (host) fdatasync(fd int) syscall.Errno {
	_, _, errno := syscall.Syscall(unix.SYS_FDATASYNC, uintptr(fd), 0, 0)
	return errno
}

func (host) accept(fd int) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_ACCEPT4, uintptr(fd), 0, 0, unix.SOCK_CLOEXEC, 0, 0)
	return int(n), errno
}

func (host) recv(fd int, b []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), unix.MSG_DONTWAIT, 0, 0)
	return int(n), errno
}

func (host) send(fd int, m *unix.Msghdr) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(m)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	return int(n), errno
}

// message is the header and the vector of a gathered send. The kernel has read both
// when the call returns, so that a driver needs one.
type message struct {
	hdr unix.Msghdr
	iov [aio.MaxVec]unix.Iovec
}

// fill describes what is left of vec behind the first skip bytes.
func (m *message) fill(vec [][]byte, skip int) *unix.Msghdr {
	n := 0
	for _, p := range vec {
		if skip >= len(p) {
			skip -= len(p)
			continue
		}
		m.iov[n].Base = unsafe.SliceData(p[skip:])
		m.iov[n].SetLen(len(p) - skip)
		skip = 0
		n++
	}
	m.hdr = unix.Msghdr{Iov: &m.iov[0]}
	m.hdr.SetIovlen(n)
	return &m.hdr
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

// one is what is added to an eventfd's counter.
var one = uint64(1)

func signal(fd int) {
	_, _, _ = syscall.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&one)), unsafe.Sizeof(one))
}

// Operations of futex(2) on memory of this process alone.
const (
	futexWait = 0 | 128
	futexWake = 1 | 128
)

// sleepOn blocks while *word is value; it may return early.
func sleepOn(word *atomic.Uint32, value uint32) {
	_, _, _ = syscall.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWait, uintptr(value), 0, 0, 0)
}

// wakeOne ends a sleep on word.
func wakeOne(word *atomic.Uint32) {
	_, _, _ = syscall.RawSyscall(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWake, 1)
}
