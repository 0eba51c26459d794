package stage

import "math/bits"

const (
	// subBits is the number of bits of a value that a bucket tells: its width is at most
	// 1/32 of what is in it.
	subBits = 5
	sub     = 1 << subBits
	// maxBits bounds values: what takes 2^37 ns, which is two minutes, or more counts as
	// the longest.
	maxBits = 37
	// Buckets is the number of buckets of a histogram.
	Buckets = (maxBits - subBits + 1) * sub
)

// Histogram counts times by buckets that grow with the times in them.
type Histogram struct {
	Counts [Buckets]uint64
	// Total is the number of samples, Sum the nanoseconds of all of them.
	Total, Sum uint64
}

// add adds a sample. Clocks of two shards are read at different moments of their turns;
// what comes out less than 0 is 0.
func (h *Histogram) add(nanos int64) {
	v := uint64(max(nanos, 0))
	h.Counts[bucket(v)]++
	h.Total++
	h.Sum += v
}

// bucket is that of a value.
func bucket(v uint64) int {
	if v < sub {
		return int(v)
	}
	if v >= 1<<maxBits {
		return Buckets - 1
	}
	shift := bits.Len64(v) - subBits - 1
	return (shift+1)*sub + int(v>>shift) - sub
}

// Upper is the largest value of a bucket, in nanoseconds.
func Upper(i int) int64 {
	if i < 2*sub {
		return int64(i)
	}
	shift := i/sub - 1
	return (int64(i%sub)+sub+1)<<shift - 1
}

// Quantile is a value that a share q of the samples does not exceed, 0 to 1, in
// nanoseconds and at most 1/32 too large; 0 without samples.
func (h *Histogram) Quantile(q float64) int64 {
	if h.Total == 0 {
		return 0
	}
	rank := max(uint64(q*float64(h.Total)+0.5), 1)
	seen := uint64(0)
	for i, n := range h.Counts {
		if seen += n; seen >= rank {
			return Upper(i)
		}
	}
	return Upper(Buckets - 1)
}

// Below is the number of samples of at most nanos, rounded to whole buckets.
func (h *Histogram) Below(nanos int64) uint64 {
	n := uint64(0)
	for i := range h.Counts {
		if Upper(i) > nanos {
			break
		}
		n += h.Counts[i]
	}
	return n
}

// Sub takes the samples of an earlier state away. Of a state that is no earlier one, as
// from before a restart, it takes what there is.
func (h *Histogram) Sub(earlier *Histogram) {
	h.Total = 0
	for i, n := range earlier.Counts {
		h.Counts[i] -= min(n, h.Counts[i])
		h.Total += h.Counts[i]
	}
	h.Sum -= min(earlier.Sum, h.Sum)
}
