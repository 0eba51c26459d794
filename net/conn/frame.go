package conn

import "github.com/mqd-broker/mqd/internal/invariant"

// inbuf is a receive buffer with bytes that somebody needs: the connection that
// has not read them, or frames inside it. It goes home with the last reference.
type inbuf struct {
	id   int // aio.BufID, or noBuf
	data []byte
	came came
	pos  int // first unread byte
	refs int
	conn *Conn
	next *inbuf
}

// noBuf marks bytes on the Go heap: they came with a connection from another
// shard, or were moved when receive buffers were scarce. Frames in them are copied
// out.
const noBuf = -1

// Frame is one frame of a connection, whole. Its bytes may be written. They stay
// until the last reference is released, even when the connection has ended. A
// Frame is pooled: nobody touches it after releasing his reference. All methods
// are for the loop of the server that made it.
type Frame struct {
	bytes []byte
	came  came
	conn  *Conn
	buf   *inbuf // where bytes lie, or
	slab  *slab
	refs  int
	next  *Frame
}

// Bytes are the frame's bytes, the length field included, in memory of the
// driver.
func (f *Frame) Bytes() []byte { return f.bytes }

// Conn is the connection on which the frame came.
func (f *Frame) Conn() *Conn { return f.conn }

// came is when bytes came, by the clock of the loop that received them: to the loop, and to
// the kernel or the network card as aio.Op.Stamp says.
type came struct{ at, stamp int64 }

// Arrived is when the bytes came that completed the frame, by the clock of the loop that
// received them: to the loop, and to the kernel or the network card as aio.Op.Stamp says.
func (f *Frame) Arrived() (at, stamp int64) { return f.came.at, f.came.stamp }

// Retain adds a reference.
func (f *Frame) Retain() { f.refs++ }

// Release gives a reference up. With the last one the memory goes home.
func (f *Frame) Release() {
	if f.refs <= 0 {
		invariant.Violated("conn: a frame is released as often as it is retained")
	}
	f.refs--
	if f.refs > 0 {
		return
	}
	c, s := f.conn, f.conn.srv
	buf, sl := f.buf, f.slab
	f.bytes, f.conn, f.buf, f.slab = nil, nil, nil, nil
	f.next, s.frames = s.frames, f
	c.frames--
	s.lent.Frames--
	if buf != nil {
		buf.unref()
	}
	if sl != nil {
		s.slabs.put(sl)
	}
	c.maybeOver()
}

// newFrame takes a Frame from the pool, with one reference.
func (c *Conn) newFrame(bytes []byte, t came) *Frame {
	s := c.srv
	f := s.frames
	if f == nil {
		f = new(Frame)
	} else {
		s.frames, f.next = f.next, nil
	}
	f.bytes, f.came, f.conn, f.refs = bytes, t, c, 1
	c.frames++
	s.lent.Frames++
	return f
}

// newInbuf takes over a receive buffer whose bytes came at a time, with one reference.
func (c *Conn) newInbuf(id int, data []byte, t came) *inbuf {
	s := c.srv
	b := s.inbufs
	if b == nil {
		b = new(inbuf)
	} else {
		s.inbufs, b.next = b.next, nil
	}
	b.id, b.data, b.came, b.pos, b.refs, b.conn = id, data, t, 0, 1, c
	if id == noBuf {
		s.lent.Unread += len(data)
		return b
	}
	c.held++
	s.lent.Buffers++
	return b
}

func (b *inbuf) unref() {
	b.refs--
	if b.refs > 0 {
		return
	}
	c, s := b.conn, b.conn.srv
	if b.id == noBuf {
		s.lent.Unread -= len(b.data)
	} else {
		s.releaseBuf(b.id)
		c.held--
		s.lent.Buffers--
		c.shareChanged()
		c.maybeOver()
	}
	b.data, b.conn = nil, nil
	b.next, s.inbufs = s.inbufs, b
}
