package segment

import (
	"math"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/internal/invariant"
)

// NoTime is the maximum timestamp of nothing: earlier than every timestamp.
const NoTime = math.MinInt64

// Batch is what an index needs to know of a batch in a log, and what [Scan]
// tells of it.
type Batch struct {
	Pos           int64 // byte position in the log
	Size          int64 // bytes
	BaseOffset    int64
	LastOffset    int64
	BaseTimestamp int64 // milliseconds since 1970
	MaxTimestamp  int64 // milliseconds since 1970
	AppendTime    int64 // the broker's, nanoseconds since 1970; 0 from a scan
	Epoch         int32
	Records       int32
}

// End is the position behind the batch.
func (b *Batch) End() int64 { return b.Pos + b.Size }

// Set fills b from the header of the batch at pos, AppendTime apart.
func (b *Batch) Set(pos int64, h *batch.Header) {
	b.Pos, b.Size = pos, int64(h.Size())
	b.BaseOffset, b.LastOffset = h.BaseOffset, h.LastOffset()
	b.BaseTimestamp, b.MaxTimestamp = h.BaseTimestamp, h.MaxTimestamp
	b.Epoch, b.Records = h.LeaderEpoch, h.Count
}

// Entry is one batch start in an index.
type Entry struct {
	Offset int64 // base offset of the batch
	Pos    int64 // its byte position in the log
	// MaxBefore is the largest timestamp of the batches before it in the
	// segment, in milliseconds since 1970; NoTime for the first.
	MaxBefore int64
	// AppendTime is when the broker appended it, in nanoseconds since 1970.
	AppendTime int64
}

// Index maps offsets and times of one segment to positions in its log.
//
// It has one entry for each index interval of log: the first batch, and then
// each batch that begins at least that many bytes behind the last entry. A
// lookup finds the last entry that is not past what is sought; the reader goes
// on from there, batch by batch. Offsets may jump (recorded gaps, compaction).
//
// Timestamps are the producers' and in any order, so an entry does not hold its
// own batch's but the largest one of everything before it. That number never
// falls from entry to entry, which makes binary search correct, and is fixed
// when the entry is made, so that entries can be written as they come.
//
// Entries live in blocks of fixed size from an [EntryPool]: growth copies
// nothing and, with a warm pool, allocates nothing but the list of blocks.
type Index struct {
	id       ID
	seed     uint32 // of the checksums of entries
	interval int64
	pool     *EntryPool

	blocks []*entryBlock
	count  int
	last   int64 // position of the newest entry

	end    int64 // bytes of log that are indexed
	first  int64 // base offset of the first batch; the next offset if there is none
	next   int64
	max    int64 // largest timestamp
	newest int64 // largest append time
	ranges []Range
	sealed *Sealed // nil while the log may grow
}

// NewIndex returns the index of an empty log. The pool may be nil.
func NewIndex(id ID, intervalBytes int, pool *EntryPool) *Index {
	if id.Base < 0 {
		invariant.Violated("segment: a base offset is not negative")
	}
	if intervalBytes < MinIndexInterval || intervalBytes > MaxIndexInterval {
		invariant.Violated("segment: index interval outside its limits")
	}
	return &Index{id: id, seed: entrySeed(id), interval: int64(intervalBytes), pool: pool, first: id.Base, next: id.Base, max: NoTime}
}

// ID identifies the segment.
func (ix *Index) ID() ID { return ix.id }

// Interval is the index interval in bytes.
func (ix *Index) Interval() int { return int(ix.interval) }

// Fits reports whether the segment can take a batch of size bytes that ends at
// lastOffset, under a limit of segmentBytes. An empty segment takes any size.
func (ix *Index) Fits(size, lastOffset, segmentBytes int64) bool {
	if lastOffset-ix.id.Base > MaxRelativeOffset {
		return false
	}
	return ix.end == 0 || ix.end+size <= segmentBytes
}

// Add records a batch that has been appended at the end of the log.
func (ix *Index) Add(b *Batch) {
	switch {
	case ix.sealed != nil:
		invariant.Violated("segment: a batch is appended to an open segment")
	case b.Pos != ix.end:
		invariant.Violated("segment: a batch begins where the one before it ends")
	case b.BaseOffset < ix.next || b.LastOffset < b.BaseOffset:
		invariant.Violated("segment: offsets grow")
	case b.BaseOffset-ix.id.Base > MaxRelativeOffset || b.Pos > math.MaxUint32:
		invariant.Violated("segment: offset and position fit the index")
	}
	if ix.count == 0 {
		ix.first = b.BaseOffset
	}
	if ix.count == 0 || b.Pos-ix.last >= ix.interval {
		ix.push(entry{
			rel:        uint32(b.BaseOffset - ix.id.Base),
			pos:        uint32(b.Pos),
			maxBefore:  ix.max,
			appendTime: b.AppendTime,
		})
	}
	ix.end, ix.next = b.End(), b.LastOffset+1
	ix.max = max(ix.max, b.MaxTimestamp)
	ix.newest = max(ix.newest, b.AppendTime)
}

