package conn

import (
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/internal/invariant"
)

// phase is where a connection is in its life.
type phase uint8

const (
	// phaseOpen: frames are read.
	phaseOpen phase = iota
	// phaseMoving: not read; moves when nothing is in flight.
	phaseMoving
	// phaseFinishing: not read; closes when what is in the works is sent.
	phaseFinishing
	// phaseOver: nothing is sent or read; operations in flight come to their
	// end, the socket is closed, references come home.
	phaseOver
)

// pauses are the reasons for which a connection is not read.
type pauses uint8

const (
	pausedProtocol pauses = 1 << iota // asked by the protocol
	pausedFrame                       // waits for frame memory
	pausedOutput                      // its peer does not read, or send memory is used up
)

// linger says whether a connection that finishes reads on to throw away.
type linger uint8

const (
	lingerNot linger = iota
	lingerBriefly
)

// Conn is one connection. It belongs to its server's loop.
type Conn struct {
	// User is the protocol's.
	User any
	// Tenant and Principal say for whom the peer acts. The protocol sets
	// them; they move with the connection.
	Tenant, Principal string

	srv    *Server
	door   *Door
	sock   aio.Sock
	id     uint64
	peer   string // its address, "" when unknown
	bucket int32  // of the census
	phase  phase
	links  [numLists]link

	why         Reason // of its end
	failed      bool   // ends without sending what is left
	told        bool   // the protocol has been told that it finishes
	linger      linger
	established bool
	holds       int

	recv      aio.Op
	canceling bool
	eof       bool
	pauses    pauses
	greedy    bool // holds more than its share of receive buffers
	unread    unread
	asm       assembly
	limit     int // of a frame, bytes
	held      int // receive buffers with unread bytes or lent frames
	frames    int // lent frames

	out      output
	moving   *State // its move is wanted
	movingTo int
	ctl      aio.Op // shutdown and close
	ending   ending

	// Times of the loop's clock.
	opened   int64 // accepted
	active   int64 // newest sign of life
	pausedAt int64
	lingers  int64 // began to linger
}

// ID is unique among the connections of a server.
func (c *Conn) ID() uint64 { return c.id }

// Server is the server that has the connection.
func (c *Conn) Server() *Server { return c.srv }

// RemoteAddr is the peer's address, "" when unknown.
func (c *Conn) RemoteAddr() string { return c.peer }

// Over reports whether the connection is gone: what is answered is dropped.
func (c *Conn) Over() bool { return c.phase == phaseOver }

// Establish ends the time allowed for the handshake.
func (c *Conn) Establish() { c.established = true }

// SetLimit sets the largest frame that the peer may send, in bytes, its length
// field included; at most [Server.LargestFrame].
func (c *Conn) SetLimit(n int) { c.limit = min(n, c.srv.opts.largest()) }

// Hold says that something is in the works for the connection: it is not idle,
// does not close by itself and does not move until Drop is called as often.
func (c *Conn) Hold() { c.holds++ }

// Drop takes a Hold back.
func (c *Conn) Drop() {
	c.holds--
	if c.holds < 0 {
		invariant.Violated("conn: a hold is dropped once")
	}
	c.active = c.srv.loop.Now()
	if c.holds == 0 && c.phase != phaseOpen {
		c.srv.dirty.push(c)
	}
}

// Pause keeps the connection from being read until Resume.
func (c *Conn) Pause() { c.pause(pausedProtocol) }

// Resume ends a Pause. The next frames come in a later turn.
func (c *Conn) Resume() { c.resume(pausedProtocol) }

// Close ends the connection in this turn. What has not been sent is dropped.
func (c *Conn) Close() { c.fail(ReasonProtocol) }

// Finish reads no more frames, and ends the connection when all that was
// answered has been sent and nothing holds it.
func (c *Conn) Finish() { c.finish(ReasonProtocol, lingerBriefly) }

// readable reports whether frames may be handed over.
func (c *Conn) readable() bool { return c.phase == phaseOpen && c.pauses == 0 && !c.failed }

func (c *Conn) pause(why pauses) {
	if c.pauses == 0 {
		c.pausedAt = c.srv.loop.Now()
		c.srv.count.local[Pauses]++
	}
	c.pauses |= why
	c.srv.dirty.push(c)
}

func (c *Conn) resume(why pauses) {
	if c.pauses&why == 0 {
		return
	}
	c.pauses &^= why
	if c.pauses != 0 || c.phase == phaseOver {
		return
	}
	now := c.srv.loop.Now()
	c.active = now
	if c.asm.started() {
		c.asm.since += now - c.pausedAt
	}
	c.srv.ready.push(c)
}

// fail ends the connection at the end of the turn, for the first reason given.
func (c *Conn) fail(why Reason) {
	if c.failed || c.phase == phaseOver {
		return
	}
	c.failed, c.why = true, why
	c.srv.dirty.push(c)
}

// finish ends the connection when what is in the works has been sent.
func (c *Conn) finish(why Reason, l linger) {
	if c.phase != phaseOpen && c.phase != phaseMoving {
		return
	}
	c.phase, c.why, c.linger = phaseFinishing, why, l
	c.srv.dirty.push(c)
}

// step does what the events of a turn have made due. It is the only place where
// a connection is flushed, ended or moved, so that protocols are never called
// from inside their own calls.
func (c *Conn) step() {
	if c.failed && c.phase != phaseOver {
		c.end()
	}
	if c.phase == phaseOver {
		c.wind()
		return
	}
	c.flush()
	switch c.phase {
	case phaseMoving:
		c.tryMove()
	case phaseFinishing:
		c.tryFinish()
	}
	if c.phase == phaseOver {
		c.wind()
		return
	}
	c.armReceive()
	c.noteKeeping()
}

// Complete receives the completions of the connection's operations.
func (c *Conn) Complete(op *aio.Op) {
	switch op.Kind {
	case aio.KindRecv:
		c.received(op)
	case aio.KindSend:
		c.sent(op)
	default:
		c.srv.dirty.push(c)
	}
}
