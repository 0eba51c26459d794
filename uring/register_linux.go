package uring

import (
	"fmt"
	"unsafe"

	"github.com/pawelgaczynski/giouring"
	"golang.org/x/sys/unix"
)

// register makes an io_uring_register call and keeps its error: giouring's own
// helpers for files drop all but one.
func (r *ring) register(op uint32, arg unsafe.Pointer, n uint32) (uint, error) {
	ret, errno := r.g.Register(r.fd, op, arg, n)
	if errno != 0 {
		return 0, errno
	}
	return ret, nil
}

// registerFD puts the ring's descriptor in the thread's table of rings, which
// saves a look-up and a reference count in every enter (50 ns). The table has 16
// places; without one the descriptor itself is used, and the result is false.
func (r *ring) registerFD() bool {
	up := giouring.RsrcUpdate{Offset: ^uint32(0), Data: uint64(r.fd)}
	n, err := r.register(giouring.RegisterRingFDs, unsafe.Pointer(&up), 1)
	if err != nil || n != 1 {
		return false
	}
	r.enterFD, r.enterFlags, r.registered = uintptr(up.Offset), uintptr(giouring.EnterRegisteredRing), true
	return true
}

// unregisterFD gives the place in the thread's table back. giouring's QueueExit
// does not (its test is inverted): the 17th ring of a thread would get none, and
// the ring would live as long as the thread.
func (r *ring) unregisterFD() {
	if !r.registered {
		return
	}
	up := giouring.RsrcUpdate{Offset: uint32(r.enterFD)}
	_, _ = r.register(giouring.UnregisterRingFDs, unsafe.Pointer(&up), 1)
	r.enterFD, r.enterFlags, r.registered = uintptr(r.fd), 0, false
}

// registerFiles makes an empty table of n registered files.
func (r *ring) registerFiles(n int) error {
	reg := giouring.RsrcRegister{Nr: uint32(n), Flags: giouring.RsrcRegisterSparse}
	_, err := r.register(giouring.RegisterFiles2, unsafe.Pointer(&reg), uint32(unsafe.Sizeof(reg)))
	switch err {
	case nil:
		return nil
	case unix.EMFILE:
		var lim unix.Rlimit
		if lerr := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); lerr == nil {
			return fmt.Errorf("uring: a table of %d files is more than the limit of open files (RLIMIT_NOFILE) of %d: %w", n, lim.Cur, err)
		}
	}
	return fmt.Errorf("uring: registering a table of %d files: %w", n, err)
}

// setFile makes fd the registered file i, or takes it out for fd -1. The kernel
// wants 32-bit descriptors (giouring passes Go's int), and both structs in memory
// that does not move.
func (r *ring) setFile(i int, fd int) error {
	r.ctl.files.Offset = uint32(i)
	r.ctl.fd = int32(fd)
	n, err := r.register(giouring.RegisterFilesUpdate, unsafe.Pointer(&r.ctl.files), 1)
	if err == nil && n != 1 {
		err = unix.EINVAL
	}
	if err != nil {
		return fmt.Errorf("uring: registering file %d: %w", i, err)
	}
	return nil
}

// registerBuffers pins pieces of memory for READ_FIXED and WRITE_FIXED.
func (r *ring) registerBuffers(pieces [][]byte) error {
	iov := make([]unix.Iovec, len(pieces))
	for i, p := range pieces {
		iov[i].Base = unsafe.SliceData(p)
		iov[i].SetLen(len(p))
	}
	_, err := r.register(giouring.RegisterBuffers, unsafe.Pointer(&iov[0]), uint32(len(iov)))
	return err
}

// registerBufRing hands the kernel a ring of n receive buffers as group 0.
func (r *ring) registerBufRing(mem []byte, n int) error {
	reg := giouring.BufReg{RingAddr: addrOf(unsafe.Pointer(&mem[0])), RingEntries: uint32(n)}
	if _, err := r.register(giouring.RegisterPbufRing, unsafe.Pointer(&reg), 1); err != nil {
		return fmt.Errorf("uring: registering %d receive buffers: %w", n, err)
	}
	return nil
}

// enable starts the ring. From here on it belongs to this thread.
func (r *ring) enable() error {
	if _, err := r.register(giouring.RegisterEnableRings, nil, 0); err != nil {
		return fmt.Errorf("uring: enabling the ring: %w", err)
	}
	return nil
}
