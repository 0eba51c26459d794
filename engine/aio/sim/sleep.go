package sim

import "time"

// sleep waits for a kick, at most for left.
func (d *Driver) sleep(left time.Duration) {
	t := time.NewTimer(left)
	select {
	case <-d.wake:
	case <-t.C:
	}
	t.Stop()
}
