package portable

import (
	"sync"
	"sync/atomic"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/openfiles"
	"github.com/mqd-broker/mqd/engine/fifo"
)

// States of a worker. The loop makes given out of idle and idle out of done, the
// worker makes done out of given.
const (
	idle uint32 = iota
	given
	done
	stopped
)

// task is an operation on its way to a worker and back. Until it is back only the
// worker touches it, and nobody the operation's results.
type task struct {
	slow openfiles.Task // unless there is an op

	op *aio.Op
	// What to do with which bytes.
	kind    aio.Kind
	durable bool
	direct  bool // no page cache: whole blocks only
	fd      int
	buf     []byte
	off     int64
	n       int // bytes done
	err     error
}

// worker is a thread that does one task at a time.
type worker struct {
	state  atomic.Uint32
	asleep atomic.Uint32 // 1: it waits for the loop in the kernel
	bell   chan struct{} // of simple.sleep
	task   task          // the worker's while the state is given, else the loop's
	_      [64]byte      // the next worker's words are another core's
}

// crew is a bounded number of workers, and the tasks that wait for one. Workers are
// started when they are needed. The loop owns all but the words that are atomic.
type crew struct {
	d       *Driver
	all     []*worker
	free    []*worker // idle ones; who has worked last is next
	most    int
	backlog fifo.Queue[task]

	// ended counts the tasks that workers have ended, taken those that the loop
	// has noticed.
	ended atomic.Uint64
	taken uint64
	wg    sync.WaitGroup
}

func (c *crew) init(d *Driver, most int) {
	c.d, c.most = d, most
	c.all, c.free = make([]*worker, 0, most), make([]*worker, 0, most)
}

// push gives a task to a worker, or lets it wait for one.
func (c *crew) push(t task) {
	switch n := len(c.free); {
	case n > 0:
		w := c.free[n-1]
		c.free = c.free[:n-1]
		c.give(w, t)
	case len(c.all) < c.most:
		w := &worker{bell: make(chan struct{}, 1)}
		c.all = append(c.all, w)
		c.give(w, t)
		c.wg.Add(1)
		go c.work(w)
	default:
		c.backlog.Push(t)
	}
}

// give hands an idle worker a task.
func (c *crew) give(w *worker, t task) {
	w.task = t
	c.rouse(w, given)
}

// rouse changes the state and wakes the worker if it sleeps. The worker sets asleep
// before it looks at the state for the last time, so that one of them sees the other.
func (c *crew) rouse(w *worker, state uint32) {
	w.state.Store(state)
	if w.asleep.Load() != 0 && w.asleep.Swap(0) != 0 {
		c.d.sys.wake(w)
	}
}

// await returns the state when it is no longer the loop's turn.
func (c *crew) await(w *worker) uint32 {
	for {
		if s := w.state.Load(); s == given || s == stopped {
			return s
		}
		w.asleep.Store(1)
		if s := w.state.Load(); s == given || s == stopped {
			w.asleep.Store(0)
			return s
		}
		c.d.sys.sleep(w)
	}
}

// work is a worker's thread.
func (c *crew) work(w *worker) {
	defer c.wg.Done()
	for c.await(w) == given {
		c.d.perform(&w.task)
		if !w.state.CompareAndSwap(given, done) {
			return // stopped: the driver gives up
		}
		c.ended.Add(1)
		c.d.waker.ring()
	}
}

// waiting reports whether a task has ended that the loop has not noticed.
func (c *crew) waiting() bool { return c.ended.Load() != c.taken }

// collect tells the owners of what workers have ended, and returns their number.
// The next tasks are given away before that, so that the device does not wait.
func (c *crew) collect() int {
	if !c.waiting() {
		return 0
	}
	n := 0
	for i := 0; i < len(c.all); i++ { // owners may cause more to be started
		w := c.all[i]
		if w.state.Load() != done {
			continue
		}
		t := w.task
		w.task = task{}
		w.state.Store(idle)
		c.taken++
		if c.backlog.Len() > 0 {
			c.give(w, c.backlog.Take())
		} else {
			c.free = append(c.free, w)
		}
		c.d.deliverTask(t)
		n++
	}
	return n
}

// close ends the workers, which have nothing to do any more.
func (c *crew) close() {
	for _, w := range c.all {
		c.rouse(w, stopped)
	}
	c.wg.Wait()
}
