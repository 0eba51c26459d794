package sim

import (
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/fifo"
	"github.com/mqd-broker/mqd/internal/invariant"
)

// maxDeliver bounds the completions of one Poll.
const maxDeliver = 256

// maxWait bounds a blocking Poll, so that times do not overflow.
const maxWait = 1000 * time.Hour

// side says which machine a driver runs on.
type side uint8

const (
	server side = iota // the machine that crashes
	client             // another one, which sees connections end
)

// Driver is a driver of a world. See [aio.Driver].
type Driver struct {
	w     *World
	id    int
	side  side
	opt   aio.Options
	rng   random
	wake  chan struct{} // RealTime: ends a blocking Poll
	alarm *time.Timer   // RealTime: the end of its wait

	// Guarded by the world's mutex.
	dead     bool
	woken    bool
	until    int64 // Virtual: end of the wait that it is in, for others to heed
	ran      int64 // Virtual: when it last went on, or never: it waits
	slots    []slot
	free     []uint32
	waiting  fifo.Queue[*aio.Op] // submitted, and no slot free
	ready    fifo.Queue[completion]
	inFlight int
	files    []*handle
	memory   memory
	pool     pool
	helpers  helpers

	// batch is what the Poll in progress delivers.
	batch []completion
}

// noSlot marks an operation that waits for a slot.
const noSlot = ^uint32(0)

// slot is an operation in flight.
type slot struct {
	op   *aio.Op
	gen  uint32 // counts the uses, so that late events find nothing
	crc  uint32 // of the memory that the operation sends or writes
	mark uint64 // place in the device's log at submission
	over bool   // the last completion is in the ready queue
}

// completion is a result on its way to the loop.
type completion struct {
	op   *aio.Op
	file *aio.FileOp
	job  *aio.JobOp
	slot uint32
	res  result
}

// result is what a data operation comes to.
type result struct {
	n    int
	err  error
	more bool
	sock aio.Sock
	data []byte
	buf  aio.BufID
}

var _ aio.Driver = (*Driver)(nil)

// Driver opens a driver on the machine that [World.Crash] and [World.Kill] hit.
func (w *World) Driver(o aio.Options) *Driver { return w.openOn(o, server) }

// ClientDriver opens a driver on another machine, which has the network in
// common with the first: it lives on through a crash.
func (w *World) ClientDriver(o aio.Options) *Driver { return w.openOn(o, client) }

func (w *World) openOn(o aio.Options, on side) *Driver {
	o = o.WithDefaults()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.opened++
	d := &Driver{
		w: w, id: w.opened, side: on, opt: o,
		rng:   random(w.rng.next()),
		ran:   never,
		wake:  make(chan struct{}, 1),
		slots: make([]slot, o.Entries),
		files: make([]*handle, o.Files),
		batch: make([]completion, 0, maxDeliver),
	}
	for i := range d.slots {
		d.free = append(d.free, uint32(len(d.slots)-1-i))
	}
	d.pool.init(o.RecvBuffers, o.RecvBufferBytes)
	if w.opt.Mode == RealTime {
		d.alarm = newAlarm()
	} else {
		d.memory.from = w.opt.Memory
	}
	w.drivers = append(w.drivers, d)
	return d
}

// Name is "sim".
func (d *Driver) Name() string { return "sim" }

// Notes says that nothing is real.
func (d *Driver) Notes() []string { return []string{"disk and network are simulated"} }

// Clock is the world's clock.
func (d *Driver) Clock() aio.Clock { return d.w }

// Rand returns 64 bits of a stream that belongs to this driver.
func (d *Driver) Rand() uint64 { return d.rng.next() }

// InFlight is the number of operations submitted and not completed.
func (d *Driver) InFlight() int {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	return d.inFlight
}

// Submit queues op.
func (d *Driver) Submit(op *aio.Op) {
	op.Begin()
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	if d.dead {
		return
	}
	d.inFlight++
	if len(d.free) == 0 {
		op.Drv.Slot = noSlot
		d.waiting.Push(op)
		return
	}
	d.start(op)
}

// start gives op a slot and the time at which it is performed.
func (d *Driver) start(op *aio.Op) {
	id := d.free[len(d.free)-1]
	d.free = d.free[:len(d.free)-1]
	s := &d.slots[id]
	s.op, s.over = op, false
	op.Drv.Slot = id
	d.w.at(d.accept(s), event{kind: evOp, d: d, slot: id, gen: s.gen})
}

// alive reports whether the operation that gen means is still in flight.
func (d *Driver) alive(id, gen uint32) bool {
	s := &d.slots[id]
	return !d.dead && s.op != nil && s.gen == gen && !s.over
}

// finish queues a completion of the operation in slot id.
func (d *Driver) finish(id uint32, r result) {
	s := &d.slots[id]
	s.over = !r.more
	d.ready.Push(completion{op: s.op, slot: id, res: r})
	d.kick()
}

