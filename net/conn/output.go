package conn

import (
	"fmt"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/internal/invariant"
)

// sendBytes is the size of a piece of send memory.
const sendBytes = 4 << 10

// MaxReply is the most that [Conn.Reply] can give, in bytes.
const MaxReply = sendBytes

// sendBuf is a piece of registered memory that small answers are written into.
type sendBuf struct {
	mem  []byte
	used int
	refs int // parts of outputs that lie in it
	next *sendBuf
}

// sendBufs is a server's send memory.
type sendBufs struct {
	free  *sendBuf
	nfree int
	total int
}

func (p *sendBufs) init(d aio.Driver, n int) error {
	mem, err := d.Alloc(n * sendBytes)
	if err != nil {
		return fmt.Errorf("conn: send memory of %d times %d bytes: %w", n, sendBytes, err)
	}
	for at := 0; at < len(mem); at += sendBytes {
		p.free = &sendBuf{mem: mem[at : at+sendBytes : at+sendBytes], next: p.free}
	}
	p.nfree, p.total = n, n
	return nil
}

// plenty reports whether a connection may have more than one piece.
func (p *sendBufs) plenty() bool { return p.nfree > p.total/2 }

func (p *sendBufs) take() *sendBuf {
	b := p.free
	if b != nil {
		p.free, b.next = b.next, nil
		p.nfree--
	}
	return b
}

func (p *sendBufs) put(b *sendBuf) {
	b.used = 0
	b.next, p.free = p.free, b
	p.nfree++
}

// kind says whose memory a part is.
type kind uint8

const (
	// written: send memory.
	written kind = iota
	// lent: somebody else's.
	lent
	// spill: Go memory, to be copied to send memory before it is sent.
	spill
)

// part is a piece of a connection's output.
type part struct {
	kind kind
	mem  []byte
	buf  *sendBuf // written: where mem lies
	done Sent     // lent: told when mem has been sent; on the last piece
}

// output is what a connection has answered and not sent: parts in the order of
// the stream, the first of which may be in flight.
type output struct {
	ring    []part // length a power of two
	head, n int
	flying  int      // parts in flight
	cur     *sendBuf // where small answers go
	bufs    int      // pieces of send memory held
	spills  int      // parts that are spills
	sending *sending // the send in flight
	bytes   int      // queued and in flight
}

// keepParts is for how many parts a connection keeps room that has nothing to send.
const keepParts = 128

// trim gives room back that only a large answer needs. Nothing may be queued.
func (o *output) trim() {
	if len(o.ring) > keepParts {
		o.ring, o.head = nil, 0
	}
}

func (o *output) empty() bool { return o.n == 0 }

func (o *output) at(i int) *part { return &o.ring[(o.head+i)&(len(o.ring)-1)] }

// last is the newest part that is not in flight, or nil.
func (o *output) last() *part {
	if o.n == o.flying {
		return nil
	}
	return o.at(o.n - 1)
}

func (o *output) push(p part) {
	if o.n == len(o.ring) {
		bigger := make([]part, max(8, 2*len(o.ring)))
		for i := range o.n {
			bigger[i] = *o.at(i)
		}
		o.ring, o.head = bigger, 0
	}
	o.n++
	*o.at(o.n - 1) = p
}

// pop takes the first part.
func (o *output) pop() part {
	first := o.at(0)
	p := *first
	*first = part{}
	o.head = (o.head + 1) & (len(o.ring) - 1)
	o.n--
	return p
}

// Reply returns n bytes, 1 to [MaxReply], that are sent behind everything
// answered before, in one send with all that is answered in this turn. The caller
// fills them before it calls another method of the connection.
func (c *Conn) Reply(n int) []byte {
	if n < 1 || n > MaxReply {
		invariant.Violated("conn: a reply has 1 to MaxReply bytes")
	}
	if c.phase == phaseOver {
		return c.srv.waste[:n:n]
	}
	c.queued(n)
	o := &c.out
	if o.spills > 0 {
		return c.spill(n)
	}
	last := o.last()
	if o.cur == nil || o.cur.used+n > len(o.cur.mem) {
		c.leaveBuf()
		o.cur = c.takeBuf()
	}
	b := o.cur
	if b == nil {
		return c.spill(n)
	}
	b.used += n
	if last != nil && last.buf == b {
		last.mem = last.mem[:len(last.mem)+n]
	} else {
		o.push(part{kind: written, mem: b.mem[b.used-n : b.used], buf: b})
		b.refs++
	}
	return b.mem[b.used-n : b.used : b.used]
}

// spill makes room for n bytes on the Go heap, behind everything answered before.
// Once there is a spill everything written later is spilled too, so that what a
// connection holds of send memory never waits for what it does not get.
func (c *Conn) spill(n int) []byte {
	c.leaveBuf()
	c.pause(pausedOutput)
	p := c.out.last()
	if p == nil || p.kind != spill {
		c.out.push(part{kind: spill})
		c.out.spills++
		p = c.out.last()
	}
	c.srv.lent.Spilled += n
	at := len(p.mem)
	p.mem = append(p.mem, make([]byte, n)...)
	return p.mem[at : at+n : at+n]
}

// Write sends a copy of b behind everything answered before. Unlike Reply it
// takes any length, and may allocate for what does not fit into send memory.
func (c *Conn) Write(b []byte) {
	for len(b) > 0 && c.phase != phaseOver && (len(b) <= MaxReply || c.out.spills == 0 && c.srv.sends.plenty()) {
		n := copy(c.Reply(min(len(b), MaxReply)), b)
		b = b[n:]
	}
	if len(b) > 0 && c.phase != phaseOver {
		c.queued(len(b))
		copy(c.spill(len(b)), b)
	}
}

// Lend sends pieces of registered memory behind everything answered before. They
// stay untouched until done is told, once, which may be before Lend returns.
// Without pieces done is told when all that was answered before has been sent.
func (c *Conn) Lend(pieces [][]byte, done Sent) {
	if c.phase == phaseOver {
		done.Sent(c)
		return
	}
	for _, mem := range pieces {
		c.queued(len(mem))
		c.out.push(part{kind: lent, mem: mem})
	}
	if len(pieces) == 0 {
		c.queued(0)
		c.out.push(part{kind: lent})
	}
	c.out.last().done = done
	c.srv.lent.Pieces += max(1, len(pieces))
}

// Unsent is the number of bytes answered and not yet sent.
func (c *Conn) Unsent() int { return c.out.bytes }

// queued counts n bytes that are answered, and stops reading a connection whose
// peer does not take them.
func (c *Conn) queued(n int) {
	c.out.bytes += n
	if c.out.bytes > c.door.opts.MaxOutput && c.pauses&pausedOutput == 0 {
		c.pause(pausedOutput)
	}
	c.srv.dirty.push(c)
}

// takeBuf takes a piece of send memory, nil when there is none for c. Half of it is
// for connections that have none yet, so that peers who do not read do not keep
// others from being answered.
func (c *Conn) takeBuf() *sendBuf {
	p := &c.srv.sends
	if c.out.bufs > 0 && !p.plenty() {
		return nil
	}
	b := p.take()
	if b != nil {
		c.out.bufs++
	}
	return b
}

func (c *Conn) putBuf(b *sendBuf) {
	c.out.bufs--
	c.srv.sends.put(b)
}

// leaveBuf stops writing into the current piece of send memory.
func (c *Conn) leaveBuf() {
	if b := c.out.cur; b != nil && b.refs == 0 {
		c.putBuf(b)
	}
	c.out.cur = nil
}
