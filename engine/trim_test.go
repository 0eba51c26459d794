package engine

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/segment"
)

// trimmed hears of a trim.
type trimmed struct {
	start int64
	err   error
	done  bool
}

func (d *trimmed) Trimmed(start int64, err error) { d.start, d.err, d.done = start, err, true }

// trim trims a partition and waits until the new log start is in force.
func (r *rig) trim(p *Partition, offset int64) {
	r.t.Helper()
	d := &trimmed{}
	p.store.Trim(p, offset, d)
	r.until("trim", func() bool { return d.done })
	if d.err != nil || d.start < offset || p.LogStart() != d.start {
		r.t.Fatalf("trim to %d: log start %d, told %d, %v", offset, p.LogStart(), d.start, d.err)
	}
}

// mustHoldFrom checks that of what has been sent everything from offset on can be read, and
// that the log begins there.
func (r *rig) mustHoldFrom(p *Partition, offset int64, sent []*produced) {
	r.t.Helper()
	if p.LogStart() != offset {
		r.t.Fatalf("the log begins at %d, expected %d", p.LogStart(), offset)
	}
	got := r.readAll(p)
	for _, a := range sent {
		last := a.Base + int64(a.Header.LastOffsetDelta)
		if last >= offset && string(got[a.Base]) != string(a.Batch) {
			r.t.Fatalf("the batch at %d is not what was sent; the log begins at %d", a.Base, offset)
		}
	}
	if offset > 0 {
		if f := r.read(p, offset-1, 1<<16); f.Err != ErrOutOfRange {
			r.t.Fatalf("a read below the log start: %v", f.Err)
		}
	}
}

// segments sends batches of 10 records until p has n segments.
func (r *rig) segments(p *Partition, n int) (sent []*produced) {
	for len(p.bases) < n {
		sent = append(sent, r.sendWait(p, 10, 400))
	}
	return sent
}

func TestATrimRemovesWholeSegmentsAndIsForLife(t *testing.T) {
	for _, class := range []Class{ClassFlushed, ClassWritten, ClassMemory} {
		t.Run(class.String(), func(t *testing.T) {
			r := newRig(t, rigOptions{segment: 16 << 10, reserve: 1 << 20})
			id := r.topic(1, class)
			p := r.part(id, 0)
			sent := r.segments(p, 5)
			third := p.bases[2].base
			r.trim(p, third+3)
			r.mustHoldFrom(p, third+3, sent)
			r.trim(p, third) // never back
			r.mustHoldFrom(p, third+3, sent)
			r.mustHoldOnly(p)
			if p.first.base != third || p.store.Stats().RemovedSegments != 2 {
				t.Fatalf("segments at %d, expected the first at %d", basesOf(p), third)
			}
			r.checkpointAll()
			r.w.Crash(sim.KeepNone)
			r.start()
			p = r.part(id, 0)
			r.mustHoldFrom(p, third+3, sent)
			r.mustHoldOnly(p)
		})
	}
}

// The newest segment is rolled, or a partition of one segment could not be trimmed; an
// empty one never is.
func TestATrimOfEverythingLeavesAnEmptySegment(t *testing.T) {
	r := newRig(t, rigOptions{})
	id := r.topic(1, ClassFlushed)
	p := r.part(id, 0)
	sent := []*produced{r.sendWait(p, 10, 400), r.sendWait(p, 10, 400)}
	for life := range 3 {
		for range 2 {
			r.trim(p, p.Durable())
			r.mustHoldOnly(p)
			r.mustHoldFrom(p, p.End(), sent)
			p.store.Roll(p)
			if names := r.names(p.dir); len(names) != 0 {
				t.Fatalf("life %d: files %v", life, names)
			}
		}
		end := p.End()
		r.w.Crash(sim.KeepNone)
		r.start()
		if p = r.part(id, 0); p.End() != end {
			t.Fatalf("life %d: the log ends at %d, it did at %d", life, p.End(), end)
		}
		sent = append(sent, r.sendWait(p, 5, 400))
		r.mustHoldFrom(p, end, sent)
	}
}

// What is asked for above the durable end is refused, also when it has been appended.
func TestATrimStopsAtTheDurableEnd(t *testing.T) {
	r := newRig(t, rigOptions{})
	p := r.part(r.topic(1, ClassFlushed), 0)
	r.sendWait(p, 10, 100)
	hold := r.w.Hold(sim.Filter{Path: "journal-*"})
	r.send(p, 10, 100)
	d := &trimmed{}
	p.store.Trim(p, p.End(), d)
	if !d.done || d.err != ErrOutOfRange || d.start != 0 {
		t.Fatalf("trim above the durable end: %+v", d)
	}
	hold.Release()
}

