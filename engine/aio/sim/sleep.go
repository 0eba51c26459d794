package sim

import "time"

// sleep waits for a kick, at most for left.
func (d *Driver) sleep(left time.Duration) {
	d.alarm.Reset(left)
	select {
	case <-d.wake:
	case <-d.alarm.C:
	}
}
