package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/mqd-broker/mqd/bench/drive"
	"github.com/mqd-broker/mqd/engine/aio"
)

const (
	// jitterFrom is how much longer than usual a turn is that counts as a gap.
	jitterFrom = int64(time.Microsecond)
	// usualTurns is the number of turns that say what is usual.
	usualTurns = 4095
)

// Jitter is what the machine takes from a thread that wants to run all the time.
type Jitter struct {
	// Gaps are by how much turns of a loop that does nothing but yield and read
	// the clock were longer than usual, where that is more than 1 µs.
	Gaps Summary `json:"gaps"`
	// PerSecond is how many there are, Stolen the share of time in them.
	PerSecond float64 `json:"gaps_per_second"`
	Stolen    float64 `json:"stolen"`
}

// MeasureJitter measures for a while on a thread pinned to cpu.
func MeasureJitter(ctx context.Context, p Platform, cpu int, d time.Duration) (Jitter, error) {
	defer drive.WithoutGC()()
	var j Jitter
	o := aio.Options{Entries: 16, ArenaBytes: 1 << 16, RecvBuffers: 2, RecvBufferBytes: aio.BlockSize, Files: 1, Helpers: 1}
	err := drive.OnThread(p, cpu, o, func(drv aio.Driver) error {
		clock, gaps := drv.Clock(), NewLatency()
		usual := usualTurn(p, clock)
		var stolen int64
		began := clock.Now()
		last := began
		for end := last + int64(d); last < end && ctx.Err() == nil; {
			p.Yield()
			now := clock.Now()
			if gap := now - last - usual; gap > jitterFrom {
				gaps.Record(gap, 1)
				stolen += gap
			}
			last = now
		}
		took := float64(max(1, last-began)) // the last gap may lead far beyond d
		j = Jitter{Gaps: gaps.Summary(), PerSecond: float64(gaps.Count()) * 1e9 / took, Stolen: float64(stolen) / took}
		return ctx.Err()
	})
	if err != nil {
		return j, fmt.Errorf("jitter: %w", err)
	}
	return j, nil
}

// usualTurn is the median length of a turn, in nanoseconds.
func usualTurn(p Platform, clock aio.Clock) int64 {
	turns := make([]int64, usualTurns)
	last := clock.Now()
	for i := range turns {
		p.Yield()
		now := clock.Now()
		turns[i], last = now-last, now
	}
	return Median(turns, func(ns int64) int64 { return ns })
}

// String is the jitter in one line.
func (j Jitter) String() string {
	return fmt.Sprintf("%.0f gaps over 1 µs a second, %.2f %% of the time; p50 %s  p99 %s  p99.9 %s  max %s",
		j.PerSecond, 100*j.Stolen, Micros(j.Gaps.P50), Micros(j.Gaps.P99), Micros(j.Gaps.P999), Micros(j.Gaps.Max))
}
