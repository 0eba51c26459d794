package engine

import (
	"fmt"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine/order"
	"github.com/mqd-broker/mqd/engine/shard"
	"github.com/mqd-broker/mqd/internal/invariant"
)

// MaxPieces is the largest number of pieces of memory in one answer.
const MaxPieces = 60

// Read is one fetch from one partition, a long poll. The caller owns it; results
// are valid from the moment that its owner hears of it until Release.
type Read struct {
	// Request.
	Part       *Partition
	Offset     int64 // first offset wanted
	MaxBytes   int   // no more than this, but at least one batch
	MinBytes   int   // wait until there is this much
	MaxRecords int   // no more than this, but at least one batch; 0: no limit
	Until      int64 // loop time until which to wait, nanoseconds; 0: answer at once
	Owner      ReadOwner

	// Result: whole batches, the first of which contains Offset or is the next
	// one after it, in pieces of memory that stay until Release.
	Pieces [MaxPieces][]byte
	N      int   // number of pieces
	Bytes  int   // their total
	Next   int64 // where to go on
	Err    error

	start   int64 // Offset, or what follows a gap
	past    int64 // nothing that could be read is below it
	pins    [MaxPieces]*chunk
	cold    *coldRead
	waiting bool
	place   order.Node[*Read] // among the partition's waiters
	timer   shard.Timer
}

// ReadOwner is told when a read is done, on the loop.
type ReadOwner interface {
	ReadDone(r *Read)
}

// Read starts r. The owner is told inside this call when the answer is in memory.
func (s *Store) Read(r *Read) {
	r.N, r.Bytes, r.Err, r.Next, r.past = 0, 0, nil, r.Offset, 0
	s.tryRead(r)
}

// tryRead answers r if it can, else lets it wait.
func (s *Store) tryRead(r *Read) {
	p := r.Part
	switch {
	case p.dropped:
		s.finishRead(r, ErrDropped)
		return
	case r.Offset < p.LogStart() || r.Offset > p.next:
		s.finishRead(r, ErrOutOfRange)
		return
	}
	r.start = p.epochs.SkipGap(max(r.Offset, r.past))
	if r.start >= p.visible || s.tooLittle(r) {
		s.waitRead(r)
		return
	}
	seg := p.segmentOf(r.start)
	if seg == nil { // the oldest segments are gone
		s.beyond(r, &segfile{next: p.first})
		return
	}
	if at, ok := p.findInMemory(seg, r.start); ok {
		s.gatherRead(r, at)
		return
	}
	s.readCold(r, seg)
}

// tooLittle reports whether a read may still wait for MinBytes.
func (s *Store) tooLittle(r *Read) bool {
	if r.MinBytes <= 1 || r.Until <= s.loop.Now() {
		return false
	}
	p := r.Part
	seg := p.segmentOf(r.start)
	if seg != p.visSeg {
		return false
	}
	at, ok := p.findInMemory(seg, r.start)
	return ok && p.visPos-at.pos < int64(r.MinBytes)
}

// place is a position in a partition and the offset there.
type place struct {
	seg    *segfile
	offset int64
	pos    int64
	chunk  *chunk // holds the byte at pos or the one before it
}

// lastEnds is the number of readers of a partition, each at a place of its own,
// whose next read finds its place without a search.
const lastEnds = 4

// noteEnd remembers where a read from memory has ended: the next one begins there.
func (p *Partition) noteEnd(from int64, at place) {
	i := int(p.nextEnd)
	for k := range p.ends {
		if p.ends[k].seg == at.seg && p.ends[k].offset == from {
			i = k
		}
	}
	if i == int(p.nextEnd) {
		p.nextEnd = (p.nextEnd + 1) % lastEnds
	}
	p.ends[i] = at
}

// lastEnd is the place where an earlier read of seg ended before offset, if it is
// still in memory. Chunks go to other partitions and come back, so that whatever is
// remembered of one is held against what it is now.
func (p *Partition) lastEnd(seg *segfile, offset int64) (place, bool) {
	for k := range p.ends {
		at := &p.ends[k]
		if at.seg != seg || at.offset != offset {
			continue
		}
		c := at.chunk
		if c.part != p || c.seg != seg || at.pos < c.start() || at.pos > c.end() {
			break
		}
		if at.pos == c.end() && c.next != nil && c.next.seg == seg && c.next.start() == at.pos {
			at.chunk = c.next
		}
		return *at, true
	}
	return place{}, false
}

// findInMemory is the place of the batch that contains offset, when that batch is
// in chunks.
func (p *Partition) findInMemory(seg *segfile, offset int64) (place, bool) {
	if at, ok := p.lastEnd(seg, offset); ok {
		return at, true
	}
	c := p.newest
	for c != nil && (c.seg != seg || c.firstPos == noBatch || c.firstOffset > offset) {
		c = c.prev
	}
	if c == nil {
		return place{}, false
	}
	pos := c.firstPos
	if e, ok := seg.index.Tail.Floor(offset); ok && e.Pos > pos {
		pos = e.Pos
	}
	var hdr [batch.HeaderSize]byte
	for c = c.holding(seg, pos); c != nil && pos < seg.size; {
		h := p.headerAt(&c, pos, hdr[:])
		if h.BaseOffset+int64(h.LastOffsetDelta) >= offset {
			break
		}
		pos += int64(h.Size())
		for c.next != nil && pos >= c.end() {
			c = c.next
		}
	}
	return place{seg: seg, offset: offset, pos: pos, chunk: c}, c != nil
}

