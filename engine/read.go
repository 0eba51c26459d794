package engine

import (
	"fmt"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine/chunks"
	"github.com/mqd-broker/mqd/engine/order"
	"github.com/mqd-broker/mqd/engine/shard"
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
	Measure    bool  // Left is wanted
	Owner      ReadOwner

	// Result: whole batches, the first of which contains Offset or is the next
	// one after it, in pieces of memory that stay until Release.
	Pieces [MaxPieces][]byte
	N      int   // number of pieces
	Bytes  int   // their total
	Next   int64 // where to go on
	Left   int64 // bytes of the log from the first of the pieces to the end of what can be read; -1 without pieces, or if not wanted
	Err    error

	start   int64 // Offset, or what follows a gap
	past    int64 // nothing that could be read is below it
	pins    [MaxPieces]*chunks.Chunk
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
	r.N, r.Bytes, r.Err, r.Next, r.Left, r.past = 0, 0, nil, r.Offset, -1, 0
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
	if seg.gated {
		s.gate(r)
		return
	}
	if at, ok := p.mem.Find(&seg.Segment, seg.index.Tail, r.start); ok {
		s.gatherRead(r, seg, at)
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
	at, ok := p.mem.Find(&seg.Segment, seg.index.Tail, r.start)
	return ok && p.visPos-at.Pos < int64(r.MinBytes)
}

// gatherRead answers r from chunks, beginning at a place in seg.
func (s *Store) gatherRead(r *Read, seg *segfile, at chunks.Place) {
	p, pos := r.Part, at.Pos
	limit := seg.Size
	if seg == p.visSeg {
		limit = p.visPos
	}
	c := at.Chunk
	end, records := pos, 0
	last, pieces := c, 1 // the chunk of the byte before end, and its number from c
	var hdr [batch.HeaderSize]byte
	for walk := c; end < limit; {
		for end >= walk.End() {
			walk = walk.Next()
		}
		h := walk.HeaderAt(end, hdr[:])
		size := h.Size()
		if end == pos && s.lost(r, h.BaseOffset) {
			s.finishRead(r, r.Err)
			return
		}
		if end > pos && (int(end-pos)+size > r.MaxBytes || over(records, int(h.Count), r.MaxRecords)) {
			break
		}
		for last.End() < end+int64(size) {
			last = last.Next()
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
	r.measure(seg, pos)
	for ; pos < end; c = c.Next() {
		piece := c.Mem[pos-c.Pos : min(int64(c.To), end-c.Pos)]
		r.Pieces[r.N], r.pins[r.N] = piece, c
		c.Pins++
		r.N++
		r.Bytes += len(piece)
		pos += int64(len(piece))
		at.Chunk = c
	}
	p.mem.NoteEnd(r.start, chunks.Place{Seg: at.Seg, Offset: r.Next, Pos: end, Chunk: at.Chunk})
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
			c.Pins--
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
