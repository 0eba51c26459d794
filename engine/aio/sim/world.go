package sim

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/mqd-broker/mqd/engine/aio/sim/disk"
	"github.com/mqd-broker/mqd/internal/invariant"
)

// Mode says how a world's time passes.
type Mode uint8

const (
	// Virtual time moves only inside Poll, and in steps that the seed
	// decides. All drivers are polled by one goroutine, in turn.
	Virtual Mode = iota
	// RealTime is the machine's time. Each driver may be polled by a
	// goroutine of its own, and a blocking Poll really blocks.
	RealTime
)

// DSYNC says what a write with FlagDSYNC does to the device.
type DSYNC uint8

const (
	// DSYNCOwnBytes makes the write's own bytes durable and flushes nothing:
	// a device with FUA.
	DSYNCOwnBytes DSYNC = iota
	// DSYNCFlushes follows the write with a flush of the whole cache: a
	// device without FUA.
	DSYNCFlushes
)

// Options describe a world. Zero fields take the defaults.
type Options struct {
	// Seed decides every latency and choice.
	Seed uint64
	Mode Mode
	// Latency is how long things take. Default: [DefaultLatency] in a Virtual
	// world, nothing in a RealTime one.
	Latency Latency
	// Wall is the calendar's time at the start, Unix nanoseconds. Default:
	// 2026-01-01 in a Virtual world, the machine's in a RealTime one.
	Wall  int64
	DSYNC DSYNC
	// Capacity is the size of the disk in bytes. Default 1 TiB.
	Capacity int64
	// SocketBuffer is the number of bytes a connection holds in one direction
	// between a sender and a receiver. Default 256 KiB.
	SocketBuffer int
	// Memory is what a Virtual world is made of, until [World.End]. Default: its own.
	// Drivers of a RealTime world have fresh memory: what dead ones had may be in use.
	Memory *Memory
}

// turnCost is the virtual time, in nanoseconds, that a Poll takes: a loop that
// spins gets on.
const turnCost = 500

// World is a machine's disk, network and clock, and the drivers on it.
//
// Everything in it is guarded by one mutex. Whatever takes time is an event in a
// heap; an event changes the disk or the network and puts completions into
// the queues of drivers, from where Poll delivers them with the mutex released.
type World struct {
	opt  Options
	rng  random
	mu   sync.Mutex
	cond *sync.Cond // state that goroutines outside a driver wait for

	now    atomic.Int64
	wall   atomic.Int64 // wall time minus monotonic time
	began  time.Time
	events eventHeap
	seq    uint64
	timer  *time.Timer // RealTime: runs events for which no Poll comes
	armed  int64       // when it fires
	trace  uint64

	tree   *disk.Tree
	pages  *disk.Pages // of the tree; nil for one that was an image
	boot   [16]byte
	mounts uint64
	epoch  uint64 // counts crashes and kills

	fuse  *Fuse
	blown bool
	watch func(*Moment)

	net    network
	faults []*Injection
	holds  []*Hold

	drivers []*Driver // alive
	opened  int       // drivers ever
}

// New makes a world with an empty disk.
func New(o Options) *World { return newWorld(o, nil) }

// newWorld makes a world with the disk of an image; of nil, with an empty one.
func newWorld(o Options, image *Image) *World {
	if o.Capacity == 0 {
		o.Capacity = 1 << 40
	}
	if o.SocketBuffer == 0 {
		o.SocketBuffer = 256 << 10
	}
	if o.Latency == (Latency{}) && o.Mode == Virtual {
		o.Latency = DefaultLatency
	}
	if o.Memory == nil {
		o.Memory = new(Memory)
	}
	w := &World{opt: o, rng: random(mix(o.Seed + 1)), armed: never}
	w.cond = sync.NewCond(&w.mu)
	switch {
	case o.Wall != 0:
		w.wall.Store(o.Wall)
	case o.Mode == RealTime:
		w.wall.Store(time.Now().UnixNano())
	default:
		w.wall.Store(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	}
	if o.Mode == RealTime {
		w.began = time.Now()
		w.timer = time.AfterFunc(time.Hour, w.settle)
		w.timer.Stop() // until arm sets it
	}
	if image == nil {
		w.pages = o.Memory.disk()
		w.tree = disk.NewTree(o.Capacity, &w.rng, w.pages)
		w.reboot()
		return w
	}
	w.tree, w.mounts, w.boot = image.disk.Clone(), image.mounts, image.boot
	w.tree.Use(&w.rng)
	if !image.killed {
		w.reboot()
	}
	return w
}

// End ends a Virtual world for good: its drivers are dead, and what it was made of
// serves the next world. No image of it is used any more.
func (w *World) End() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.opt.Mode != Virtual {
		invariant.Violated("sim: what a world of several goroutines is made of serves no other")
	}
	for len(w.drivers) > 0 {
		w.drivers[0].kill()
	}
	if w.pages != nil {
		w.pages.Reset()
		w.opt.Memory.disks = append(w.opt.Memory.disks, w.pages)
	}
}

