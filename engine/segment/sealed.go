package segment

import (
	"hash/crc32"
	"sort"

	"github.com/mqd-broker/mqd/internal/invariant"
)

// Flags say how the index of a sealed log came about.
type Flags uint32

const (
	// FlagGuessedTimes: append times are lower bounds, taken from a neighbour,
	// because the index that knew them was lost.
	FlagGuessedTimes Flags = 1 << iota

	knownFlags = FlagGuessedTimes
)

// MaxRanges bounds the quarantine list. Beyond it the last range grows, over
// what can be read as well.
const MaxRanges = 4096

// Sealed is what the index of a sealed log holds beside the batch starts.
type Sealed struct {
	LogBytes     int64 // size of the log
	Batches      uint64
	Records      uint64
	MinTimestamp int64 // smallest base timestamp in milliseconds since 1970, NoTime without batches
	Flags        Flags

	regions []uint32
}

// Range is a damaged part of a log: no batch in it can be read. Both ends are
// half open. Where batches are missing altogether its positions are equal.
type Range struct {
	FromOffset, ToOffset int64
	FromPos, ToPos       int64
	Check                Check // what gave the damage away
}

// behind reports whether a range says that offsets up to next are missing behind a log of
// logBytes bytes.
func (r *Range) behind(next, logBytes int64) bool {
	return r.ToOffset == next && r.FromPos == logBytes && r.ToPos == logBytes
}

// Quarantine lists the damaged ranges that were found when the index was built,
// in log order. They must not be served: [CheckRegions] passes them, because
// their regions are as they were then.
func (ix *Index) Quarantine() []Range { return ix.ranges }

// Quarantined returns the range that holds offset. Its ToOffset is the next
// offset that may be readable.
func (ix *Index) Quarantined(offset int64) (Range, bool) {
	i := sort.Search(len(ix.ranges), func(i int) bool { return ix.ranges[i].ToOffset > offset })
	if i < len(ix.ranges) && ix.ranges[i].FromOffset <= offset {
		return ix.ranges[i], true
	}
	return Range{}, false
}

// QuarantinedPos returns the range that holds byte position pos.
func (ix *Index) QuarantinedPos(pos int64) (Range, bool) {
	i := sort.Search(len(ix.ranges), func(i int) bool { return ix.ranges[i].ToPos > pos })
	if i < len(ix.ranges) && ix.ranges[i].FromPos <= pos {
		return ix.ranges[i], true
	}
	return Range{}, false
}

// skip records damage at the end of what is indexed.
func (ix *Index) skip(r Range) {
	if r.FromPos != ix.end || r.FromOffset < ix.next || r.ToPos < r.FromPos || r.ToOffset < r.FromOffset {
		invariant.Violated("segment: a damaged range follows what is indexed")
	}
	ix.end, ix.next = r.ToPos, r.ToOffset
	if ix.count == 0 {
		ix.first = r.ToOffset
	}
	if n := len(ix.ranges); n > 0 {
		last := &ix.ranges[n-1]
		if n == MaxRanges || last.ToPos == r.FromPos && last.ToOffset == r.FromOffset {
			last.ToPos, last.ToOffset = r.ToPos, r.ToOffset
			return
		}
	}
	ix.ranges = append(ix.ranges, r)
}

// CheckRegions compares data, read from byte position pos of a sealed log, with
// the checksums of its regions. pos is a multiple of RegionBytes; data ends at
// one too, or reaches the end of the log, behind which it is not looked at. The
// error is a [*CorruptError] for the first region that differs, with Path the
// file's name.
//
// A region may hold several batches: which of them is damaged is told by their
// own CRCs and by [VerifyJob].
func CheckRegions(ix *Index, pos int64, data []byte) error {
	s := ix.sealed
	if s == nil {
		invariant.Violated("segment: only sealed logs have region checksums")
	}
	if pos%RegionBytes != 0 || pos < 0 {
		invariant.Violated("segment: regions are checked at their boundaries")
	}
	if rest := s.LogBytes - pos; rest < int64(len(data)) {
		data = data[:max(rest, 0)]
	} else if rest > int64(len(data)) && len(data)%RegionBytes != 0 {
		invariant.Violated("segment: regions are checked as a whole")
	}
	for len(data) > 0 {
		piece := data[:min(len(data), RegionBytes)]
		want := s.regions[pos/RegionBytes]
		if got := crc32.Checksum(piece, castagnoli); got != want {
			return regionError(ix, pos, want, got)
		}
		data, pos = data[len(piece):], pos+RegionBytes
	}
	return nil
}

//go:noinline
func regionError(ix *Index, pos int64, want, got uint32) error {
	offset := int64(-1)
	if e, ok := ix.FloorPos(pos); ok {
		offset = e.Offset
	}
	return &CorruptError{Path: ix.id.LogName(), Pos: pos, Offset: offset, Check: CheckRegion, Expected: int64(want), Found: int64(got)}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
