package portable

import (
	"syscall"
	"unsafe"

	"github.com/mqd-broker/mqd/engine/aio"
	"golang.org/x/sys/unix"
)

// host is the machine's kernel.
type host struct{ message message }

var _ calls = (*host)(nil)

// newCalls makes the calls, or the simple ones.
func newCalls(onlyEverywhere bool) calls {
	if onlyEverywhere {
		return &simple{}
	}
	return &host{}
}

// onlySimple says that the variant for development is all there is.
const onlySimple = false

// flushName is what notes call a flush.
const flushName = "fdatasync"

// flush makes a file durable.
func flush(fd int) error { return unix.Fdatasync(fd) }

// offerHugePages lets the kernel use huge pages, if it likes.
func offerHugePages(mem []byte) { _ = unix.Madvise(mem, unix.MADV_HUGEPAGE) }

func (*host) pread(fd int, b []byte, off int64) (int, syscall.Errno) {
	n, _, errno := syscall.Syscall6(unix.SYS_PREAD64, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), uintptr(off), 0, 0)
	return int(n), errno
}

func (*host) pwrite(fd int, b []byte, off int64, durable bool) (int, syscall.Errno) {
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

func (*host) fdatasync(fd int) syscall.Errno {
	_, _, errno := syscall.Syscall(unix.SYS_FDATASYNC, uintptr(fd), 0, 0)
	return errno
}

func (*host) accept(fd int) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_ACCEPT4, uintptr(fd), 0, 0, unix.SOCK_CLOEXEC, 0, 0)
	return int(n), errno
}

func (*host) recv(fd int, b []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), unix.MSG_DONTWAIT, 0, 0)
	return int(n), errno
}

func (h *host) send(fd int, vec [][]byte, skip int) (int, syscall.Errno) {
	m := h.message.fill(vec, skip)
	n, _, errno := syscall.RawSyscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(m)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	return int(n), errno
}

// sleep blocks while the word that the worker has set is set.
func (*host) sleep(w *worker) {
	_, _, _ = syscall.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&w.asleep)), futexWait, 1, 0, 0, 0)
}

func (*host) wake(w *worker) {
	_, _, _ = syscall.RawSyscall(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&w.asleep)), futexWake, 1)
}

// Operations of futex(2) on memory of this process alone.
const (
	futexWait = 0 | 128
	futexWake = 1 | 128
)

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
