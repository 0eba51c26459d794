package shard

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/ringbuf"
)

// Defaults and limits of a loop.
const (
	// DefaultSpin is how long an idle loop polls before it sleeps.
	DefaultSpin = 75 * time.Microsecond
	// DefaultStall is the length of a turn that counts as a stall.
	DefaultStall = 5 * time.Millisecond
	// maxSleep bounds a sleep, so that a loop is seen to be alive.
	maxSleep = 250 * time.Millisecond
	// taskBudget is the number of tasks taken per turn.
	taskBudget = 16
	// inboxSize is the number of tasks that can wait.
	inboxSize = 1024
)

// IdleMode says what a loop does when it has nothing to do.
type IdleMode uint8

const (
	// IdleAdaptive polls and yields for Options.Spin, then sleeps.
	IdleAdaptive IdleMode = iota
	// IdleBlock sleeps at once. For tests and small containers.
	IdleBlock
	// IdleBusy never sleeps; it yields after every empty turn.
	IdleBusy
)

// Thread is what a loop needs from the operating system's scheduler.
type Thread interface {
	// Yield lets another runnable thread have this CPU.
	Yield()
}

// Options of a loop. Zero fields take the defaults.
type Options struct {
	// ID is the shard's number, from 0.
	ID int
	// Idle says what an idle loop does.
	Idle IdleMode
	// Spin is how long an idle loop polls in IdleAdaptive.
	Spin time.Duration
	// Stall is the length of a turn that is counted as a stall.
	Stall time.Duration
	// Long is the length of a turn that is told of; 0 for none.
	Long time.Duration
	// Sleep is the shard's sleep handshake with its peers, from its port of
	// the mesh; nil for a loop without peers.
	Sleep *ringbuf.Sleep
	// Thread is nil where loops share threads (tests, the simulator).
	Thread Thread
}

// Worker is what a loop runs. All methods are called on the loop.
type Worker interface {
	// Drain takes a bounded amount of what other shards have sent and
	// returns how much that was.
	Drain(now int64) int
	// Finish ends a turn, after completions and timers: it starts what the
	// turn has gathered (a journal round, coalesced acks, messages to peers).
	Finish(now int64)
	// SpinHint is the time until which, in nanoseconds of the loop's clock, the
	// loop had better poll than sleep; 0 for no wish.
	SpinHint(now int64) int64
}

// Loop is one shard's loop.
type Loop struct {
	opts   Options
	drv    aio.Driver
	clock  aio.Clock
	worker Worker
	timers timerHeap
	inbox  *ringbuf.Inbox[Task]
	sleep  *ringbuf.Sleep

	now      int64 // time at the start of the turn; 0: to be read
	lastWork int64
	stop     bool

	stats Stats
}

// Task is work that another goroutine hands to a loop.
type Task interface {
	RunOn(l *Loop)
}

// TaskFunc makes a function a Task.
type TaskFunc func(l *Loop)

// RunOn calls f.
func (f TaskFunc) RunOn(l *Loop) { f(l) }

// Stats are a loop's counters. The loop alone writes them; anyone may read.
type Stats struct {
	// Turns counts turns, IdleTurns those that found nothing to do.
	Turns, IdleTurns atomic.Uint64
	// Sleeps counts the times that the loop blocked.
	Sleeps atomic.Uint64
	// Stalls counts turns longer than Options.Stall.
	Stalls atomic.Uint64
	// LongTurns counts turns longer than Options.Long, LongTurn is how many nanoseconds
	// the newest of them took.
	LongTurns atomic.Uint64
	LongTurn  atomic.Int64
	// LongestTurn is the longest turn so far, in nanoseconds, without sleep.
	LongestTurn atomic.Int64
	// BusyNanos is the time spent in turns that did work.
	BusyNanos atomic.Int64
	// Heartbeat is the clock at the start of the newest turn.
	Heartbeat atomic.Int64
}

// New returns a loop on drv. The worker is set by SetWorker before Run.
func New(drv aio.Driver, opts Options) *Loop {
	if opts.Spin == 0 {
		opts.Spin = DefaultSpin
	}
	if opts.Stall == 0 {
		opts.Stall = DefaultStall
	}
	if opts.Long == 0 {
		opts.Long = math.MaxInt64
	}
	if opts.Sleep == nil {
		opts.Sleep = new(ringbuf.Sleep)
	}
	l := &Loop{opts: opts, drv: drv, clock: drv.Clock(), sleep: opts.Sleep}
	l.inbox = ringbuf.NewInbox[Task]("shard inbox", inboxSize, l.sleep)
	l.lastWork = l.Now()
	return l
}

