package sim

import (
	"syscall"
	"time"

	"github.com/mqd-broker/mqd/engine/aio/sim"
)

// fault is what goes wrong in a life, if anything.
type fault struct {
	kind  state
	at    *sim.Injection
	since int64 // the disk fills up at this time
	until int64 // and has room again at this; 0: it is not full
	// filled: the disk has been full in this life.
	filled bool
	// The clock of the machine jumps at a time, and perhaps back when the life is over.
	jumpAt int64
	jump   time.Duration
}

const plenty = int64(1) << 40

// draw decides what goes wrong in this life, and when.
func (f *fault) draw(r *run) {
	*f = fault{}
	inject := func(kind state, rule sim.Fault) {
		rule.Skip = r.rng.IntN(1 << (1 + r.rng.IntN(10)))
		if kind == sawCompactFault {
			rule.Skip /= 64 // it writes now and then
		}
		f.kind, f.at = kind, r.w.Inject(rule)
		r.note("fault: %s, after %d", kind, rule.Skip)
	}
	journal := sim.Filter{Ops: sim.Writes, Path: "journal*"}
	draw := r.rng.IntN(28)
	if *always >= 0 {
		draw = *always
	}
	switch draw {
	case 0:
		inject(sawFlushFailed, sim.Fault{Filter: sim.Filter{Ops: sim.Flushes, Path: "journal*"}})
	case 1:
		inject(sawJournalFailed, sim.Fault{Filter: journal})
	case 2:
		inject(sawReadFailed, sim.Fault{Filter: sim.Filter{Ops: sim.Reads, Path: "*.log"}, Times: 1 + r.rng.IntN(5)})
	case 3:
		inject(sawSegmentFailed, sim.Fault{Filter: sim.Filter{Ops: []sim.Ops{sim.Writes, sim.Flushes}[r.rng.IntN(2)], Path: "*.log"}})
	case 12, 13: // the filesystem may turn read-only by it
		inject(sawSegmentFailed, sim.Fault{Filter: sim.Filter{Ops: sim.Flushes, Path: "*.log"}})
	case 14, 15:
		inject(sawCompactFault, sim.Fault{Filter: sim.Filter{Ops: []sim.Ops{sim.Writes, sim.Flushes, sim.Renames}[r.rng.IntN(3)], Path: "*.log.tmp"}})
	case 4, 5:
		inject(sawShortWrite, sim.Fault{Filter: sim.Filter{Ops: sim.Writes, Path: "[j0]*"}, Effect: sim.Shorten, Bytes: 512, Times: 1 + r.rng.IntN(5)})
	case 6, 7:
		inject(sawReset, sim.Fault{Filter: sim.Filter{Ops: sim.Sends | sim.Receives}, Err: syscall.ECONNRESET, Times: 1 + r.rng.IntN(3)})
	case 8, 9, 11:
		f.kind, f.since = sawNoSpace, r.w.Now()+r.rng.Int64N(int64(20*time.Millisecond))
	case 10:
		r.cover(sawClockJump)
		r.jump(time.Duration(r.rng.Int64N(int64(2*anHour))) - anHour)
	case 24, 25:
		f.jumpAt, f.jump = r.w.Now()+r.rng.Int64N(int64(50*time.Millisecond)), -anHour
	case 26, 27:
		f.jumpAt, f.jump = r.w.Now()+r.rng.Int64N(int64(50*time.Millisecond)), aDecade
	}
	if f.kind != "" {
		r.faults++
		r.broken = f.kind != sawShortWrite && f.kind != sawReset && f.kind != sawNoSpace
	}
}

// tend lets a disk fill up, and empties it again.
func (f *fault) tend(r *run) {
	if f.jumpAt > 0 && r.w.Now() >= f.jumpAt {
		f.jumpAt = 0
		r.jump(f.jump)
		r.cover(map[time.Duration]state{-anHour: sawClockBack, aDecade: sawClockAhead}[f.jump])
	}
	if f.kind != sawNoSpace || f.since == 0 {
		return
	}
	now := r.w.Now()
	switch {
	case now < f.since:
	case f.until == 0:
		if r.w.SetCapacity(dataDir, 1) == nil {
			r.note("the disk is full")
			f.filled = true
			f.until = now + 1 + r.rng.Int64N(int64(300*time.Millisecond))
			r.cover(sawNoSpace)
		}
	case now > f.until:
		r.note("the disk has room")
		f.free(r)
	}
}

func (f *fault) free(r *run) {
	if f.until != 0 {
		if err := r.w.SetCapacity(dataDir, plenty); err != nil {
			r.failf("capacity: %v", err)
		}
	}
	f.kind, f.since, f.until = "", 0, 0
}

// fatal reports whether a log has failed, so that the life had better end.
func (f *fault) fatal(r *run) bool {
	if f.at == nil || f.at.Hits() == 0 {
		return false
	}
	r.cover(f.kind)
	if f.kind == sawFlushFailed && r.cfg.Shards > 1 {
		r.cover(sawFlushFailed2)
	}
	for i := range r.cfg.Shards {
		if r.n.Store(i).Failed() != nil {
			return true
		}
	}
	return false
}

// end takes the fault away.
func (f *fault) end(r *run) {
	if f.at != nil {
		f.at.End()
	}
	if f.jump != 0 && f.jumpAt == 0 && r.rng.IntN(2) == 0 {
		r.jump(-f.jump) // it is set right before the next start
	}
	f.jump, f.jumpAt = 0, 0
	f.free(r)
}
