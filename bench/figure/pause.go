package figure

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Pause is what became of a second consumer, which stopped for a while, and of the first
// one, which did not. Times are known to an interval of the series.
type Pause struct {
	// Length of the pause. Backlog is how many messages the consumer was behind at its
	// end; Produced is how many messages a second were acknowledged meanwhile.
	Length   time.Duration `json:"length_ns"`
	Backlog  int64         `json:"backlog"`
	Produced float64       `json:"produced_per_second"`
	// Drained is how many messages a second the consumer read from then until it was
	// where the other one is, which took Parity; 0 if it did not come so far within the
	// measurement.
	Drained float64       `json:"drained_per_second"`
	Parity  time.Duration `json:"parity_ns"`
	// TailPaused and TailDraining are the latencies from end to end of the other consumer
	// in the pause and after it, until Parity, at the 99th percentile.
	TailPaused   int64 `json:"live_tail_p99_paused_ns"`
	TailDraining int64 `json:"live_tail_p99_draining_ns"`
}

// PauseOf finds it in a series, nil for one without a pause.
func PauseOf(s *Series, length time.Duration) *Pause {
	resumed := int((length + s.Interval - 1) / s.Interval)
	if length <= 0 || resumed >= len(s.Points) {
		return nil
	}
	p := &Pause{Length: length}
	done, drained := s.BeforeDone, s.BeforeDrained
	begun := done
	tail := hdrhistogram.New(1, MaxLatency, seriesDigits)
	for _, q := range s.Points[:resumed] {
		done += q.Done
		drained += q.Drained
		tail.Merge(q.endToEnd)
	}
	p.Backlog = max(0, done-drained)
	p.Produced = float64(done-begun) / (time.Duration(resumed) * s.Interval).Seconds()
	p.TailPaused = tail.ValueAtPercentile(99)
	tail.Reset()
	from, took := drained, time.Duration(0)
	for _, q := range s.Points[resumed:] {
		took += s.Interval
		before := done
		done += q.Done
		drained += q.Drained
		tail.Merge(q.endToEnd)
		if drained >= before {
			p.Parity = took
			break
		}
	}
	p.Drained = float64(drained-from) / took.Seconds()
	p.TailDraining = tail.ValueAtPercentile(99)
	return p
}

// String is the pause in two lines.
func (p *Pause) String() string {
	parity := "not within the measurement"
	if p.Parity > 0 {
		parity = fmt.Sprintf("after %v", p.Parity)
	}
	return fmt.Sprintf("%d messages behind after a pause of %v at %.0f messages/s; then %.0f messages/s, with the others %s\n  %-11s end to end p99 of who did not pause: %s meanwhile, %s while the other caught up",
		p.Backlog, p.Length, p.Produced, p.Drained, parity, "live tail", Micros(p.TailPaused), Micros(p.TailDraining))
}
