package uring

import (
	"fmt"
	"time"

	"github.com/mqd-broker/mqd/internal/invariant"
)

// closePoll bounds a turn of Close; it costs only a turn.
const closePoll = 50 * time.Millisecond

// Close ends the driver, on its thread. See aio.Driver: sockets' operations are
// cancelled, those of files and helpers are waited for. Owners are not told.
// Sockets stay open: they belong to the process.
func (d *Driver) Close() error {
	if d.closed {
		return nil
	}
	if d.polling {
		invariant.Violated("uring: a completion does not close the driver")
	}
	d.closing = true
	for i := range d.slots.tab {
		if op := d.slots.tab[i].op; op != nil && !onFile(op.Kind) {
			d.Cancel(op)
		}
	}
	for d.inFlight > 0 {
		if _, err := d.Poll(closePoll); err != nil {
			// The kernel may still write to our memory, so that stays
			// mapped: a leak is the smaller evil.
			d.closed = true
			d.pool.close()
			return fmt.Errorf("uring: closing with %d operations in flight: %w", d.inFlight, err)
		}
	}
	d.closed = true
	d.pool.close()
	err := d.files.Close()
	d.unmap()
	return err
}

// unmap gives back what build has made. Nothing is in flight.
func (d *Driver) unmap() {
	d.warming.end()
	if d.ring != nil {
		d.ring.close()
	}
	if d.arena != nil {
		d.arena.close()
	}
	if d.recv != nil {
		d.recv.close()
	}
	d.messages.close()
	d.waker.close()
}
