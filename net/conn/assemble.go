package conn

import "github.com/mqd-broker/mqd/internal/invariant"

// assembly is a frame that is put together because it does not lie in one
// receive buffer: of bytes that straddle two, or of bytes that came from another
// shard.
type assembly struct {
	head  [MaxPrefix]byte // until there is a slab
	n     int             // bytes so far
	size  int             // of the whole frame; 0 until the prefix is complete
	slab  *slab
	since int64 // when it began; 0: there is none
	came  came  // its newest bytes
}

func (a *assembly) begin(now int64, size int) {
	a.n, a.size, a.since = 0, size, max(now, 1)
}

func (a *assembly) started() bool { return a.since != 0 }

// whole reports whether all bytes of the frame are there. It still may have to
// wait for memory, or for the protocol.
func (a *assembly) whole() bool { return a.size > 0 && a.n == a.size }

// bytes is what has been put together so far.
func (a *assembly) bytes() []byte {
	if a.slab == nil {
		return a.head[:a.n]
	}
	return a.slab.mem[:a.n]
}

// assemble brings the frame on by the bytes of the first unread buffer, and hands
// it over when it is whole.
func (c *Conn) assemble() {
	a := &c.asm
	if a.whole() {
		if a.slab != nil || c.growSlab(a.n) {
			c.handWhole()
		}
		return
	}
	b := c.unread.head
	if a.size == 0 {
		c.assemblePrefix(b)
		return
	}
	rest := b.data[b.pos:]
	rest = rest[:min(len(rest), a.size-a.n)]
	if (a.slab == nil || a.n+len(rest) > len(a.slab.mem)) && !c.growSlab(a.n+len(rest)) {
		return
	}
	c.assembled(b, copy(a.slab.mem[a.n:], rest))
	if a.n == a.size {
		c.handWhole()
	}
}

// assemblePrefix completes the prefix, which tells the size.
func (c *Conn) assemblePrefix(b *inbuf) {
	a := &c.asm
	prefix := c.door.opts.PrefixBytes
	c.assembled(b, copy(a.head[a.n:prefix], b.data[b.pos:]))
	if a.n < prefix {
		return
	}
	if n, ok := c.frameSize(a.head[:prefix]); ok {
		a.size = n
	}
}

// assembled takes n bytes off b.
func (c *Conn) assembled(b *inbuf, n int) {
	c.asm.n += n
	c.asm.came = b.came
	b.pos += n
	if b.pos == len(b.data) {
		c.unread.pop()
	}
}

// growSlab moves what is there into memory for n bytes; false when there is none
// at the moment and the connection waits.
func (c *Conn) growSlab(n int) bool {
	a, p := &c.asm, &c.srv.slabs
	s := p.take(n)
	if s == nil {
		c.srv.count.local[FrameWaits]++
		c.pause(pausedFrame)
		p.sizes[p.sizeFor(n)].waiting.push(c)
		return false
	}
	copy(s.mem, a.bytes())
	if a.slab != nil {
		p.put(a.slab)
	}
	a.slab = s
	return true
}

// handWhole hands the assembled frame over. A protocol that wants it later finds
// it assembled then.
func (c *Conn) handWhole() {
	a := &c.asm
	if !a.whole() {
		invariant.Violated("conn: a frame is handed over whole")
	}
	f := c.newFrame(a.slab.mem[:a.size:a.size], a.came)
	f.slab = a.slab
	if c.hand(f) == Later {
		f.slab = nil
	} else {
		c.srv.count.local[FramesAssembled]++
		*a = assembly{}
	}
	f.Release()
}
