package engine

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/ballast"
)

// fillUp appends to p, on a disk without space, until nothing has been taken for a
// while.
func (r *rig) fillUp(p *Partition, n, size int) {
	r.t.Helper()
	for refused := 0; refused < 200; {
		a := &produced{}
		a.Part, a.Batch, a.Owner = p, testBatch(r.t, n, size), a
		a.Header = mustCheck(r.t, a.Batch)
		switch err := p.store.Append(&a.Append); err {
		case nil:
			refused = 0
		case ErrBusy, ErrDiskFull:
			refused++
		default:
			r.t.Fatal(err)
		}
		r.run(2 * time.Millisecond)
	}
}

// full takes all space away that segments do not have yet.
func (r *rig) full() {
	r.t.Helper()
	if err := r.w.SetCapacity(rigDir, 1); err != nil {
		r.t.Fatal(err)
	}
}

// What makes room on a full disk, the deletion of a topic, has to be recorded first. It
// stood behind the ring, or the memory, that nothing emptied.
func TestUrgentAppendsFindRoomOnAFullDisk(t *testing.T) {
	for _, c := range []struct {
		name            string
		journal, chunks int64
	}{{"ring", 1 << 20, 8 << 20}, {"memory", 8 << 20, 512 << 10}} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, rigOptions{journal: c.journal, chunks: c.chunks})
			id := r.topic(1, ClassFlushed)
			other := r.part(r.topic(2, ClassFlushed), 0)
			r.full()
			for n := range 3 {
				r.fillUp(r.part(id, n), 8, 400)
			}
			r.fillUp(other, 1, 100)
			if !other.store.DiskFull() {
				t.Fatal("the disk does not count as full")
			}
			a := &produced{}
			a.Part, a.Batch, a.Owner = other, testBatch(t, 1, 100), a
			a.Header = mustCheck(t, a.Batch)
			if err := other.store.Append(&a.Append); err != ErrDiskFull {
				t.Fatalf("an append that is not urgent: %v", err)
			}
			a.Urgent = true
			if err := other.store.Append(&a.Append); err != nil {
				t.Fatalf("an urgent append: %v; %+v", err, other.store.Stats())
			}
			r.until("ack", func() bool { return a.done })
			if a.Err != nil {
				t.Fatal(a.Err)
			}
		})
	}
}

// A partition of class memory whose batches found no room in the ring could not be
// dropped, so that its files were never removed and the disk stayed full.
func TestMemoryThatFindsNoRoomIsDropped(t *testing.T) {
	r := newRig(t, rigOptions{journal: 1 << 20, chunks: 8 << 20, reserve: 1 << 20})
	p := r.part(r.topic(1, ClassMemory), 0)
	q := r.part(r.topic(2, ClassMemory), 0)
	kept := []*produced{r.sendWait(q, 1, 100)}
	r.sendWait(p, 1, 100)
	r.full()
	r.fillUp(p, 8, 400)
	if p.memory == 0 {
		t.Fatal("nothing waits for the journal")
	}
	for range 5 {
		kept = append(kept, r.send(q, 1, 100))
	}
	gone := &dropped{}
	p.store.Drop(p, gone)
	r.until("drop", func() bool { return gone.done })
	if err := r.w.SetCapacity(rigDir, 1<<40); err != nil {
		t.Fatal(err)
	}
	// A checkpoint is for what the journal has when it begins.
	r.until("everything in the journal", func() bool {
		u := q.store.Usage()
		return u.MemoryBytes == 0 && u.PendingAppends == 0
	})
	r.checkpointAll()
	if u := q.store.Usage(); u.MemoryBytes != 0 || u.DirtyPartitions != 0 {
		t.Fatalf("with room again: %+v", u)
	}
	r.mustHold(q, kept)
}

// An operator saw nothing of a disk that was full.
func TestAFullDiskIsTold(t *testing.T) {
	r := newRig(t, rigOptions{journal: 1 << 20, chunks: 8 << 20})
	p := r.part(r.topic(1, ClassFlushed), 0)
	r.full()
	r.fillUp(p, 8, 400)
	if err := r.w.SetCapacity(rigDir, 1<<40); err != nil {
		t.Fatal(err)
	}
	r.run(5 * time.Second)
	if p.store.DiskFull() {
		t.Fatal("the disk still counts as full")
	}
	said := strings.Join(r.log, "\n")
	if strings.Count(said, "disk full true") != 1 || strings.Count(said, "disk full false") != 1 {
		t.Fatalf("told: %s", said)
	}
}

