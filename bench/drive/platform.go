package drive

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/mqd-broker/mqd/bench/machine"
	"github.com/mqd-broker/mqd/engine/aio"
)

// Platform is what measurements need from the machine that they run on.
type Platform interface {
	// NewDriver makes a driver on the calling thread, which owns it; the
	// goroutine is locked to it.
	NewDriver(o aio.Options) (aio.Driver, error)
	// Pin ties the calling thread to a CPU.
	Pin(cpu int) error
	// Yield lets another runnable thread have this CPU.
	Yield()
}

// NoCPU in place of a CPU's number means: not pinned.
const NoCPU = machine.NoCPU

// OnThread runs f on a thread of its own, pinned to cpu, with a driver of its
// own, and waits for it.
func OnThread(p Platform, cpu int, o aio.Options, f func(drv aio.Driver) error) error {
	done := make(chan error, 1)
	go func() {
		// Never unlocked: a pinned thread ends with its goroutine.
		runtime.LockOSThread()
		done <- withDriver(p, cpu, o, f)
	}()
	return <-done
}

func withDriver(p Platform, cpu int, o aio.Options, f func(drv aio.Driver) error) (err error) {
	if cpu != NoCPU {
		if err := p.Pin(cpu); err != nil {
			return err
		}
	}
	drv, err := p.NewDriver(o)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := drv.Close(); cerr != nil && err == nil {
			err = fmt.Errorf("close driver: %w", cerr)
		}
	}()
	return f(drv)
}

// heapLimit bounds the heap while the collector is off.
const heapLimit = 2 << 30

// WithoutGC collects garbage, turns the collector off, and returns what turns it
// on again. Over 2 GiB of memory it runs all the same.
func WithoutGC() (restore func()) {
	runtime.GC()
	percent := debug.SetGCPercent(-1)
	limit := debug.SetMemoryLimit(heapLimit)
	return func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}
}