// reboot gives the machine a new boot.
func (w *World) reboot() {
	w.mounts++
	for i := range w.boot {
		w.boot[i] = byte(w.rng.next())
	}
}

// Now is the monotonic time of the world in nanoseconds.
func (w *World) Now() int64 {
	if w.opt.Mode == RealTime {
		return int64(time.Since(w.began))
	}
	return w.now.Load()
}

// Wall is the calendar's time in Unix nanoseconds.
func (w *World) Wall() int64 { return w.Now() + w.wall.Load() }

// JumpWall moves the calendar's time, forward or back.
func (w *World) JumpWall(by time.Duration) { w.wall.Add(int64(by)) }

// TraceHash folds every completion delivered so far: its time, its driver, its
// kind and its result. Two runs of a Virtual world with the same seed and the
// same calls have the same hash.
func (w *World) TraceHash() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.trace
}

// never is a time that does not come.
const never = int64(1<<63 - 1)

// at makes e happen after delay nanoseconds.
func (w *World) at(delay int64, e event) {
	w.seq++
	e.at, e.seq = w.Now()+delay, w.seq
	w.events.push(e)
}

// next is the time of the next event.
func (w *World) next() int64 {
	if len(w.events) == 0 {
		return never
	}
	return w.events[0].at
}

// runDue runs the events whose time has come. The mutex is held, and released
// around the steps of helpers.
func (w *World) runDue() {
	for len(w.events) > 0 && w.events[0].at <= w.Now() {
		w.run(w.events.pop())
	}
}

// settle runs what is due and sees to it that later events are run too when
// nobody polls. It is the timer's function.
func (w *World) settle() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = never
	w.runDue()
	w.arm()
}

// arm sets the timer of a RealTime world for the next event.
func (w *World) arm() {
	if t := w.next(); w.timer != nil && t < w.armed {
		w.armed = t
		w.timer.Reset(time.Duration(max(0, t-w.Now())))
	}
}

func (w *World) run(e event) {
	switch e.kind {
	case evOp:
		if e.d.side == server {
			w.burn()
		}
		if !e.d.alive(e.slot, e.gen) {
			return
		}
		s := e.d.subjectOf(e.d.slots[e.slot].op)
		w.look(&s)
		if e.freed || len(w.holds) == 0 || !w.held(&s, e) {
			e.d.perform(e.slot, &s)
		}
	case evHelper:
		if e.d.side == server {
			w.burn()
		}
		if !e.d.dead && (e.freed || len(w.holds) == 0 || !w.held(&e.help.next, e)) {
			w.look(&e.help.next)
			w.mu.Unlock()
			e.help.turn()
			w.mu.Lock()
		}
	case evCancel:
		if e.d.alive(e.slot, e.gen) {
			e.d.cancel(e.slot)
		}
	case evConnect:
		e.sock.arrived(e.other)
	case evArrive:
		e.sock.arrive(e.pos)
	case evFin:
		e.sock.finArrived()
	case evReset:
		e.sock.resetArrived()
	}
}

// Step moves a Virtual world to its next event and runs it; false when there is
// none. Harnesses that poll every driver without waiting use it between rounds.
func (w *World) Step() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.events) == 0 {
		return false
	}
	w.advance(w.events[0].at)
	w.run(w.events.pop())
	return true
}

// advance moves virtual time forward.
func (w *World) advance(to int64) {
	if to > w.now.Load() {
		w.now.Store(to)
	}
}
