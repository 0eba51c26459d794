package indexing

import (
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/fifo"
	"github.com/mqd-broker/mqd/engine/segment"
	"github.com/mqd-broker/mqd/engine/tally"
)

// memory bounds the indexes of sealed segments in memory, in bytes; but one.
const memory = 64 << 20

// Set does the work on the indexes of one shard, on whose loop everything is called. The
// index of a segment is loaded, written or built by one job at a time: these write the
// same file.
type Set struct {
	// Driver has the helpers.
	Driver aio.Driver

	stats  *tally.Stats
	failed func(id segment.ID, err error)
	seals  fifo.Queue[*sealing] // the first is at work
	cached fifo.Queue[Segment]  // sealed ones with their index in memory
	bytes  int64
}

// NewSet makes a set that counts in stats and tells failed of indexes that could not be
// written.
func NewSet(d aio.Driver, stats *tally.Stats, failed func(id segment.ID, err error)) *Set {
	return &Set{Driver: d, stats: stats, failed: failed}
}

// Sealing is the number of indexes that are being written or wait for it.
func (s *Set) Sealing() int { return s.seals.Len() }

// have enters the index of what was there before, and with it what is known to be
// damaged. Indexes of sealed segments go, the oldest first, when there are too many.
func (s *Set) have(seg Segment, found *segment.Report) {
	x, ix := seg.Index(), found.Index
	s.Drop(x)
	x.Older = ix
	if x.Damage == nil {
		x.Damage, x.unread = ix.Quarantine(), found.Unreadable > 0
	}
	if ix.Sealed() == nil {
		return
	}
	s.bytes += ix.MemBytes()
	s.cached.Push(seg)
	for s.bytes > memory && s.cached.Len() > 1 {
		old := s.cached.Take()
		x := old.Index()
		if x.Older == nil { // it came twice, and has gone
			continue
		}
		if old.Read() || x.loading != nil {
			s.cached.Push(old)
			return
		}
		s.Drop(x)
	}
}

// Drop takes the index of what was there before out of memory.
func (s *Set) Drop(x *State) {
	if x.complete() {
		s.bytes -= x.Older.MemBytes()
	}
	x.Older = nil
}
