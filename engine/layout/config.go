package layout

import (
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine/segment"
)

// TailPosBytes is what the body of a tail entry in the journal begins with: the
// position in the segment's file, in bytes, at which the fragment behind it lies.
// The entry's base offset is the segment's.
const TailPosBytes = 8

// PartitionConfig is what a topic's configuration says about each partition.
type PartitionConfig struct {
	// Class is the durability class.
	Class Class
	// SegmentBytes is the size at which a segment is closed; at least
	// segment.MinSegmentBytes.
	SegmentBytes int64
	// IndexInterval is the distance in bytes between index entries.
	IndexInterval int32
	// MaxBatch is the largest batch accepted, in bytes.
	MaxBatch int
	// FlushInterval and FlushBytes bound what a crash can take back: for class
	// memory the time and bytes until the journal write begins, for class
	// written the time and bytes until a flush begins.
	FlushInterval time.Duration
	FlushBytes    int64
	// AppendTimestamps makes the broker's append time the timestamp of every
	// batch (LogAppendTime).
	AppendTimestamps bool
	// Compaction says whether, and when, superseded records go.
	Compaction Compaction
}

// Compaction is how a partition is compacted by key.
type Compaction struct {
	// On: records go that a later one with the same key supersedes.
	On bool
	// Dirty is how much of what can be compacted has to be new since the last time, in
	// thousandths of its bytes, before it is compacted again; 0 to 1000.
	Dirty int
	// MinLag is how long a record stays at least.
	MinLag time.Duration
	// Tombstones is how long a record without a value stays after what it deletes.
	Tombstones time.Duration
}

// The window of class written where a topic does not say otherwise.
const (
	writtenFlushInterval = time.Second
	writtenFlushBytes    = 64 << 20
)

// Window is the longest time, and the most bytes, that may pass until a flush begins of
// what has been acknowledged under class without one.
func (c *PartitionConfig) Window(class Class) (time.Duration, int64) {
	interval, limit := writtenFlushInterval, int64(writtenFlushBytes)
	if class == ClassWritten && c.FlushInterval > 0 {
		interval = c.FlushInterval
	}
	if class == ClassWritten && c.FlushBytes > 0 {
		limit = min(limit, c.FlushBytes)
	}
	return interval, limit
}

// MustRoll is the one rule of where a segment ends: a batch of n bytes that does
// not fit into a segment of size bytes begins a new one, unless the segment is
// empty; so does one whose offsets lie too far above the segment's base, which may be so
// behind a gap. The writer and recovery both follow it.
func (c *PartitionConfig) MustRoll(base, size, n int64, h *batch.Header) bool {
	return size > 0 && size+n > c.SegmentBytes || h.LastOffset()-base > segment.MaxRelativeOffset
}
