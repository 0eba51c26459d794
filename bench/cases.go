package bench

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Case is one load, measured several times in turn with others.
type Case struct {
	// Result has the histograms of all rounds merged by bucket, and the mean rate.
	Result *Result `json:"result"`
	// Rounds are the repetitions.
	Rounds []Round `json:"rounds"`
	// P50 and P99 are medians over the rounds of the acknowledgement's latency, in
	// nanoseconds.
	P50 int64 `json:"median_p50_ns"`
	P99 int64 `json:"median_p99_ns"`
}

// Round is what one repetition found, in nanoseconds and messages a second.
type Round struct {
	P50     int64   `json:"p50_ns"`
	P90     int64   `json:"p90_ns"`
	P99     int64   `json:"p99_ns"`
	P999    int64   `json:"p999_ns"`
	Max     int64   `json:"max_ns"`
	Rate    float64 `json:"messages_per_second"`
	Verdict Verdict `json:"verdict"`
}

// NewRound takes the percentiles of a measurement of length d. One in which nothing
// was finished took at least so long: zero would look like the best of all.
func NewRound(s Summary, d time.Duration) Round {
	if s.Count == 0 {
		n := int64(d)
		return Round{P50: n, P90: n, P99: n, P999: n, Max: n}
	}
	return Round{P50: s.P50, P90: s.P90, P99: s.P99, P999: s.P999, Max: s.Max}
}

// P50 is the round's median, for [Compare] and [Median].
func P50(r Round) int64 { return r.P50 }

// P99 is the round's 99th percentile, for [Compare] and [Median].
func P99(r Round) int64 { return r.P99 }

// Runner makes measurements; each is told the target and returns what it found.
type Runner func(ctx context.Context, load Load) (*Result, error)

// Interleave measures all loads repeat times: A B B A, not A A B B, so that what
// changes on the machine meanwhile meets all of them, and none always comes first.
func Interleave(ctx context.Context, run Runner, loads []Load, repeat int) ([]*Case, error) {
	cases := make([]*Case, len(loads))
	for round := range repeat {
		for i := range loads {
			if round%2 == 1 {
				i = len(loads) - 1 - i
			}
			load := loads[i]
			load.Seed = uint64(1 + round) // the same for all cases of a round
			res, err := run(ctx, load)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", load.withDefaults().Title(), err)
			}
			if cases[i] == nil {
				cases[i] = &Case{}
			}
			cases[i].Add(res)
		}
	}
	for _, c := range cases {
		c.Finish()
	}
	return cases, nil
}

// Add takes the next repetition.
func (c *Case) Add(res *Result) {
	r := NewRound(res.Ack, res.Load.Duration)
	r.Rate, r.Verdict = res.Rate, res.Verdict
	c.Rounds = append(c.Rounds, r)
	if c.Result == nil {
		c.Result = res
		return
	}
	c.Result.merge(res)
}

// Finish computes what is told of all repetitions, when there is at least one.
func (c *Case) Finish() {
	n := float64(len(c.Rounds))
	c.Result.Rate /= n
	c.Result.Bytes /= n
	c.Result.BrokerCPU /= n
	c.Result.summarize()
	c.P50 = Median(c.Rounds, P50)
	c.P99 = Median(c.Rounds, P99)
}

// Text is the case for people.
func (c *Case) Text() string {
	text := c.Result.Text()
	if len(c.Rounds) > 1 {
		text += fmt.Sprintf("  %d rounds: median p50 %s, median p99 %s\n", len(c.Rounds), Micros(c.P50), Micros(c.P99))
	}
	return text
}

// Median is the middle of what value gives for each element, the mean of the two
// in the middle of an even number.
func Median[T any, N int64 | float64](all []T, value func(T) N) N {
	v := make([]N, 0, len(all))
	for _, a := range all {
		v = append(v, value(a))
	}
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// Pairs compares two cases measured in turn: the ratios a/b of each round.
type Pairs struct {
	// Median of the ratios, and the bounds within which 95 % of the medians of
	// resampled ratios lie.
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Count  int     `json:"pairs"`
}

// resamples is the number of times that Compare resamples.
const resamples = 2000

// Compare puts rounds of a and b of the same number against each other.
func Compare(a, b []Round, value func(Round) int64) Pairs {
	ratios := make([]float64, 0, len(a))
	for i := range min(len(a), len(b)) {
		ratios = append(ratios, float64(value(a[i]))/float64(max(1, value(b[i]))))
	}
	return Ratios(ratios)
}

// Ratios is [Compare] of ratios that somebody else has computed.
func Ratios(ratios []float64) Pairs {
	same := func(f float64) float64 { return f }
	p := Pairs{Median: Median(ratios, same), Count: len(ratios)}
	if p.Count == 0 {
		return p
	}
	r := rand.New(rand.NewPCG(1, uint64(p.Count)))
	medians := make([]float64, resamples)
	sample := make([]float64, p.Count)
	for i := range medians {
		for j := range sample {
			sample[j] = ratios[r.IntN(p.Count)]
		}
		medians[i] = Median(sample, same)
	}
	slices.SortFunc(medians, cmp.Compare[float64])
	p.Low, p.High = medians[resamples/40], medians[resamples-1-resamples/40]
	return p
}
