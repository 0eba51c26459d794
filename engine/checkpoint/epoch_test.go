package checkpoint

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/mqd-broker/mqd/internal/invariant"
)

// history is an epoch table in its naive form: who wrote each offset.
type history struct {
	owner []int32 // by offset; gapOwner for offsets that do not exist
	next  int64
	epoch int32 // -1 before the first
	start int64
	low   int64
}

const gapOwner int32 = -2

func (h *history) write(n int64) {
	for range n {
		h.owner = append(h.owner, h.epoch)
		h.next++
	}
}

func (h *history) gap(n int64) {
	for range n {
		h.owner = append(h.owner, gapOwner)
		h.next++
	}
}

// epochsOf are the epochs that wrote something, and the newest.
func (h *history) known(epoch int32) bool {
	if epoch == h.epoch {
		return true
	}
	for _, o := range h.owner[h.low:] {
		if o == epoch {
			return true
		}
	}
	return false
}

// end is the offset behind the last record of epoch.
func (h *history) end(epoch int32) int64 {
	if epoch == h.epoch {
		return h.next
	}
	for i := len(h.owner) - 1; i >= 0; i-- {
		if h.owner[i] == epoch {
			return int64(i) + 1
		}
	}
	return -1
}

func TestEpochTableKnowsWhatANaiveHistoryKnows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := history{epoch: -1}
		var table EpochTable
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch op := rapid.IntRange(0, 9).Draw(t, "op"); {
			case op < 4 && h.epoch >= 0:
				h.write(rapid.Int64Range(0, 12).Draw(t, "records"))
			case op < 7:
				h.epoch += rapid.Int32Range(1, 3).Draw(t, "epoch")
				table.Begin(h.epoch, h.next, ReasonStart)
			case op < 9:
				from := h.next
				h.gap(rapid.Int64Range(1, 12).Draw(t, "gap"))
				h.epoch += rapid.Int32Range(1, 3).Draw(t, "epoch")
				table.BeginAfterGap(h.epoch, from, h.next, ReasonCrash)
			case h.next > 0:
				h.low = rapid.Int64Range(h.low, h.next).Draw(t, "log start")
				table.TrimTo(h.low)
			}
		}
		compareHistory(t, &h, &table)
	})
}

func compareHistory(t *rapid.T, h *history, table *EpochTable) {
	for o := h.low; o < h.next+3; o++ {
		gap := o < h.next && h.owner[o] == gapOwner
		if table.InGap(o) != gap {
			t.Fatalf("InGap(%d) = %v; %+v", o, !gap, table)
		}
		skip := o
		for skip < h.next && h.owner[skip] == gapOwner {
			skip++
		}
		if got := table.SkipGap(o); got != skip {
			t.Fatalf("SkipGap(%d) = %d, want %d; %+v", o, got, skip, table)
		}
		for to := o; to < h.next+3; to++ {
			if got := table.AllowsGap(o, to); got != (to == o || gap && to == skip) {
				t.Fatalf("AllowsGap(%d, %d) = %v; %+v", o, to, got, table)
			}
		}
		if o < h.next && !gap {
			if e, ok := table.EpochAt(o); !ok || e != h.owner[o] {
				t.Fatalf("EpochAt(%d) = %d %v, want %d; %+v", o, e, ok, h.owner[o], table)
			}
		}
	}
	compareEnds(t, h, table)
}

// compareEnds checks EndOffsetFor as far as the log start has left it decided.
func compareEnds(t *rapid.T, h *history, table *EpochTable) {
	for e := int32(-1); e < h.epoch+3; e++ {
		epoch, end := table.EndOffsetFor(e, h.next)
		switch {
		case e < 0 || e > h.epoch:
			if epoch != NoEpoch || end != NoOffset {
				t.Fatalf("EndOffsetFor(%d) = %d, %d", e, epoch, end)
			}
		case h.known(e):
			if epoch != e || end != h.end(e) {
				t.Fatalf("EndOffsetFor(%d) = %d, %d, want its end %d; %+v", e, epoch, end, h.end(e), table)
			}
		case epoch != e && (epoch > e || !h.known(epoch) && epoch != table.At(0).Epoch):
			t.Fatalf("EndOffsetFor(%d) = %d, which is no epoch at or below it; %+v", e, epoch, table)
		}
	}
}

func TestEndOffsetsAnswerLikeOffsetForLeaderEpoch(t *testing.T) {
	var table EpochTable
	if e, o := table.EndOffsetFor(0, 0); e != NoEpoch || o != NoOffset {
		t.Errorf("an empty table answers %d, %d", e, o)
	}
	table.Begin(2, 10, ReasonStart)
	table.Begin(5, 20, ReasonMove)
	table.BeginAfterGap(9, 30, 100, ReasonCrash)
	for asked, want := range map[int32][2]int64{
		-1: {-1, -1},
		0:  {0, 10}, // before the first: itself, and where the first begins
		2:  {2, 20},
		3:  {2, 20}, // unknown: the one below
		5:  {5, 30}, // its end, not the start of the next
		8:  {5, 30},
		9:  {9, 140},
		10: {-1, -1}, // above all
	} {
		if e, o := table.EndOffsetFor(asked, 140); int64(e) != want[0] || o != want[1] {
			t.Errorf("EndOffsetFor(%d) = %d, %d, want %v", asked, e, o, want)
		}
	}
}

