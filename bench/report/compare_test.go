package report

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/mqd-broker/mqd/bench"
)

// caseOf has rounds and intervals around a latency in nanoseconds, with some noise.
func caseOf(t *testing.T, ns float64, rounds int, seed uint64) *bench.Case {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 0))
	c := &bench.Case{Result: &bench.Result{Title: "case", Series: &bench.Series{Interval: 1e9}}}
	for range rounds {
		n := int64(ns * (1 + 0.05*r.NormFloat64()))
		c.Rounds = append(c.Rounds, bench.Round{P50: n, P90: 2 * n, P99: 3 * n, P999: 4 * n})
	}
	for range 20 {
		h := hdrhistogram.New(1, 6e10, 2)
		for range 200 {
			if err := h.RecordValue(int64(ns * (1 + r.ExpFloat64()))); err != nil {
				t.Fatal(err)
			}
		}
		text, err := h.EncodeV2()
		if err != nil {
			t.Fatal(err)
		}
		c.Result.Series.Points = append(c.Result.Series.Points, bench.Point{Histogram: string(text)}, bench.Point{})
		c.Result.Ack.Count += 200
	}
	return c
}

func TestAComparisonFindsADifferenceAndNoneWhereThereIsNone(t *testing.T) {
	for name, m := range map[string]struct {
		rounds   int
		together bool
		from     string
	}{
		"pairs": {7, true, "7 pairs"}, "two runs": {7, false, "7 and 7 rounds"}, "intervals": {1, true, "20 and 20 intervals"},
	} {
		base := caseOf(t, 100_000, m.rounds, 1)
		slower, err := Compare(caseOf(t, 200_000, m.rounds, 2), base, m.together)
		if err != nil || !strings.Contains(slower.From, m.from) || len(slower.Ratios) != 4 {
			t.Fatalf("%s: %+v, error %v", name, slower, err)
		}
		for _, r := range slower.Ratios {
			if r.Verdict() != "A is slower" || r.Ratio < 1.6 || r.Ratio > 2.5 || r.Low > r.Ratio || r.High < r.Ratio {
				t.Errorf("%s: twice as slow: %+v, %s", name, r, r.Verdict())
			}
		}
		same, err := Compare(base, base, m.together)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range same.Ratios {
			if r.Verdict() != "no difference" || r.Ratio != 1 {
				t.Errorf("%s: the same: %+v, %s", name, r, r.Verdict())
			}
		}
		faster, err := Compare(base, caseOf(t, 200_000, m.rounds, 2), m.together)
		if err != nil || faster.Ratios[0].Verdict() != "A is faster" || !strings.Contains(faster.Text(), "A is faster") {
			t.Errorf("%s: %s, error %v", name, faster.Text(), err)
		}
	}
}

func TestMergedIntervalsHaveThePercentilesOfTheirHistogram(t *testing.T) {
	c := caseOf(t, 100_000, 1, 3)
	all := hdrhistogram.New(1, 6e10, 2)
	hists := points(c.Result.Series)
	for _, h := range hists {
		if h != nil {
			all.Merge(h)
		}
	}
	cells := newCells(hists)
	for _, p := range percentiles {
		if got, want := cells.at(cells.columns, p.at), all.ValueAtPercentile(p.at); got != want {
			t.Errorf("%s: %d, want %d", p.name, got, want)
		}
	}
}

func TestCasesWithoutMessagesAreNotCompared(t *testing.T) {
	empty := &bench.Case{Result: &bench.Result{Series: &bench.Series{}}}
	if _, err := Compare(empty, caseOf(t, 1000, 1, 1), false); !errors.Is(err, ErrCompare) {
		t.Errorf("error %v", err)
	}
	short := caseOf(t, 1000, 1, 1)
	short.Result.Series.Points = short.Result.Series.Points[:2]
	if _, err := Compare(short, short, true); !errors.Is(err, ErrCompare) {
		t.Errorf("one interval: error %v", err)
	}
}
