package lane

import (
	"time"

	"github.com/mqd-broker/mqd/client/internal/link"
)

// tick has the timer fire after d, unless it does so anyway: one that was set for an earlier
// batch comes too early and is set again then, so that no record costs a look at the clock
// and few batches a timer. The lane's lock is held.
func (ln *Lane) tick(d time.Duration) {
	switch {
	case ln.ticking:
	case ln.timer == nil:
		ln.timer = time.AfterFunc(d, ln.lingered)
	default:
		ln.timer.Reset(d)
	}
	ln.ticking = true
}

// lingered ends the linger of the open batch when it is over.
func (ln *Lane) lingered() {
	var kick *link.Link
	ln.mu.Lock()
	ln.ticking = false
	if b := ln.open; b != nil && !b.ripe {
		if left := ln.p.Linger - time.Since(b.opened); left > 0 {
			ln.tick(left)
		} else {
			b.ripe = true
			kick = ln.dispatch(SendDue)
		}
	}
	ln.unlock()
	if kick != nil {
		kick.Kick()
	}
}
