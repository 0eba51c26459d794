package segment

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"

	"github.com/mqd-broker/mqd/engine/aio"
)

// maxSuspects bounds the batches that a verification remembers because their
// region differs.
const maxSuspects = 1 << 16

// VerifyJob reads a whole log and checks all that is known of it: the CRC of
// every batch, the order of the offsets, the recorded epochs and, when the index
// is sealed, the checksum of every region and that every entry points at its
// batch. It changes nothing.
type VerifyJob struct {
	Log
	// Index is checked against the log; nil means that of the index file. For
	// an open log it also tells where the log ends.
	Index *Index
	// LogBytes is the end of a log without a usable index; 0 means its file's.
	LogBytes int64
	// Budget, if not 0, makes a run end when it has read about so many bytes of the
	// log. While More is set the job is to be run again, which goes on there; between
	// runs no file is open. What is damaged may make a run read up to the log's end.
	Budget int64

	// More: the log has not been read to its end yet.
	More bool
	// Spent is the number of bytes of the log that the last run has read.
	Spent int64
	// IndexFault says why the index is of no use, or where it is wrong; nil if
	// it is right.
	IndexFault error
	// Damage lists what cannot be read, in log order.
	Damage []Range
	// Fresh counts the ranges of Damage that the index did not know of.
	Fresh int
	// End is the position where the batches end, the damaged ones included.
	End        int64
	Batches    uint64
	Records    uint64
	Unreadable int // blocks of 4 KiB that the device could not read

	scan     *scanner
	size     int64 // of the file
	suspects []Batch
	next     int // entry of the index to look at
}

var _ aio.Job = (*VerifyJob)(nil)

// Run implements aio.Job. Damage is no error. ErrLogSize: the log has changed between
// two runs.
func (j *VerifyJob) Run(fs aio.FS) error {
	f, size, err := OpenLog(fs, j.LogPath())
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only: nothing can be lost
	if j.scan == nil {
		j.begin(fs, f, size)
	} else if size != j.size {
		return fmt.Errorf("%s: %w: expected %d bytes, found %d", j.LogPath(), ErrLogSize, j.size, size)
	}
	l := j.scan.logReader
	l.r = f
	from := l.taken
	for j.More = true; j.More && (j.Budget == 0 || l.taken-from < j.Budget); {
		end, err := j.scan.advance(j.Index, func(b *Batch) { j.batch(l, b) }, j.damage)
		if err != nil {
			return withPath(err, j.LogPath())
		}
		j.More = !end
	}
	if !j.More {
		err = j.finish(l)
	}
	j.Spent = l.taken - from
	return err
}

// begin finds out where the log ends, and begins to read it.
func (j *VerifyJob) begin(fs aio.FS, f io.ReaderAt, size int64) {
	if j.Index == nil {
		j.Index = j.load(fs, f, size)
	}
	end, tail := size, TailZeros
	switch {
	case j.Index != nil && j.Index.sealed != nil:
		end, tail = min(size, j.Index.sealed.LogBytes), TailExact
		if j.EndOffset == 0 {
			j.EndOffset = j.Index.NextOffset()
		}
	case j.Index != nil && j.Index.End() <= size:
		end, tail = j.Index.End(), TailExact
	case j.LogBytes > 0 && j.LogBytes <= size:
		end, tail = j.LogBytes, TailExact
	}
	j.size = size
	j.scan = newScanner(newJobReader(f, end), ScanOptions{
		Path: j.LogPath(), To: end, Offset: j.ID.Base, EndOffset: j.EndOffset,
		Chain: j.Chain, Tail: tail,
	})
}

// finish does what takes the whole log.
func (j *VerifyJob) finish(l *logReader) error {
	j.Unreadable, j.End = len(l.unreadable), j.scan.pos
	if j.Index == nil {
		j.Fresh = len(j.Damage)
		return nil
	}
	for ; j.next < j.Index.Len() && j.IndexFault == nil; j.next++ {
		j.IndexFault = j.misplaced(j.next)
	}
	return j.compare(l)
}

