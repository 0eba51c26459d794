package portable

import (
	"fmt"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/internal/invariant"
	"golang.org/x/sys/unix"
)

// Where an operation on a socket is, kept in aio.OpState.Slot.
const (
	atNobody  uint32 = iota // not in the table of sockets: a worker has it, or it is done
	queued                  // for the next Poll
	cancelled               // queued, and asked to end
	armed                   // it waits on its socket
)

// sock is a socket as the driver sees it. The entry of a descriptor on which nothing
// waits means nothing: the descriptor may be a data file by now, or another driver's
// socket.
type sock struct {
	in  *aio.Op   // an armed accept or receive
	out []*aio.Op // sends, in order
	// watched: the poller knows it.
	watched bool
	// readable and writable say that a call may get somewhere; events set them,
	// calls that would have to wait clear them.
	readable, writable bool
	// careful: less than was asked for is not all that there is. No event follows
	// the last bytes of a peer that has ended, and urgent data cuts a receive short.
	careful bool
	// listed: it is in Driver.ready.
	listed bool
}

// Submit queues op. See aio.Driver.
func (d *Driver) Submit(op *aio.Op) {
	op.Begin()
	op.Drv.Slot = atNobody
	d.begin()
	switch op.Kind {
	case aio.KindRead, aio.KindWrite, aio.KindFdatasync:
		d.submitData(op)
	case aio.KindSend:
		if len(op.Vec) > aio.MaxVec {
			invariant.Violated("portable: a send has at most MaxVec pieces")
		}
		if total(op.Vec) == 0 {
			d.finishLater(op, nil)
			return
		}
		fallthrough
	case aio.KindAccept, aio.KindRecv, aio.KindShutdown, aio.KindCloseSock:
		op.Drv.Slot = queued
		d.todo.Push(op)
	default:
		invariant.Violated("portable: a submitted operation has a kind")
	}
}

func total(vec [][]byte) int {
	n := 0
	for _, p := range vec {
		n += len(p)
	}
	return n
}

// Cancel asks for an early end of op. See aio.Driver. An operation that is not in
// flight is left alone.
func (d *Driver) Cancel(op *aio.Op) {
	if !op.Drv.InFlight {
		return
	}
	switch op.Kind {
	case aio.KindAccept, aio.KindRecv, aio.KindSend:
	default:
		return
	}
	switch op.Drv.Slot {
	case queued:
		op.Drv.Slot = cancelled
	case armed:
		d.disarm(op, aio.ErrCanceled)
	}
}

// startQueued starts the operations on sockets that have been submitted, in order.
func (d *Driver) startQueued() {
	for k := d.todo.Len(); k > 0; k-- {
		op := d.todo.Take()
		fd := int(op.Sock)
		switch {
		case op.Drv.Slot == cancelled, d.closing && op.Kind <= aio.KindSend:
			d.finishLater(op, d.opError(op, aio.ErrCanceled))
		case fd < 0:
			d.finishLater(op, d.opError(op, unix.EBADF))
		case op.Kind == aio.KindShutdown:
			err := unix.Shutdown(fd, unix.SHUT_RDWR)
			if err == unix.ENOTCONN {
				err = nil // it is shut down
			}
			d.finishLater(op, d.opError(op, err))
		case op.Kind == aio.KindCloseSock:
			if fd < len(d.socks) && (d.socks[fd].in != nil || len(d.socks[fd].out) > 0) {
				invariant.Violated("portable: a socket that is closed has nothing in flight")
			}
			d.finishLater(op, d.opError(op, unix.Close(fd)))
		default:
			d.arm(fd, op)
		}
	}
}

// arm lets an operation wait on its socket. A send is tried at once: there is nearly
// always room.
func (d *Driver) arm(fd int, op *aio.Op) {
	if fd >= len(d.socks) {
		d.socks = append(d.socks, make([]sock, fd+1-len(d.socks))...)
	}
	s := &d.socks[fd]
	op.Drv.Slot = armed
	if op.Kind == aio.KindSend {
		s.out = append(s.out, op)
		if len(s.out) == 1 {
			d.send(fd)
		}
		return
	}
	if s.in != nil {
		invariant.Violated("portable: one accept or receive at a time is armed on a socket")
	}
	s.in = op
	if op.Kind == aio.KindAccept {
		// It has no flag that would keep one call from waiting.
		if err := unix.SetNonblock(fd, true); err != nil {
			d.disarm(op, err)
			return
		}
	}
	if s.watched {
		// What there is may have been reported to nobody.
		s.readable = true
		d.list(fd)
		return
	}
	d.watch(fd, op)
}

// watch has the poller report what happens to a socket, and first how it stands. An error
// is op's end.
func (d *Driver) watch(fd int, op *aio.Op) {
	s := &d.socks[fd]
	s.readable, s.writable, s.careful = false, false, false
	if err := d.poller.add(fd); err != nil {
		d.disarm(op, err)
		return
	}
	s.watched = true
	d.watched++
}

// disarm ends an armed operation with an error, or without, as its cause.
func (d *Driver) disarm(op *aio.Op, cause error) {
	fd := int(op.Sock)
	s := &d.socks[fd]
	if op == s.in {
		s.in = nil
	} else {
		for i, o := range s.out {
			if o == op {
				copy(s.out[i:], s.out[i+1:])
				s.out[len(s.out)-1] = nil
				s.out = s.out[:len(s.out)-1]
				break
			}
		}
	}
	if s.watched && s.in == nil && len(s.out) == 0 {
		s.watched = false
		d.watched--
		d.poller.remove(fd)
	}
	op.Drv.Slot = atNobody
	d.finishLater(op, d.opError(op, cause))
}

// abandon ends everything that waits on a socket.
func (d *Driver) abandon(fd int) {
	if op := d.socks[fd].in; op != nil {
		d.disarm(op, aio.ErrCanceled)
	}
	for len(d.socks[fd].out) > 0 {
		d.disarm(d.socks[fd].out[0], aio.ErrCanceled)
	}
}

// ending is an operation that has ended, and why. The operation's results are set
// when its owner is told: until then those of the completion before may be in use.
type ending struct {
	op  *aio.Op
	err error
}

// finishLater lets Poll tell op's owner of its end.
func (d *Driver) finishLater(op *aio.Op, err error) { d.done.Push(ending{op, err}) }

// opError says what failed and of what; no cause, no error.
func (d *Driver) opError(op *aio.Op, cause error) error {
	if cause == nil {
		return nil
	}
	e := &aio.Error{Op: opName(op.Kind), What: fmt.Sprintf("socket %d", op.Sock), Off: -1, Err: cause}
	switch op.Kind {
	case aio.KindRead, aio.KindWrite:
		e.Off = op.Off + int64(op.Drv.Done)
		fallthrough
	case aio.KindFdatasync:
		e.What = fmt.Sprintf("file %d", op.File)
		if f := d.files.Get(op.File); f != nil {
			e.What = f.Path
		}
	}
	return e
}

// opName is what errors call an operation.
func opName(k aio.Kind) string {
	return [...]string{
		aio.KindNone: "operation", aio.KindRead: "read", aio.KindWrite: "write", aio.KindFdatasync: "fdatasync",
		aio.KindAccept: "accept", aio.KindRecv: "receive", aio.KindSend: "send",
		aio.KindShutdown: "shutdown", aio.KindCloseSock: "close",
	}[k]
}
