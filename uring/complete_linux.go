package uring

import (
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/pawelgaczynski/giouring"
	"golang.org/x/sys/unix"
)

const (
	// maxRetries is how often an operation is tried again that the kernel had
	// no memory for, or that a signal interrupted.
	maxRetries = 8
	// firstBackoff is the wait before the first retry; it doubles each time.
	firstBackoff = 50 * time.Microsecond
)

// complete handles one completion of the kernel. It returns the number of
// completions delivered: 0 when the operation goes on.
func (d *Driver) complete(c giouring.CompletionQueueEvent) int {
	if uint32(c.UserData) == internalSlot {
		d.completeInternal(c)
		return 0
	}
	i := d.slots.find(c.UserData)
	op := d.slots.tab[i].op
	more := c.Flags&giouring.CQEFMore != 0
	if c.Res < 0 {
		return d.failed(i, op, unix.Errno(-c.Res), c)
	}
	n := int(c.Res)
	switch op.Kind {
	case aio.KindRead:
		return d.completeRead(i, op, n)
	case aio.KindWrite:
		return d.completeWrite(i, op, n)
	case aio.KindSend:
		return d.completeSend(i, op, n)
	case aio.KindAccept:
		op.NewSock = aio.Sock(n)
		return d.shot(i, op, more)
	case aio.KindRecv:
		op.N, op.Data, op.Stamp = n, nil, 0
		if c.Flags&giouring.CQEFBuffer != 0 {
			d.received(op, uint16(c.Flags>>giouring.CQEBufferShift), n)
		}
		return d.shot(i, op, more)
	}
	return d.finish(i, op, nil)
}

// received hands the buffer id over that the kernel has filled with n bytes.
func (d *Driver) received(op *aio.Op, id uint16, n int) {
	op.Data = d.recv.taken(id, n)
	op.BufID, op.At = aio.BufID(id), d.reaped
	if d.stamps {
		var wall int64
		if op.Data, wall = stamped(op.Data); wall != 0 {
			op.Stamp = d.calendar.loopTime(wall, d.reaped)
		}
		op.N = len(op.Data)
	}
	if len(op.Data) == 0 {
		d.recv.release(op.BufID)
		op.Data = nil
	}
}

// completeRead goes on after a short read until the end of the file.
func (d *Driver) completeRead(i uint32, op *aio.Op, n int) int {
	op.Drv.Done += n
	// A direct read ends unaligned only at the end of the file; to go on from
	// there would be refused.
	end := n == 0 || d.files.At(op.File).Direct && n%aio.BlockSize != 0
	if end || op.Drv.Done == len(op.Buf) {
		return d.finish(i, op, nil)
	}
	return d.goOn(i, op)
}

// completeWrite goes on after a short write with the rest. A direct write that
// stopped inside a block is repeated from the start of that block: the same bytes
// again.
func (d *Driver) completeWrite(i uint32, op *aio.Op, n int) int {
	done := op.Drv.Done + n
	if done == len(op.Buf) {
		op.Drv.Done = done
		return d.finish(i, op, nil)
	}
	if n == 0 {
		return d.finish(i, op, d.opError(op, aio.ErrShort))
	}
	if d.files.At(op.File).Direct {
		done &^= aio.BlockSize - 1
		if done == op.Drv.Done {
			return d.tryAgain(i, op, aio.ErrShort)
		}
	}
	op.Drv.Done = done
	return d.goOn(i, op)
}

func (d *Driver) completeSend(i uint32, op *aio.Op, n int) int {
	op.Drv.Done += n
	total := 0
	for _, p := range op.Vec {
		total += len(p)
	}
	switch {
	case op.Drv.Done == total:
		return d.finish(i, op, nil)
	case n == 0:
		return d.finish(i, op, d.opError(op, aio.ErrShort))
	}
	return d.goOn(i, op)
}

// goOn submits what is left of an operation. A cancelled one ends here: the
// kernel reports a cancelled send that had sent a part as a short one.
func (d *Driver) goOn(i uint32, op *aio.Op) int {
	if d.slots.tab[i].cancelled {
		return d.finish(i, op, d.opError(op, aio.ErrCanceled))
	}
	d.stats.Continued++
	op.Drv.Retries = 0
	d.start(i)
	return 0
}

