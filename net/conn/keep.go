package conn

// noteKeeping notes whether the connection waits for something while receive
// buffers hold its unread bytes. A receive takes what has arrived, and that may be
// many buffers before its cancellation takes effect.
func (c *Conn) noteKeeping() {
	if c.phase == phaseOpen && c.pauses != 0 && c.unread.head != nil {
		c.srv.keeping.push(c)
	} else {
		c.leave(inKeeping)
	}
}

// reclaim takes receive buffers back from connections that wait, when they are
// scarce: others must go on, and a connection that waits for memory may wait for
// one that cannot receive. It moves unread bytes to the Go heap, as far as that is
// allowed. Beyond it connections end that wait, but only while there is no receive
// buffer at all.
func (s *Server) reclaim() {
	for n := s.keeping.n; n > 0 && s.scarce(); n-- {
		c := s.keeping.pop()
		if c.spillInput() {
			continue
		}
		if s.drv.FreeBufs() > 0 || s.starved.n == 0 {
			s.keeping.push(c)
			return
		}
		c.fail(ReasonOverload)
	}
}

// spillInput moves the unread bytes of the connection to the Go heap; false when
// there is no room for them.
func (c *Conn) spillInput() bool {
	s := c.srv
	n := 0
	for b := c.unread.head; b != nil; b = b.next {
		if b.movable() {
			n += len(b.data) - b.pos
		}
	}
	if n == 0 {
		return true
	}
	if s.lent.Unread+n > s.opts.SpillBytes {
		return false
	}
	s.count.local[Spills]++
	old := c.unread
	c.unread = unread{}
	for b := old.head; b != nil; {
		next := b.next
		if b.movable() {
			c.unread.push(c.newInbuf(noBuf, append([]byte(nil), b.data[b.pos:]...), b.came))
			b.unref()
		} else {
			c.unread.push(b)
		}
		b = next
	}
	return true
}

// movable reports whether b is a receive buffer in which no frame is lent.
func (b *inbuf) movable() bool { return b.id != noBuf && b.refs == 1 }
