package segment

import (
	"errors"
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/mqd-broker/mqd/internal/invariant"
)

// drawBatches is a log's worth of batches with gaps and timestamps in any order.
func drawBatches(t *rapid.T, base int64) []Batch {
	n := rapid.IntRange(0, 120).Draw(t, "batches")
	var pos int64
	next := base
	list := make([]Batch, n)
	for i := range list {
		if rapid.IntRange(0, 9).Draw(t, "gap") == 0 {
			next += rapid.Int64Range(1, 1000).Draw(t, "gap size")
		}
		b := Batch{
			Pos:          pos,
			Size:         rapid.Int64Range(61, 3000).Draw(t, "size"),
			BaseOffset:   next,
			LastOffset:   next + rapid.Int64Range(0, 20).Draw(t, "delta"),
			MaxTimestamp: rapid.Int64Range(-2, 60).Draw(t, "timestamp"),
			AppendTime:   int64(i + 1),
		}
		pos, next = b.End(), b.LastOffset+1
		list[i] = b
	}
	return list
}

func TestIndexFindsWhatANaiveSearchFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := ID{Base: rapid.Int64Range(0, 50).Draw(t, "base")}
		list := drawBatches(t, id.Base)
		interval := rapid.IntRange(MinIndexInterval, 9000).Draw(t, "interval")
		ix := NewIndex(id, interval, NewEntryPool(2*blockBytes))
		for i := range list {
			ix.Add(&list[i])
		}
		starts := naiveStarts(list, int64(interval))
		if ix.Len() != len(starts) {
			t.Fatalf("%d entries, want %d", ix.Len(), len(starts))
		}
		for i, s := range starts {
			e := ix.At(i)
			if e.Offset != s.BaseOffset || e.Pos != s.Pos || e.AppendTime != s.AppendTime || e.MaxBefore != naiveMaxBefore(list, s.Pos) {
				t.Fatalf("entry %d is %+v, the batch %+v", i, e, s)
			}
		}
		checkTotals(t, ix, list, id)
		for range 20 {
			checkFloor(t, ix, starts, rapid.Int64Range(-5, 4000).Draw(t, "offset"))
			checkTime(t, ix, list, rapid.Int64Range(-5, 65).Draw(t, "time"))
		}
	})
}

func naiveStarts(list []Batch, interval int64) []Batch {
	var starts []Batch
	for _, b := range list {
		if len(starts) == 0 || b.Pos >= starts[len(starts)-1].Pos+interval {
			starts = append(starts, b)
		}
	}
	return starts
}

func naiveMaxBefore(list []Batch, pos int64) int64 {
	m := int64(NoTime)
	for _, b := range list {
		if b.Pos < pos {
			m = max(m, b.MaxTimestamp)
		}
	}
	return m
}

func checkTotals(t *rapid.T, ix *Index, list []Batch, id ID) {
	first, next, end, newest := id.Base, id.Base, int64(0), int64(0)
	if n := len(list); n > 0 {
		first, next, end, newest = list[0].BaseOffset, list[n-1].LastOffset+1, list[n-1].End(), list[n-1].AppendTime
	}
	if ix.FirstOffset() != first || ix.NextOffset() != next || ix.End() != end || ix.NewestAppend() != newest ||
		ix.MaxTimestamp() != naiveMaxBefore(list, math.MaxInt64) {
		t.Fatalf("totals %+v, first %d, next %d, end %d", ix, first, next, end)
	}
}

func checkFloor(t *rapid.T, ix *Index, starts []Batch, x int64) {
	want := -1
	for i, s := range starts {
		if s.BaseOffset <= x {
			want = i
		}
	}
	if e, ok := ix.Floor(x); ok != (want >= 0) || ok && e != ix.At(want) {
		t.Fatalf("Floor(%d) = %+v %v, want entry %d", x, e, ok, want)
	}
	want = -1
	for i, s := range starts {
		if s.Pos <= x {
			want = i
		}
	}
	if e, ok := ix.FloorPos(x); ok != (want >= 0) || ok && e != ix.At(want) {
		t.Fatalf("FloorPos(%d) = %+v %v, want entry %d", x, e, ok, want)
	}
}

// checkTime looks for the first batch at or after a time the slow way, and that
// it is in the span of log that the index names.
func checkTime(t *rapid.T, ix *Index, list []Batch, ms int64) {
	e, ok := ix.FirstAtOrAfterTime(ms)
	for _, b := range list {
		if b.MaxTimestamp < ms {
			continue
		}
		span := int64(math.MaxInt64)
		for i := range ix.Len() {
			if p := ix.At(i).Pos; p > e.Pos {
				span = min(span, p)
			}
		}
		if !ok || b.Pos < e.Pos || b.Pos >= span {
			t.Fatalf("time %d: the first batch is at %d, the index says %+v %v up to %d", ms, b.Pos, e, ok, span)
		}
		return
	}
	if ok {
		t.Fatalf("time %d: the index says %+v, no batch is that late", ms, e)
	}
}