// load reads the sealed index, if it is of use.
func (j *VerifyJob) load(fs aio.FS, log io.ReaderAt, logBytes int64) *Index {
	ix, err := j.Log.load(fs, log, logBytes)
	if !errors.Is(err, ErrIndexOpen) {
		j.IndexFault = err
	}
	return ix
}

// batch takes note of a batch that holds by itself.
func (j *VerifyJob) batch(l *logReader, b *Batch) {
	j.Batches++
	j.Records += uint64(b.Records)
	if j.Index == nil {
		return
	}
	if j.Index.sealed != nil && len(j.suspects) < maxSuspects && differs(j.Index, l.regions, b.Pos, b.End()) {
		j.suspects = append(j.suspects, *b)
	}
	for j.next < j.Index.Len() {
		e := j.Index.At(j.next)
		if e.Pos > b.Pos {
			return
		}
		if (e.Pos != b.Pos || e.Offset != b.BaseOffset) && j.IndexFault == nil {
			j.IndexFault = j.misplaced(j.next)
		}
		j.next++
	}
}

func (j *VerifyJob) damage(r Range) {
	if n := len(j.Damage); n > 0 && j.Damage[n-1].ToPos == r.FromPos && j.Damage[n-1].ToOffset == r.FromOffset {
		j.Damage[n-1].ToPos, j.Damage[n-1].ToOffset = r.ToPos, r.ToOffset
		return
	}
	j.Damage = append(j.Damage, r)
}

// misplaced is the fault of entry i, which points at no batch; nil if that is
// because the batch is damaged.
func (j *VerifyJob) misplaced(i int) error {
	e := j.Index.At(i)
	if overlaps(j.Damage, e.Pos, e.Pos+1) {
		return nil
	}
	return &IndexError{Path: j.IndexPath(), Kind: ErrIndexDamaged, Field: "entry without a batch", At: EntryAt(i), Expected: e.Pos, Found: e.Offset}
}

// compare checks the regions. A region that differs although all its batches
// hold makes every one of them suspect: what has changed is a field that no
// batch's own CRC covers, and nothing tells whose.
func (j *VerifyJob) compare(l *logReader) error {
	if j.Index.sealed != nil {
		if _, err := l.allRegions(); err != nil {
			return withPath(err, j.LogPath())
		}
		found := j.Damage
		for i := range j.suspects {
			if b := &j.suspects[i]; j.unexplained(found, l.regions, b) {
				j.Damage = insert(j.Damage, Range{
					FromOffset: b.BaseOffset, ToOffset: b.LastOffset + 1,
					FromPos: b.Pos, ToPos: b.End(), Check: CheckRegion,
				})
			}
		}
	}
	for _, r := range j.Damage {
		if known, ok := j.Index.Quarantined(r.FromOffset); !ok || known.ToOffset < r.ToOffset {
			j.Fresh++
		}
	}
	return nil
}

// unexplained reports whether b lies in a region that differs and holds none of
// the damage that was found.
func (j *VerifyJob) unexplained(found []Range, regions []uint32, b *Batch) bool {
	for pos := b.Pos &^ (RegionBytes - 1); pos < b.End(); pos += RegionBytes {
		if differs(j.Index, regions, pos, pos+1) && !overlaps(found, pos, pos+RegionBytes) {
			return true
		}
	}
	return false
}

// differs reports whether a region between two positions is not as it was.
func differs(ix *Index, regions []uint32, from, to int64) bool {
	for i := from / RegionBytes; i*RegionBytes < to; i++ {
		if regions[i] != ix.sealed.regions[i] {
			return true
		}
	}
	return false
}

// overlaps reports whether one of ranges, which are in log order, shares a byte
// with from..to.
func overlaps(ranges []Range, from, to int64) bool {
	i := sort.Search(len(ranges), func(i int) bool { return ranges[i].ToPos > from })
	return i < len(ranges) && ranges[i].FromPos < to
}

// insert puts r into its place in log order.
func insert(ranges []Range, r Range) []Range {
	i := len(ranges)
	for i > 0 && ranges[i-1].FromPos > r.FromPos {
		i--
	}
	return slices.Insert(ranges, i, r)
}
