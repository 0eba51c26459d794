package journal

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
)

// The number of writes by which each method is timed, at least and at most, and the time
// after which there are no more of them: on a slow or busy device they would be most of
// a start. A device on which the least of them take slowProbeTime is timed by fewer.
const (
	leastProbeRuns  = 12
	mostProbeRuns   = 50
	probeTime       = 50 * time.Millisecond
	fewestProbeRuns = 4
	slowProbeTime   = 200 * time.Millisecond
)

// probed reports whether a number of runs, which have taken so long, are enough.
func probed(runs int, took time.Duration) bool {
	return runs >= leastProbeRuns && took >= probeTime || runs >= fewestProbeRuns && took >= slowProbeTime
}

// Timing is what ProbeMethod found, in nanoseconds: the lower quartile of the time
// to make one block durable by each method, in which what others do on the machine
// meanwhile counts less than in the median. DSYNC is 0 where the device refuses it.
type Timing struct{ DSYNC, WriteFlush int64 }

// String says what each method takes, for the log at start.
func (t Timing) String() string {
	if t.DSYNC == 0 {
		return fmt.Sprintf("write+flush %v, dsync refused", time.Duration(t.WriteFlush))
	}
	return fmt.Sprintf("dsync %v, write+flush %v", time.Duration(t.DSYNC), time.Duration(t.WriteFlush))
}

// Best is the time of the faster method in nanoseconds.
func (t Timing) Best() int64 {
	if t.DSYNC == 0 {
		return t.WriteFlush
	}
	return min(t.DSYNC, t.WriteFlush)
}

// polled is a driver that polls, and yields the CPU, where others would sleep.
type polled struct {
	aio.Driver
	yield func()
}

// Poll does not wait.
func (d polled) Poll(time.Duration) (int, error) {
	n, err := d.Driver.Poll(0)
	if n == 0 && err == nil {
		d.yield()
	}
	return n, err
}

// ProbeMethod times both methods on the region's scratch block, one block at a
// time and by turns, and returns the faster: DSYNC, which is one operation
// and not two, unless the other takes a fifth less. It waits as the loop
// will that is going to use the journal: by polling, with yield after every poll
// that found nothing, or asleep where yield is nil. On a busy machine a thread that
// sleeps sees other times. Nothing else may run on d.
func ProbeMethod(d aio.Driver, r Region, yield func()) (Method, Timing, error) {
	if yield != nil {
		d = polled{d, yield}
	}
	var t Timing
	buf, err := d.Alloc(BlockSize)
	if err != nil {
		return MethodDSYNC, t, fmt.Errorf("journal: probe: %w", err)
	}
	if err := checkRegion(r); err != nil {
		return MethodDSYNC, t, err
	}
	clear(buf)
	var dsync, flush []int64
	refused := false
	began := d.Clock().Now()
	for run := range mostProbeRuns {
		start := d.Clock().Now()
		if probed(run, time.Duration(start-began)) {
			break
		}
		if !refused {
			err := writeRegion(d, r, buf, scratchPos, aio.FlagDSYNC)
			refused = errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EOPNOTSUPP)
			if err != nil && !refused {
				return MethodDSYNC, t, fmt.Errorf("journal: probe: %w", err)
			}
			dsync = append(dsync, d.Clock().Now()-start)
		}
		start = d.Clock().Now()
		if err := errors.Join(writeRegion(d, r, buf, scratchPos, 0), flushRegion(d, r)); err != nil {
			return MethodDSYNC, t, fmt.Errorf("journal: probe: %w", err)
		}
		flush = append(flush, d.Clock().Now()-start)
	}
	t.WriteFlush = lowerQuartile(flush)
	if refused {
		return MethodWriteFlush, t, nil
	}
	t.DSYNC = lowerQuartile(dsync)
	if t.WriteFlush < t.DSYNC-t.DSYNC/5 {
		return MethodWriteFlush, t, nil
	}
	return MethodDSYNC, t, nil
}

func lowerQuartile(v []int64) int64 {
	slices.Sort(v)
	return v[len(v)/4]
}
