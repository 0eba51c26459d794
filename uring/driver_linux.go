package uring

import (
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/hostfs"
	"github.com/mqd-broker/mqd/engine/aio/openfiles"
	"github.com/mqd-broker/mqd/engine/fifo"
	"github.com/mqd-broker/mqd/internal/invariant"
	"github.com/pawelgaczynski/giouring"
	"golang.org/x/sys/unix"
)

const (
	// maxEntries is the largest number of operations in flight: four times as
	// many completions must have room (the kernel's limit is 65536).
	maxEntries = 16384
	// cqFactor is the room for completions, per operation in flight.
	// Multishot operations complete more than once.
	cqFactor = 4
	// maxSubmit bounds the submission queue: it is emptied every turn, and a
	// short one stays in the cache.
	maxSubmit = 256
)

// Config is what only this driver has. The zero value is the right one outside
// tests.
type Config struct {
	// FS is the blocking filesystem of the helpers; its files must have the
	// methods Fd and Direct of *hostfs.File. Default: hostfs.New().
	FS aio.FS
	// Warm has the I/O memory made by another thread, and registered by Driver.Warm,
	// which has to be called. Until then the driver works and is slower.
	Warm bool
	// Stamps has the kernel note when it received the bytes of connections that were
	// accepted; see aio.Op.Stamp. It notes that for every packet of the machine then.
	Stamps bool
	// SubmitEntries is the size of the submission queue, a power of two.
	// Default: Options.Entries, at most 256.
	SubmitEntries int
	// CompletionEntries is the size of the completion queue, a power of two.
	// Default: four times Options.Entries.
	CompletionEntries int
}

// Stats are counters of a driver since it was made. Its loop alone writes them.
type Stats struct {
	// Enters counts io_uring_enter calls, Sleeps those that may block.
	Enters, Sleeps uint64
	// QueueFull counts submissions that had to empty the submission queue
	// first.
	QueueFull uint64
	// Overflows counts the times that completions found no room and waited in
	// the kernel. It must stay 0.
	Overflows uint64
	// Pressure counts the times that the kernel took no submission.
	Pressure uint64
	// Retries counts operations tried again, Continued those whose rest was
	// submitted after a short transfer.
	Retries, Continued uint64
	// Grown counts the times that more operations were in flight than there
	// was room for, and more room was made.
	Grown uint64
	// WakeCalls counts the wake-ups that took a system call.
	WakeCalls uint64
}

// Driver is the io_uring driver. See the package comment and aio.Driver.
type Driver struct {
	ring     *ring
	slots    slots
	files    openfiles.Table
	arena    *arena
	warming  *warming // nil: the memory is registered
	opts     aio.Options
	recv     *bufRing
	messages messages
	pool     *pool
	waker    waker
	clock    clock
	rand     *rand.ChaCha8

	// backlog holds what found no submission entry: slots, and user data to
	// cancel (cancelMark).
	backlog fifo.Queue[uint64]
	// waiting are the slots of operations to be tried again.
	waiting []uint32
	// done are operations that ended without the kernel's queue.
	done fifo.Queue[*aio.Op]
	// finished are tasks that helpers have ended.
	finished fifo.Queue[openfiles.Task]

	batch    [reapPiece]giouring.CompletionQueueEvent
	reaped   int64 // when the completions of the batch were taken
	stamps   bool
	calendar calendar
	inFlight int // operations of all kinds

	wakeArmed bool
	polling   bool
	closing   bool
	closed    bool
	broken    error
	notes     []string
	stats     Stats
}

var _ aio.Driver = (*Driver)(nil)

// New makes a driver on the calling thread, which owns it from then on: the
// goroutine must be locked to it. Errors wrap ErrForbidden, ErrUnsupported,
// ErrLockedMemory or [aio.ErrMapping] where that is the reason.
func New(opts aio.Options, cfg Config) (*Driver, error) {
	opts = opts.WithDefaults()
	cfg = cfg.withDefaults(opts)
	if err := validate(opts, cfg); err != nil {
		return nil, err
	}
	d := &Driver{
		opts:   opts,
		slots:  newSlots(opts.Entries),
		files:  openfiles.New(opts.Files),
		rand:   newRand(),
		stamps: cfg.Stamps, calendar: calendar{read: readBoth},
		waiting: make([]uint32, 0, opts.Entries),
	}
	if err := d.build(opts, cfg); err != nil {
		if errors.Is(err, unix.ENOMEM) && !errors.Is(err, ErrLockedMemory) && !errors.Is(err, aio.ErrMapping) && d.ring != nil {
			err = fmt.Errorf("%w: %w; each driver needs LimitMEMLOCK=%d (or infinity)", ErrLockedMemory, err, d.lockedBytes(opts))
		}
		d.unmap()
		return nil, err
	}
	d.pool = newPool(aio.Watched(cfg.FS, opts.FlushFailed), opts.Helpers, d.Wake)
	return d, nil
}

func (c Config) withDefaults(o aio.Options) Config {
	if c.FS == nil {
		c.FS = hostfs.New()
	}
	if c.SubmitEntries == 0 {
		c.SubmitEntries = min(o.Entries, maxSubmit)
	}
	if c.CompletionEntries == 0 {
		c.CompletionEntries = cqFactor * o.Entries
	}
	return c
}

