package conn

import "github.com/mqd-broker/mqd/engine/aio"

// State is a connection on its way from one shard to another, between two frames
// and with nothing in flight.
type State struct {
	// Door is the number of the door behind which the protocol stands; it is
	// the same on all shards.
	Door int
	Sock aio.Sock
	// Unread are bytes that have arrived and not been read, in memory of
	// their own.
	Unread []byte
	// pieces are Unread, as it came.
	pieces []arrival

	// Tenant and Principal say for whom the peer acts.
	Tenant, Principal string
	// App is the protocol's, see [Conn.Move].
	App any

	peer        string
	bucket      int32 // of the census
	limit       int
	established bool
	eof         bool
}

// Move hands the connection to the server of another shard as soon as nothing is
// in flight on it and nothing holds it. No more frames are read here after the
// one that is being handed over now. There the protocol is told Opened with app, here Closed with
// [ReasonMoved]; or Stayed, if the move does not come off.
func (c *Conn) Move(to int, app any) {
	if c.phase != phaseOpen {
		return
	}
	c.phase = phaseMoving
	c.moving, c.movingTo = &State{App: app}, to
	c.srv.dirty.push(c)
}

// tryMove moves the connection if nothing is in flight.
func (c *Conn) tryMove() {
	if c.holds > 0 || c.frames > 0 || !c.out.empty() || c.recv.InFlight() {
		return
	}
	s := c.srv
	st := c.export()
	to := c.movingTo
	c.moving = nil
	if st != nil && s.mover != nil && s.mover.Move(to, st) {
		s.count.local[Exported]++
		c.why = ReasonMoved
		c.end()
		return
	}
	s.count.local[MovesRefused]++
	c.phase = phaseOpen
	c.active = s.loop.Now()
	s.ready.push(c)
	c.door.proto.Stayed(c)
}

// export describes the connection for another shard; nil when too many bytes are
// unread.
func (c *Conn) export() *State {
	begun := c.asm.bytes()
	n := len(begun)
	for b := c.unread.head; b != nil; b = b.next {
		n += len(b.data) - b.pos
	}
	if n > c.srv.opts.MaxHandover {
		return nil
	}
	st := c.moving
	st.Door, st.Sock = c.door.number, c.sock
	st.Tenant, st.Principal = c.Tenant, c.Principal
	st.limit, st.established, st.eof, st.peer, st.bucket = c.limit, c.established, c.eof, c.peer, c.bucket
	if n > 0 {
		st.Unread = make([]byte, 0, n)
	}
	st.add(begun, c.asm.came)
	for b := c.unread.head; b != nil; b = b.next {
		st.add(b.data[b.pos:], b.came)
	}
	return st
}

// arrival is a number of bytes that came at a time.
type arrival struct {
	n    int
	came came
}

func (st *State) add(bytes []byte, t came) {
	if len(bytes) > 0 {
		st.Unread = append(st.Unread, bytes...)
		st.pieces = append(st.pieces, arrival{len(bytes), t})
	}
}

// Import goes on with a connection that another shard has handed over.
func (s *Server) Import(st *State) {
	if s.stopping {
		s.refuse(st.Sock)
		s.census.leave(st.bucket)
		return
	}
	s.count.local[Imported]++
	c := s.newConn(s.doors[st.Door], st.Sock)
	c.Tenant, c.Principal = st.Tenant, st.Principal
	c.limit, c.established, c.eof, c.peer, c.bucket = st.limit, st.established, st.eof, st.peer, st.bucket
	rest := st.Unread
	for _, a := range st.pieces {
		c.unread.push(c.newInbuf(noBuf, rest[:a.n:a.n], a.came))
		rest = rest[a.n:]
	}
	c.door.proto.Opened(c, st.App)
	s.ready.push(c)
}
