package conn

import (
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/shard"
)

// Server has the connections of one shard, of all its doors. Everything in it
// belongs to the shard's loop, whose worker calls Drain and Finish once a turn:
// Drain before completions, and Finish after everything else that may answer, so
// that what a turn has answered leaves in one send.
type Server struct {
	loop   *shard.Loop
	drv    aio.Driver
	opts   Options
	census *Census
	mover  Mover
	doors  []*Door

	all, ready, dirty, starved, keeping, noSend queue

	slabs    slabs
	sends    sendBufs
	inbufs   *inbuf
	frames   *Frame
	sendings *sending
	conns    *Conn
	refusals *refusal
	offloads *offload
	waste    []byte // answers to connections that are gone

	recvBufs int // size of the receive pool
	budget   int // frames that may still be handed over in this turn
	lastID   uint64
	stopping bool
	watch    watch
	lent     Outstanding
	count    Counters
}

// NewServer makes the server of a loop and takes its memory from the loop's
// driver, while all of that driver's receive buffers are home. The error is
// [ErrOptions], or aio.ErrNoMemory.
func NewServer(l *shard.Loop, census *Census, mover Mover, o Options) (*Server, error) {
	o = o.WithDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	s := &Server{
		loop: l, drv: l.Driver(), opts: o, census: census, mover: mover,
		recvBufs: l.Driver().FreeBufs(),
		budget:   o.TurnFrames,
		waste:    make([]byte, MaxReply),
	}
	s.all.list, s.ready.list, s.dirty.list = inAll, inReady, inDirty
	s.starved.list, s.keeping.list, s.noSend.list = inStarved, inKeeping, inNoSend
	s.watch.timer.Owner = s
	if err := s.slabs.init(s.drv, o); err != nil {
		return nil, err
	}
	if err := s.sends.init(s.drv, o.SendBuffers); err != nil {
		return nil, err
	}
	return s, nil
}

// Loop is the loop that the server belongs to.
func (s *Server) Loop() *shard.Loop { return s.loop }

// MaxFrame is the largest frame of protocols that know a limit, in bytes.
func (s *Server) MaxFrame() int { return s.opts.MaxFrame }

// LargestFrame is the largest frame of doors whose protocols know no limit, in bytes.
func (s *Server) LargestFrame() int { return s.opts.largest() }

// Spilled is the number of answered bytes that wait for send memory on the Go
// heap, because peers do not read as fast as they ask. Protocols that answer with
// more than a few bytes refuse to while it is large.
func (s *Server) Spilled() int { return s.lent.Spilled }

// Counters are the server's counters. Any goroutine may read them.
func (s *Server) Counters() *Counters { return &s.count }

// Drain reads connections on that have unread bytes. It is called at the start of
// a turn, and returns how much it found to do.
func (s *Server) Drain(int64) int {
	work := 0
	for n := s.ready.n; n > 0 && s.budget > 0; n-- {
		c := s.ready.pop()
		if c == nil {
			break
		}
		work++
		c.parse()
		s.dirty.push(c)
	}
	return work
}

// Finish ends a turn: it sends what was answered, and arms, cancels, closes and
// moves what the turn's events have made due.
func (s *Server) Finish(int64) {
	s.budget = s.opts.TurnFrames
	s.wake()
	if s.dirty.n == 0 {
		return
	}
	for c := s.dirty.pop(); c != nil; c = s.dirty.pop() {
		c.step()
	}
	s.count.show()
}

// wake lets connections go on for which there is memory again. It looks at what
// there is and not at what has come back, so that no wake-up is lost to a
// connection that ended before it could use its own.
func (s *Server) wake() {
	for n := s.sends.nfree; n > 0 && s.noSend.n > 0; n-- {
		s.dirty.push(s.noSend.pop())
	}
	if s.keeping.n > 0 {
		s.reclaim()
	}
	if s.starved.n > 0 {
		for n := s.drv.FreeBufs(); n > 0 && s.starved.n > 0; n-- {
			s.dirty.push(s.starved.pop())
		}
	}
	for i := range s.slabs.sizes {
		z := &s.slabs.sizes[i]
		for n := z.nfree; n > 0 && z.waiting.n > 0; n-- {
			z.waiting.pop().resume(pausedFrame)
		}
	}
}

// Stop accepts no more connections, and ends those there are when what is in the
// works has been sent.
func (s *Server) Stop() {
	if s.stopping {
		return
	}
	s.stopping = true
	for _, d := range s.doors {
		d.stop()
	}
	for c := s.all.head; c != nil; c = c.links[inAll].next {
		c.finish(ReasonShutdown, lingerNot)
	}
}

// Abort ends all connections at once, after Stop has taken too long.
func (s *Server) Abort() {
	s.Stop()
	for c := s.all.head; c != nil; c = c.links[inAll].next {
		c.fail(ReasonShutdown)
	}
}

// Stopped reports whether everything has come to its end after Stop.
func (s *Server) Stopped() bool {
	for _, d := range s.doors {
		if !d.stopped() {
			return false
		}
	}
	return s.stopping && s.all.n == 0 && s.lent.Closing == 0 && s.lent.Works == 0
}

// scarce reports whether receive buffers are.
func (s *Server) scarce() bool { return s.drv.FreeBufs() < s.recvBufs/4 }

func (s *Server) releaseBuf(id int) { s.drv.ReleaseBuf(aio.BufID(id)) }

// newConn makes a connection of a socket.
func (s *Server) newConn(d *Door, sock aio.Sock) *Conn {
	c := s.conns
	if c == nil {
		c = new(Conn)
	} else {
		s.conns, c.links[inAll].next = c.links[inAll].next, nil
	}
	s.lastID++
	now := s.loop.Now()
	c.srv, c.door, c.sock, c.id = s, d, sock, s.lastID
	c.limit, c.opened, c.active = d.opts.FrameLimit, now, now
	s.all.push(c)
	s.dirty.push(c)
	if !s.watch.timer.Armed() {
		s.loop.Arm(&s.watch.timer, now+int64(watchEvery))
	}
	return c
}

// retire puts a connection back of which nothing is left.
func (s *Server) retire(c *Conn) {
	if s.watch.next == c {
		s.watch.next = c.links[inAll].next
	}
	for l := range numLists {
		c.leave(l)
	}
	c.out.trim()
	ring := c.out.ring
	*c = Conn{}
	c.out.ring = ring
	s.conns, c.links[inAll].next = c, s.conns
}
