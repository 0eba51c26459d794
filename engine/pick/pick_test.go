package pick

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine/segment"
)

// gaps are the jumps that are recorded. One may begin within a gap, as with an epoch
// table.
type gaps map[int64]int64

func (g gaps) AllowsGap(from, to int64) bool {
	for start, end := range g {
		if start <= from && from < end && to == end {
			return true
		}
	}
	return from == to
}

// one is a batch of n records at an offset.
func one(t testing.TB, base int64, n, size int) []byte {
	t.Helper()
	b := batch.NewBuilder(nil, 1<<20)
	for range n {
		if err := b.Append(&batch.Record{Value: make([]byte, size)}); err != nil {
			t.Fatal(err)
		}
	}
	all := b.Finish(batch.CodecNone)
	batch.Stamp(all, base, 1)
	return all
}

func TestBatchesHoldsToWhatIsWanted(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var log []byte
		type span struct{ from, to int }
		type at struct{ base, next int64 }
		var where []span
		var offsets []at
		known, next := gaps{}, int64(0)
		hole := int64(-1) // where offsets are missing that no gap explains
		for range rapid.IntRange(1, 12).Draw(rt, "batches") {
			switch rapid.IntRange(0, 9).Draw(rt, "jump") {
			case 0:
				known[next] = next + 5
				next += 5
			case 1:
				if hole < 0 && next > 0 {
					hole = next
					next += 3
				}
			}
			n := rapid.IntRange(1, 4).Draw(rt, "records")
			b := one(t, next, n, rapid.IntRange(0, 80).Draw(rt, "size"))
			where = append(where, span{len(log), len(log) + len(b)})
			offsets = append(offsets, at{next, next + int64(n)})
			log, next = append(log, b...), next+int64(n)
		}
		w := Want{
			Offset: rapid.Int64Range(0, next).Draw(rt, "offset"), Below: rapid.Int64Range(1, next+1).Draw(rt, "below"),
			MaxBytes: rapid.IntRange(1, 600).Draw(rt, "bytes"), MaxRecords: rapid.IntRange(0, 9).Draw(rt, "max records"), Gaps: known, Check: CheckBatches,
		}
		cut := rapid.IntRange(0, len(log)).Draw(rt, "cut")
		a := Batches(log[:cut], &w)
		if a.Fault != nil {
			rt.Fatalf("nothing is damaged: %v", a.Fault)
		}
		expected, records, from := w.Offset, int64(0), -1
		for i, o := range offsets {
			if where[i].from < a.From || where[i].to > a.To {
				continue
			}
			if from < 0 {
				from = where[i].from
			}
			if o.base > expected && !known.AllowsGap(expected, o.base) || o.base >= w.Below || o.next <= w.Offset {
				rt.Fatalf("batch %d to %d does not belong to %+v", o.base, o.next-1, w)
			}
			expected, records = o.next, records+o.next-o.base
			whole := where[i].to-from > w.MaxBytes || w.MaxRecords > 0 && records > int64(w.MaxRecords)
			if whole && where[i].from != from {
				rt.Fatalf("more than was wanted: %+v for %+v", a, w)
			}
		}
		if a.To > a.From && a.Next != expected || a.To > cut {
			rt.Fatalf("%+v of %d bytes, expected next %d", a, cut, expected)
		}
		if inHole := hole >= 0 && w.Offset >= hole && w.Offset < hole+3; a.Missing >= 0 && (!inHole || a.Missing != hole+3) {
			rt.Fatalf("%d is said to be missing up to %d; the hole is at %d", w.Offset, a.Missing, hole)
		}
	})
}

func TestAHoleEndsAnAnswerAndIsNamedByTheNext(t *testing.T) {
	log := append(one(t, 0, 2, 10), one(t, 7, 1, 10)...)
	w := Want{Offset: 0, Below: 100, MaxBytes: 1 << 20, Gaps: gaps{}}
	if a := Batches(log, &w); a.Next != 2 || a.Missing != -1 {
		t.Fatalf("before the hole: %+v", a)
	}
	w.Offset = 2
	if a := Batches(log, &w); a.To != a.From || a.Missing != 7 {
		t.Fatalf("in the hole: %+v", a)
	}
	w.Gaps = gaps{2: 7}
	if a := Batches(log, &w); a.Next != 8 {
		t.Fatalf("in a recorded gap: %+v", a)
	}
}

func TestADamagedBatchIsNotServedAndDoesNotHideThoseBefore(t *testing.T) {
	first := one(t, 0, 2, 50)
	log := append(append([]byte(nil), first...), one(t, 2, 2, 50)...)
	log[len(log)-3] ^= 0x10
	w := Want{Offset: 0, Below: 100, MaxBytes: 1 << 20, Gaps: gaps{}, Check: CheckBatches}
	if a := Batches(log, &w); a.To != len(first) || a.Fault != nil {
		t.Fatalf("before the damage: %+v", a)
	}
	w.Offset = 2
	if a := Batches(log, &w); a.To != a.From || a.Fault == nil {
		t.Fatalf("at the damage: %+v", a)
	}
}

func FuzzBatches(f *testing.F) {
	f.Add(append(one(f, 0, 2, 50), one(f, 2, 1, 9)...), int64(1))
	f.Add(make([]byte, 200), int64(0))
	f.Fuzz(func(t *testing.T, b []byte, offset int64) {
		a := Batches(b, &Want{Offset: offset, Below: 1 << 40, MaxBytes: 100, Gaps: gaps{}})
		if a.From < 0 || a.To < a.From || a.To > len(b) || a.Passed > len(b) {
			t.Fatalf("%+v of %d bytes", a, len(b))
		}
	})
}

func TestAroundLeadsPastDamageAndStopsBeforeIt(t *testing.T) {
	damage := []segment.Range{
		{FromOffset: 10, ToOffset: 12, FromPos: 1000, ToPos: 1200},
		{FromOffset: 20, ToOffset: 25, FromPos: 2000, ToPos: 2000}, // missing altogether
		{FromOffset: 30, ToOffset: 31, FromPos: 3000, ToPos: 3500},
	}
	for _, c := range []struct {
		offset, pos, from, stop int64
		inside                  int
	}{
		{5, 400, 400, 1000, -1},    // before all damage
		{10, 400, 0, 0, 0},         // at the start of some
		{11, 400, 0, 0, 0},         // within
		{12, 400, 1200, 2000, -1},  // the index leads before it
		{22, 1900, 0, 0, 1},        // in a hole
		{26, 400, 2000, 3000, -1},  // past two
		{40, 3900, 3900, 9000, -1}, // past all
	} {
		p := Around(damage, c.offset, c.pos, 9000)
		if c.inside >= 0 {
			if p.Inside != &damage[c.inside] {
				t.Errorf("offset %d: %+v, expected inside %+v", c.offset, p, damage[c.inside])
			}
			continue
		}
		if p.Inside != nil || p.Pos != c.from || p.Stop != c.stop {
			t.Errorf("offset %d: %+v, expected %d to %d", c.offset, p, c.from, c.stop)
		}
	}
}