// headerAt reads the header of the batch at pos, which begins in *c. A header may
// lie in two chunks.
func (p *Partition) headerAt(c **chunk, pos int64, scratch []byte) batch.Header {
	at := int(pos - (*c).pos)
	b := (*c).mem[at:(*c).to]
	if len(b) < batch.HeaderSize {
		n := copy(scratch, b)
		copy(scratch[n:], (*c).next.mem[:(*c).next.to])
		b = scratch
	}
	h, err := batch.ParseHeader(b[:batch.HeaderSize])
	if err != nil {
		invariant.Violated("engine: memory holds whole batches in log order")
	}
	return h
}

// gatherRead answers r from chunks, beginning at a place in its segment.
func (s *Store) gatherRead(r *Read, at place) {
	p, seg, pos := r.Part, at.seg, at.pos
	limit := seg.size
	if seg == p.visSeg {
		limit = p.visPos
	}
	c := at.chunk
	end, records := pos, 0
	last, pieces := c, 1 // the chunk of the byte before end, and its number from c
	var hdr [batch.HeaderSize]byte
	for walk := c; end < limit; {
		for end >= walk.end() {
			walk = walk.next
		}
		h := p.headerAt(&walk, end, hdr[:])
		size := h.Size()
		if end == pos && s.lost(r, h.BaseOffset) {
			s.finishRead(r, r.Err)
			return
		}
		if end > pos && (int(end-pos)+size > r.MaxBytes || over(records, int(h.Count), r.MaxRecords)) {
			break
		}
		for last.end() < end+int64(size) {
			last = last.next
			pieces++
		}
		if pieces > MaxPieces {
			break
		}
		end += int64(size)
		records += int(h.Count)
		r.Next = h.BaseOffset + int64(h.LastOffsetDelta) + 1
	}
	switch {
	case end > pos:
	case pos < limit: // a batch in more pieces than an answer has
		s.readCold(r, seg)
		return
	default:
		s.beyond(r, seg)
		return
	}
	for ; pos < end; c = c.next {
		piece := c.mem[pos-c.pos : min(int64(c.to), end-c.pos)]
		r.Pieces[r.N], r.pins[r.N] = piece, c
		c.pins++
		r.N++
		r.Bytes += len(piece)
		pos += int64(len(piece))
		at.chunk = c
	}
	p.noteEnd(r.start, place{seg: seg, offset: r.Next, pos: end, chunk: at.chunk})
	s.pinned += r.N
	s.finishRead(r, nil)
}

// lost reports whether the batch at r.start is missing although no gap is recorded
// there: the first one found begins at base. The read's error then says so, and
// its Next where it can go on.
func (s *Store) lost(r *Read, base int64) bool {
	if base <= r.start || r.Part.epochs.AllowsGap(r.start, base) {
		return false
	}
	s.stats.CorruptReads++
	r.Next = base
	r.Err = &CorruptError{
		Path: r.Part.dir, Offset: r.start,
		Expected: fmt.Sprintf("a batch with offset %d", r.start), Found: fmt.Sprintf("one that begins at %d", base),
	}
	return true
}

// over reports whether n more records exceed a limit that is set.
func over(have, n, limit int) bool { return limit > 0 && have+n > limit }

// waitRead parks r until new batches come or its time is over.
func (s *Store) waitRead(r *Read) {
	if r.Until <= s.loop.Now() {
		r.Next = r.start
		s.finishRead(r, nil)
		return
	}
	if r.waiting {
		return
	}
	r.waiting = true
	r.place.Owner = r
	r.Part.waiters.Add(&r.place, 0)
	r.timer.Owner = r
	s.loop.Arm(&r.timer, r.Until)
	s.waitingReads++
}

// Fire ends the wait of a long poll: it is answered with what there is.
func (r *Read) Fire(_ *shard.Timer, _ int64) { r.Part.store.tryRead(r) }

func (s *Store) unpark(r *Read) {
	if !r.waiting {
		return
	}
	r.waiting = false
	if r.Part.nextWaiter == &r.place {
		r.Part.nextWaiter = r.place.Next()
	}
	r.Part.waiters.Remove(&r.place)
	s.loop.Disarm(&r.timer)
	s.waitingReads--
}

// wakeAll answers the reads that waited for partitions whose visible end has moved
// since the last call: once for a whole round, so that they get all of it.
func (s *Store) wakeAll() {
	for s.woken != nil {
		p := s.woken
		s.woken, p.nextWoken, p.isWoken = p.nextWoken, nil, false
		s.wake(p)
	}
}

// wake answers the reads that waited for p's visible end to move. Those that
// still have to wait stay where they are. Whoever hears of one may cancel others.
func (s *Store) wake(p *Partition) {
	p.nextWaiter = p.waiters.First()
	for p.nextWaiter != nil {
		r := p.nextWaiter.Owner
		p.nextWaiter = r.place.Next()
		if p.epochs.SkipGap(r.Offset) < p.visible {
			s.tryRead(r)
		}
	}
}

// CancelRead ends a read that waits, without an answer: its connection is gone.
// It reports false when r is not waiting: then the owner is told or has been.
func (s *Store) CancelRead(r *Read) bool {
	if !r.waiting {
		return false
	}
	s.unpark(r)
	return true
}

func (s *Store) finishRead(r *Read, err error) {
	s.unpark(r)
	r.Err = err
	r.Owner.ReadDone(r)
}

// Release gives back the memory of a read's pieces, after they have been sent.
func (s *Store) Release(r *Read) {
	for i := 0; i < r.N; i++ {
		if c := r.pins[i]; c != nil {
			c.pins--
			s.pinned--
			r.pins[i] = nil
		}
		r.Pieces[i] = nil
	}
	if r.cold != nil {
		s.releaseCold(r.cold)
		r.cold = nil
	}
	r.N, r.Bytes = 0, 0
}
