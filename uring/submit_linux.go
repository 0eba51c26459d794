package uring

import (
	"fmt"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/internal/invariant"
	"github.com/pawelgaczynski/giouring"
	"golang.org/x/sys/unix"
)

// Submit queues op. See aio.Driver.
func (d *Driver) Submit(op *aio.Op) {
	op.Begin()
	d.begin()
	switch op.Kind {
	case aio.KindRead, aio.KindWrite, aio.KindFdatasync:
		if over, err := d.checkFile(op); over {
			d.finishLater(op, err)
			return
		}
	case aio.KindSend:
		if !d.checkVec(op) {
			d.finishLater(op, nil)
			return
		}
	case aio.KindShutdown:
		d.shutdown(op)
		return
	case aio.KindAccept, aio.KindRecv, aio.KindCloseSock:
	default:
		invariant.Violated("uring: a submitted operation has a kind")
	}
	if d.slots.full() {
		if err := d.messages.grow(); err != nil {
			d.finishLater(op, d.opError(op, fmt.Errorf("%w: message headers: %w", aio.ErrNoMemory, err)))
			return
		}
		d.slots.grow(int(d.messages.each))
		d.stats.Grown++
	}
	i := d.slots.take(op)
	if onFile(op.Kind) {
		d.files.At(op.File).Flying++
	}
	d.start(i)
}

// checkFile holds an operation on a file to the port, and reports whether that
// is its end. The alignment of direct I/O is checked here and not left to the
// kernel, which would let 512 bytes pass on one disk and refuse them on the next.
func (d *Driver) checkFile(op *aio.Op) (over bool, err error) {
	f := d.files.Get(op.File)
	if f == nil {
		return true, d.opError(op, unix.EBADF)
	}
	if op.Kind == aio.KindFdatasync {
		return false, nil
	}
	if len(op.Buf) > 0 && !d.arena.span.holds(op.Buf) && !isLent(op.Buf) {
		invariant.Violated("uring: the memory of a read or write comes from Alloc")
	}
	const mask = aio.BlockSize - 1
	unaligned := op.Off&mask != 0 || len(op.Buf)&mask != 0 || addressOf(op.Buf)&mask != 0
	switch {
	case op.Off < 0 || f.Direct && unaligned:
		return true, d.opError(op, unix.EINVAL)
	case len(op.Buf) == 0 && op.Kind == aio.KindWrite:
		return true, d.opError(op, aio.ErrShort)
	}
	return len(op.Buf) == 0, nil
}

// checkVec does so for a send. It reports whether there is anything to send.
func (d *Driver) checkVec(op *aio.Op) bool {
	if len(op.Vec) > aio.MaxVec {
		invariant.Violated("uring: a send has at most MaxVec pieces")
	}
	any := false
	for _, p := range op.Vec {
		if len(p) == 0 {
			continue
		}
		any = true
		if !d.arena.span.holds(p) && !d.recv.span.holds(p) && !isLent(p) {
			invariant.Violated("uring: the memory of a send comes from Alloc or the receive pool")
		}
	}
	return any
}

// start puts the operation of slot i into the submission queue, or behind those
// that found no place there.
func (d *Driver) start(i uint32) {
	s := &d.slots.tab[i]
	s.state = stateQueued
	if d.backlog.Len() > 0 || !d.place(i) {
		d.backlog.Push(uint64(i))
	}
}

// place fills a submission entry for slot i; false when the queue is full.
func (d *Driver) place(i uint32) bool {
	e := d.sqe()
	if e == nil {
		return false
	}
	s := &d.slots.tab[i]
	d.prepare(e, i, s.op)
	s.state = stateFlying
	return true
}

// sqe returns a submission entry. A full queue is submitted first; if the kernel
// does not take anything now, there is none.
func (d *Driver) sqe() *giouring.SubmissionQueueEntry {
	if e := d.ring.sqe(); e != nil {
		return e
	}
	d.stats.QueueFull++
	d.stats.Enters++
	if _, err := d.ring.check(d.ring.enter(submitOnly)); err != nil {
		d.broken = err
		return nil
	}
	return d.ring.sqe()
}

