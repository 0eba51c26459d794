package uring

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/mqd-broker/mqd/internal/invariant"
	"github.com/pawelgaczynski/giouring"
	"golang.org/x/sys/unix"
)

// ring is the kernel's pair of queues.
//
// giouring sets it up and hands out entries. The queues' indexes are read and
// published through a second mapping of the same memory: that is the kernel's
// interface, while giouring keeps its pointers private, and it lets a poll look
// for work without a system call and submit with a raw one (230 ns instead of
// 340, and no handshake with the scheduler).
type ring struct {
	g     *giouring.Ring
	fd    int
	setup setupParams

	mem                    []byte
	sqHead, sqTail, sqFlag *atomic.Uint32
	cqHead, cqTail         *atomic.Uint32
	cqMask                 uint32
	cqes                   unsafe.Pointer
	tail                   uint32 // end of the entries handed out

	// enterFD is what enter is given: the descriptor's index in the thread's
	// table of rings, or the descriptor itself.
	enterFD    uintptr
	enterFlags uintptr
	registered bool
	owner      int // the thread that made the ring

	ctl *control
	raw []byte
}

// control is memory that the kernel reads during a call: a struct that points to
// another would, on a Go stack, point to nothing once the stack has moved.
type control struct {
	arg   getEventsArg
	_     [64 - unsafe.Sizeof(getEventsArg{})]byte
	ts    unix.Timespec
	files giouring.FilesUpdate
	fd    int32
}

// getEventsArg is struct io_uring_getevents_arg; giouring's fields are private.
type getEventsArg struct {
	sigMask   uint64
	sigMaskSz uint32
	minWait   uint32
	ts        uint64
}

var _ [0]struct{} = [unsafe.Sizeof(getEventsArg{}) - unsafe.Sizeof(giouring.GetEventsArg{})]struct{}{}

