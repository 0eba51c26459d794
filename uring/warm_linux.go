package uring

import (
	"sync/atomic"

	"github.com/mqd-broker/mqd/engine/aio"
	"golang.org/x/sys/unix"
)

// warmStep is how much memory is asked for at a time, so that nobody waits long for the
// lock of the address space.
const warmStep = 4 << 20

// warming has the pages of an arena made by another thread. To register memory takes as
// long as it takes the kernel to make and clear its pages, which is most of the making of
// a driver; what is there already is only pinned.
type warming struct {
	stop atomic.Bool
	done chan struct{}
}

// warm begins. The memory may be used meanwhile.
func (a *arena) warm() *warming {
	w := &warming{done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for at := 0; at < len(a.mem) && !w.stop.Load(); at += warmStep {
			// Only an offer: whoever registers the memory makes what is missing.
			if unix.Madvise(a.mem[at:min(at+warmStep, len(a.mem))], unix.MADV_POPULATE_WRITE) != nil {
				return
			}
		}
	}()
	return w
}

// end waits for the other thread, which does no more than it has begun.
func (w *warming) end() {
	if w != nil {
		w.stop.Store(true)
		<-w.done
	}
}

// Warm makes a driver of Config.Warm as fast as others. See aio.Warmer.
func (d *Driver) Warm() error {
	if d.warming == nil {
		return nil
	}
	<-d.warming.done
	d.warming = nil
	if err := d.arena.register(d.ring); err != nil {
		return err
	}
	d.noteMemory(d.opts)
	return nil
}

var _ aio.Warmer = (*Driver)(nil)