func TestEpochsInWhichNothingWasWrittenLeaveOnlyTheirGap(t *testing.T) {
	var table EpochTable
	table.Begin(1, 0, ReasonStart)
	table.BeginAfterGap(2, 500, 1000, ReasonCrash)
	for e := int32(3); e < 2000; e++ { // a crash loop
		from := table.At(1).Start
		table.BeginAfterGap(e, from, from+10, ReasonCrash)
	}
	table.Begin(2000, table.At(1).Start, ReasonStart)
	last, _ := table.Last()
	if want := (Epoch{Epoch: 2000, Start: 1000 + 1997*10, GapFrom: 500, Reason: ReasonCrash}); table.Len() != 2 || last != want {
		t.Errorf("%d entries, the last %+v, want %+v", table.Len(), last, want)
	}
}

func TestAFullEpochTableForgetsTheOldestExactly(t *testing.T) {
	var table EpochTable
	offset := int64(0)
	for e := range int32(MaxEpochs + 3) {
		if e%2 == 1 {
			table.BeginAfterGap(e, offset, offset+5, ReasonCrash)
			offset += 5
		} else {
			table.Begin(e, offset, ReasonStart)
		}
		offset += 10
	}
	if table.Len() != MaxEpochs || table.Coarse() != table.At(0).Start || table.At(0).Epoch != 3 {
		t.Fatalf("%d entries, coarse below %d, first %+v", table.Len(), table.Coarse(), table.At(0))
	}
	if !table.AllowsGap(3, table.Coarse()) || table.AllowsGap(3, table.Coarse()+1) {
		t.Error("history is not coarse up to the first entry")
	}
	if _, ok := table.EpochAt(3); ok {
		t.Error("a forgotten epoch is known")
	}
	if table.AllowsGap(table.At(1).Start, table.At(1).Start+1) {
		t.Error("history is coarse above the first entry")
	}
}

// The segment in which a log starts may hold what is below, and the gaps between.
func TestGapsBelowTheLogStartStayRecorded(t *testing.T) {
	var table EpochTable
	table.Begin(1, 0, ReasonStart)
	table.BeginAfterGap(2, 10, 100, ReasonCrash)
	table.BeginAfterGap(3, 120, 200, ReasonCrash)
	table.Begin(4, 250, ReasonStart)
	if !table.TrimTo(220) {
		t.Fatal("nothing was forgotten")
	}
	if !table.AllowsGap(10, 100) || !table.AllowsGap(120, 200) || table.AllowsGap(240, 250) {
		t.Error("not the gaps that were recorded")
	}
}

func TestVersionGrowsWithEveryChange(t *testing.T) {
	var table EpochTable
	table.Begin(1, 0, ReasonStart)
	table.Begin(2, 5, ReasonStart)
	if v := table.Version(); v != 2 || table.TrimTo(4) || table.Version() != 2 {
		t.Errorf("version %d, then %d", v, table.Version())
	}
	copied := table.Clone()
	if !table.TrimTo(5) || table.Version() != 3 || table.Len() != 1 {
		t.Errorf("version %d, %d entries", table.Version(), table.Len())
	}
	if copied.Len() != 2 || copied.Version() != 2 {
		t.Error("a clone changes with its original")
	}
}

func TestEpochTableRefusesWhatGoesBack(t *testing.T) {
	for name, f := range map[string]func(*EpochTable){
		"epoch again":     func(e *EpochTable) { e.Begin(5, 200, ReasonStart) },
		"offset back":     func(e *EpochTable) { e.Begin(6, 99, ReasonStart) },
		"gap from before": func(e *EpochTable) { e.BeginAfterGap(6, 99, 200, ReasonCrash) },
		"gap of nothing":  func(e *EpochTable) { e.BeginAfterGap(6, 200, 200, ReasonCrash) },
		"negative epoch":  func(e *EpochTable) { *e = EpochTable{}; e.Begin(-1, 0, ReasonStart) },
		"negative offset": func(e *EpochTable) { *e = EpochTable{}; e.Begin(1, -1, ReasonStart) },
		"gap upside down": func(e *EpochTable) { e.BeginAfterGap(6, 300, 200, ReasonCrash) },
	} {
		var table EpochTable
		table.Begin(5, 100, ReasonStart)
		violates(t, name, func() { f(&table) })
	}
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

func TestOffsetsInGapsAreCounted(t *testing.T) {
	var e EpochTable
	e.Begin(1, 0, ReasonStart)
	e.BeginAfterGap(2, 10, 20, ReasonCrash)
	e.BeginAfterGap(3, 30, 1<<54, ReasonSalvage)
	if err := e.GiveUp(5, 7); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to, want int64 }{
		{0, 5, 0}, {0, 10, 2}, {6, 10, 1}, {0, 15, 7}, {12, 15, 3}, {12, 18, 6}, {20, 30, 0}, {0, 1<<54 + 3, 12 + 1<<54 - 30}, {25, 40, 10}, {1 << 54, 1<<54 + 9, 0}, {40, 40, 0},
	} {
		exist := int64(0)
		for at := c.from; at < c.to && c.to < 100; at++ {
			if e.InGap(at) {
				exist++
			}
		}
		if got := e.Missing(c.from, c.to); got != c.want || c.to < 100 && exist != got {
			t.Errorf("from %d to %d: %d, expected %d", c.from, c.to, got, c.want)
		}
	}
}
