package portable

import (
	"fmt"
	"math"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/internal/invariant"
	"golang.org/x/sys/unix"
)

const (
	// maxDelivered bounds the completions of one turn.
	maxDelivered = 256
	// maxVisits bounds how often a turn goes on with some socket.
	maxVisits = 256
	// sendsInRow bounds the calls of one visit to a socket that takes what it is
	// given.
	sendsInRow = 4
	// closePoll bounds a turn of Close; it costs only a turn.
	closePoll = 50 * time.Millisecond
)

// Poll starts what is queued and delivers completions, about 256 at most. See
// aio.Driver. Completions do not call it.
func (d *Driver) Poll(wait time.Duration) (int, error) {
	if d.polling {
		invariant.Violated("portable: a completion does not call Poll")
	}
	if d.closed {
		return 0, aio.ErrClosed
	}
	d.polling = true
	n, err := d.poll(wait)
	d.polling = false
	return n, err
}

func (d *Driver) poll(wait time.Duration) (int, error) {
	if wait <= 0 {
		return d.turn(0)
	}
	// A turn may end without a completion for the caller: a signal, an event that
	// leads nowhere. The wait goes on.
	deadline := d.clock.Now() + int64(wait)
	if deadline < 0 {
		deadline = math.MaxInt64
	}
	for {
		n, err := d.turn(wait)
		called := d.waker.called.Load()
		if n == 0 && err == nil && !called {
			if wait = time.Duration(deadline - d.clock.Now()); wait > 0 {
				continue
			}
		}
		if called {
			d.waker.called.Store(false)
		}
		return n, err
	}
}

// turn asks the poller once, waiting if it may, and delivers.
func (d *Driver) turn(wait time.Duration) (int, error) {
	d.startQueued()
	if err := d.takeEvents(wait); err != nil {
		return 0, err
	}
	n := d.data.collect() + d.deliverDone() + d.slow.collect()
	n = d.serve(n)
	return n + d.deliverDone(), nil
}

// quiet reports whether there is nothing to do without waiting.
func (d *Driver) quiet() bool {
	return d.done.Len() == 0 && d.refused.Len() == 0 && d.ready.Len() == 0 &&
		!d.data.waiting() && !d.slow.waiting() && !d.waker.called.Load()
}

// takeEvents asks the poller which sockets can go on. It waits if there is nothing else to
// do.
func (d *Driver) takeEvents(wait time.Duration) error {
	sleeps := wait > 0
	if sleeps {
		d.waker.asleep.Store(true)
		if !d.quiet() {
			wait = 0
		}
	}
	errno := unix.Errno(0)
	if wait > 0 || d.watched > 0 {
		errno = d.poller.wait(d, wait)
	}
	if sleeps {
		d.waker.asleep.Store(false)
	}
	if errno != 0 && errno != unix.EINTR {
		return fmt.Errorf("portable: waiting for sockets: %w", errno)
	}
	return nil
}

// note notes what the poller says of a socket; see sock.
func (d *Driver) note(fd int, readable, writable, careful bool) {
	s := &d.socks[fd]
	s.readable = s.readable || readable
	s.writable = s.writable || writable
	s.careful = s.careful || careful
	d.list(fd)
}

// list puts a socket among those that can go on, if it can.
func (d *Driver) list(fd int) {
	s := &d.socks[fd]
	if !s.listed && (s.readable && s.in != nil || s.writable && len(s.out) > 0) {
		s.listed = true
		d.ready.Push(int32(fd))
	}
}

// serve goes on with sockets, one step each in turn, until n completions are
// delivered. It returns n.
func (d *Driver) serve(n int) int {
	for visits := 0; visits < maxVisits && n < maxDelivered && d.ready.Len() > 0; visits++ {
		fd := int(d.ready.Take())
		s := &d.socks[fd]
		s.listed = false
		if s.readable && s.in != nil {
			n += d.step(fd, s.in)
			s = &d.socks[fd] // the table may have grown
		}
		if s.writable && len(s.out) > 0 {
			d.send(fd)
		}
		d.list(fd)
	}
	return n
}