// SetWorker sets what the loop runs.
func (l *Loop) SetWorker(w Worker) { l.worker = w }

// ID is the shard's number.
func (l *Loop) ID() int { return l.opts.ID }

// Driver is the loop's driver, for code that runs on the loop.
func (l *Loop) Driver() aio.Driver { return l.drv }

// Now is the clock at the start of the turn, in nanoseconds. One reading serves
// everything that happens in a turn.
func (l *Loop) Now() int64 {
	if l.now == 0 {
		l.now = l.clock.Now()
	}
	return l.now
}

// Stats are the loop's counters.
func (l *Loop) Stats() *Stats { return &l.stats }

// Post hands t to the loop from any goroutine but the loop's own. The error is
// ringbuf.ErrInboxFull.
func (l *Loop) Post(t Task) error {
	wake, err := l.inbox.Post(t)
	if wake {
		l.drv.Wake()
	}
	return err
}

// Wake ends the loop's present or next sleep. Any goroutine.
func (l *Loop) Wake() { l.drv.Wake() }

// Stop ends Run after the present turn. It is called on the loop.
func (l *Loop) Stop() { l.stop = true }

// Run turns until Stop. An error means that the driver is broken.
func (l *Loop) Run() error {
	for !l.stop {
		if err := l.Step(); err != nil {
			return err
		}
	}
	return nil
}

// Step is what Run repeats: a turn and, after one that found nothing to do, what the
// loop's idle mode says.
func (l *Loop) Step() error {
	worked, err := l.Turn()
	if err != nil || worked > 0 {
		return err
	}
	return l.idle()
}

// Stopped reports whether Stop has been called.
func (l *Loop) Stopped() bool { return l.stop }

// Turn runs one turn without idling and returns how much work it found. Run
// calls it; harnesses that schedule several loops themselves do too.
func (l *Loop) Turn() (int, error) {
	start := l.clock.Now()
	l.now = start
	l.stats.Heartbeat.Store(start)
	work := l.runTasks() + l.worker.Drain(start)
	n, err := l.drv.Poll(0)
	if err != nil {
		return work, err
	}
	work += n + l.timers.run(start)
	l.worker.Finish(start)
	l.account(start, work)
	return work, nil
}

func (l *Loop) account(start int64, work int) {
	l.stats.Turns.Store(l.stats.Turns.Load() + 1)
	if work == 0 {
		l.stats.IdleTurns.Store(l.stats.IdleTurns.Load() + 1)
		return
	}
	l.lastWork = l.clock.Now()
	took := l.lastWork - start
	l.stats.BusyNanos.Store(l.stats.BusyNanos.Load() + took)
	if took > l.stats.LongestTurn.Load() {
		l.stats.LongestTurn.Store(took)
	}
	if took > int64(l.opts.Stall) {
		l.stats.Stalls.Store(l.stats.Stalls.Load() + 1)
	}
	if took > int64(l.opts.Long) {
		l.stats.LongTurn.Store(took)
		l.stats.LongTurns.Store(l.stats.LongTurns.Load() + 1)
	}
}

func (l *Loop) runTasks() int {
	n := 0
	for n < taskBudget {
		t, ok := l.inbox.Take()
		if !ok {
			break
		}
		t.RunOn(l)
		n++
	}
	if n > 0 {
		l.inbox.Release()
	}
	return n
}

// idle is called after a turn that found nothing: it yields, or sleeps when the
// loop has been idle for long enough.
func (l *Loop) idle() error {
	if l.stop {
		return nil
	}
	now := l.clock.Now()
	if l.mayPoll(now) {
		l.opts.Thread.Yield()
		return nil
	}
	wait := maxSleep
	if next, ok := l.timers.next(); ok {
		wait = min(wait, time.Duration(next-now))
	}
	if wait <= 0 || !l.sleep.Announce() {
		return nil
	}
	l.stats.Sleeps.Store(l.stats.Sleeps.Load() + 1)
	l.now = 0 // completions that end the sleep read the clock anew
	n, err := l.drv.Poll(wait)
	l.sleep.Awake()
	if n > 0 {
		l.lastWork = l.Now()
		l.worker.Finish(l.lastWork)
	}
	return err
}

// mayPoll reports whether the idle loop goes on polling.
func (l *Loop) mayPoll(now int64) bool {
	if l.opts.Thread == nil {
		return false
	}
	switch l.opts.Idle {
	case IdleBusy:
		return true
	case IdleAdaptive:
		return now-l.lastWork < int64(l.opts.Spin) || now < l.worker.SpinHint(now)
	default:
		return false
	}
}
