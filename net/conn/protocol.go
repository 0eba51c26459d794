package conn

// Verdict is what a protocol says to a frame.
type Verdict uint8

const (
	// Taken: the protocol has what it needs, or has retained the frame.
	Taken Verdict = iota
	// Later: the protocol cannot take the frame now. The connection pauses as
	// by [Conn.Pause], and the same frame comes again after [Conn.Resume].
	Later
)

// Protocol is what stands behind a [Door]. All methods are called on the loop.
// They may call every method of the connection; nothing that ends, moves or
// flushes it happens before they have returned.
type Protocol interface {
	// Opened: a connection is there. app is nil for one that was accepted
	// here, and what was given to [Conn.Move] for one that came from another
	// shard.
	Opened(c *Conn, app any)

	// FrameSize tells the size of the frame that begins with prefix,
	// [DoorOptions].PrefixBytes long: all of it in bytes, prefix included and
	// not smaller than that. With an error the connection is broken.
	FrameSize(c *Conn, prefix []byte) (int, error)

	// Frame hands a frame over. The frame and its bytes are valid until Frame
	// returns, or until the protocol releases it if it retains it.
	Frame(c *Conn, f *Frame) Verdict

	// Broken: the stream has lost its frame boundaries, by an error of
	// FrameSize or by [ErrFrameTooLarge]. The protocol may still answer; the
	// connection closes when that has been sent.
	Broken(c *Conn, prefix []byte, err error)

	// Ended: no more frames will come, because the peer ended its direction,
	// the stream is broken or the server stops. What is in the works is still
	// sent; the protocol should bring it to an end soon. The connection closes
	// when nothing holds it and all has been sent.
	Ended(c *Conn)

	// Stayed: a move did not come off; the connection goes on here.
	Stayed(c *Conn)

	// Closed: the connection is gone, and what is answered from now on is
	// dropped. It is called once for every Opened. The Conn stays valid while
	// the protocol holds it or has frames of it.
	Closed(c *Conn, why Reason)
}

// Sent is told, on the loop, when pieces given to [Conn.Lend] are not needed any
// more: they have been sent, or the connection is gone.
type Sent interface {
	Sent(c *Conn)
}

// Mover brings connections to other shards.
type Mover interface {
	// Move hands s to the server of shard to: it makes that loop call
	// [Server.Import]. It does not wait. False: it cannot be done now.
	Move(to int, s *State) bool
}
