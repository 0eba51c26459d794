package search

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/bench"
	"github.com/mqd-broker/mqd/bench/report"
	"pgregory.net/rapid"
)

// machine bears so many messages a second, and its client so many.
type machine struct {
	capacity, client int64
	fails            error
	loses            bool
}

func (m machine) run(_ context.Context, load bench.Load) (*bench.Result, error) {
	if m.fails != nil {
		return nil, m.fails
	}
	r := &bench.Result{Load: load, Rate: float64(load.Rate), Verdict: bench.Valid}
	r.Ack.P999 = int64(time.Millisecond)
	switch {
	case m.loses:
		r.Verdict, r.Faults.Lost = bench.Failed, 1
	case m.client > 0 && load.Rate > m.client:
		r.Verdict = bench.Invalid
	case load.Rate > 2*m.capacity:
		r.Rate = float64(m.capacity)
	case load.Rate > m.capacity:
		r.Ack.P999 = int64(time.Second)
	}
	return r, nil
}

var objective = Objective{P999: 5 * time.Millisecond}

func TestMaxFindsWhatAMachineBears(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := machine{capacity: rapid.Int64Range(0, 10_000_000).Draw(t, "capacity")}
		from := rapid.Int64Range(1, 1_000_000).Draw(t, "from")
		var heard []report.Step
		out, err := Max(context.Background(), m.run, bench.Load{}, from, 0.05, objective, func(s report.Step) { heard = append(heard, s) })
		if err != nil || out.Client || !slices.Equal(heard, out.Steps) || len(out.Cases) != len(out.Steps) {
			t.Fatalf("%+v, error %v, heard %v", out, err, heard)
		}
		if out.Rate > m.capacity || float64(m.capacity-out.Rate) > 0.06*float64(m.capacity)+2 {
			t.Fatalf("found %d of %d: %+v", out.Rate, m.capacity, out.Steps)
		}
	})
}

func TestMaxSaysThatTheClientWasTheLimit(t *testing.T) {
	out, err := Max(context.Background(), machine{capacity: 1000, client: 300}.run, bench.Load{}, 100, 0.05, objective, nil)
	if err != nil || !out.Client || out.Rate > 300 || out.Rate < 280 {
		t.Errorf("%+v, error %v", out, err)
	}
	if out, _ = Max(context.Background(), machine{capacity: 300, client: 1000}.run, bench.Load{}, 2000, 0.05, objective, nil); out.Client {
		t.Errorf("the broker was the limit: %+v", out)
	}
}

func TestASweepEndsWhereTheObjectiveBreaks(t *testing.T) {
	out, err := Sweep(context.Background(), machine{capacity: 250}.run, bench.Load{}, []int64{100, 200, 300, 1000}, objective, nil)
	if err != nil || len(out.Steps) != 3 || out.Rate != 200 || out.Steps[1].Broken != "" || out.Steps[2].Broken == "" {
		t.Errorf("%+v, error %v", out, err)
	}
	if out, _ = Sweep(context.Background(), machine{capacity: 100}.run, bench.Load{}, []int64{1000}, objective, nil); out.Rate != 0 || out.Steps[0].Broken == "" {
		t.Errorf("a backlog that grows was taken: %+v", out)
	}
}

func TestASearchEndsWithALossAndWithAnError(t *testing.T) {
	broken := errors.New("broken")
	for m, want := range map[*machine]error{{fails: broken}: broken, {loses: true}: bench.ErrFailed} {
		if _, err := Max(context.Background(), m.run, bench.Load{}, 10, 0.1, objective, nil); !errors.Is(err, want) {
			t.Errorf("error %v, want %v", err, want)
		}
		if out, err := Sweep(context.Background(), m.run, bench.Load{}, []int64{1, 2, 3}, objective, nil); !errors.Is(err, want) || len(out.Steps) > 1 {
			t.Errorf("%+v, error %v, want %v", out, err, want)
		}
	}
}