// newRing makes a disabled ring with sq submission and cq completion entries. The
// first set of flags that the kernel takes is used.
func newRing(sq, cq int) (*ring, error) {
	r := &ring{owner: unix.Gettid()}
	var err error
	for _, flags := range setupFlags {
		r.g = giouring.NewRing()
		r.setup = setupParams{flags: flags, cqEntries: uint32(cq)}
		if err = r.g.QueueInitParams(uint32(sq), r.setup.forSetup()); !errors.Is(err, unix.EINVAL) {
			break
		}
	}
	if err != nil {
		return nil, setupError(err, uint64(r.setup.forecast(sq, cq)))
	}
	r.fd = r.g.RingFd()
	r.enterFD = uintptr(r.fd)
	if err := r.mapQueues(); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// forecast is the memory, in bytes, that a ring of that size locks; it is known
// exactly only after setup.
func (p *setupParams) forecast(sq, cq int) int {
	return pages(sq*sqeSize) + pages(cq*cqeSize+sq*4+256)
}

func pages(n int) int {
	page := unix.Getpagesize()
	return (n + page - 1) &^ (page - 1)
}

func (r *ring) mapQueues() error {
	p := &r.setup
	if p.features&giouring.FeatSingleMMap == 0 || p.features&giouring.FeatExtArg == 0 || p.features&giouring.FeatNoDrop == 0 {
		return fmt.Errorf("%w: features 0x%x", ErrUnsupported, p.features)
	}
	var err error
	r.mem, err = unix.Mmap(r.fd, 0, p.ringBytes(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return fmt.Errorf("uring: mapping the ring: %w", err)
	}
	at := func(off uint32) *atomic.Uint32 { return (*atomic.Uint32)(unsafe.Pointer(&r.mem[off])) }
	r.sqHead, r.sqTail, r.sqFlag = at(p.sqOff.head), at(p.sqOff.tail), at(p.sqOff.flags)
	r.cqHead, r.cqTail = at(p.cqOff.head), at(p.cqOff.tail)
	r.cqMask = p.cqEntries - 1
	r.cqes = unsafe.Pointer(&r.mem[p.cqOff.cqes])
	r.raw, err = mapAnon(unix.Getpagesize())
	if err != nil {
		return fmt.Errorf("uring: mapping a control page: %w", err)
	}
	r.ctl = (*control)(unsafe.Pointer(&r.raw[0]))
	r.ctl.arg.sigMaskSz = 8
	r.ctl.arg.ts = addrOf(unsafe.Pointer(&r.ctl.ts))
	r.ctl.files.Fds = addrOf(unsafe.Pointer(&r.ctl.fd))
	return nil
}

// sqe returns a cleared entry, or nil when the submission queue is full. giouring
// does not clear entries: flags of an earlier operation would stick.
func (r *ring) sqe() *giouring.SubmissionQueueEntry {
	e := r.g.GetSQE()
	if e != nil {
		*e = giouring.SubmissionQueueEntry{}
		r.tail++
	}
	return e
}

// queued is the number of entries handed out that the kernel has not taken.
func (r *ring) queued() uint32 { return r.tail - r.sqHead.Load() }

// ready is the number of completions that can be read.
func (r *ring) ready() uint32 { return r.cqTail.Load() - r.cqHead.Load() }

// taskWork reports whether the kernel has completions to hand over as soon as it
// is entered.
func (r *ring) taskWork() bool {
	return r.sqFlag.Load()&(giouring.SQTaskrun|giouring.SQCQOverflow) != 0
}

// overflown reports whether completions wait in the kernel for room.
func (r *ring) overflown() bool { return r.sqFlag.Load()&giouring.SQCQOverflow != 0 }

// reap copies completions to dst and frees their places.
func (r *ring) reap(dst []giouring.CompletionQueueEvent) int {
	head := r.cqHead.Load()
	n := min(r.cqTail.Load()-head, uint32(len(dst)))
	for i := range n {
		dst[i] = *(*giouring.CompletionQueueEvent)(unsafe.Add(r.cqes, uintptr((head+i)&r.cqMask)*cqeSize))
	}
	if n > 0 {
		r.cqHead.Store(head + n)
	}
	return int(n)
}

// enterMode says what enter does besides submitting.
type enterMode uint8

const (
	submitOnly    enterMode = iota // submit
	submitAndReap                  // submit, and run what completes operations
)

// enter submits what is queued and does not wait.
func (r *ring) enter(mode enterMode) unix.Errno {
	r.sqTail.Store(r.tail)
	flags := r.enterFlags
	if mode == submitAndReap {
		flags |= uintptr(giouring.EnterGetEvents)
	}
	_, _, errno := syscall.RawSyscall6(unix.SYS_IO_URING_ENTER, r.enterFD, uintptr(r.queued()), 0, flags, 0, 0)
	return errno
}

// waitMode says whether a wait submits first.
type waitMode uint8

const (
	waitSubmit waitMode = iota
	waitOnly
)

// wait submits what is queued and waits for a completion or until the time has
// passed. The system call tells the scheduler that it blocks: a raw one would
// hold up every garbage collection.
func (r *ring) wait(mode waitMode, d time.Duration) unix.Errno {
	r.sqTail.Store(r.tail)
	n := r.queued()
	if mode == waitOnly {
		n = 0
	}
	r.ctl.ts = unix.NsecToTimespec(int64(d))
	flags := r.enterFlags | uintptr(giouring.EnterGetEvents|giouring.EnterExtArg)
	_, _, errno := syscall.Syscall6(unix.SYS_IO_URING_ENTER, r.enterFD, uintptr(n), 1, flags,
		uintptr(unsafe.Pointer(&r.ctl.arg)), unsafe.Sizeof(r.ctl.arg))
	return errno
}

// close gives everything back. Nothing may be in flight.
func (r *ring) close() {
	r.unregisterFD()
	if r.mem != nil {
		_ = unix.Munmap(r.mem)
	}
	if r.raw != nil {
		_ = unix.Munmap(r.raw)
	}
	r.g.QueueExit()
	r.mem, r.raw, r.ctl = nil, nil, nil
}

// check sorts the kernel's answers to enter: those that mean "nothing happened"
// (false, nil), those that mean "take completions, then try again" (true, nil),
// and those that mean that the ring is broken. On a thread that is not the
// owner's the ring is refused (EEXIST), or its registered descriptor is unknown
// (EINVAL).
func (r *ring) check(errno unix.Errno) (again bool, err error) {
	switch errno {
	case 0, unix.EINTR, unix.ETIME:
		return false, nil
	case unix.EAGAIN, unix.EBUSY, unix.ENOMEM:
		return true, nil
	}
	if unix.Gettid() != r.owner {
		invariant.Violated("uring: a ring is used by the thread that made it")
	}
	return false, fmt.Errorf("uring: io_uring_enter: %w", errno)
}
