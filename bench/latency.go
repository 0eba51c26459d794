package bench

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	// maxLatency is the largest time that is told apart, in nanoseconds.
	maxLatency = int64(time.Minute)
	// latencyDigits is the number of significant digits: 221 KB a histogram.
	latencyDigits = 3
)

// Latency is a histogram of times in nanoseconds. Recording allocates nothing.
type Latency struct {
	hist *hdrhistogram.Histogram
	// above counts times over a minute; they stand in the histogram as a minute.
	above int64
}

// NewLatency returns an empty histogram.
func NewLatency() *Latency {
	return &Latency{hist: hdrhistogram.New(1, maxLatency, latencyDigits)}
}

// Record adds n times of ns nanoseconds. Times below zero count as zero.
func (l *Latency) Record(ns, n int64) {
	if ns > maxLatency {
		l.above += n
		ns = maxLatency
	}
	// It fails for values out of range and for counts beyond 2^63 only.
	_ = l.hist.RecordValues(max(0, ns), n)
}

// Merge adds all of m, bucket by bucket.
func (l *Latency) Merge(m *Latency) {
	l.hist.Merge(m.hist)
	l.above += m.above
}

// Count is the number of recorded times.
func (l *Latency) Count() int64 { return l.hist.TotalCount() }

// At is the value at a percentile, 0 to 100, in nanoseconds.
func (l *Latency) At(percentile float64) int64 { return l.hist.ValueAtPercentile(percentile) }

// Summary is what a table shows of a histogram, in nanoseconds.
type Summary struct {
	Count int64 `json:"count"`
	Mean  int64 `json:"mean_ns"`
	P50   int64 `json:"p50_ns"`
	P90   int64 `json:"p90_ns"`
	P99   int64 `json:"p99_ns"`
	P999  int64 `json:"p999_ns"`
	Max   int64 `json:"max_ns"`
	// Histogram is the whole of it: HdrHistogram's V2 encoding in base64.
	Histogram string `json:"histogram,omitempty"`
}

// Summary computes the figures.
func (l *Latency) Summary() Summary {
	s := Summary{
		Count: l.Count(), Mean: int64(l.hist.Mean()),
		P50: l.At(50), P90: l.At(90), P99: l.At(99), P999: l.At(99.9), Max: l.hist.Max(),
	}
	if s.Count > 0 {
		if b, err := l.hist.EncodeV2(); err == nil {
			s.Histogram = string(b)
		}
	}
	return s
}

// String is the summary in one line, in microseconds.
func (s Summary) String() string {
	return fmt.Sprintf("p50 %s  p90 %s  p99 %s  p99.9 %s  max %s",
		Micros(s.P50), Micros(s.P90), Micros(s.P99), Micros(s.P999), Micros(s.Max))
}

// Micros writes nanoseconds as microseconds with three or more digits.
func Micros(ns int64) string {
	us := float64(ns) / 1e3
	switch {
	case us < 10:
		return fmt.Sprintf("%.2f µs", us)
	case us < 100:
		return fmt.Sprintf("%.1f µs", us)
	case us < 1e5:
		return fmt.Sprintf("%.0f µs", us)
	default:
		return fmt.Sprintf("%.0f ms", us/1e3)
	}
}
