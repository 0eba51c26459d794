// Package indexing brings the indexes of segments to memory and to their files, by jobs of
// helpers, and finds out what of a segment is damaged.
package indexing

import "github.com/mqd-broker/mqd/engine/segment"

// State is the index of one segment, as the shard has it that owns the segment. Whoever
// has the segment embeds it.
type State struct {
	// Tail indexes what this process has appended, from position TailFrom on.
	Tail     *segment.Index
	TailFrom int64
	// Older indexes what was there before; nil until somebody needs it.
	Older *segment.Index
	// Damage is what is known not to be readable, in log order.
	Damage []segment.Range

	unread    bool  // some of Damage because the device did not read it
	lookAgain int64 // loop time from which it is worth another try

	verifying *verification
	loading   *load
	sealing   bool
}

// Segment is what the work on an index has to know of its segment.
type Segment interface {
	// Index is the segment's.
	Index() *State
	// Log describes the segment to a job.
	Log() segment.Log
	// Sealed reports whether the segment is complete.
	Sealed() bool
	// Written is the number of bytes in the file.
	Written() int64
	// Read reports whether somebody reads the segment, and may need its index.
	Read() bool
}

// Sealing reports whether the index is going to be written.
func (x *State) Sealing() bool { return x.sealing }

// Busy reports whether the index is going to be written or is being loaded, or the log
// verified.
func (x *State) Busy() bool { return x.sealing || x.loading != nil || x.verifying != nil }

// HasRegions reports whether the checksums of the segment's regions are at hand and
// nothing is known to be damaged.
func (x *State) HasRegions() bool { return x.complete() && len(x.Damage) == 0 }

// MayPass reports whether what is damaged may be readable by now.
func (x *State) MayPass(now int64) bool { return x.unread && now >= x.lookAgain }

// complete reports whether Older is the index of a sealed segment.
func (x *State) complete() bool { return x.Older != nil && x.Older.Sealed() != nil }

// Floor is the last entry whose offset is at most offset.
func (x *State) Floor(offset int64) (segment.Entry, bool) {
	if e, ok := x.Tail.Floor(offset); ok {
		return e, true
	}
	if x.Older == nil {
		return segment.Entry{}, false
	}
	return x.Older.Floor(offset)
}

// Appended bounds when the batch that holds an offset was appended, in nanoseconds since
// 1970; see [segment.Index.Appended].
func (x *State) Appended(offset int64) (from, to int64, ok bool) {
	if from, to, ok = x.Tail.Appended(offset); ok || x.Older == nil {
		return from, to, ok
	}
	return x.Older.Appended(offset)
}

// FirstAtOrAfterTime is the entry to look from for the first batch with a timestamp of at
// least ms.
func (x *State) FirstAtOrAfterTime(ms int64) (segment.Entry, bool) {
	if x.Older != nil {
		if e, ok := x.Older.FirstAtOrAfterTime(ms); ok {
			return e, true
		}
	}
	return x.Tail.FirstAtOrAfterTime(ms)
}

// MaxTimestamp is the largest timestamp in the segment, or [segment.NoTime].
func (x *State) MaxTimestamp() int64 {
	if x.Older != nil {
		return max(x.Older.MaxTimestamp(), x.Tail.MaxTimestamp())
	}
	return x.Tail.MaxTimestamp()
}

// Since is the append time of the first batch that this process has appended, or without
// one that of the newest batch before.
func (x *State) Since(before int64) int64 {
	if x.Tail.Len() > 0 {
		return x.Tail.At(0).AppendTime
	}
	return before
}
