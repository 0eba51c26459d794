package chunks

import (
	"github.com/mqd-broker/mqd/engine/slab"
	"github.com/mqd-broker/mqd/internal/invariant"
)

// Kept is how much of the memory, in bytes, only urgent appends may take.
const Kept = 2 * slab.UnitBytes

// List is the memory of one partition: its chunks in log order. The zero List is empty,
// and of the pool that [List.Use] names.
type List struct {
	pool           *Pool
	oldest, newest *Chunk
	filling        *Chunk    // the chunk that took the newest byte, if it is still there
	unsaved        *Chunk    // oldest chunk with bytes that are not in its file; nil: none
	pace           slab.Pace // at which chunks are filled

	ends    [lastEnds]Place // where the newest reads from memory ended
	nextEnd uint8           // the one to be forgotten next
}

// Use names the pool that chunks come from.
func (l *List) Use(p *Pool) { l.pool = p }

// Oldest is the first chunk, or nil.
func (l *List) Oldest() *Chunk { return l.oldest }

// Unsaved is the oldest chunk with bytes that are not in its file, or nil.
func (l *List) Unsaved() *Chunk { return l.unsaved }

// UnsavedHolding is the chunk that holds the byte of seg at pos, which is not in
// the file, or nil.
func (l *List) UnsavedHolding(seg *Segment, pos int64) *Chunk { return l.unsaved.holding(seg, pos) }

// Want is what room is made for.
type Want struct {
	Bytes  int        // of the batch
	Least  slab.Class // the smallest chunk for it: in smaller ones it would lie in too many pieces
	Urgent bool       // it may take the last
	Share  int64      // bytes that a chunk should not exceed for the sake of others
	Now    int64      // loop time, nanoseconds
}

// Room makes sure that the chunks can take a batch behind what seg, the newest segment,
// has. It reports false, with nothing changed, when there is no memory. last is the chunk
// behind which the new ones are, for DropAfter.
func (l *List) Room(seg *Segment, w *Want) (last *Chunk, ok bool) {
	last = l.newest
	have := 0
	if last != nil && last.Seg == seg {
		have = len(last.Mem) - last.To
	}
	return last, have >= w.Bytes || l.moreRoom(seg, w, have)
}

// moreRoom adds chunks to those that have room for have bytes.
func (l *List) moreRoom(seg *Segment, w *Want, have int) bool {
	last, kept := l.newest, int64(Kept)
	if w.Urgent {
		kept = 0
	}
	if last != nil {
		last.Pins++ // get evicts clean chunks, also of this list
	}
	for have < w.Bytes {
		pos, from := seg.Size, 0
		if l.newest != nil && l.newest.Seg == seg {
			pos = l.newest.Pos + int64(len(l.newest.Mem))
		} else {
			from = int(pos % slab.UnitBytes)
			pos -= int64(from)
		}
		c := l.pool.get(l.class(w, w.Bytes-have+from), w.Least, kept)
		if c == nil {
			break
		}
		c.list, c.Seg, c.Pos, c.From, c.To = l, seg, pos, from, from
		c.FirstPos = NoBatch
		l.link(c)
		have += len(c.Mem) - from
	}
	if last != nil {
		last.Pins--
	}
	if have < w.Bytes {
		l.DropAfter(last)
	}
	return have >= w.Bytes
}

// class is the size of the next chunk, for need bytes. It follows the pace of
// the partition, is at least what is needed now, and, down to the least, at most the
// partition's share: what dirty partitions hold may all be unwritten at the same time.
func (l *List) class(w *Want, need int) slab.Class {
	c := slab.Class(0)
	if l.newest != nil {
		c = l.pace.Next(w.Now)
	}
	for c < slab.Largest && c.Bytes() < need {
		c++
	}
	for c > w.Least && int64(c.Bytes()) > w.Share {
		c--
	}
	return max(c, w.Least)
}

func (l *List) link(c *Chunk) {
	c.prev = l.newest
	if l.newest != nil {
		l.newest.next = c
	} else {
		l.oldest = c
	}
	l.newest = c
}

