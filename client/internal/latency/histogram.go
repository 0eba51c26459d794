// Package latency counts times in histograms that any goroutine may add to.
package latency

import (
	"math/bits"
	"sync/atomic"
	"time"
)

const (
	// subBits is the number of bits of a time that its bucket tells: a bucket is at most
	// 1/64 as wide as the times in it.
	subBits = 6
	sub     = 1 << subBits
	// maxBits bounds times: what takes 2^38 ns or more, which is four and a half minutes,
	// counts as the longest.
	maxBits = 38
	// Buckets is the number of buckets.
	Buckets = (maxBits - subBits + 1) * sub
)

// Histogram counts times. The zero value is ready.
type Histogram struct {
	counts [Buckets]atomic.Uint64
	sum    atomic.Uint64 // nanoseconds
}

// Add adds a time; one below 0 counts as 0. It costs two atomic additions.
func (h *Histogram) Add(d time.Duration) {
	v := uint64(max(d, 0))
	h.counts[Bucket(v)].Add(1)
	h.sum.Add(v)
}

// Copy returns the counts up to the last one that is not 0, their number and the sum of
// all times in nanoseconds. What is added meanwhile may be in one and not in the other.
func (h *Histogram) Copy() (counts []uint64, n, sum uint64) {
	sum = h.sum.Load()
	end := Buckets
	for end > 0 && h.counts[end-1].Load() == 0 {
		end--
	}
	counts = make([]uint64, end)
	for i := range counts {
		counts[i] = h.counts[i].Load()
		n += counts[i]
	}
	return counts, n, sum
}

// Bucket is the bucket of a time in nanoseconds.
func Bucket(v uint64) int {
	if v < sub {
		return int(v)
	}
	if v >= 1<<maxBits {
		return Buckets - 1
	}
	shift := bits.Len64(v) - subBits - 1
	return (shift+1)*sub + int(v>>shift) - sub
}

// Upper is the longest time of a bucket, in nanoseconds.
func Upper(i int) int64 {
	if i < 2*sub {
		return int64(i)
	}
	shift := i/sub - 1
	return (int64(i%sub)+sub+1)<<shift - 1
}
