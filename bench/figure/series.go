package figure

import (
	"encoding/json"
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
	// Before* count what was acknowledged, read and read after a pause before the first
	// interval.
	BeforeDone    int64   `json:"before_done"`
	BeforeRead    int64   `json:"before_read"`
	BeforeDrained int64   `json:"before_drained,omitempty"`
	Points        []Point `json:"points"`
}

// Point is one interval of a [Series].
type Point struct {
	// Acked counts messages that were meant to be sent in the interval and have
	// been acknowledged; Done those acknowledged in it, whenever they were meant.
	Acked int64 `json:"acked"`
	Done  int64 `json:"done"`
	// Read counts messages that were read in the interval as they came, Drained those that
	// a consumer read that had paused.
	Read    int64 `json:"read"`
	Drained int64 `json:"drained,omitempty"`
	// Latencies in nanoseconds, as those of the whole result.
	P50 int64 `json:"p50_ns"`
	P99 int64 `json:"p99_ns"`
	Max int64 `json:"max_ns"`
	// Lag is the largest send lag in nanoseconds.
	Lag int64 `json:"max_send_lag_ns"`
	// EndToEnd* are of messages that were meant to be sent in the interval, in nanoseconds.
	EndToEndP50 int64 `json:"end_to_end_p50_ns,omitempty"`
	EndToEndP99 int64 `json:"end_to_end_p99_ns,omitempty"`
	EndToEndMax int64 `json:"end_to_end_max_ns,omitempty"`
	// Histogram of the latencies: HdrHistogram's V2 encoding in base64, two digits.
	Histogram string `json:"histogram,omitempty"`
	// EndToEnd is that of the latencies from end to end.
	EndToEnd string `json:"end_to_end_histogram,omitempty"`

	ack, endToEnd *hdrhistogram.Histogram
}

// NewSeries makes intervals for a measurement. Recording allocates nothing.
func NewSeries(d time.Duration) *Series {
	s := &Series{Interval: intervals[len(intervals)-1]}
	for _, i := range intervals {
		if d <= mostIntervals*i {
			s.Interval = i
			break
		}
	}
	s.Points = make([]Point, min(mostIntervals, max(1, (d+s.Interval-1)/s.Interval)))
	for i := range s.Points {
		s.Points[i].ack = hdrhistogram.New(1, MaxLatency, seriesDigits)
		s.Points[i].endToEnd = hdrhistogram.New(1, MaxLatency, seriesDigits)
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

// Record notes n acknowledged messages: when they were meant to be sent and
// acknowledged, after the warm-up, and how late they were sent.
func (s *Series) Record(intended, acked, lag, n int64) {
	p := s.at(intended)
	if p == nil {
		return
	}
	p.Acked += n
	p.Lag = max(p.Lag, lag)
	// It fails for values out of range only.
	_ = p.ack.RecordValues(min(max(0, acked-intended), MaxLatency), n)
}

// Done notes n messages acknowledged at a time after the warm-up, or in it.
func (s *Series) Done(at, n int64) {
	if at < 0 {
		s.BeforeDone += n
	} else if p := s.at(at); p != nil {
		p.Done += n
	}
}

// ReadOne notes a message that was read as it came.
func (s *Series) ReadOne(intended, at int64) {
	if at < 0 {
		s.BeforeRead++
	} else if p := s.at(at); p != nil {
		p.Read++
	}
	if p := s.at(intended); p != nil {
		_ = p.endToEnd.RecordValue(min(max(0, at-intended), MaxLatency))
	}
}

// Drain notes a message that a consumer read that pauses.
func (s *Series) Drain(at int64) {
	if at < 0 {
		s.BeforeDrained++
	} else if p := s.at(at); p != nil {
		p.Drained++
	}
}

// Merge adds another series of the same measurement, or of a repetition.
func (s *Series) Merge(o *Series) {
	s.BeforeDone += o.BeforeDone
	s.BeforeRead += o.BeforeRead
	s.BeforeDrained += o.BeforeDrained
	for i := range min(len(s.Points), len(o.Points)) {
		p, q := &s.Points[i], &o.Points[i]
		p.Acked += q.Acked
		p.Done += q.Done
		p.Read += q.Read
		p.Drained += q.Drained
		p.Lag = max(p.Lag, q.Lag)
		p.ack.Merge(q.ack)
		p.endToEnd.Merge(q.endToEnd)
	}
}

// MarshalJSON implements json.Marshaler.
func (s *Series) MarshalJSON() ([]byte, error) {
	s.Summarize()
	type plain Series
	return json.Marshal((*plain)(s))
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Series) UnmarshalJSON(text []byte) error {
	type plain Series
	if err := json.Unmarshal(text, (*plain)(s)); err != nil {
		return err
	}
	for i := range s.Points {
		p := &s.Points[i]
		var err error
		if p.ack, err = decoded(p.Histogram); err != nil {
			return err
		}
		if p.endToEnd, err = decoded(p.EndToEnd); err != nil {
			return err
		}
	}
	return nil
}

// decoded is the histogram of an interval, empty for "".
func decoded(text string) (*hdrhistogram.Histogram, error) {
	all := hdrhistogram.New(1, MaxLatency, seriesDigits)
	if text == "" {
		return all, nil
	}
	h, err := hdrhistogram.Decode([]byte(text))
	if err != nil {
		return nil, err
	}
	all.Merge(h)
	return all, nil
}

// Summarize computes what is told of each interval.
func (s *Series) Summarize() {
	for i := range s.Points {
		p := &s.Points[i]
		if p.ack.TotalCount() > 0 {
			p.P50, p.P99, p.Max = p.ack.ValueAtPercentile(50), p.ack.ValueAtPercentile(99), p.ack.Max()
			p.Histogram = encoded(p.ack)
		}
		if p.endToEnd.TotalCount() > 0 {
			p.EndToEndP50, p.EndToEndP99, p.EndToEndMax = p.endToEnd.ValueAtPercentile(50), p.endToEnd.ValueAtPercentile(99), p.endToEnd.Max()
			p.EndToEnd = encoded(p.endToEnd)
		}
	}
}

// encoded is HdrHistogram's V2 encoding in base64.
func encoded(h *hdrhistogram.Histogram) string {
	b, err := h.EncodeV2()
	if err != nil {
		return ""
	}
	return string(b)
}