// A log start that checkpoints do not have yet is in force for nobody.
func TestALogStartIsInForceWhenItIsDurable(t *testing.T) {
	r := newRig(t, rigOptions{segment: 16 << 10})
	p := r.part(r.topic(1, ClassFlushed), 0)
	sent := r.segments(p, 4)
	hold := r.w.Hold(sim.Filter{Path: "checkpoint-*"})
	d := &trimmed{}
	p.store.Trim(p, p.bases[2].base, d)
	r.run(1e9)
	if d.done || p.LogStart() != 0 || len(p.bases) != 4 {
		t.Fatalf("before the checkpoint: %+v, log start %d, segments at %d", d, p.LogStart(), basesOf(p))
	}
	r.mustHold(p, sent)
	hold.Release()
	r.until("trim", func() bool { return d.done })
	r.mustHoldOnly(p)
}

// A segment goes when the last answer from its memory has been released. An answer from its
// file has memory of its own, and stays what it is when the segment has gone.
func TestReadersOfATrimmedSegmentAreNotDisturbed(t *testing.T) {
	for _, cold := range []bool{false, true} {
		t.Run(fmt.Sprintf("cold %v", cold), func(t *testing.T) {
			r := newRig(t, rigOptions{segment: 16 << 10})
			id := r.topic(1, ClassFlushed)
			p := r.part(id, 0)
			sent := r.segments(p, 4)
			if cold {
				r.checkpointAll()
				r.w.Crash(sim.KeepNone)
				r.start()
				p = r.part(id, 0)
			}
			f := r.read(p, 0, 1<<16)
			if f.Err != nil || f.N == 0 {
				t.Fatalf("read: %v, %d pieces", f.Err, f.N)
			}
			r.trim(p, p.bases[3].base)
			r.run(1e9)
			if got := basesOf(p); !cold && len(got) != 4 {
				t.Fatalf("segments at %d while the first is read", got)
			}
			got := map[int64][]byte{}
			r.split(f, got)
			if string(got[0]) != string(sent[0].Batch) {
				t.Fatal("the answer has changed under its reader")
			}
			p.store.Release(&f.Read)
			r.mustHoldOnly(p)
			if len(p.bases) != 1 {
				t.Fatalf("segments at %d when nobody reads", basesOf(p))
			}
		})
	}
}

// On a full disk it is a trim that makes room: it must not need any.
func TestATrimMakesRoomOnAFullDisk(t *testing.T) {
	r := newRig(t, rigOptions{segment: 64 << 10, journal: 1 << 20, chunks: 8 << 20})
	p := r.part(r.topic(1, ClassFlushed), 0)
	r.segments(p, 8)
	r.checkpointAll()
	full := r.w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Allocates, Path: "*.log"}, Times: sim.Always, Err: syscall.ENOSPC})
	r.fillUp(p, 8, 400)
	if !p.store.DiskFull() {
		t.Fatal("the disk does not count as full")
	}
	before := r.free()
	r.trim(p, p.bases[7].base)
	r.until("room", func() bool { return r.free() > before+256<<10 })
	full.End()
	r.sendWait(p, 8, 400)
}

// The older generation of a checkpoint speaks of segments that a trim removes; until both
// speak of the new log start they stay.
func TestALostCheckpointMissesNoTrimmedSegment(t *testing.T) {
	r := newRig(t, rigOptions{segment: 16 << 10})
	id := r.topic(1, ClassFlushed)
	p := r.part(id, 0)
	sent := r.segments(p, 4)
	r.checkpointAll()
	start := p.bases[3].base
	r.trim(p, start)
	r.mustHoldOnly(p)
	r.w.Crash(sim.KeepNone)
	r.corrupt(r.newestCheckpoint())
	r.start()
	p = r.part(id, 0)
	if r.reported("LOSS") {
		t.Fatalf("reported: %v", r.log)
	}
	r.mustHoldFrom(p, start, sent)
}

// A checkpoint that finds no space leaves both generations as they are. The next one takes
// its place: in the place of the newest it would leave one that speaks of segments which
// are gone by then.
func TestATrimCountsNoCheckpointThatHasFailed(t *testing.T) {
	r := newRig(t, rigOptions{segment: 16 << 10})
	id := r.topic(1, ClassFlushed)
	p := r.part(id, 0)
	sent := r.segments(p, 4)
	r.checkpointAll()
	start := p.bases[3].base
	full := r.w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Writes, Path: "checkpoint-*"}, Skip: 1, Err: syscall.ENOSPC})
	r.trim(p, start)
	r.mustHoldOnly(p)
	if full.Hits() != 1 {
		t.Fatalf("%d checkpoints found no space", full.Hits())
	}
	r.w.Crash(sim.KeepNone)
	r.corrupt(r.newestCheckpoint())
	r.start()
	p = r.part(id, 0)
	if r.reported("LOSS") {
		t.Fatalf("reported: %v", r.log)
	}
	r.mustHoldFrom(p, start, sent)
}

