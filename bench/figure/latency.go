// Package figure has what measurements record and tell: histograms of times, their course
// over an interval, and what can be seen of a run under way. Recording allocates nothing;
// everything goes from one machine to another as JSON.
package figure

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	// MaxLatency is the largest time that is told apart, in nanoseconds.
	MaxLatency = int64(time.Minute)
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
	return &Latency{hist: hdrhistogram.New(1, MaxLatency, latencyDigits)}
}

// Record adds n times of ns nanoseconds. Times below zero count as zero.
func (l *Latency) Record(ns, n int64) {
	if ns > MaxLatency {
		l.above += n
		ns = MaxLatency
	}
	// It fails for values out of range and for counts beyond 2^63 only.
	_ = l.hist.RecordValues(max(0, ns), n)
}

// Merge adds all of m, bucket by bucket.
func (l *Latency) Merge(m *Latency) {
	l.hist.Merge(m.hist)
	l.above += m.above
}

func (l *Latency) reset() {
	l.hist.Reset()
	l.above = 0
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

// latencyJSON is a [Latency] on its way.
type latencyJSON struct {
	Histogram string `json:"histogram,omitempty"` // HdrHistogram's V2 encoding in base64
	Above     int64  `json:"above,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (l *Latency) MarshalJSON() ([]byte, error) {
	j := latencyJSON{Above: l.above}
	if l.Count() > 0 {
		b, err := l.hist.EncodeV2()
		if err != nil {
			return nil, err
		}
		j.Histogram = string(b)
	}
	return json.Marshal(j)
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *Latency) UnmarshalJSON(text []byte) error {
	var j latencyJSON
	if err := json.Unmarshal(text, &j); err != nil {
		return err
	}
	*l = *NewLatency()
	l.above = j.Above
	if j.Histogram == "" {
		return nil
	}
	h, err := hdrhistogram.Decode([]byte(j.Histogram))
	if err != nil {
		return err
	}
	l.hist.Merge(h)
	return nil
}
