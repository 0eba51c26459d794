package sim

import "time"

// Range is a span of times, drawn from evenly, with a rare long tail.
type Range struct {
	Min, Max time.Duration
	// Tail is drawn (from Max to Tail) in one case of 100.
	Tail time.Duration
}

// Latency is how long each kind of thing takes.
type Latency struct {
	Read  Range
	Write Range // also per write with FlagDSYNC, beside Flush when that flushes
	Flush Range
	Step  Range // one filesystem call of a helper; Virtual worlds only
	Net   Range // from a send to the arrival, and to accept
	Call  Range // cancel, shutdown, close
}

// DefaultLatency is a fast NVMe disk and a loopback network, with tails.
var DefaultLatency = Latency{
	Read:  Range{10 * time.Microsecond, 90 * time.Microsecond, 2 * time.Millisecond},
	Write: Range{5 * time.Microsecond, 60 * time.Microsecond, 2 * time.Millisecond},
	Flush: Range{30 * time.Microsecond, 300 * time.Microsecond, 10 * time.Millisecond},
	Step:  Range{2 * time.Microsecond, 40 * time.Microsecond, 2 * time.Millisecond},
	Net:   Range{3 * time.Microsecond, 40 * time.Microsecond, time.Millisecond},
	Call:  Range{1 * time.Microsecond, 5 * time.Microsecond, 50 * time.Microsecond},
}

// draw picks a time from r, in nanoseconds.
func (w *World) draw(r Range) int64 {
	if r.Max <= r.Min {
		return int64(r.Min)
	}
	if r.Tail > r.Max && w.rng.chance(10) {
		return int64(r.Max) + w.rng.Below(int64(r.Tail-r.Max))
	}
	return int64(r.Min) + w.rng.Below(int64(r.Max-r.Min))
}