// cancelMark distinguishes a cancellation in the backlog from an operation.
const cancelMark = uint64(1) << 63

// Cancel asks for an early end of op. See aio.Driver. An operation that is not in
// flight is left alone.
func (d *Driver) Cancel(op *aio.Op) {
	if !op.Drv.InFlight {
		return
	}
	i, ok := d.slots.of(op)
	if !ok {
		return
	}
	s := &d.slots.tab[i]
	if s.cancelled {
		return
	}
	s.cancelled = true
	if s.state == stateFlying {
		d.cancel(d.slots.userData(i))
	}
}

// cancel submits the cancellation of a flying operation.
func (d *Driver) cancel(userData uint64) {
	if d.backlog.Len() == 0 {
		if e := d.sqe(); e != nil {
			prepareCancel(e, userData)
			return
		}
	}
	d.backlog.Push(cancelMark | userData)
}

// resume starts what could not be started before: operations whose time to be
// tried again has come, then the backlog.
func (d *Driver) resume() {
	if len(d.waiting) > 0 {
		d.retryDue()
	}
	for d.backlog.Len() > 0 {
		entry := *d.backlog.Front()
		if entry&cancelMark != 0 {
			e := d.sqe()
			if e == nil {
				return
			}
			prepareCancel(e, entry&^cancelMark)
		} else if i := uint32(entry); d.slots.tab[i].cancelled {
			d.abandon(i)
		} else if !d.place(i) {
			return
		}
		d.backlog.Take()
	}
}

// abandon ends an operation that was cancelled while the kernel did not have it.
func (d *Driver) abandon(i uint32) {
	op := d.slots.tab[i].op
	op.N = op.Drv.Done
	d.retire(i, op)
	d.finishLater(op, d.opError(op, aio.ErrCanceled))
}

// retire frees the slot of an operation that has ended.
func (d *Driver) retire(i uint32, op *aio.Op) {
	if onFile(op.Kind) {
		d.files.At(op.File).Flying--
	}
	d.slots.release(i)
}

// finishLater lets the next Poll deliver op's end: never from inside Submit.
func (d *Driver) finishLater(op *aio.Op, err error) {
	op.Err = err
	d.done.Push(op)
}

// shutdown is a plain call, after the submission of what was queued before it: the
// kernel never blocks in it, and as an operation of the ring it would always
// go to a worker thread. A socket that is not connected any more is shut down.
func (d *Driver) shutdown(op *aio.Op) {
	if d.ring.queued() > 0 {
		d.stats.Enters++
		if _, err := d.ring.check(d.ring.enter(submitOnly)); err != nil {
			d.broken = err
		}
	}
	err := unix.Shutdown(int(op.Sock), unix.SHUT_RDWR)
	if err == unix.ENOTCONN {
		err = nil
	}
	if err != nil {
		err = d.opError(op, err)
	}
	d.finishLater(op, err)
}

// opError says what failed and of what.
func (d *Driver) opError(op *aio.Op, err error) error {
	e := &aio.Error{Op: opName(op), Off: -1, Err: err}
	if onFile(op.Kind) {
		e.What = fmt.Sprintf("file %d", op.File)
		if f := d.files.Get(op.File); f != nil {
			e.What = f.Path
		}
		if op.Kind != aio.KindFdatasync {
			e.Off = op.Off + int64(op.Drv.Done)
		}
	} else {
		e.What = fmt.Sprintf("socket %d", op.Sock)
	}
	return e
}

// onFile reports whether an operation is about a file, not a socket.
func onFile(kind aio.Kind) bool { return kind <= aio.KindFdatasync }

func opName(op *aio.Op) string {
	switch op.Kind {
	case aio.KindRead:
		return "read"
	case aio.KindWrite:
		return "write"
	case aio.KindFdatasync:
		return "fdatasync"
	case aio.KindAccept:
		return "accept"
	case aio.KindRecv:
		return "receive"
	case aio.KindSend:
		return "send"
	case aio.KindShutdown:
		return "shutdown"
	}
	return "close"
}
