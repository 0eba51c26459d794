// Package signals has signals end what a verb does, and tells a person who insists from
// a signal that merely arrives twice.
package signals

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// echo is how soon an equal signal is the same wish again: timeout(1) sends one to
// the process and one to its group, a terminal and a supervisor may both pass one on.
const echo = 100 * time.Millisecond

// ErrInterrupted is the end of a verb that was told to stop by a signal.
var ErrInterrupted = errors.New("interrupted")

// repeats tells signals that only repeat the last one. SIGHUP never does: each asks
// for the configuration as it is then.
type repeats struct {
	last os.Signal
	at   time.Time
}

// again reports whether a signal that comes now is the last one's echo.
func (r *repeats) again(sig os.Signal, now time.Time) bool {
	if sig == syscall.SIGHUP {
		return false
	}
	if sig == r.last && now.Sub(r.at) < echo {
		return true
	}
	r.last, r.at = sig, now
	return false
}

// Listen delivers signals, but for echoes, until stop is called.
func Listen(sigs ...os.Signal) (signals <-chan os.Signal, stop func()) {
	const room = 4
	raw, out, done := make(chan os.Signal, room), make(chan os.Signal, room), make(chan struct{})
	signal.Notify(raw, sigs...)
	go func() {
		var r repeats
		for {
			select {
			case sig := <-raw:
				if r.again(sig, time.Now()) {
					continue
				}
				select {
				case out <- sig:
				default: // as many are waiting as can matter
				}
			case <-done:
				return
			}
		}
	}()
	return out, func() {
		signal.Stop(raw)
		close(done)
	}
}

// OnInterrupt has the first SIGINT or SIGTERM cancel with ErrInterrupted; the next one
// ends the program on the spot, with status 1, even where a shell that runs it in the
// background has SIGINT ignored. The result undoes it.
func OnInterrupt(cancel context.CancelCauseFunc) (undo func()) {
	signals, stop := Listen(os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		defer stop()
		select {
		case <-signals:
			cancel(ErrInterrupted)
		case <-done:
			return
		}
		select {
		case <-signals:
			os.Exit(1)
		case <-done:
		}
	}()
	return func() { close(done) }
}
