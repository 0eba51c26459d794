package producers

import (
	"testing"
	"time"

	"github.com/mqd-broker/mqd/batch"
)

// header is that of a batch of count records at an offset.
func header(id int64, epoch int16, seq, count int32, base int64) *batch.Header {
	return &batch.Header{ProducerID: id, ProducerEpoch: epoch, BaseSequence: seq, LastOffsetDelta: count - 1, BaseOffset: base}
}

func TestSequenceNumbersGoFromTheGreatestToZero(t *testing.T) {
	table, l := New(DefaultMax, DefaultExpiry), new(Log)
	table.Add(l, header(1, 0, maxSequence-1, 2, 10), 5, 0)
	table.Add(l, header(1, 0, 0, 3, 12), 6, 0)
	for seq, want := range map[int32]Verdict{maxSequence - 1: Duplicate, 0: Duplicate, 3: Fresh, 4: OutOfOrder, maxSequence: OutOfOrder, maxSequence - 5: Forgotten} {
		count := int32(2)
		if seq == 0 {
			count = 3
		}
		if got, b := table.Check(l, header(1, 0, seq, count, 99), 0); got != want {
			t.Errorf("sequence %d: %v %+v, want %v", seq, got, b, want)
		}
	}
}

// A batch is the same one only with as many records: else what is acknowledged is not
// what was written.
func TestABatchOfAnotherLengthIsNoDuplicate(t *testing.T) {
	table, l := New(DefaultMax, DefaultExpiry), new(Log)
	table.Add(l, header(1, 0, 0, 5, 0), 0, 0)
	for _, count := range []int32{1, 4, 6} {
		if got, _ := table.Check(l, header(1, 0, 0, count, 0), 0); got != OutOfOrder {
			t.Errorf("%d records instead of 5: %v", count, got)
		}
	}
}