// DropAfter gives back the chunks that follow last; they are empty.
func (l *List) DropAfter(last *Chunk) {
	c := l.oldest
	if last != nil {
		c = last.next
		last.next = nil
	} else {
		l.oldest = nil
	}
	l.newest = last
	for c != nil {
		next := c.next
		if c.To != c.From {
			invariant.Violated("chunks: only empty chunks are taken back")
		}
		l.pool.put(c)
		c = next
	}
}

// DropOldest evicts the oldest chunk.
func (l *List) DropOldest() {
	c := l.oldest
	l.pool.markDirty(c) // out of the clean list
	if l.filling == c {
		l.filling = nil
	}
	if l.unsaved == c {
		l.unsaved = c.next
	}
	l.oldest = c.next
	if l.oldest == nil {
		l.newest = nil
	} else {
		l.oldest.prev = nil
	}
	c.next = nil
	l.pool.put(c)
}

// CopyIn appends the batch b, whose offset is given, at the end of seg, the newest
// segment, and returns the position at which it begins. Room has been made.
func (l *List) CopyIn(seg *Segment, b []byte, offset, now int64) int64 {
	at := seg.Size
	end := at + int64(len(b))
	c := l.fillable(l.filling, seg)
	if c.End() != at {
		invariant.Violated("chunks: chunks of a partition are contiguous")
	}
	if c.FirstPos == NoBatch {
		c.FirstPos, c.FirstOffset = at, offset
	}
	for len(b) > 0 {
		c = l.fillable(c, seg)
		l.pool.markDirty(c)
		if c.From == c.To {
			l.pace.Begun(c.prev == nil, now)
		}
		if l.unsaved == nil {
			l.unsaved = c
		}
		n := copy(c.Mem[c.To:], b)
		c.To += n
		c.spill = end
		b = b[n:]
	}
	l.filling = c
	seg.Size = end
	return at
}

// fillable is the first chunk from c on that can take bytes of seg; a nil c stands for
// the oldest.
func (l *List) fillable(c *Chunk, seg *Segment) *Chunk {
	if c == nil {
		c = l.oldest
	}
	for c != nil && (c.Seg != seg || c.To == len(c.Mem)) {
		c = c.next
	}
	if c == nil {
		invariant.Violated("chunks: room is made before a batch is copied in")
	}
	return c
}

// Saved marks the chunks whose bytes are all in files.
func (l *List) Saved() {
	c := l.unsaved
	for c != nil && c.From != c.To && c.End() <= c.Seg.InFile {
		l.pool.markClean(c)
		c = c.next
	}
	if c != nil && c.From == c.To { // room for what comes next
		c = nil
	}
	l.unsaved = c
}

// Pinned reports whether the first chunks of the list, as far as they are of seg, or all
// of them where that is nil, are being read.
func (l *List) Pinned(seg *Segment) bool {
	for c := l.oldest; c != nil && (seg == nil || c.Seg == seg); c = c.next {
		if c.Pins > 0 {
			return true
		}
	}
	return false
}

// DropThrough evicts all that is in memory of seg, which is in its file, and what is before
// that. It reports false, with nothing changed, when some of it is being read.
func (l *List) DropThrough(seg *Segment) bool {
	n, last := 0, 0
	for c := l.oldest; c != nil; c = c.next {
		n++
		if c.Seg == seg {
			last = n
		}
	}
	for c, i := l.oldest, 0; i < last; c, i = c.next, i+1 {
		if c.Pins > 0 {
			return false
		}
	}
	for range last {
		l.DropOldest()
	}
	return true
}

// FirstBehind is the offset of the first batch in memory that begins in a chunk of seg
// behind offset.
func (l *List) FirstBehind(seg *Segment, offset int64) (first int64, ok bool) {
	for c := l.oldest; c != nil; c = c.next {
		if c.Seg == seg && c.FirstPos != NoBatch && c.FirstOffset > offset {
			return c.FirstOffset, true
		}
	}
	return 0, false
}
