package uring

import (
	"math"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/internal/invariant"
	"golang.org/x/sys/unix"
)

const (
	// maxDelivered bounds the completions of one Poll.
	maxDelivered = 256
	// reapPiece is how many completions are taken out of the kernel's queue at
	// once.
	reapPiece = 32
	// pressureWait bounds a wait while the kernel refuses submissions.
	pressureWait = time.Millisecond
)

// Poll submits what is queued and delivers at most 256 completions. See
// aio.Driver. Without anything to submit and without work of the kernel's it
// makes no system call. Completions do not call it.
func (d *Driver) Poll(wait time.Duration) (int, error) {
	if d.polling {
		invariant.Violated("uring: a completion does not call Poll")
	}
	if d.closed {
		return 0, aio.ErrClosed
	}
	d.polling = true
	n, err := d.poll(wait)
	d.polling = false
	return n, err
}

func (d *Driver) poll(wait time.Duration) (int, error) {
	if wait <= 0 {
		return d.turn(0)
	}
	// A turn may end without a completion for the caller: a signal, the rest
	// of a short write, a wake-up that came too late. The wait goes on.
	deadline := d.clock.Now() + int64(wait)
	if deadline < 0 {
		deadline = math.MaxInt64
	}
	for {
		n, err := d.turn(wait)
		woken := d.waker.pending.Load()
		if n == 0 && err == nil && !woken {
			wait = time.Duration(deadline - d.clock.Now())
			if wait > 0 {
				continue
			}
		}
		if woken {
			d.waker.pending.Store(false)
		}
		return n, err
	}
}

// turn enters the kernel at most once, waiting if it may, and delivers.
func (d *Driver) turn(wait time.Duration) (int, error) {
	d.resume()
	d.recv.show()
	errno := unix.Errno(0)
	if wait > 0 && d.idle() {
		errno = d.sleep(wait)
	} else if d.ring.queued() > 0 || d.ring.ready() == 0 && d.ring.taskWork() {
		errno = d.enter()
	}
	again, err := d.ring.check(errno)
	if err == nil {
		err = d.broken
	}
	if err != nil {
		return 0, err
	}
	if again {
		d.stats.Pressure++
	}
	n := d.deliverDone()
	return d.deliverCompletions(n, again, wait)
}

// idle reports whether there is nothing to deliver without waiting.
func (d *Driver) idle() bool {
	return d.done.Len() == 0 && d.finished.Len() == 0 && d.ring.ready() == 0 &&
		!d.waker.pending.Load()
}

func (d *Driver) enter() unix.Errno {
	d.stats.Enters++
	return d.ring.enter(submitAndReap)
}

// sleep blocks until there is a completion, a wake-up, or time is up.
func (d *Driver) sleep(wait time.Duration) unix.Errno {
	d.armWake()
	if wait = d.untilRetry(wait); !d.wakeArmed {
		wait = min(wait, pressureWait)
	}
	d.waker.asleep.Store(true)
	if d.waker.pending.Load() {
		d.waker.asleep.Store(false)
		return d.enter()
	}
	d.stats.Enters++
	d.stats.Sleeps++
	errno := d.ring.wait(waitSubmit, wait)
	d.waker.asleep.Store(false)
	return errno
}

// deliverDone delivers what ended without the kernel's queue: refused and empty
// operations, and the work of helpers.
func (d *Driver) deliverDone() int {
	n := 0
	for k := d.done.Len(); k > 0 && n < maxDelivered; k-- {
		op := d.done.Take()
		d.inFlight--
		d.end(op)
		n++
	}
	d.collect()
	for k := d.finished.Len(); k > 0 && n < maxDelivered; k-- {
		d.deliverTask(d.finished.Take())
		n++
	}
	return n
}

// deliverCompletions takes completions out of the kernel's queue until n are
// delivered. When the kernel was short of memory or room (pressure), it is
// entered once more, without submitting, after these have made room.
func (d *Driver) deliverCompletions(n int, pressure bool, wait time.Duration) (int, error) {
	for {
		for n < maxDelivered {
			k := d.ring.reap(d.batch[:min(reapPiece, maxDelivered-n)])
			if k == 0 {
				break
			}
			d.reaped = d.clock.Now()
			for _, c := range d.batch[:k] {
				n += d.complete(c)
			}
		}
		if d.ring.overflown() {
			// The kernel keeps completions for which there was no
			// room; only entering brings them.
			d.stats.Overflows++
			pressure = true
		}
		if !pressure || n >= maxDelivered {
			return n, d.broken
		}
		pressure = false
		if n > 0 {
			wait = 0
		}
		if _, err := d.ring.check(d.relieve(wait)); err != nil {
			return n, err
		}
	}
}

// relieve lets the kernel move completions to the queue.
func (d *Driver) relieve(wait time.Duration) unix.Errno {
	d.stats.Enters++
	return d.ring.wait(waitOnly, max(time.Nanosecond, min(wait, pressureWait)))
}