// step makes one call for an armed accept or receive, and tells its owner what came.
func (d *Driver) step(fd int, op *aio.Op) int {
	if op.Kind == aio.KindAccept {
		return d.accept(fd, op)
	}
	if len(d.recv.free) == 0 {
		d.disarm(op, aio.ErrNoBuffers)
		return 0
	}
	buf := d.recv.next()
	n, errno := d.sys.recv(fd, buf)
	switch {
	case errno == unix.EINTR:
		return 0
	case errno == unix.EAGAIN:
		s := &d.socks[fd]
		s.readable = s.careful && hasData(fd)
		return 0
	case errno != 0:
		d.disarm(op, errno)
		return 0
	case n == 0:
		d.disarm(op, nil)
		return 0
	}
	// Less than was asked for is all that there was; an event announces more.
	if s := &d.socks[fd]; n < len(buf) && !s.careful {
		s.readable = false
	}
	op.N, op.Err, op.More = n, nil, true
	op.BufID, op.Data = d.recv.take(n)
	op.At = d.Clock().Now()
	d.end(op)
	return 1
}

// hasData asks whether a receive would get something, whatever one has just said: in front
// of urgent data Linux answers it with EAGAIN while a signal waits for the thread, as
// Go's preemption does, and no event follows.
func hasData(fd int) bool {
	asked := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(asked[:], 0)
	return n > 0 || err != nil
}

func (d *Driver) accept(fd int, op *aio.Op) int {
	conn, errno := d.sys.accept(fd)
	switch errno {
	case 0:
		op.NewSock, op.Err, op.More = aio.Sock(conn), nil, true
		d.end(op)
		return 1
	case unix.EAGAIN:
		d.socks[fd].readable = false
	case unix.EINTR, unix.ECONNABORTED: // the peer gave up while it was queued
	default:
		d.disarm(op, errno)
	}
	return 0
}

// send hands the kernel what the first send of a socket has left, and then the next.
func (d *Driver) send(fd int) {
	for range sendsInRow {
		s := &d.socks[fd]
		if len(s.out) == 0 {
			return
		}
		op := s.out[0]
		n, errno := d.sys.send(fd, op.Vec, op.Drv.Done)
		switch {
		case errno == unix.EINTR:
		case errno == unix.EAGAIN:
			s.writable = false
			if !s.watched {
				d.watch(fd, op)
			}
			return
		case errno != 0:
			d.disarm(op, errno)
		default:
			op.Drv.Done += n
			if op.Drv.Done == total(op.Vec) {
				d.disarm(op, nil)
			} else if n == 0 {
				d.disarm(op, aio.ErrShort)
			}
		}
	}
	d.socks[fd].writable = true
	d.list(fd)
}

// deliverDone tells the owners of what has ended outside a worker. What they cause to
// end meanwhile is for the next time.
func (d *Driver) deliverDone() int {
	n := 0
	for k := d.done.Len(); k > 0; k-- {
		e := d.done.Take()
		op := e.op
		op.N, op.Err, op.More = 0, e.err, false
		op.Data, op.NewSock = nil, aio.NoSock
		if op.Kind == aio.KindSend {
			op.N = op.Drv.Done
		}
		d.end(op)
		n++
	}
	for k := d.refused.Len(); k > 0; k-- {
		d.deliverTask(d.refused.Take())
		n++
	}
	return n
}

// end tells the owner of an operation. While the driver closes, owners are gone and
// nobody is told; a connection that arrives then is nobody's.
func (d *Driver) end(op *aio.Op) {
	if !op.More {
		d.inFlight--
	}
	if !d.closing {
		op.End()
		return
	}
	op.Drv.InFlight = op.More
	if op.Kind == aio.KindAccept && op.NewSock != aio.NoSock {
		_ = unix.Close(int(op.NewSock))
	}
}
