package conn

import (
	"errors"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/internal/invariant"
)

// maxUnread is the number of receive buffers with unread bytes above which a
// connection stops receiving that has more frames than others leave it time for.
const maxUnread = 2

// minShare is the number of receive buffers that a connection may always hold.
const minShare = 4

// unread is the bytes of a connection that have arrived and not been read.
type unread struct {
	head, tail *inbuf
	n          int
}

func (u *unread) push(b *inbuf) {
	b.next = nil
	if u.tail == nil {
		u.head = b
	} else {
		u.tail.next = b
	}
	u.tail = b
	u.n++
}

// pop drops the first buffer.
func (u *unread) pop() {
	b := u.head
	u.head = b.next
	if u.head == nil {
		u.tail = nil
	}
	u.n--
	b.next = nil
	b.unref()
}

// received is the completion of a receive.
func (c *Conn) received(op *aio.Op) {
	s := c.srv
	s.dirty.push(c)
	if op.Err == nil && len(op.Data) > 0 {
		s.count.local[BytesIn] += uint64(len(op.Data))
		c.active = s.loop.Now()
		if c.phase != phaseOpen && c.phase != phaseMoving {
			s.releaseBuf(int(op.BufID))
			return
		}
		s.count.local[Receives]++
		c.unread.push(c.newInbuf(int(op.BufID), op.Data, came{op.At, op.Stamp}))
		c.greedy = c.greedy || c.held > max(minShare, s.drv.FreeBufs())
		c.parse()
		return
	}
	switch {
	case op.Err == nil:
		c.eof = true
		c.parse()
	case errors.Is(op.Err, aio.ErrNoBuffers):
		s.count.local[Starvations]++
		s.starved.push(c)
	case errors.Is(op.Err, aio.ErrCanceled):
	default:
		c.fail(ReasonPeer)
	}
}

// shareChanged lets a connection receive again that has given back what it held
// too much of. A connection may hold as many receive buffers as are free: however
// many connections take all they can, something is left for one that comes new.
func (c *Conn) shareChanged() {
	if c.greedy && (c.held <= minShare/2 || 2*c.held <= c.srv.drv.FreeBufs()) {
		c.greedy = false
		c.srv.dirty.push(c)
	}
}

// parse hands frames to the protocol as long as there are any and nothing keeps
// the connection from being read.
func (c *Conn) parse() {
	s := c.srv
	for visit := s.opts.VisitFrames; c.readable(); visit-- {
		if c.unread.head == nil && !c.asm.whole() {
			break
		}
		if visit == 0 || s.budget == 0 {
			s.ready.push(c)
			return
		}
		s.budget--
		c.parseOne()
	}
	if c.eof && c.phase == phaseOpen && c.unread.head == nil && !c.asm.whole() {
		c.finish(ReasonPeer, lingerNot)
	}
}

// parseOne reads the next frame, or all there is of it.
func (c *Conn) parseOne() {
	if c.asm.started() {
		c.assemble()
		return
	}
	b := c.unread.head
	rest := b.data[b.pos:]
	prefix := c.door.opts.PrefixBytes
	if len(rest) < prefix {
		c.asm.begin(c.srv.loop.Now(), 0)
		c.assemble()
		return
	}
	n, ok := c.frameSize(rest[:prefix])
	switch {
	case !ok:
	case n > len(rest) || b.id == noBuf:
		c.asm.begin(c.srv.loop.Now(), n)
		c.assemble()
	default:
		c.inPlace(b, n)
	}
}

// frameSize asks the protocol for the length of the frame that begins with
// prefix. A wrong one ends the connection.
func (c *Conn) frameSize(prefix []byte) (int, bool) {
	n, err := c.door.proto.FrameSize(c, prefix)
	if err == nil && n > c.limit {
		err = ErrFrameTooLarge
	}
	if err != nil {
		c.srv.count.local[BadFrames]++
		c.door.proto.Broken(c, prefix, err)
		c.finish(ReasonProtocol, lingerBriefly)
		return 0, false
	}
	if n < len(prefix) {
		invariant.Violated("conn: a frame has at least the prefix that its protocol looks at")
	}
	return n, true
}

// inPlace hands over a frame that lies whole in b. When receive buffers are
// scarce a small one is copied out, so that it does not hold 64 KiB for its own
// few bytes.
func (c *Conn) inPlace(b *inbuf, n int) {
	bytes := b.data[b.pos : b.pos+n : b.pos+n]
	var sl *slab
	if n <= smallBytes && c.srv.scarce() {
		sl = c.srv.slabs.takeSize(0)
	}
	var f *Frame
	if sl != nil {
		c.srv.count.local[FramesCopied]++
		f = c.newFrame(sl.mem[:copy(sl.mem, bytes):n], b.came)
		f.slab = sl
	} else {
		f = c.newFrame(bytes, b.came)
		f.buf = b
		b.refs++
	}
	if c.hand(f) == Taken {
		b.pos += n
		if b.pos == len(b.data) {
			c.unread.pop()
		}
	}
	f.Release()
}

// hand gives a frame to the protocol.
func (c *Conn) hand(f *Frame) Verdict {
	v := c.door.proto.Frame(c, f)
	if v == Later {
		c.pause(pausedProtocol)
		return v
	}
	c.active = c.srv.loop.Now()
	c.srv.count.local[FramesIn]++
	return v
}

// armReceive starts or cancels the receive, as things stand.
func (c *Conn) armReceive() {
	wanted := !c.eof && (c.readable() && !c.greedy && c.unread.n <= maxUnread ||
		c.phase == phaseFinishing && c.linger == lingerBriefly)
	switch {
	case c.recv.InFlight():
		if !wanted && !c.canceling && c.phase != phaseFinishing {
			c.canceling = true
			c.srv.drv.Cancel(&c.recv)
		}
	case wanted && c.links[inStarved].in == nil:
		c.canceling = false
		c.recv.Kind, c.recv.Sock, c.recv.Owner = aio.KindRecv, c.sock, c
		c.srv.drv.Submit(&c.recv)
	}
}

// dropInput gives up what has arrived and will not be read.
func (c *Conn) dropInput() {
	for c.unread.head != nil {
		c.unread.pop()
	}
	if c.asm.slab != nil {
		c.srv.slabs.put(c.asm.slab)
	}
	c.asm = assembly{}
	c.leave(inNoFrame)
	c.leave(inReady)
	c.leave(inStarved)
	c.leave(inKeeping)
}