// shot delivers one completion of an operation that may go on completing.
func (d *Driver) shot(i uint32, op *aio.Op, more bool) int {
	op.Err, op.More = nil, more
	op.Drv.Retries = 0
	if !more {
		d.retire(i, op)
		d.inFlight--
	}
	d.end(op)
	return 1
}

// finish ends an operation and tells its owner.
func (d *Driver) finish(i uint32, op *aio.Op, err error) int {
	d.retire(i, op)
	d.inFlight--
	if op.Kind != aio.KindRecv {
		op.N = op.Drv.Done
	}
	op.Err, op.More = err, false
	d.end(op)
	return 1
}

// end tells the owner of an operation. While the driver closes, owners are gone
// and nobody is told; a connection that arrives then is nobody's.
func (d *Driver) end(op *aio.Op) {
	if !d.closing {
		op.End()
		return
	}
	op.Drv.InFlight = op.More
	if op.Kind == aio.KindAccept && op.NewSock != aio.NoSock {
		_ = unix.Close(int(op.NewSock))
	}
}

// failed handles an errno.
func (d *Driver) failed(i uint32, op *aio.Op, errno unix.Errno, c giouring.CompletionQueueEvent) int {
	op.N, op.Data, op.NewSock = 0, nil, aio.NoSock
	if op.Kind == aio.KindRecv && c.Flags&giouring.CQEFBuffer != 0 {
		id := uint16(c.Flags >> giouring.CQEBufferShift)
		d.recv.taken(id, 0)
		d.recv.release(aio.BufID(id))
	}
	switch {
	case errno == unix.ECANCELED:
		return d.finish(i, op, d.opError(op, aio.ErrCanceled))
	case errno == unix.ENOBUFS && op.Kind == aio.KindRecv:
		return d.finish(i, op, d.opError(op, aio.ErrNoBuffers))
	case d.slots.tab[i].cancelled && retriable(op.Kind, errno):
		return d.finish(i, op, d.opError(op, aio.ErrCanceled))
	case retriable(op.Kind, errno):
		return d.tryAgain(i, op, errno)
	}
	return d.finish(i, op, d.opError(op, errno))
}

// retriable reports whether an errno says that the operation was not done, and
// not that it failed. A flush is never repeated: after a failed one the kernel
// may report success for data that it has dropped.
func retriable(kind aio.Kind, errno unix.Errno) bool {
	switch errno {
	case unix.EAGAIN, unix.EINTR:
		return kind != aio.KindFdatasync && kind != aio.KindCloseSock
	case unix.ENOMEM:
		return kind != aio.KindFdatasync && kind != aio.KindCloseSock && kind != aio.KindAccept
	case unix.ECONNABORTED:
		return kind == aio.KindAccept // the peer gave up while it was queued
	}
	return false
}

// tryAgain submits what was submitted last once more, after a while; too often
// is cause's failure.
func (d *Driver) tryAgain(i uint32, op *aio.Op, cause error) int {
	if op.Drv.Retries >= maxRetries {
		return d.finish(i, op, d.opError(op, cause))
	}
	s := &d.slots.tab[i]
	s.state = stateWaiting
	s.due = d.clock.Now() + int64(firstBackoff)<<op.Drv.Retries
	op.Drv.Retries++
	d.stats.Retries++
	d.waiting = append(d.waiting, i)
	return 0
}

// retryDue starts the operations whose time has come.
func (d *Driver) retryDue() {
	now := d.clock.Now()
	keep := d.waiting[:0]
	for _, i := range d.waiting {
		switch s := &d.slots.tab[i]; {
		case s.cancelled:
			d.abandon(i)
		case s.due <= now:
			d.start(i)
		default:
			keep = append(keep, i)
		}
	}
	d.waiting = keep
}

// untilRetry shortens a wait to the next retry.
func (d *Driver) untilRetry(wait time.Duration) time.Duration {
	if len(d.waiting) == 0 {
		return wait
	}
	now := d.clock.Now()
	for _, i := range d.waiting {
		wait = min(wait, max(time.Duration(d.slots.tab[i].due-now), time.Microsecond))
	}
	return wait
}

// completeInternal handles completions of the driver's own entries.
func (d *Driver) completeInternal(c giouring.CompletionQueueEvent) {
	if c.UserData == wakeData && c.Flags&giouring.CQEFMore == 0 {
		d.wakeArmed = false
	}
}
