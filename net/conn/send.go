package conn

import (
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/stage"
)

// maxExtra is the number of pieces of send memory that one send uses for spilled
// bytes.
const maxExtra = 16

// sending is a send in flight. Only connections that send have one.
type sending struct {
	op    aio.Op
	vec   [aio.MaxVec][]byte
	extra [maxExtra]*sendBuf // hold spilled bytes, at the end of vec
	n     int                // of them
	lent  bool               // some of vec is somebody else's
	since int64
	next  *sending
}

// flush starts a send of what waits, if none is in flight.
func (c *Conn) flush() {
	o := &c.out
	if o.sending != nil || o.n == 0 {
		return
	}
	s := c.srv
	v := s.newSending()
	n := 0
	for n < aio.MaxVec && o.flying < o.n {
		p := o.at(o.flying)
		if p.kind == spill {
			n = c.gatherSpill(v, n)
			break
		}
		if len(p.mem) > 0 {
			v.vec[n] = p.mem
			n++
			v.lent = v.lent || p.kind == lent
		}
		o.flying++
	}
	if n == 0 {
		c.freeSending(v)
		c.landed()
		return
	}
	v.since = s.loop.Now()
	v.op.Kind, v.op.Sock, v.op.Vec, v.op.Owner = aio.KindSend, c.sock, v.vec[:n], c
	o.sending = v
	s.lent.Sends++
	s.count.local[Sends]++
	s.drv.Submit(&v.op)
}

// gatherSpill copies spilled bytes of the first part that is not in flight into
// send memory and adds them to the send that has n pieces. What is copied leaves
// the part. With no memory left the connection waits for some.
func (c *Conn) gatherSpill(v *sending, n int) int {
	o, s := &c.out, c.srv
	p := o.at(o.flying)
	for n < aio.MaxVec && v.n < maxExtra && len(p.mem) > 0 {
		b := c.takeBuf()
		if b == nil {
			s.noSend.push(c)
			break
		}
		k := copy(b.mem, p.mem)
		p.mem = p.mem[k:]
		s.lent.Spilled -= k
		v.extra[v.n], v.vec[n] = b, b.mem[:k]
		v.n++
		n++
	}
	if len(p.mem) == 0 {
		o.flying++
		o.spills--
	}
	return n
}

// sent is the completion of a send: its memory is free again.
func (c *Conn) sent(op *aio.Op) {
	s, o := c.srv, &c.out
	v := o.sending
	err, bytes := op.Err, 0
	for _, p := range v.vec[:len(op.Vec)] {
		bytes += len(p)
	}
	o.sending = nil
	s.lent.Sends--
	s.timeSend(v)
	c.freeSending(v)
	o.bytes -= bytes
	c.landed()
	s.dirty.push(c)
	if err != nil {
		c.fail(ReasonPeer)
		return
	}
	s.count.local[BytesOut] += uint64(bytes)
	c.active = s.loop.Now()
	if o.n == 0 {
		c.leaveBuf()
	}
	if c.pauses&pausedOutput != 0 && o.bytes <= c.door.opts.MaxOutput/2 {
		c.resume(pausedOutput)
	}
}

// timeSend counts the time of a send that has completed. One that carries what the
// engine has lent answers fetches.
func (s *Server) timeSend(v *sending) {
	part := stage.AckSend
	if v.lent {
		part = stage.FetchSend
	}
	s.opts.Stages.Add(part, s.loop.Now()-v.since)
}

// landed takes the parts out that were in flight.
func (c *Conn) landed() {
	for o := &c.out; o.flying > 0; {
		o.flying--
		c.donePart(o.pop())
	}
}

// donePart gives the memory of a part back that has been sent or is not wanted.
func (c *Conn) donePart(p part) {
	switch p.kind {
	case written:
		c.unrefBuf(p.buf)
	case spill:
		if len(p.mem) > 0 { // else all of it has left
			c.out.spills--
			c.srv.lent.Spilled -= len(p.mem)
		}
	case lent:
		c.srv.lent.Pieces--
		if p.done != nil {
			p.done.Sent(c)
		}
	}
}

func (c *Conn) unrefBuf(b *sendBuf) {
	b.refs--
	if b.refs > 0 {
		return
	}
	b.used = 0
	if b != c.out.cur {
		c.putBuf(b)
	}
}

// dropOutput gives up everything that is not in flight.
func (c *Conn) dropOutput() {
	o := &c.out
	for i := o.flying; i < o.n; i++ {
		p := *o.at(i)
		*o.at(i) = part{}
		o.bytes -= len(p.mem)
		c.donePart(p)
	}
	o.n = o.flying
	c.leaveBuf()
}

// newSending takes a send from the pool.
func (s *Server) newSending() *sending {
	v := s.sendings
	if v == nil {
		return new(sending)
	}
	s.sendings, v.next = v.next, nil
	return v
}

// freeSending gives a send back, and the memory of spilled bytes that it carried.
func (c *Conn) freeSending(v *sending) {
	for i := range v.n {
		c.putBuf(v.extra[i])
		v.extra[i] = nil
	}
	v.lent = false
	for i := range v.op.Vec {
		v.vec[i] = nil
	}
	v.n, v.op.Vec = 0, nil
	v.next, c.srv.sendings = c.srv.sendings, v
}