func validate(o aio.Options, c Config) error {
	for _, v := range [...]struct {
		name     string
		n        int
		min, max int
		power    bool
	}{
		{"Entries", o.Entries, 1, maxEntries, true},
		{"RecvBuffers", o.RecvBuffers, 1, maxRecvBuffers, true},
		{"RecvBufferBytes", o.RecvBufferBytes, aio.BlockSize, maxTransfer, false},
		{"Files", o.Files, 1, 1 << 20, false},
		{"Helpers", o.Helpers, 1, 1024, false},
		{"SubmitEntries", c.SubmitEntries, 1, maxEntries, true},
		{"CompletionEntries", c.CompletionEntries, c.SubmitEntries, cqFactor * maxEntries, true},
	} {
		if v.n < v.min || v.n > v.max {
			return fmt.Errorf("uring: option %s is %d, it must be between %d and %d", v.name, v.n, v.min, v.max)
		}
		if v.power && bits.OnesCount(uint(v.n)) != 1 {
			return fmt.Errorf("uring: option %s is %d, it must be a power of two", v.name, v.n)
		}
	}
	if o.RecvBufferBytes%aio.BlockSize != 0 {
		return fmt.Errorf("uring: option RecvBufferBytes is %d, it must be a multiple of %d", o.RecvBufferBytes, aio.BlockSize)
	}
	if o.ArenaBytes < 1 {
		return fmt.Errorf("uring: option ArenaBytes is %d, it must be positive", o.ArenaBytes)
	}
	return nil
}

// build makes what the driver consists of, in the order that the kernel demands:
// memory and tables are registered before the ring is restricted, and it is
// restricted before it is enabled.
func (d *Driver) build(o aio.Options, c Config) (err error) {
	if d.ring, err = newRing(c.SubmitEntries, c.CompletionEntries); err != nil {
		return err
	}
	if err = d.waker.init(); err != nil {
		return err
	}
	d.messages.each = uint32(o.Entries)
	if err = d.messages.grow(); err != nil {
		return fmt.Errorf("uring: mapping %d message headers: %w", o.Entries, err)
	}
	if d.recv, err = newBufRing(o.RecvBuffers, o.RecvBufferBytes); err != nil {
		return err
	}
	if err = d.ring.registerBufRing(d.recv.ringMem, o.RecvBuffers); err != nil {
		return err
	}
	if err = d.ring.registerFiles(o.Files); err != nil {
		return err
	}
	if d.arena, err = newArena(o.ArenaBytes, maxPiece); err != nil {
		return err
	}
	if c.Warm {
		d.warming = d.arena.warm()
	} else {
		if err = d.arena.register(d.ring); err != nil {
			return err
		}
		d.noteMemory(o)
	}
	if !d.ring.registerFD() {
		d.notes = append(d.notes, "the thread's table of rings is full (16): entering the kernel costs 50 ns more")
	}
	if d.ring.setup.flags&giouring.SetupDeferTaskrun == 0 {
		d.notes = append(d.notes, "the kernel has no DEFER_TASKRUN (Linux 6.1): completions interrupt the loop")
	}
	if err = d.ring.restrict(c.Warm); err != nil {
		return err
	}
	return d.ring.enable()
}

// noteMemory says what could not be registered, and what limit would allow it.
func (d *Driver) noteMemory(o aio.Options) {
	if d.arena.registered == len(d.arena.mem) {
		return
	}
	limit := "unknown"
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &lim); err == nil {
		limit = fmt.Sprint(lim.Cur)
	}
	d.notes = append(d.notes, fmt.Sprintf(
		"the limit of locked memory (RLIMIT_MEMLOCK) of %s bytes lets %d of %d bytes of I/O memory be registered, the rest is slower; "+
			"each driver needs LimitMEMLOCK=%d (or infinity)",
		limit, d.arena.registered, len(d.arena.mem), d.lockedBytes(o)))
}

// lockedBytes is the locked memory that the driver takes when all is registered.
func (d *Driver) lockedBytes(o aio.Options) int {
	p := &d.ring.setup
	return pages(p.ringBytes()) + pages(int(p.sqEntries)*sqeSize) + pages(o.RecvBuffers*bufSize) + pages(int(o.ArenaBytes))
}

// Name is "io_uring".
func (d *Driver) Name() string { return "io_uring" }

// Notes are what the driver had to do without. See aio.Driver.
func (d *Driver) Notes() []string { return d.notes }

// Clock is the kernel's clock.
func (d *Driver) Clock() aio.Clock { return d.clock }

// Rand returns 64 random bits of a generator with a seed from the kernel.
func (d *Driver) Rand() uint64 { return d.rand.Uint64() }

// FS is the blocking filesystem that the helpers use.
func (d *Driver) FS() aio.FS { return d.pool.fs }

// Alloc returns zeroed I/O memory. See aio.Driver. The most at once is 1 GiB.
func (d *Driver) Alloc(n int) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	b, err := d.arena.alloc(n)
	if err != nil {
		return nil, &aio.Error{Op: "alloc", What: "I/O memory", Off: -1, Err: err}
	}
	return b, nil
}

// ReleaseBuf gives a receive buffer home.
func (d *Driver) ReleaseBuf(id aio.BufID) { d.recv.release(id) }

// FreeBufs is the number of receive buffers that are home.
func (d *Driver) FreeBufs() int { return d.recv.free }

// InFlight is the number of operations of all kinds that have not completed.
func (d *Driver) InFlight() int { return d.inFlight }

// Stats returns the counters. The loop calls it.
func (d *Driver) Stats() Stats {
	s := d.stats
	s.WakeCalls = d.waker.calls.Load()
	return s
}

func (d *Driver) begin() {
	if d.closed {
		invariant.Violated("uring: nothing is submitted to a closed driver")
	}
	d.inFlight++
}
