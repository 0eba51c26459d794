// Package throttle gives out a space that fills more and more slowly, so that those who
// fill it feel that it is not emptied as fast before it is full and they stop altogether.
package throttle

import "time"

const (
	// From is the fill, in percent, above which there is a wait.
	From = 75
	// Slowest is the wait behind each KiB when the space is full.
	Slowest = 100 * time.Microsecond
)

// Throttle makes whoever comes next wait. The zero Throttle lets everybody pass.
type Throttle struct{ until int64 }

// Waits reports whether the next one has to wait at time now, in nanoseconds.
func (t *Throttle) Waits(now int64) bool { return t.until > now }

// Left is for how long the next one has to wait at time now.
func (t *Throttle) Left(now int64) time.Duration { return time.Duration(max(0, t.until-now)) }

// Charge makes the next one wait behind n bytes that were given out at time now, with
// the space filled to a number of percent. It returns the time until which, 0 for no
// wait.
func (t *Throttle) Charge(now int64, n int, fill int64) int64 {
	over := fill - From
	if over <= 0 {
		return 0
	}
	t.until = max(t.until, now) + int64(Slowest)*int64(n)/1024*over/(100-From)
	return t.until
}

// Workers is how many of most workers empty a space that is filled to a number of percent:
// one up to low percent, all from high percent on.
func Workers(fill, low, high int64, most int) int {
	n := int64(most-1) * (fill - low) / (high - low)
	return 1 + int(min(max(n, 0), int64(most-1)))
}