func TestAddAllocatesNothingWithAWarmPool(t *testing.T) {
	const batches = 20_000
	pool := NewEntryPool(batches / blockEntries * blockBytes * 2)
	ix := NewIndex(testID, DefaultIndexInterval, pool)
	ix.blocks = make([]*entryBlock, 0, batches)
	b := Batch{Size: 5000, BaseOffset: testID.Base - 1}
	add := func() {
		b.BaseOffset++
		b.LastOffset, b.Pos = b.BaseOffset, ix.End()
		ix.Add(&b)
	}
	if n := testing.AllocsPerRun(batches/2, add); n != 0 {
		t.Errorf("Add allocates %v times", n)
	}
	find := func() {
		ix.Floor(testID.Base + 77)
		ix.FirstAtOrAfterTime(0)
	}
	if n := testing.AllocsPerRun(100, find); n != 0 {
		t.Errorf("lookups allocate %v times", n)
	}
	entries := make([]byte, 0, 64*entryBytes)
	if n := testing.AllocsPerRun(100, func() { AppendEntries(entries, ix, 10, 74) }); n != 0 {
		t.Errorf("AppendEntries allocates %v times", n)
	}
	had := len(pool.free)
	blocks := len(ix.blocks)
	ix.Release()
	if len(pool.free) != had+blocks {
		t.Errorf("%d blocks came home, want %d", len(pool.free)-had, blocks)
	}
}

func TestMemoryIsAccounted(t *testing.T) {
	if n := reflect.TypeFor[entry]().Size(); n != blockBytes/blockEntries {
		t.Errorf("an entry has %d bytes", n)
	}
	if n := reflect.TypeFor[Index]().Size(); n > indexBytes {
		t.Errorf("an index has %d bytes, the accounting says %d", n, indexBytes)
	}
	if n := reflect.TypeFor[Range]().Size(); n != rangeMemBytes {
		t.Errorf("a range has %d bytes, the accounting says %d", n, rangeMemBytes)
	}
	ix := NewIndex(testID, DefaultIndexInterval, nil)
	empty := ix.MemBytes()
	ix.Add(&Batch{Size: 100, BaseOffset: 1000, LastOffset: 1000})
	if grown := ix.MemBytes() - empty; grown < blockBytes || grown > blockBytes+64 {
		t.Errorf("the first entry takes %d bytes", grown)
	}
}

func TestSegmentsFillUpByBytesAndByOffsets(t *testing.T) {
	ix := NewIndex(testID, DefaultIndexInterval, nil)
	if !ix.Fits(10*MinSegmentBytes, 1000, MinSegmentBytes) {
		t.Error("an empty segment does not take a large batch")
	}
	ix.Add(&Batch{Size: MinSegmentBytes - 100, BaseOffset: 1000, LastOffset: 1000})
	for size, want := range map[int64]bool{99: true, 100: true, 101: false} {
		if ix.Fits(size, 1001, MinSegmentBytes) != want {
			t.Errorf("a batch of %d bytes into 100: fits is not %v", size, want)
		}
	}
	if !ix.Fits(1, testID.Base+MaxRelativeOffset, MinSegmentBytes) || ix.Fits(1, testID.Base+MaxRelativeOffset+1, MinSegmentBytes) {
		t.Error("the relative offset is not bounded by 32 bits")
	}
}

func TestAddRefusesWhatBreaksTheOrder(t *testing.T) {
	for name, b := range map[string]Batch{
		"position leaves a hole":  {Pos: 101, Size: 100, BaseOffset: 1001, LastOffset: 1001},
		"position went back":      {Pos: 99, Size: 100, BaseOffset: 1001, LastOffset: 1001},
		"offset went back":        {Pos: 100, Size: 100, BaseOffset: 1000, LastOffset: 1001},
		"last before first":       {Pos: 100, Size: 100, BaseOffset: 1005, LastOffset: 1004},
		"offset beyond the index": {Pos: 100, Size: 100, BaseOffset: 1000 + 1<<32, LastOffset: 1000 + 1<<32},
	} {
		ix := NewIndex(testID, DefaultIndexInterval, nil)
		ix.Add(&Batch{Size: 100, BaseOffset: 1000, LastOffset: 1000})
		violates(t, name, func() { ix.Add(&b) })
	}
	violates(t, "negative base", func() { NewIndex(ID{Base: -1}, DefaultIndexInterval, nil) })
	violates(t, "interval", func() { NewIndex(testID, MinIndexInterval-1, nil) })
	violates(t, "entry", func() { NewIndex(testID, DefaultIndexInterval, nil).At(0) })
}

// violates fails t unless f breaks an invariant.
func violates(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if v, ok := recover().(invariant.Violation); !ok {
			t.Errorf("%s: no violation (%v)", what, v)
		}
	}()
	f()
}

func TestErrorsNamePlaceExpectedAndFound(t *testing.T) {
	err := error(&CorruptError{Path: "d/0.log", Pos: 4096, Offset: 17, Check: CheckCRC, Expected: 0xabc, Found: 0xdef})
	if want := "d/0.log: log corrupt: crc at byte 4096, offset 17: expected 0x00000abc, found 0x00000def"; err.Error() != want || !errors.Is(err, ErrCorrupt) {
		t.Errorf("%v", err)
	}
	err = &IndexError{Path: "d/0.index", Kind: ErrIndexStale, Field: "log bytes", At: 24, Expected: 7, Found: 8}
	if want := "d/0.index: index does not match its log: log bytes at byte 24: expected 7, found 8"; err.Error() != want || !errors.Is(err, ErrRebuild) || !errors.Is(err, ErrIndexStale) {
		t.Errorf("%v", err)
	}
	if err = bad(ErrUnsupported, "version", 4, 1, 2); errors.Is(err, ErrRebuild) {
		t.Error("an index of a newer version would be rebuilt")
	}
	for c := CheckNone; c < checks; c++ {
		if c.String() == "" {
			t.Errorf("check %d has no name", c)
		}
	}
	if Check(200).String() != "check(200)" {
		t.Error("an unknown check has no number")
	}
}
