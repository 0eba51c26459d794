// Package search looks for the rate that a broker bears: up a ladder of rates until
// an objective breaks, or for the highest one that does not.
package search

import (
	"context"
	"fmt"
	"time"

	"github.com/mqd-broker/mqd/bench"
	"github.com/mqd-broker/mqd/bench/report"
)

const (
	// least is the part of the intended messages that must be acknowledged within
	// the time of the measurement: with less, a backlog grows.
	least = 0.999
	// mostRate is the highest rate that is tried.
	mostRate = int64(1) << 40
)

// Objective is what a rate must keep to.
type Objective struct {
	// P999 is the largest 99.9th percentile of latency from the intended time.
	P999 time.Duration
}

// broken says what a result breaks, "" if nothing. A result that tells of the
// client breaks the objective too: nobody knows what the broker would have done.
func (o Objective) broken(r *bench.Result) string {
	switch {
	case r.Verdict != bench.Valid:
		return fmt.Sprintf("%s: %s", r.Verdict, r.Reason)
	case r.Ack.P999 > int64(o.P999):
		return fmt.Sprintf("p99.9 %s, objective %s", bench.Micros(r.Ack.P999), bench.Micros(int64(o.P999)))
	case r.Rate < least*float64(r.Load.Rate):
		return fmt.Sprintf("%.1f %% of the rate achieved: a backlog grows", 100*r.Rate/float64(r.Load.Rate))
	default:
		return ""
	}
}

// Outcome is what a search has found.
type Outcome struct {
	// Steps are the rates tried, in order; Cases their results.
	Steps []report.Step
	Cases []*bench.Case
	// Rate is the highest rate that kept to the objective, 0 if none did.
	Rate int64
	// Client says that the next rate up told of the client, not of the broker,
	// which might bear more.
	Client bool
}

// search is one under way.
type search struct {
	run  bench.Runner
	load bench.Load
	o    Objective
	each func(report.Step)
	out  Outcome
}

// try measures a rate and reports whether it keeps to the objective.
func (s *search) try(ctx context.Context, rate int64) (bool, error) {
	load := s.load
	load.Rate = rate
	r, err := s.run(ctx, load)
	if err != nil {
		return false, fmt.Errorf("%d messages/s: %w", rate, err)
	}
	c := &bench.Case{P50: r.Ack.P50, P99: r.Ack.P99}
	c.Add(r)
	step := report.Step{Rate: rate, Achieved: r.Rate, P50: r.Ack.P50, P99: r.Ack.P99, P999: r.Ack.P999, Broken: s.o.broken(r)}
	s.out.Steps, s.out.Cases = append(s.out.Steps, step), append(s.out.Cases, c)
	if s.each != nil {
		s.each(step)
	}
	if err := r.Err(); err != nil {
		return false, err
	}
	if step.Broken == "" {
		s.out.Rate = max(s.out.Rate, rate)
		return true, nil
	}
	s.out.Client = r.Verdict == bench.Invalid
	return false, nil
}

// lowest is the rate below which a measurement has too few messages to speak of
// percentiles.
func (s *search) lowest() int64 {
	const fewest = 100
	if s.load.Duration <= 0 {
		return 1
	}
	return max(1, int64(fewest/s.load.Duration.Seconds()))
}

// Sweep tries rates in order until one breaks the objective. each, which may be
// nil, hears of every step. The outcome holds what was found also with an error.
func Sweep(ctx context.Context, run bench.Runner, load bench.Load, rates []int64, o Objective, each func(report.Step)) (Outcome, error) {
	s := &search{run: run, load: load, o: o, each: each}
	for _, rate := range rates {
		if ok, err := s.try(ctx, rate); err != nil || !ok {
			return s.out, err
		}
	}
	return s.out, nil
}

// Max looks for the highest rate that keeps to the objective: from the first rate
// it doubles, or halves, until it has one that does and one that does not, and
// then closes in until they are within the given resolution, such as 0.05.
func Max(ctx context.Context, run bench.Runner, load bench.Load, from int64, resolution float64, o Objective, each func(report.Step)) (Outcome, error) {
	s := &search{run: run, load: load, o: o, each: each}
	rate, bad := max(1, from), int64(0)
	for s.out.Rate == 0 || bad == 0 {
		ok, err := s.try(ctx, rate)
		if err != nil {
			return s.out, err
		}
		if !ok {
			bad = rate
		}
		if s.out.Rate == 0 && rate <= s.lowest() || bad == 0 && rate > mostRate/2 {
			return s.out, nil
		}
		if s.out.Rate == 0 {
			rate /= 2
		} else {
			rate *= 2
		}
	}
	for bad-s.out.Rate > max(1, int64(resolution*float64(bad))) {
		middle := s.out.Rate + (bad-s.out.Rate)/2
		ok, err := s.try(ctx, middle)
		if err != nil {
			return s.out, err
		}
		if !ok {
			bad = middle
		}
	}
	return s.out, nil
}