// Whatever is left of removed segments, names of any form, the next start removes.
func TestAStartRemovesWhatATrimHasLeft(t *testing.T) {
	r := newRig(t, rigOptions{segment: 16 << 10})
	id := r.topic(1, ClassFlushed)
	p := r.part(id, 0)
	sent := r.segments(p, 5)
	start := p.bases[4].base
	bases := basesOf(p)
	hold := r.w.Hold(sim.Filter{Ops: sim.Renames, Path: "*.deleted"})
	r.trim(p, start)
	r.run(1e9)
	r.w.Crash(sim.KeepAll)
	hold.Release()
	fs, log := r.w.FS(), filepath.Join(p.dir, segment.LogName(bases[0]))
	for _, err := range []error{
		fs.Rename(log, segment.Deleted(log)),
		fs.Remove(filepath.Join(p.dir, segment.LogName(bases[1]))),
		fs.Remove(filepath.Join(p.dir, segment.IndexName(bases[2]))),
		fs.SyncDir(p.dir),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	r.start()
	p = r.part(id, 0)
	r.mustHoldFrom(p, start, sent)
	r.mustHoldOnly(p)
	if r.reported("LOSS") {
		t.Fatalf("reported: %v", r.log)
	}
}

// An index is written beside its place first. What a crash left of that stayed for ever.
func TestAStartRemovesWhatAnIndexHasLeft(t *testing.T) {
	r := newRig(t, rigOptions{segment: 16 << 10})
	id := r.topic(1, ClassFlushed)
	p := r.part(id, 0)
	sent := r.segments(p, 2)
	hold := r.w.Hold(sim.Filter{Ops: sim.Renames, Path: "*.index"})
	sent = append(sent, r.segments(p, 4)...)
	r.run(1e9)
	r.w.Crash(sim.KeepAll)
	hold.Release()
	if !strings.Contains(strings.Join(r.names(p.dir), " "), ".tmp") {
		t.Fatalf("nothing is left: %v", r.names(p.dir))
	}
	r.start()
	p = r.part(id, 0)
	r.mustHold(p, sent)
	r.mustHoldOnly(p)
}

// A partition of which nothing is left, not even an empty segment, is still known to have
// begun further on: what an interrupted removal has left goes, and is not set aside.
func TestAStartRemovesWhatATrimOfEverythingHasLeft(t *testing.T) {
	r := newRig(t, rigOptions{segment: 16 << 10})
	id := r.topic(1, ClassFlushed)
	p := r.part(id, 0)
	r.segments(p, 4)
	end := p.Durable()
	hold := r.w.Hold(sim.Filter{Ops: sim.Renames, Path: "*.deleted"})
	r.trim(p, end)
	for range 2 {
		r.w.Crash(sim.KeepAll)
		r.start()
		p = r.part(id, 0)
		r.mustHoldFrom(p, end, nil)
		r.checkpointAll()
	}
	r.w.Crash(sim.KeepAll)
	hold.Release()
	r.start()
	p = r.part(id, 0)
	r.mustHoldOnly(p)
	if n := r.rec.Stats.Orphans; n != 0 || r.reported("LOSS") {
		t.Fatalf("%d files set aside; reported: %v", n, r.log)
	}
	if a := r.sendWait(p, 1, 100); a.Base != end {
		t.Fatalf("the log goes on at %d, expected %d", a.Base, end)
	}
}

// The machine stops before each step of a trim, with any part of what is not durable. The
// log begins where it did or where it shall, or between, never below what has been told, and
// nothing from there on is lost.
func TestACrashAtEveryStepOfATrim(t *testing.T) {
	r := newRig(t, rigOptions{segment: 16 << 10, seed: 7})
	id := r.topic(1, ClassFlushed)
	p := r.part(id, 0)
	sent := r.segments(p, 4)
	start := p.bases[2].base + 3
	rng, steps := rand.New(rand.NewPCG(1, 2)), 0
	seen := map[uint64]bool{}
	r.w.Watch(func(m *sim.Moment) {
		steps++
		told := p.LogStart()
		for _, images := range []*sim.Images{m.PowerCuts(), m.Kills()} {
			for n := range 4 {
				image := images.Image(func(int) bool { return n == 0 || n > 1 && rng.IntN(2) == 0 })
				if sum := image.Sum() ^ uint64(told); !seen[sum] {
					seen[sum] = true
					r.mustGoOn(image, id, sent, told, start)
				}
			}
		}
	})
	r.trim(p, start)
	r.mustHoldOnly(p)
	r.w.Watch(nil)
	if steps < 20 || len(seen) < 20 {
		t.Fatalf("%d steps, %d images", steps, len(seen))
	}
}

// mustGoOn starts on an image of a machine on which a trim to start was under way.
func (r *rig) mustGoOn(image *sim.Image, id TopicID, sent []*produced, told, start int64) {
	r.t.Helper()
	next := &rig{t: r.t, opts: r.opts, topics: r.topics, w: image.World(sim.Options{Seed: 3})}
	next.pause = next.w.ClientDriver(pauseOptions)
	next.start()
	p := next.part(id, 0)
	if at := p.LogStart(); at < told || at > start {
		r.t.Fatalf("the log begins at %d; told %d, asked for %d", at, told, start)
	}
	next.mustHoldFrom(p, p.LogStart(), sent)
	next.trim(p, start)
	next.mustHoldFrom(p, start, sent)
	next.mustHoldOnly(p)
	if said := strings.Join(next.log, "\n"); strings.Contains(said, "LOSS") || strings.Contains(said, "DAMAGED") {
		r.t.Fatalf("reported: %s", said)
	}
	next.w.Kill()
}