func TestAKnownProducerAllocatesNothing(t *testing.T) {
	table := New(DefaultMax, DefaultExpiry)
	logs := make([]Log, 40)
	seq := int32(0)
	one := func() {
		for i := range logs {
			h := header(int64(i%7), 0, seq, 4, int64(seq))
			if v, _ := table.Check(&logs[i], h, int64(seq)); v != Fresh {
				t.Fatalf("batch at %d: %v", seq, v)
			}
			table.Add(&logs[i], h, int64(seq), int64(seq))
			if v, _ := table.Check(&logs[i], h, int64(seq)); v != Duplicate {
				t.Fatalf("batch at %d, again: %v", seq, v)
			}
		}
		seq += 4
	}
	if n := testing.AllocsPerRun(1000, one); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

// A full table lets the one go that has been silent for longest, also after a start, when
// partitions come one after another.
func TestTheSilentGoFirstAlsoAfterAStart(t *testing.T) {
	const limit = 600
	table, logs := New(limit, time.Hour), make([]Log, 3)
	for i := range int64(limit) {
		table.Add(&logs[i%3], header(i, 0, 0, 1, i), i, i)
	}
	again := New(limit, time.Hour)
	restored := make([]Log, 3)
	for i := range logs {
		again.Restore(&restored[i], table.States(&logs[i]), 0)
	}
	for i := range int64(limit) {
		again.Add(&restored[0], header(limit+i, 0, 0, 1, 0), limit+i, limit+i)
		if v, _ := again.Check(&restored[i%3], header(i, 0, 0, 1, 0), 0); v != Fresh {
			t.Fatalf("producer %d is still there: %v", i, v)
		}
		if i+1 == limit {
			break
		}
		if v, _ := again.Check(&restored[(i+1)%3], header(i+1, 0, 0, 1, 0), 0); v != Duplicate {
			t.Fatalf("producer %d is gone before its turn: %v", i+1, v)
		}
	}
	if again.Len() != limit {
		t.Fatalf("%d producers, want %d", again.Len(), limit)
	}
}

// A shard that is told to remember fewer, or that takes over what others had, forgets all
// that are too many at once.
func TestASmallerTableForgetsTheRest(t *testing.T) {
	const n, limit = 50_000, 100
	table, logs := New(n, time.Hour), make([]Log, 5)
	for i := range int64(n) {
		table.Add(&logs[i%5], header(i, 0, 0, 1, i), i, i)
	}
	small := New(limit, time.Hour)
	restored := make([]Log, 5)
	for i := range logs {
		small.Restore(&restored[i], table.States(&logs[i]), 0)
	}
	small.Add(&restored[0], header(n, 0, 0, 1, n), n, 1)
	if small.Len() != limit {
		t.Fatalf("%d producers, want %d", small.Len(), limit)
	}
	for i := int64(n - limit + 1); i < n; i++ {
		if v, _ := small.Check(&restored[i%5], header(i, 0, 0, 1, 0), 1); v != Duplicate {
			t.Fatalf("producer %d, one of the newest: %v", i, v)
		}
	}
}

// A walk goes on when those are forgotten that come next.
func TestAWalkOutlivesWhatHappensBetweenItsSteps(t *testing.T) {
	table, l := New(DefaultMax, time.Second), new(Log)
	for i := range int64(10) {
		table.Add(l, header(i, 0, 0, 1, i), i, i)
	}
	var met []int64
	var st State
	for table.Walk(l); table.Walking(); {
		if !table.Step(100, 10, &st) {
			t.Fatalf("producer %d is left out", st.ID)
		}
		met = append(met, st.ID)
		if len(met) == 2 {
			table.Add(l, header(50, 0, 0, 1, 50), 50, 50)
			if n := table.Expire(int64(time.Second)+8, 8); n != 8 { // the next ones of the walk
				t.Fatalf("%d forgotten, want 8", n)
			}
		}
	}
	if len(met) != 2 || met[0] != 9 || met[1] != 8 {
		t.Fatalf("met %v, want 9 and 8", met)
	}
}

// Of several batches on their way the first finds no room, where its producer could begin
// anywhere: a new one, and one whose batches were lost. The next one does not take its
// place.
func TestTheFirstOfSeveralIsAwaited(t *testing.T) {
	for _, known := range []bool{false, true} {
		var l Log
		table := New(10, time.Hour)
		header := func(seq int32) *batch.Header {
			return &batch.Header{ProducerID: 7, BaseSequence: seq, LastOffsetDelta: 4}
		}
		if known {
			table.Add(&l, header(0), 0, 0)
			table.Lost(&l)
		}
		want := func(seq int32, now int64, want Verdict) {
			t.Helper()
			if got, _ := table.Check(&l, header(seq), now); got != want {
				t.Fatalf("known %v, sequence %d: %v, want %v", known, seq, got, want)
			}
		}
		want(20, 1, Fresh) // and there was no room
		want(25, 2, OutOfOrder)
		want(20, 3, Fresh)
		want(30, 4+awaitedFor, Fresh) // who is silent that long has given up
		want(20, 5+awaitedFor, OutOfOrder)
		table.Add(&l, header(30), 0, 6+awaitedFor)
		want(35, 7+awaitedFor, Fresh)
		want(30, 7+awaitedFor, Duplicate)
	}
}

// However many producers are refused, what is awaited has a bound, and the newest count.
func TestWhatIsAwaitedHasABound(t *testing.T) {
	var l Log
	table := New(10, time.Hour)
	for id := range int64(3 * maxAwaited) {
		table.Check(&l, &batch.Header{ProducerID: id, BaseSequence: 5}, id)
	}
	if len(table.awaited) != maxAwaited {
		t.Fatalf("%d are awaited", len(table.awaited))
	}
	if got, _ := table.Check(&l, &batch.Header{ProducerID: 3*maxAwaited - 1, BaseSequence: 6}, 1000); got != OutOfOrder {
		t.Fatalf("the newest: %v", got)
	}
	if got, _ := table.Check(&l, &batch.Header{ProducerID: 0, BaseSequence: 6}, 1000); got != Fresh {
		t.Fatalf("the oldest: %v", got)
	}
	table.Drop(&l)
	if len(table.awaited) != 0 {
		t.Fatal("the partition is gone")
	}
}