func (r *rig) free() int64 {
	r.t.Helper()
	info, err := r.w.FS().Stat(rigDir)
	if err != nil {
		r.t.Fatal(err)
	}
	return info.FreeBytes
}

// leave makes the disk so small that n bytes of it are free.
func (r *rig) leave(n int64) {
	r.t.Helper()
	info, err := r.w.FS().Stat(rigDir)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.w.SetCapacity(rigDir, info.TotalBytes-info.FreeBytes+n); err != nil {
		r.t.Fatal(err)
	}
}

// Room for a segment was asked for in doubling steps alone: what was less than a step
// was used by nobody, or, on filesystems that keep the part that they have found, lost
// to all other segments, while acknowledged batches found no room.
func TestTheRestOfADiskIsUsedInSmallSteps(t *testing.T) {
	r := newRig(t, rigOptions{journal: 1 << 20, chunks: 8 << 20})
	p := r.part(r.topic(1, ClassFlushed), 0)
	r.leave(3 << 20)
	r.fillUp(p, 8, 400)
	if free := r.free(); free >= 256<<10 {
		t.Fatalf("%d bytes are left, and nothing is taken", free)
	}
}

// Producers that waited when the disk was found full waited on, until somebody looked
// whether their time was over.
func TestNobodyWaitsForAFullDisk(t *testing.T) {
	r := newRig(t, rigOptions{journal: 1 << 20, chunks: 8 << 20})
	p := r.part(r.topic(1, ClassFlushed), 0)
	r.full()
	r.fillUp(p, 8, 400)
	a := &produced{}
	a.Part, a.Batch, a.Owner = p, testBatch(t, 8, 400), a
	a.Header = mustCheck(t, a.Batch)
	if err := p.store.Append(&a.Append); err != ErrDiskFull || p.store.Starved() {
		t.Fatalf("%v; the next one would wait: %v", err, p.store.Starved())
	}
}

// A start on a full disk has the ballast and what segments have allocated in advance. What
// had been acknowledged and was in the journal alone did not fit where others had room.
func TestAStartOnAFullDiskTakesBackWhatIsAllocatedInAdvance(t *testing.T) {
	startOnAFullDisk(t, 64<<10)
}

// A broker that was killed when segments had just taken what the ballast gave left a disk
// without a free block: the next start failed at the node file, which it wrote first.
func TestAStartNeedsNoFreeBlockForItsNodeFile(t *testing.T) { startOnAFullDisk(t, 0) }

// startOnAFullDisk starts a node that was killed and finds no free space, a ballast of
// some bytes, and a segment with blocks to spare.
func startOnAFullDisk(t *testing.T, given int64) {
	t.Helper()
	r := newRig(t, rigOptions{journal: 1 << 20, chunks: 8 << 20})
	id := r.topic(1, ClassFlushed)
	p, q := r.part(id, 0), r.part(id, 1)
	var kept, late []*produced
	for range 100 {
		kept = append(kept, r.sendWait(p, 4, 800))
	}
	r.checkpointAll()
	late = append(late, r.sendWait(q, 1, 100))
	full := r.w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Allocates, Path: q.active.Path()}, Times: sim.Always, Err: syscall.ENOSPC})
	for range 50 {
		late = append(late, r.sendWait(q, 4, 800))
	}
	r.w.Kill()
	full.End()
	if given > 0 {
		f, err := r.w.FS().Open(rigDir+"/"+ballast.Name, aio.OpenWrite|aio.OpenCreate)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.Allocate(0, given), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	r.leave(0)
	r.start()
	r.mustHold(r.part(id, 0), kept)
	r.mustHold(r.part(id, 1), late)
}

// noBallast hears of a ballast.
type noBallast struct{}

func (noBallast) BallastMade(int64)           {}
func (noBallast) BallastMissing(int64, error) {}
func (noBallast) BallastUnable(error)         {}

// What the ballast gave was taken by segments in advance, and nothing was left of it for
// the next start.
func TestNothingIsTakenInAdvanceOfWhatTheBallastGave(t *testing.T) {
	r := newRig(t, rigOptions{journal: 1 << 20, chunks: 8 << 20})
	p := r.part(r.topic(1, ClassFlushed), 0)
	r.sendWait(p, 1, 100)
	r.leave(1 << 20)
	s := p.store
	b, k := ballast.New(s.loop, rigDir, 1<<40, 1, noBallast{})
	s.opts.Ballast = b
	k.Begin(true)
	r.checkpointAll()
	if !b.Missing() || p.active.file.Allocated != aio.BlockSize {
		t.Fatalf("ballast missing %v, %d bytes allocated for a message", b.Missing(), p.active.file.Allocated)
	}
}
