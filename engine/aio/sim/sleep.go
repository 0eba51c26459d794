package sim

import "time"

// This file and world.go are the only ones that know the machine's time.

// newAlarm makes the timer of a driver's sleep.
func newAlarm() *time.Timer { return time.NewTimer(time.Hour) }

// sleep waits for a kick, at most for left.
func (d *Driver) sleep(left time.Duration) {
	d.alarm.Reset(left)
	select {
	case <-d.wake:
	case <-d.alarm.C:
	}
}

// until is the time that is left to t.
func until(t time.Time) time.Duration { return time.Until(t) }

// later calls f on a goroutine of its own when left has passed.
func later(left time.Duration, f func()) *time.Timer { return time.AfterFunc(left, f) }
