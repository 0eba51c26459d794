package bench

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	// mostIntervals bounds the intervals of a run.
	mostIntervals = 100
	// seriesDigits is the number of significant digits of an interval's
	// histogram: 31 KB each.
	seriesDigits = 2
)

// intervals are the lengths that an interval may have.
var intervals = []time.Duration{
	10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute,
}

// Series is what a measurement was like over time: what was meant to be sent in an
// interval, in order. Waits lie where they began, not where they ended.
type Series struct {
	Interval time.Duration `json:"interval_ns"`
	Points   []Point       `json:"points"`
}

// Point is one interval of a [Series].
type Point struct {
	// Acked counts messages that were meant to be sent in the interval and have
	// been acknowledged; Done those acknowledged in it, whenever they were meant.
	Acked int64 `json:"acked"`
	Done  int64 `json:"done"`
	// Latencies in nanoseconds, as those of the whole result.
	P50 int64 `json:"p50_ns"`
	P99 int64 `json:"p99_ns"`
	Max int64 `json:"max_ns"`
	// Lag is the largest send lag in nanoseconds.
	Lag int64 `json:"max_send_lag_ns"`
	// Histogram of the latencies: HdrHistogram's V2 encoding in base64, two digits.
	Histogram string `json:"histogram,omitempty"`

	ack *hdrhistogram.Histogram
}

// newSeries makes intervals for a measurement. Recording allocates nothing.
func newSeries(d time.Duration) *Series {
	s := &Series{Interval: intervals[len(intervals)-1]}
	for _, i := range intervals {
		if d <= mostIntervals*i {
			s.Interval = i
			break
		}
	}
	s.Points = make([]Point, min(mostIntervals, max(1, (d+s.Interval-1)/s.Interval)))
	for i := range s.Points {
		s.Points[i].ack = hdrhistogram.New(1, maxLatency, seriesDigits)
	}
	return s
}

// at is the interval of a time after the warm-up, nil for one outside.
func (s *Series) at(ns int64) *Point {
	i := ns / int64(s.Interval)
	if ns < 0 || i >= int64(len(s.Points)) {
		return nil
	}
	return &s.Points[i]
}

// record notes n messages: when they were meant to be sent and acknowledged, after
// the warm-up, and how late they were sent.
func (s *Series) record(intended, acked, lag, n int64) {
	if p := s.at(acked); p != nil {
		p.Done += n
	}
	p := s.at(intended)
	if p == nil {
		return
	}
	p.Acked += n
	p.Lag = max(p.Lag, lag)
	// It fails for values out of range only.
	_ = p.ack.RecordValues(min(max(0, acked-intended), maxLatency), n)
}

// merge adds another series of the same measurement, or of a repetition.
func (s *Series) merge(o *Series) {
	for i := range min(len(s.Points), len(o.Points)) {
		p, q := &s.Points[i], &o.Points[i]
		p.Acked += q.Acked
		p.Done += q.Done
		p.Lag = max(p.Lag, q.Lag)
		p.ack.Merge(q.ack)
	}
}

// summarize computes what is told of each interval.
func (s *Series) summarize() {
	for i := range s.Points {
		p := &s.Points[i]
		if p.ack.TotalCount() == 0 {
			continue
		}
		p.P50, p.P99, p.Max = p.ack.ValueAtPercentile(50), p.ack.ValueAtPercentile(99), p.ack.Max()
		if b, err := p.ack.EncodeV2(); err == nil {
			p.Histogram = string(b)
		}
	}
}
