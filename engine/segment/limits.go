package segment

// Sizes of logs, in bytes.
const (
	// MinSegmentBytes is the smallest segment.bytes: 16 KiB. A batch larger
	// than segment.bytes becomes a segment of its own.
	MinSegmentBytes = 16 << 10
	// DefaultSegmentBytes is segment.bytes unless the topic says otherwise.
	DefaultSegmentBytes = 512 << 20
	// MaxSegmentBytes bounds segment.bytes, and so every position in a log:
	// positions in an index have 32 bits.
	MaxSegmentBytes = 2 << 30
	// MaxLogBytes bounds the file of a log: all positions in it have 32 bits.
	MaxLogBytes = 1<<32 - RegionBytes
)

// The space of the log, in bytes, between two entries of its index.
const (
	DefaultIndexInterval = 4096
	MinIndexInterval     = 256
	MaxIndexInterval     = 1 << 20
)

// RegionBytes is the size of the aligned pieces of a sealed log that have a
// checksum each. The last one of a log may be shorter.
const RegionBytes = 4096

// MaxRelativeOffset is the largest distance of an offset from the base of its
// segment. Recorded gaps can make it a reason to roll.
const MaxRelativeOffset = 1<<32 - 1

// The schedule of preallocation, in bytes.
const (
	firstAllocation   = 256 << 10
	maxAllocationStep = 32 << 20
)

// NextAllocation returns the size in bytes to which a log with allocated bytes
// should be extended so that it has at least need. It begins at 256 KiB and
// doubles; from 32 MiB on it adds 32 MiB. It stops at segmentBytes, unless need
// is more, and is a multiple of 4 KiB. It returns allocated when that suffices.
func NextAllocation(allocated, need, segmentBytes int64) int64 {
	if need <= allocated {
		return allocated
	}
	limit := roundUp(max(segmentBytes, need))
	next := allocated
	for next < need {
		switch {
		case next < firstAllocation:
			next = firstAllocation
		default:
			next += min(next, maxAllocationStep)
		}
	}
	return min(roundUp(next), limit)
}

// roundUp rounds n bytes up to whole regions.
func roundUp(n int64) int64 { return (n + RegionBytes - 1) &^ (RegionBytes - 1) }

// regionCount is the number of regions in a log of n bytes.
func regionCount(n int64) int { return int((n + RegionBytes - 1) / RegionBytes) }
