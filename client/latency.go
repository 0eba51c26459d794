package client

import (
	"iter"
	"slices"
	"time"

	"github.com/mqd-broker/mqd/client/internal/latency"
)

// Latency is a histogram of times at one moment, in buckets at most 1/64 as wide as the
// times in them. Times of 2^38 ns, four and a half minutes, and more count as that. It is a
// value that nobody changes.
type Latency struct {
	// Count is how many times there are, Sum all of them together.
	Count uint64
	Sum   time.Duration

	buckets []uint64 // up to the last one that is not empty
}

// latencyOf is the state of a histogram.
func latencyOf(h *latency.Histogram) Latency {
	counts, n, sum := h.Copy()
	return Latency{Count: n, Sum: time.Duration(sum), buckets: counts}
}

// Quantile is a time that a share q of the times, 0 to 1, does not exceed, at most 1/64 too
// long: 0.5 is the median, 1 the longest. 0 if there are none.
func (l Latency) Quantile(q float64) time.Duration {
	rank := max(uint64(q*float64(l.Count)+0.5), 1)
	seen := uint64(0)
	for i, n := range l.buckets {
		if seen += n; seen >= rank {
			return time.Duration(latency.Upper(i))
		}
	}
	return time.Duration(latency.Upper(max(len(l.buckets)-1, 0)))
}

// Mean is the average, 0 if there are no times.
func (l Latency) Mean() time.Duration {
	if l.Count == 0 {
		return 0
	}
	return l.Sum / time.Duration(l.Count)
}

// Since is what has come since an earlier state of the same histogram.
func (l Latency) Since(earlier Latency) Latency {
	l.buckets = slices.Clone(l.buckets)
	l.Count, l.Sum = 0, max(l.Sum-earlier.Sum, 0)
	for i := range l.buckets {
		if i < len(earlier.buckets) {
			l.buckets[i] -= min(earlier.buckets[i], l.buckets[i])
		}
		l.Count += l.buckets[i]
	}
	for n := len(l.buckets); n > 0 && l.buckets[n-1] == 0; n-- {
		l.buckets = l.buckets[:n-1]
	}
	return l
}

// Merge is the histogram of the times of both, as of several clients: quantiles cannot be
// averaged, histograms can be added.
func (l Latency) Merge(other Latency) Latency {
	sum := make([]uint64, max(len(l.buckets), len(other.buckets)))
	copy(sum, l.buckets)
	for i, n := range other.buckets {
		sum[i] += n
	}
	return Latency{Count: l.Count + other.Count, Sum: l.Sum + other.Sum, buckets: sum}
}

// Buckets are the longest time of each bucket that is not empty, and how many times are in
// it, in ascending order: what a metrics library needs for a histogram of its own.
func (l Latency) Buckets() iter.Seq2[time.Duration, uint64] {
	return func(yield func(time.Duration, uint64) bool) {
		for i, n := range l.buckets {
			if n > 0 && !yield(time.Duration(latency.Upper(i)), n) {
				return
			}
		}
	}
}
