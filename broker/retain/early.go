package retain

import (
	"time"

	"github.com/mqd-broker/mqd/engine"
	"github.com/mqd-broker/mqd/engine/retention"
)

const (
	// earlyPause is the time between two passes on a full disk.
	earlyPause = 100 * time.Millisecond
	// earlyBytes go in an earlyWindow at most, and one segment more: it takes a moment
	// until the space is there, and the ballast, which is no larger, is tried once a
	// second.
	earlyBytes  = 64 << 20
	earlyWindow = time.Second
)

// early is retention before its time: while the disk is full, where an operator wants that,
// each pass takes the oldest of the full segments that it meets, one at a time. Only topics
// that have a limit are asked: from others nothing goes without an order.
type early struct {
	allowed bool
	// now: the pass under way is one on a full disk.
	now bool
	// found is the oldest so far.
	found candidate
	// waiting: a log start has been asked for and is not in force yet.
	waiting bool
	// freed since began, of which the window is told.
	freed, began int64
}

// candidate is the oldest full segment of a partition.
type candidate struct {
	key                engine.Key
	end, bytes, newest int64 // end is 0 for none
}

// begin begins a pass at time now.
func (e *early) begin(full bool, now int64) {
	if now-e.began >= int64(earlyWindow) {
		e.began, e.freed = now, 0
	}
	e.now, e.found = e.allowed && full && !e.waiting && e.freed < earlyBytes, candidate{}
}

// offer names the oldest full segments of a partition whose newest batch is of the time
// newest. A segment whose time is not known is as old as what is behind it.
func (e *early) offer(key engine.Key, segs []retention.Segment, newest int64) {
	if !e.now {
		return
	}
	for _, s := range segs {
		if s.Newest > 0 {
			newest = min(newest, s.Newest)
		}
	}
	if e.found.end == 0 || newest < e.found.newest {
		e.found = candidate{key, segs[0].End, segs[0].Bytes, newest}
	}
}

// end ends a pass: the oldest goes.
func (e *early) end(st *engine.Store) {
	f := e.found
	if p := st.Partition(f.key); e.now && f.end > 0 && p != nil {
		e.waiting = true
		e.freed += f.bytes
		st.Trim(p, f.end, e)
	}
	e.now = false
}

// Trimmed implements retention.Done.
func (e *early) Trimmed(int64, error) { e.waiting = false }