// kick tells a driver that it has work.
func (d *Driver) kick() {
	if d.w.opt.Mode == Virtual {
		d.ran = d.w.Now()
	}
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Wake ends the present or next blocking Poll.
func (d *Driver) Wake() {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	d.woken = true
	d.kick()
}

// Poll delivers completions; in a Virtual world it moves time to get them. It may
// return early, with nothing, when another driver of the world has something to
// do first.
func (d *Driver) Poll(wait time.Duration) (int, error) {
	if err := d.gather(wait); err != nil {
		return 0, err
	}
	return d.deliver(), nil
}

// gather fills the batch with what there is, or comes within wait.
func (d *Driver) gather(wait time.Duration) error {
	w := d.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.opt.Mode == Virtual {
		w.advance(w.now.Load() + turnCost)
	}
	w.runDue()
	d.until, d.ran = w.Now()+int64(max(0, min(wait, maxWait))), never
	switch {
	case wait <= 0:
		w.arm()
	case w.opt.Mode == Virtual:
		d.blockVirtual()
	default:
		d.blockReal()
	}
	if d.hasWork() || w.Now() >= d.until {
		d.ran = w.Now()
	}
	d.woken = d.woken && wait <= 0
	if d.dead {
		return d.fail("poll", aio.ErrClosed)
	}
	d.collect()
	return nil
}

// hasWork reports whether a blocking Poll has a reason to end.
func (d *Driver) hasWork() bool { return d.ready.Len() > 0 || d.woken || d.dead }

// runTime is for how long, in virtual nanoseconds, a driver is taken to be running
// after it has got work or its wait has ended: its next Poll says for how long
// it can wait. One that is not polled does not stop the clock for longer, nor does one
// that is not polled when its wait has ended.
const runTime = 20_000

// blockVirtual moves time from event to event until d has work, until it has
// waited enough, or until another driver is to be polled.
func (d *Driver) blockVirtual() {
	w := d.w
	for !d.hasWork() {
		stop := d.until
		for _, o := range w.drivers {
			switch {
			case o == d:
			case o.ran != never && w.Now()-o.ran < runTime:
				return
			case o.ran == never && o.until < stop && w.Now()-o.until < runTime:
				stop = max(o.until, w.Now())
			}
		}
		if next := w.next(); next > stop {
			w.advance(stop)
			return
		}
		w.advance(w.next())
		w.run(w.events.pop())
	}
}

// blockReal waits on the driver's channel.
func (d *Driver) blockReal() {
	w := d.w
	for !d.hasWork() {
		now := w.Now()
		if now >= d.until {
			return
		}
		if w.next() <= now {
			w.runDue()
			continue
		}
		w.arm()
		left := time.Duration(d.until - now)
		w.mu.Unlock()
		d.sleep(left)
		w.mu.Lock()
		w.runDue()
	}
}

// collect moves a bounded number of completions from the queue to the batch
// and frees the slots of those that are over.
func (d *Driver) collect() {
	d.batch = d.batch[:0]
	for d.ready.Len() > 0 && len(d.batch) < maxDeliver {
		c := d.ready.Take()
		d.batch = append(d.batch, c)
		d.w.note(d, &c)
		if c.op != nil && c.res.more {
			continue
		}
		d.inFlight--
		if c.op == nil || c.slot == noSlot {
			continue
		}
		s := &d.slots[c.slot]
		s.op = nil
		s.gen++
		d.free = append(d.free, c.slot)
	}
	for d.waiting.Len() > 0 && len(d.free) > 0 {
		d.start(d.waiting.Take())
	}
}

// deliver calls the owners. The mutex is not held.
func (d *Driver) deliver() int {
	n := len(d.batch)
	for i := range d.batch {
		c := d.batch[i]
		d.batch[i] = completion{}
		switch {
		case c.op != nil:
			op := c.op
			op.N, op.Err, op.More = c.res.n, c.res.err, c.res.more
			op.Data, op.BufID, op.At = c.res.data, c.res.buf, d.w.Now()
			if op.Kind == aio.KindAccept {
				op.NewSock = c.res.sock
			}
			op.End()
		case c.file != nil:
			c.file.InFlight = false
			c.file.Owner.CompleteFile(c.file)
		default:
			c.job.InFlight = false
			c.job.Owner.CompleteJob(c.job)
		}
		if d.isDead() {
			return i + 1
		}
	}
	return n
}

func (d *Driver) isDead() bool {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	return d.dead
}

// note folds a completion into the trace.
func (w *World) note(d *Driver, c *completion) {
	x := uint64(w.Now())
	switch {
	case w.opt.Mode == RealTime:
		return
	case c.op != nil:
		x = mix(x) ^ uint64(c.op.Kind)<<32 ^ uint64(c.res.n)
	case c.file != nil:
		x = mix(x) ^ uint64(c.file.Kind)<<40
	default:
		x = mix(x) ^ 1<<48
	}
	if c.res.err != nil {
		x ^= 1 << 63
	}
	w.trace = mix(w.trace ^ mix(x^uint64(d.id)<<56))
}

// fail is an error of the driver as a whole.
func (d *Driver) fail(op string, err error) error {
	return &aio.Error{Op: op, What: "sim driver", Off: -1, Err: err}
}

// Close ends the driver: operations in flight are forgotten after the writes
// among them have reached the disk, files are closed, locks are free.
func (d *Driver) Close() error {
	d.w.mu.Lock()
	if d.dead {
		d.w.mu.Unlock()
		return nil
	}
	for id := range d.slots {
		s := &d.slots[id]
		if s.op != nil && !s.over && s.op.Kind == aio.KindWrite && d.write(s.op, nil) != nil {
			continue // it would have failed: nobody hears of it
		}
	}
	d.kill()
	d.w.mu.Unlock()
	d.helpers.wait()
	return nil
}

// kill ends the driver at once: its events find nothing, its files are closed.
func (d *Driver) kill() {
	d.dead = true
	for i, h := range d.files {
		if h != nil {
			d.w.tree.Close(h.ino)
			h.unlock()
			d.files[i] = nil
		}
	}
	d.w.forget(d)
	d.w.disarm(d)
	d.helpers.kill()
	d.memory.giveBack()
	d.kick()
	d.w.cond.Broadcast()
}

// forget removes d from the list of the living.
func (w *World) forget(d *Driver) {
	for i, o := range w.drivers {
		if o == d {
			w.drivers = append(w.drivers[:i:i], w.drivers[i+1:]...)
			return
		}
	}
	invariant.Violated("sim: a driver is not in its world")
}
