package history

import "math"

// Scan is one complete reading of a partition, from its start to the end that the
// broker told when the reading began. It may go on while producers and consumers
// do.
type Scan struct {
	p      *Partition
	number uint32
	life   uint32
	least  int64 // known when the reading began
	end    int64
	next   int64
	start  int64 // what is below is not looked for
	gaps   int
	order  order
	// The life in which the newest acknowledged message before the reading's position
	// was sent, and whether a gap follows it.
	before uint32
	gap    span
}

// span is a stretch of offsets without content; empty if from is to.
type span struct{ from, to int64 }

// order is the next sequence that may come, by producer.
type order map[uint32]uint32

// follows reports whether m comes behind all messages of its producer so far.
func (o order) follows(m Message) bool {
	if m.Seq < o[m.Producer] {
		return false
	}
	o[m.Producer] = m.Seq + 1
	return true
}

// Scan begins a reading of [start, end), which the broker told when least was
// known; see [Partition.Bounds].
func (p *Partition) Scan(least, start, end int64) *Scan {
	p.Bounds(least, start, end)
	p.scans++
	return &Scan{p: p, number: p.scans, life: p.life(), least: least, end: end, next: start, start: start, order: order{}}
}

// Next is the offset that is to be read next.
func (s *Scan) Next() int64 { return s.next }

// Trimmed says that the log has got another start meanwhile, which was judged already; see
// [Partition.Started]. The reading goes on there.
func (s *Scan) Trimmed(start int64) {
	s.start, s.next = max(s.start, start), max(s.next, min(start, s.end))
	s.gap = span{}
}

// Skip says that the broker told: there is nothing from offset from up to to.
func (s *Scan) Skip(from, to int64) {
	if to > s.end {
		to = s.end
	}
	if from != s.next || to < from {
		s.p.violate(Reordered, "a gap of %d to %d where offset %d comes next", from, to, s.next)
		return
	}
	if from == to {
		return
	}
	s.gaps++
	s.next = to
	if !s.p.skipped(1, s.life) {
		s.p.violate(Gap, "offsets %d to %d are empty in a partition of class %v", from, to-1, s.p.weakest)
	}
	if s.gap.from == s.gap.to {
		s.gap.from = from
	}
	s.gap.to = to
}

// Record is a message read at an offset. Those at or behind the end are not part
// of the reading.
func (s *Scan) Record(offset int64, value []byte) {
	p := s.p
	if offset >= s.end {
		return
	}
	if offset < s.next {
		p.violate(Reordered, "offset %d read where %d comes next", offset, s.next)
		return
	}
	if offset > s.next {
		p.violate(Gap, "nothing was told of offsets %d to %d", s.next, offset-1)
	}
	s.next = offset + 1
	m, e := p.observe(offset, value)
	if e == nil {
		return
	}
	if !s.order.follows(m) {
		p.violate(Reordered, "offset %d has message %v behind sequence %d", offset, m, s.order[m.Producer]-1)
	}
	e.scan = s.number
	if e.flags&isAcked != 0 {
		s.closeGap(e.life)
		s.before = p.senders[m.Producer].lives[m.Seq] // it may have been there before it was known
	}
}

// closeGap judges a gap before a message of a life: a crash must lie between it
// and the message before the gap.
func (s *Scan) closeGap(life uint32) {
	if s.gap.from == s.gap.to {
		return
	}
	if !s.p.skipped(s.before, life) {
		s.p.violate(Gap, "offsets %d to %d are empty, and no crash lies between what is around them (lives %d and %d)",
			s.gap.from, s.gap.to-1, s.before, life)
	}
	s.gap = span{}
}

// Done ends the reading and judges what it has not found. It proves nothing, and
// does nothing, when the broker's life has ended meanwhile.
func (s *Scan) Done() { s.DoneAt(math.MaxInt64) }

// DoneAt is Done when now is the most that the broker's clock can show: it judges also
// whether compaction has removed something too early.
func (s *Scan) DoneAt(now int64) {
	p := s.p
	if p.life() != s.life {
		return
	}
	if s.next < s.end {
		p.violate(Gap, "nothing was told of offsets %d to %d", s.next, s.end-1)
	}
	s.closeGap(s.life)
	p.counts.Gaps = s.gaps
	s.compacted(now)
	taken := map[uint32]int64{} // the first message taken, by life
	p.log.below(max(s.end, s.least), func(offset int64, e *entry) {
		if offset < s.start {
			return
		}
		if e.scan == s.number {
			s.found(offset, e, taken)
		} else if e.flags&(isTaken|isCompacted) == 0 {
			s.missing(offset, e, taken)
		}
	})
}

func (s *Scan) found(offset int64, e *entry, taken map[uint32]int64) {
	p := s.p
	m := Message{p.stream, e.producer, e.seq}
	if e.flags&(isTaken|isCompacted) != 0 {
		p.violate(CameBack, "message %v at offset %d was gone and is back", m, offset)
		e.flags &^= isTaken | isCompacted
	}
	if first, ok := taken[e.life]; ok && e.flags&isAcked != 0 {
		p.violate(Lost, "offset %d of life %d is gone, and offset %d of the same life is not", first, e.life, offset)
	}
	if e.life < s.life {
		e.flags |= isKept
	}
}

func (s *Scan) missing(offset int64, e *entry, taken map[uint32]int64) {
	p := s.p
	m := Message{p.stream, e.producer, e.seq}
	e.flags |= isTaken
	what := "seen"
	if e.flags&isAcked != 0 {
		what = "acknowledged"
	}
	switch {
	case e.class == Flushed:
		p.violate(Lost, "message %v at offset %d, %s in life %d, is not there", m, offset, what, e.life)
	case e.flags&isKept != 0:
		p.violate(Lost, "message %v at offset %d, %s in life %d and kept by a recovery, is not there", m, offset, what, e.life)
	case !p.ends[e.life-1].takes(e.class):
		p.violate(Lost, "message %v of class %v at offset %d, %s in life %d that took nothing, is not there", m, e.class, offset, what, e.life)
	default:
		p.counts.Taken++
		if _, ok := taken[e.life]; !ok {
			taken[e.life] = offset
		}
	}
}

// Tail is a consumer that follows a partition across the broker's lives.
type Tail struct {
	p     *Partition
	next  int64
	order order
}

// Tail begins at an offset.
func (p *Partition) Tail(from int64) *Tail { return &Tail{p, from, order{}} }

// Next is the offset behind the newest one that the consumer got.
func (t *Tail) Next() int64 { return t.next }

// Trimmed says that the log has got another start, which was judged already, and that the
// consumer goes on there if it had not come so far.
func (t *Tail) Trimmed(start int64) { t.next = max(t.next, start) }

// Record is a message that the consumer got. What it got of a flushed or written
// partition has to stay, and nothing may be passed over.
func (t *Tail) Record(offset int64, value []byte) {
	p := t.p
	switch {
	case offset < t.next:
		p.violate(Reordered, "a consumer got offset %d where %d comes next", offset, t.next)
	case offset > t.next && !p.keys.may && !p.skipped(1, p.life()):
		p.violate(Lost, "a consumer got offset %d where %d comes next", offset, t.next)
	}
	t.next = max(t.next, offset+1)
	m, e := p.observe(offset, value)
	switch {
	case e == nil || t.order.follows(m):
	case p.moved[m]:
		t.order[m.Producer] = m.Seq + 1
	default:
		p.violate(Reordered, "a consumer got message %v at offset %d behind sequence %d", m, offset, t.order[m.Producer]-1)
	}
}