func (ix *Index) push(e entry) {
	if ix.count == len(ix.blocks)*blockEntries {
		ix.blocks = append(ix.blocks, ix.pool.get())
	}
	ix.blocks[ix.count/blockEntries][ix.count%blockEntries] = e
	ix.count++
	ix.last = int64(e.pos)
}

// Len is the number of entries.
func (ix *Index) Len() int { return ix.count }

// At returns entry i.
func (ix *Index) At(i int) Entry {
	e := ix.at(i)
	return Entry{
		Offset:     ix.id.Base + int64(e.rel),
		Pos:        int64(e.pos),
		MaxBefore:  e.maxBefore,
		AppendTime: e.appendTime,
	}
}

func (ix *Index) at(i int) *entry {
	if uint(i) >= uint(ix.count) {
		invariant.Violated("segment: index entry exists")
	}
	return &ix.blocks[i/blockEntries][i%blockEntries]
}

// Floor returns the last entry whose offset is at most offset. Without one, what
// is sought lies before the first batch, and a reader begins at position 0.
func (ix *Index) Floor(offset int64) (Entry, bool) {
	return ix.lastUpTo(keyOffset, offset-ix.id.Base)
}

// FloorPos returns the last entry at or before a position.
func (ix *Index) FloorPos(pos int64) (Entry, bool) {
	return ix.lastUpTo(keyPos, pos)
}

// FirstAtOrAfterTime returns where to look for the first batch whose maximum
// timestamp is at least ms: that batch begins at the entry or behind it, and
// before the next entry. Without one there is no such batch.
func (ix *Index) FirstAtOrAfterTime(ms int64) (Entry, bool) {
	if ix.count == 0 || ix.max < ms {
		return Entry{}, false
	}
	return ix.lastUpTo(keyMaxBefore, max(ms, NoTime+1)-1)
}

// Appended bounds when the batch that holds an offset was appended, in nanoseconds since
// 1970: not before the entry that it lies behind, not after the one that follows, or the
// newest batch where none does. ok is false below the first entry.
func (ix *Index) Appended(offset int64) (from, to int64, ok bool) {
	i := ix.upTo(keyOffset, offset-ix.id.Base)
	switch {
	case i == 0:
		return 0, 0, false
	case i == ix.count:
		return ix.at(i - 1).appendTime, ix.newest, true
	}
	return ix.at(i - 1).appendTime, ix.at(i).appendTime, true
}

// key is a field of entries that does not fall from one to the next.
type key uint8

const (
	keyOffset key = iota // relative
	keyPos
	keyMaxBefore
)

func (e *entry) key(k key) int64 {
	switch k {
	case keyOffset:
		return int64(e.rel)
	case keyPos:
		return int64(e.pos)
	}
	return e.maxBefore
}

// lastUpTo returns the last entry whose key is at most x.
func (ix *Index) lastUpTo(k key, x int64) (Entry, bool) {
	n := ix.upTo(k, x)
	if n == 0 {
		return Entry{}, false
	}
	return ix.At(n - 1), true
}

// upTo counts the entries whose key is at most x.
func (ix *Index) upTo(k key, x int64) int {
	low, high := 0, ix.count // entries below low are up to x, those from high on are not
	for low < high {
		mid := int(uint(low+high) / 2)
		if ix.blocks[mid/blockEntries][mid%blockEntries].key(k) <= x {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// End is the number of bytes of log that are indexed.
func (ix *Index) End() int64 { return ix.end }

// FirstOffset is the base offset of the first batch, or NextOffset while there is
// none.
func (ix *Index) FirstOffset() int64 { return ix.first }

// NextOffset is the offset behind the last batch.
func (ix *Index) NextOffset() int64 { return ix.next }

// MaxTimestamp is the largest timestamp in milliseconds since 1970, or NoTime.
func (ix *Index) MaxTimestamp() int64 { return ix.max }

// NewestAppend is the largest append time in nanoseconds since 1970, 0 if none is
// known.
func (ix *Index) NewestAppend() int64 { return ix.newest }

// NoteAppend notes that something was appended as late as t, nanoseconds since 1970, that is
// no batch any more, or shares an entry.
func (ix *Index) NoteAppend(t int64) { ix.newest = max(ix.newest, t) }

// Sealed is what is known of the log since it was sealed, nil before.
func (ix *Index) Sealed() *Sealed { return ix.sealed }

// MemBytes is the memory that the index holds, in bytes.
func (ix *Index) MemBytes() int64 {
	n := int64(indexBytes) + int64(len(ix.blocks))*blockBytes + int64(cap(ix.blocks))*8 + int64(cap(ix.ranges))*rangeMemBytes
	if ix.sealed != nil {
		n += int64(cap(ix.sealed.regions)) * 4
	}
	return n
}

// Release gives the entries back to the pool. The index must not be used again.
func (ix *Index) Release() {
	for _, b := range ix.blocks {
		ix.pool.put(b)
	}
	ix.blocks, ix.count, ix.sealed = nil, 0, nil
}
