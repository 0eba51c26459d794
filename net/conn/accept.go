package conn

import (
	"fmt"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/shard"
)

// acceptPause is for how long nobody is accepted after a failed accept. It
// failed most likely because the process has no more file descriptors, and trying
// again at once would not find one.
const acceptPause = 100 * time.Millisecond

// Door is where connections of one protocol come in: a protocol, its options and
// a listening socket, or none for a protocol that gets its connections from other
// shards only.
type Door struct {
	srv    *Server
	proto  Protocol
	opts   DoorOptions
	number int

	sock     aio.Sock
	accept   aio.Op
	closing  aio.Op
	canceled bool
	retry    shard.Timer
}

// Open adds a door for a protocol. All shards of a node open the same doors in
// the same order, before their loops run.
func (s *Server) Open(p Protocol, o DoorOptions) (*Door, error) {
	o = o.WithDefaults()
	if err := o.validate(s.opts); err != nil {
		return nil, err
	}
	d := &Door{srv: s, proto: p, opts: o, number: len(s.doors), sock: aio.NoSock}
	d.retry.Owner = d
	s.doors = append(s.doors, d)
	return d, nil
}

// Options are the door's options, defaults filled in.
func (d *Door) Options() DoorOptions { return d.opts }

// Number is the door's; it is the same on all shards.
func (d *Door) Number() int { return d.number }

// Listen opens the door's listening socket on addr, "host:port", and accepts
// from the loop's next turn on. The port is shared with the other shards of the
// process (see [Probe] for others), and each shard gets the connections that the
// kernel gives to its socket. It returns the address really bound. It may block:
// at start only.
func (d *Door) Listen(addr string) (string, error) {
	sock, bound, err := d.srv.drv.Listen(addr, aio.ListenShared)
	if err != nil {
		return "", fmt.Errorf("conn: door %s: %w", d.opts.Name, err)
	}
	d.sock = sock
	d.arm()
	return bound, nil
}

func (d *Door) arm() {
	d.accept.Kind, d.accept.Sock, d.accept.Owner = aio.KindAccept, d.sock, d
	d.srv.drv.Submit(&d.accept)
}

// Fire accepts again after a pause.
func (d *Door) Fire(*shard.Timer, int64) {
	if !d.srv.stopping && !d.accept.InFlight() {
		d.arm()
	}
}

// Complete receives the completions of accept, and of the socket's close.
func (d *Door) Complete(op *aio.Op) {
	if op.Kind != aio.KindAccept {
		return
	}
	if op.Err == nil && op.NewSock != aio.NoSock {
		d.accepted(op.NewSock)
	}
	switch {
	case op.More:
	case d.srv.stopping:
		d.close()
	case op.Err != nil:
		d.srv.count.local[AcceptErrors]++
		d.srv.loop.Arm(&d.retry, d.srv.loop.Now()+int64(acceptPause))
	default:
		d.arm()
	}
}

func (d *Door) accepted(sock aio.Sock) {
	s := d.srv
	// Asked once: later it would be a system call for each time that somebody wants to know,
	// and nobody knows it when the peer has gone.
	peer, bucket, ok := s.drv.PeerAddr(sock), int32(0), false
	if !s.stopping {
		bucket, ok = s.census.enter(s.loop.Now(), peer)
	}
	if !ok {
		s.count.local[Refused]++
		s.refuse(sock)
		return
	}
	s.count.local[Accepted]++
	c := s.newConn(d, sock)
	c.peer, c.bucket = peer, bucket
	d.proto.Opened(c, nil)
}

// stop ends accepting.
func (d *Door) stop() {
	d.srv.loop.Disarm(&d.retry)
	switch {
	case d.accept.InFlight() && !d.canceled:
		d.canceled = true
		d.srv.drv.Cancel(&d.accept)
	case !d.accept.InFlight():
		d.close()
	}
}

// close closes the listening socket.
func (d *Door) close() {
	if d.sock == aio.NoSock {
		return
	}
	d.closing.Kind, d.closing.Sock, d.closing.Owner = aio.KindCloseSock, d.sock, d
	d.sock = aio.NoSock
	d.srv.drv.Submit(&d.closing)
}

// stopped reports whether the door is shut.
func (d *Door) stopped() bool {
	return d.sock == aio.NoSock && !d.accept.InFlight() && !d.closing.InFlight()
}

// refusal is the close of a socket that never becomes a connection.
type refusal struct {
	op   aio.Op
	srv  *Server
	next *refusal
}

// refuse closes a socket at once.
func (s *Server) refuse(sock aio.Sock) {
	r := s.refusals
	if r == nil {
		r = &refusal{srv: s}
	} else {
		s.refusals, r.next = r.next, nil
	}
	s.lent.Closing++
	r.op.Kind, r.op.Sock, r.op.Owner = aio.KindCloseSock, sock, r
	s.drv.Submit(&r.op)
}

// Complete puts the refusal back.
func (r *refusal) Complete(*aio.Op) {
	r.srv.lent.Closing--
	r.next, r.srv.refusals = r.srv.refusals, r
}
