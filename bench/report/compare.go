package report

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/mqd-broker/mqd/bench"
)

const (
	// fewestRounds is how many repetitions of both must be there to compare them;
	// with fewer, intervals within the measurements are.
	fewestRounds = 5
	// resamples is how often a comparison draws.
	resamples = 1000
)

// ErrCompare: two cases cannot be compared.
var ErrCompare = errors.New("nothing to compare")

// Ratio is how a percentile of A stands to that of B.
type Ratio struct {
	Percentile string `json:"percentile"`
	// A and B are in nanoseconds.
	A int64 `json:"a_ns"`
	B int64 `json:"b_ns"`
	// Ratio is A / B: above 1, A is slower. Of what chance could have made of the
	// same two, 95 % lie between Low and High.
	Ratio float64 `json:"ratio"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// Verdict says what the interval says.
func (r Ratio) Verdict() string {
	switch {
	case r.Low > 1:
		return "A is slower"
	case r.High < 1:
		return "A is faster"
	default:
		return "no difference"
	}
}

// Comparison is two cases against each other, percentile by percentile.
type Comparison struct {
	A string `json:"a"`
	B string `json:"b"`
	// From says what was resampled.
	From   string  `json:"from"`
	Ratios []Ratio `json:"ratios"`
}

// percentiles are those that are compared.
var percentiles = []struct {
	name  string
	at    float64
	round func(bench.Round) int64
}{
	{"p50", 50, bench.P50},
	{"p90", 90, func(r bench.Round) int64 { return r.P90 }},
	{"p99", 99, bench.P99},
	{"p99.9", 99.9, func(r bench.Round) int64 { return r.P999 }},
}

// Compare compares the acknowledgement's latency of two cases. Both of together
// were measured in turn, and their rounds are compared pair by pair; those of two
// runs are not. With fewer than five rounds of either the intervals within the
// measurements are resampled: that tells of chance within the two runs, not of how
// one run differs from the next.
func Compare(a, b *bench.Case, together bool) (Comparison, error) {
	c := Comparison{A: a.Result.Title, B: b.Result.Title}
	if a.Result.Ack.Count == 0 || b.Result.Ack.Count == 0 {
		return c, fmt.Errorf("%w: %q has %d messages, %q %d", ErrCompare, c.A, a.Result.Ack.Count, c.B, b.Result.Ack.Count)
	}
	if len(a.Rounds) >= fewestRounds && len(b.Rounds) >= fewestRounds {
		c.rounds(a, b, together && len(a.Rounds) == len(b.Rounds))
		return c, nil
	}
	return c, c.intervals(a.Result.Series, b.Result.Series)
}

func (c *Comparison) rounds(a, b *bench.Case, pairs bool) {
	c.From = fmt.Sprintf("%d and %d rounds", len(a.Rounds), len(b.Rounds))
	if pairs {
		c.From = fmt.Sprintf("%d pairs of rounds", len(a.Rounds))
	}
	for _, p := range percentiles {
		r := Ratio{Percentile: p.name, A: bench.Median(a.Rounds, p.round), B: bench.Median(b.Rounds, p.round)}
		if pairs {
			found := bench.Compare(a.Rounds, b.Rounds, p.round)
			r.Ratio, r.Low, r.High = found.Median, found.Low, found.High
		} else {
			r.Ratio = over(r.A, r.B)
			random := rand.New(rand.NewPCG(1, 1))
			r.Low, r.High = bounds(func() float64 {
				return over(bench.Median(draw(random, a.Rounds), p.round), bench.Median(draw(random, b.Rounds), p.round))
			})
		}
		c.Ratios = append(c.Ratios, r)
	}
}

func over(a, b int64) float64 { return float64(a) / float64(max(1, b)) }

// draw takes as many elements as there are, some more than once.
func draw[T any](random *rand.Rand, from []T) []T {
	drawn := make([]T, len(from))
	for i := range drawn {
		drawn[i] = from[random.IntN(len(from))]
	}
	return drawn
}

// bounds are those within which 95 % of what is drawn lies.
func bounds(once func() float64) (low, high float64) {
	all := make([]float64, resamples)
	for i := range all {
		all[i] = once()
	}
	slices.SortFunc(all, cmp.Compare[float64])
	return all[resamples/40], all[resamples-1-resamples/40]
}

func (c *Comparison) intervals(a, b *bench.Series) error {
	one, other := newCells(points(a)), newCells(points(b))
	if len(one.columns) < 2 || len(other.columns) < 2 {
		return fmt.Errorf("%w: %d and %d intervals with messages, expected two or more of each", ErrCompare, len(one.columns), len(other.columns))
	}
	c.From = fmt.Sprintf("%d and %d intervals of the runs: chance within them, not from run to run", len(one.columns), len(other.columns))
	for _, p := range percentiles {
		r := Ratio{Percentile: p.name, A: one.at(one.columns, p.at), B: other.at(other.columns, p.at)}
		r.Ratio = over(r.A, r.B)
		random := rand.New(rand.NewPCG(1, 2))
		r.Low, r.High = bounds(func() float64 {
			return over(one.at(draw(random, one.columns), p.at), other.at(draw(random, other.columns), p.at))
		})
		c.Ratios = append(c.Ratios, r)
	}
	return nil
}

// cells are histograms of intervals in a form that is merged quickly: the values
// that occur, ascending, and for each interval how often each of its values does.
type cells struct {
	values  []int64
	columns [][]cell
	sum     []int64
}

type cell struct {
	value int // index
	count int64
}

func newCells(hists []*hdrhistogram.Histogram) *cells {
	c, index := &cells{}, map[int64]int{}
	for _, h := range hists {
		if h == nil {
			continue
		}
		for _, bar := range h.Distribution() {
			if bar.Count > 0 {
				index[bar.To] = 0
			}
		}
	}
	for v := range index {
		c.values = append(c.values, v)
	}
	slices.Sort(c.values)
	for i, v := range c.values {
		index[v] = i
	}
	for _, h := range hists {
		if h == nil {
			continue
		}
		var column []cell
		for _, bar := range h.Distribution() {
			if bar.Count > 0 {
				column = append(column, cell{index[bar.To], bar.Count})
			}
		}
		c.columns = append(c.columns, column)
	}
	c.sum = make([]int64, len(c.values))
	return c
}

// at is a percentile of some columns merged.
func (c *cells) at(columns [][]cell, percentile float64) int64 {
	clear(c.sum)
	total := int64(0)
	for _, column := range columns {
		for _, cell := range column {
			c.sum[cell.value] += cell.count
			total += cell.count
		}
	}
	rest := max(1, int64(percentile/100*float64(total)+0.5))
	for i, n := range c.sum {
		if rest -= n; rest <= 0 {
			return c.values[i]
		}
	}
	return 0
}

// Text is the comparison for people.
func (c Comparison) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "A  %s\nB  %s\nfrom %s\n\n", c.A, c.B, c.From)
	fmt.Fprintf(&b, "%-8s %12s %12s %8s %18s\n", "", "A", "B", "A / B", "95 % within")
	for _, r := range c.Ratios {
		fmt.Fprintf(&b, "%-8s %12s %12s %8.3f %8.3f to %.3f  %s\n", r.Percentile, bench.Micros(r.A), bench.Micros(r.B), r.Ratio, r.Low, r.High, r.Verdict())
	}
	return b.String()
}
