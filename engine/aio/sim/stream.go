package sim

// stream is one direction of a connection: a bounded ring of the bytes that
// have been sent and not been received. Positions count from the start of the
// connection.
type stream struct {
	mem   *Memory
	ring  []byte // length a power of two, grown up to limit
	limit int
	start uint64 // next byte to receive
	here  uint64 // end of what has arrived
	end   uint64 // end of what has been sent
	fin   bool   // the sender has ended, and that has arrived
	last  int64  // time of the newest arrival on the way
}

// space is the number of bytes that the stream can take.
func (s *stream) space() int { return s.limit - int(s.end-s.start) }

// available is the number of bytes that can be received.
func (s *stream) available() int { return int(s.here - s.start) }

// put takes as much of b as there is space for.
func (s *stream) put(b []byte) int {
	b = b[:min(len(b), s.space())]
	for need := int(s.end-s.start) + len(b); len(s.ring) < need; {
		s.grow()
	}
	s.move(s.end, b, func(ring, b []byte) { copy(ring, b) })
	s.end += uint64(len(b))
	return len(b)
}

// take receives len(b) bytes, which must be available.
func (s *stream) take(b []byte) {
	s.move(s.start, b, func(ring, b []byte) { copy(b, ring) })
	s.start += uint64(len(b))
}

// move pairs b with its place in the ring, in at most two pieces.
func (s *stream) move(pos uint64, b []byte, do func(ring, b []byte)) {
	for len(b) > 0 {
		at := int(pos & uint64(len(s.ring)-1))
		n := min(len(b), len(s.ring)-at)
		do(s.ring[at:at+n], b[:n])
		b, pos = b[n:], pos+uint64(n)
	}
}

// grow makes the ring twice as long.
func (s *stream) grow() {
	old := *s
	s.ring = s.mem.ring(max(4096, 2*len(old.ring)))
	for pos := old.start; pos < old.end; {
		part := old.ring[pos&uint64(len(old.ring)-1):]
		part = part[:min(uint64(len(part)), old.end-pos)]
		s.move(pos, part, func(ring, b []byte) { copy(ring, b) })
		pos += uint64(len(part))
	}
	s.mem.rings = append(s.mem.rings, old.ring)
}

// free gives the ring's memory back.
func (s *stream) free() {
	s.mem.rings = append(s.mem.rings, s.ring)
	s.ring = nil
}
