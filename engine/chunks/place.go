package chunks

import (
	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine/segment"
)

// Place is a position in a segment and the offset there.
type Place struct {
	Seg    *Segment
	Offset int64
	Pos    int64
	Chunk  *Chunk // holds the byte at Pos or the one before it
}

// lastEnds is the number of readers of a partition, each at a place of its own,
// whose next read finds its place without a search.
const lastEnds = 4

// NoteEnd remembers where a read that began at offset from has ended: the next one begins
// there.
func (l *List) NoteEnd(from int64, at Place) {
	i := int(l.nextEnd)
	for k := range l.ends {
		if l.ends[k].Seg == at.Seg && l.ends[k].Offset == from {
			i = k
		}
	}
	if i == int(l.nextEnd) {
		l.nextEnd = (l.nextEnd + 1) % lastEnds
	}
	l.ends[i] = at
}

// lastEnd is the place where an earlier read of seg ended before offset, if it is
// still in memory. Chunks go to other partitions and come back, so that whatever is
// remembered of one is held against what it is now.
func (l *List) lastEnd(seg *Segment, offset int64) (Place, bool) {
	for k := range l.ends {
		at := &l.ends[k]
		if at.Seg != seg || at.Offset != offset {
			continue
		}
		c := at.Chunk
		if c.list != l || c.Seg != seg || at.Pos < c.Start() || at.Pos > c.End() {
			break
		}
		if at.Pos == c.End() && c.next != nil && c.next.Seg == seg && c.next.Start() == at.Pos {
			at.Chunk = c.next
		}
		return *at, true
	}
	return Place{}, false
}

// before reports whether offset is before all batches that begin in memory: who reads far behind
// need not walk through all of it to learn so.
func (l *List) before(offset int64) bool {
	for c := l.oldest; c != nil; c = c.next {
		if c.FirstPos != NoBatch {
			return offset < c.FirstOffset
		}
	}
	return true
}

// Find is the place of the batch of seg that contains offset, when that batch is in
// chunks. tail indexes what of the segment this process has appended.
func (l *List) Find(seg *Segment, tail *segment.Index, offset int64) (Place, bool) {
	if at, ok := l.lastEnd(seg, offset); ok {
		return at, true
	}
	if l.before(offset) {
		return Place{}, false
	}
	c := l.newest
	for c != nil && (c.Seg != seg || c.FirstPos == NoBatch || c.FirstOffset > offset) {
		c = c.prev
	}
	if c == nil {
		return Place{}, false
	}
	pos := c.FirstPos
	if e, ok := tail.Floor(offset); ok && e.Pos > pos {
		pos = e.Pos
	}
	var hdr [batch.HeaderSize]byte
	for c = c.holding(seg, pos); c != nil && pos < seg.Size; {
		h := c.HeaderAt(pos, hdr[:])
		if h.BaseOffset+int64(h.LastOffsetDelta) >= offset {
			break
		}
		pos += int64(h.Size())
		for c.next != nil && pos >= c.End() {
			c = c.next
		}
	}
	return Place{Seg: seg, Offset: offset, Pos: pos, Chunk: c}, c != nil
}
