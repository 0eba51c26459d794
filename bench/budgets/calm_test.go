package budgets

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/bench"
	"github.com/mqd-broker/mqd/bench/machine"
)

func TestWhatOthersTookIsWhatWasWaitedWithoutTheOwnThreads(t *testing.T) {
	at := time.Unix(1, 0)
	turns := func(pinned, free time.Duration) machine.Turns {
		return machine.Turns{
			1: {Scheduled: machine.Scheduled{Waited: pinned}, Pinned: true},
			2: {Scheduled: machine.Scheduled{Run: free}},
		}
	}
	before := watch{at: at, broker: turns(0, 0), client: turns(0, 0)}
	for _, c := range []struct {
		shard, helpers, client, own time.Duration
		want                        float64
	}{
		{0, 0, 0, 0, 0},
		{3 * time.Millisecond, time.Millisecond, 5 * time.Millisecond, 2 * time.Millisecond, 0.05},
		{time.Millisecond, 5 * time.Millisecond, 0, 0, 0},
	} {
		after := watch{at: at.Add(100 * time.Millisecond), broker: turns(c.shard, c.helpers), client: turns(c.client, c.own)}
		if got := after.taken(before); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	if got := before.taken(before); got != 0 {
		t.Errorf("%v in no time", got)
	}
}

func TestAMeasurementIsMadeAgainUntilItIsCalm(t *testing.T) {
	failed := &bench.Result{Verdict: bench.Failed}
	for _, c := range []struct {
		taken []float64
		fails int // which has messages missing, -1 for none
		want  int // which counts
		again int
	}{
		{[]float64{0}, -1, 0, 0},
		{[]float64{calm}, -1, 0, 0},
		{[]float64{0.02, 0.001}, -1, 1, 1},
		{[]float64{0.04, 0.02, 0.03, 0.05}, -1, 1, 3},
		{[]float64{0.02, 0.05}, 1, 1, 1},
		{[]float64{0.02}, 0, 0, 0},
	} {
		made := 0
		got, again, err := calmest(func() (through, error) {
			r := through{Result: &bench.Result{Verdict: bench.Valid}, taken: c.taken[made]}
			if made == c.fails {
				r.Result = failed
			}
			made++
			return r, nil
		})
		if err != nil || got.taken != c.taken[c.want] || again != c.again || made != len(c.taken) || (got.Err() != nil) != (c.fails >= 0) {
			t.Errorf("%+v: took the one with %v after %d more of %d, error %v", c, got.taken, again, made, err)
		}
	}
	broken := errors.New("broken")
	if _, _, err := calmest(func() (through, error) { return through{}, broken }); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}

func TestARowOfADisturbedMachineIsNoFigureUnlessItPassesAtWorst(t *testing.T) {
	row := func(measured float64) Row { return atMost("x", measured, 2, 1, "s", "") }
	if r := row(1).calmly(calm, 3); r.verdict() != "pass" || !strings.Contains(r.Note, "3 measurements made again") {
		t.Errorf("%+v", r)
	}
	if r := row(1).calmly(2*calm, 0); r.verdict() != "NOT MEASURED" || !strings.Contains(r.Missing, "1.00 %") {
		t.Errorf("%+v", r)
	}
	late := &bench.Result{Verdict: bench.Invalid, Reason: "late"}
	// The budget is 2, and 1 of it without J.
	for measured, want := range map[float64]string{1: "pass", 1.5: "NOT MEASURED", 3: "NOT MEASURED"} {
		for name, judged := range map[string]Row{
			"late":      row(measured).of(late),
			"disturbed": row(measured).calmly(1, 0),
			"noisy":     row(measured).quietly(bench.Jitter{Stolen: 2 * noisy}),
		} {
			if r := row(measured).atWorst(judged, 1); r.verdict() != want {
				t.Errorf("%v, %s: %s, want %s: %+v", measured, name, r.verdict(), want, r)
			}
		}
		judged := row(measured).quietly(bench.Jitter{Stolen: noisy})
		if r := row(measured).atWorst(judged, 1); r.Missing != "" || r.Within != (measured < 2) {
			t.Errorf("%v: %+v", measured, r)
		}
	}
	all := [numDoors][]through{{{taken: 0.1}, {taken: 0.2}, {taken: 0.3}}, {{taken: 0.4}, {taken: 0}, {taken: 0}}}
	if got := disturbed(all); got != 0.2 {
		t.Errorf("%v", got)
	}
}

func TestTheDoorsAreJudgedWithAndWithoutWhatTheClientWasLate(t *testing.T) {
	// pairs are measurements of a door with these latencies, in µs, of which the client was late.
	pairs := func(whole, late int64) []through {
		var all []through
		for range 5 {
			var res bench.Result
			res.EndToEnd.P99, res.EndToEndService.P99 = whole*1000, (whole-late)*1000
			all = append(all, through{Result: &res})
		}
		return all
	}
	for name, c := range map[string]struct {
		native, kafka, late int64
		want                float64
		within              bool
	}{
		"in time":                          {100, 120, 0, 1.2, true},
		"late, and alike without it":       {100, 110, 50, 1.2, true},
		"late, which hid what the door is": {100, 120, 50, 1.4, false},
		"the native one slower":            {120, 100, 20, 100.0 / 120, true},
	} {
		row := latencies(name, [numDoors][]through{native: pairs(c.native, c.late), kafka: pairs(c.kafka, c.late)})
		if row.Measured != c.want || row.Within != c.within || !strings.Contains(row.Note, "5 pairs") {
			t.Errorf("%s: %+v, want %v", name, row, c.want)
		}
	}
	var res bench.Result
	res.Ack.P99 = 100
	for late, want := range map[int64]string{50: "pass", 51: "NOT MEASURED"} {
		res.Late.P99 = late
		if row := atMost("x", 1, 2, 1, "×", "").inTime(&res); row.verdict() != want || row.Within != (want == "pass") {
			t.Errorf("late by %d: %+v", late, row)
		}
	}
}
