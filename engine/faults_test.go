package engine

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/audit"
	"github.com/mqd-broker/mqd/engine/segment"
)

// These are faults of a machine that no other test has; docs/DURABILITY.md lists all.

// A segment in the middle is gone: what stood before and behind it is served, a fetch
// within says where to go on, and appends go on at the end.
func TestASegmentMissingInTheMiddleCostsWhatItHeld(t *testing.T) {
	for name, index := range map[string]bool{"the log": true, "the log and its index": false} {
		t.Run(name, func(t *testing.T) { mustMissTheMiddle(t, index) })
	}
}

// audit does what a node does behind a start.
func (r *rig) audit() {
	r.t.Helper()
	a := audit.New(r.shards[0].drv, r.rec.Audit, func(f string, args ...any) { r.log = append(r.log, fmt.Sprintf(f, args...)) })
	a.Begin()
	r.until("the audit", a.Done)
}

func mustMissTheMiddle(t *testing.T, index bool) {
	t.Helper()
	r, id, sent := threeSegments(t)
	p := r.part(id, 0)
	from, to := p.first.next.base, p.first.next.next.base
	path := p.first.next.Path()
	r.w.Kill()
	r.remove(path)
	if !index {
		r.remove(strings.TrimSuffix(path, "log") + "index")
	}
	r.start()
	r.audit()
	want := fmt.Sprintf("no segment for offsets %d to %d", from, to-1)
	if said := strings.Join(r.log, "\n"); strings.Count(said, "LOSS DETECTED") != 1 || !strings.Contains(said, want) {
		t.Fatalf("reported %q, expected %q once", said, want)
	}
	p = r.part(id, 0)
	if p.LogStart() != 0 {
		t.Fatalf("the log start moved to %d", p.LogStart())
	}
	for _, at := range []int64{from, from + 3, to - 1} {
		if f := r.read(p, at, 1<<16); !errors.Is(f.Err, ErrCorrupt) || f.Next != to {
			t.Fatalf("fetch at %d of what is missing: %v, next %d; expected %d", at, f.Err, f.Next, to)
		}
	}
	got := r.readFrom(p, 0)
	for _, a := range sent {
		if there := bytes.Equal(got[a.Base], a.Batch); there != (a.Base < from || a.Base >= to) {
			t.Fatalf("the batch at %d: served %v; missing are %d to %d", a.Base, there, from, to-1)
		}
	}
	end := p.End()
	if a := r.sendWait(p, 1, 100); a.Base != end {
		t.Fatalf("appended at %d, the log ended at %d", a.Base, end)
	}
}

// A disk that acknowledges the flushes of segments and forgets them is found out: what
// a checkpoint says to be there is not.
func TestADiskThatLiesAboutFlushesIsFoundOut(t *testing.T) {
	r := newRig(t, rigOptions{segment: 16 << 10})
	id := r.topic(1, ClassFlushed)
	lie := r.w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Flushes, Path: "*.log"}, Effect: sim.Lie, Times: sim.Always})
	var sent []*produced
	for range 60 {
		sent = append(sent, r.sendWait(r.part(id, 0), 2, 300))
	}
	r.checkpointAll() // gives up the rounds
	r.run(5 * time.Millisecond)
	if lie.Hits() == 0 {
		t.Fatal("nothing was flushed: the test shows nothing")
	}
	r.w.Crash(sim.KeepNone)
	lie.End()
	if err := r.tryStart(); err != nil {
		if !errors.Is(err, ErrCorrupt) {
			t.Fatalf("start: %v", err)
		}
		return
	}
	p := r.part(id, 0)
	got := r.readFrom(p, 0)
	for _, a := range sent {
		if b, ok := got[a.Base]; ok && !bytes.Equal(b, a.Batch) {
			t.Fatalf("the batch at %d is another", a.Base)
		}
	}
	if st := p.store.Stats(); len(got) == len(sent) || st.CorruptReads == 0 {
		t.Fatalf("%d of %d batches are there, and nobody says that anything is wrong: %+v", len(got), len(sent), st)
	}
}

// The mark of an orderly end does not outlive the start after it: what class memory
// then shows and loses is a gap.
func TestTheMarkOfAnOrderlyEndIsForOneStart(t *testing.T) {
	for name, end := range map[string]func(w *sim.World){
		"killed":    func(w *sim.World) { w.Kill() },
		"power cut": func(w *sim.World) { w.Crash(sim.KeepNone) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, rigOptions{})
			id := r.topic(1, ClassMemory)
			sent := []*produced{r.sendWait(r.part(id, 0), 2, 100)}
			r.close()
			r.w.Kill()
			r.start()
			if r.rec.Stats.Gaps != 0 {
				t.Fatalf("after an orderly end: %+v", r.rec.Stats)
			}
			end(r.w) // before anything is appended: nothing can have been lost
			r.start()
			r.mustHold(r.part(id, 0), sent)
			sent = append(sent, r.sendWait(r.part(id, 0), 3, 100))
			end(r.w)
			r.start()
			if r.rec.Stats.Gaps != 1 {
				t.Fatalf("offsets were shown and lost: %+v", r.rec.Stats)
			}
			r.sendWait(r.part(id, 0), 8, 50)
			r.mustNotChange(r.part(id, 0), sent)
		})
	}
}

// S3: many partitions, and starts that are killed later and later.
func TestStartsThatAreKilledAgainAndAgain(t *testing.T) {
	r := newRig(t, rigOptions{shards: 2, journal: 4 << 20, chunks: 8 << 20})
	id := r.topic(1, ClassFlushed)
	sent := make([][]*produced, 200)
	for i := range 3 * len(sent) {
		n := i % len(sent)
		sent[n] = append(sent[n], r.send(r.part(id, n), 2, 150))
	}
	r.until("acks", func() bool {
		for _, s := range sent {
			if !s[2].done {
				return false
			}
		}
		return true
	})
	r.w.Kill()
	for n := range 30 {
		r.fuse = &fuse{left: n * 35}
		if err := r.tryStart(); err == nil {
			t.Fatalf("a start takes more than %d steps", n*35)
		}
		r.w.Kill()
	}
	r.fuse = nil
	r.start()
	for n := range sent {
		r.mustHold(r.part(id, n), sent[n])
	}
}

// A filesystem that has gone read-only under the broker stops the log, and only that.
func TestAFilesystemThatTurnsReadOnlyStopsTheLog(t *testing.T) {
	r := newRig(t, rigOptions{segment: 16 << 10})
	id := r.topic(1, ClassFlushed)
	p, s := r.part(id, 0), r.shards[0].store
	sent := []*produced{r.sendWait(p, 2, 300)}
	r.w.Inject(sim.Fault{
		Filter: sim.Filter{Ops: sim.Opens | sim.Allocates | sim.Renames | sim.Mkdirs | sim.Truncates},
		Times:  sim.Always, Err: syscall.EROFS,
	})
	s.checkpoint.begin()
	r.until("failure", func() bool { return s.Failed() != nil })
	if got := r.readAll(p); !bytes.Equal(got[0], sent[0].Batch) {
		t.Fatal("what is durable cannot be read")
	}
	a := &produced{}
	a.Part, a.Batch, a.Owner = p, testBatch(t, 1, 100), a
	a.Header = mustCheck(t, a.Batch)
	if err := s.Append(&a.Append); !errors.Is(err, ErrStorage) {
		t.Fatalf("append: %v", err)
	}
	r.w.Kill()
}

// Files that nothing acknowledged can be in are set aside and not removed, and what is
// no segment is left alone.
func TestSegmentsBehindTheEndAreSetAside(t *testing.T) {
	r, id, sent := threeSegments(t)
	dir := filepath.Dir(r.part(id, 0).first.Path())
	r.w.Kill()
	planted := []string{segment.LogName(1 << 30), segment.IndexName(77), "README", "12.log", "-1.log"}
	for _, name := range planted {
		if err := aio.WriteFileAtomic(r.w.FS(), filepath.Join(dir, name), []byte("nothing")); err != nil {
			t.Fatal(err)
		}
	}
	r.start()
	r.mustHold(r.part(id, 0), sent)
	if r.rec.Stats.Orphans != 1 {
		t.Fatalf("%+v", r.rec.Stats)
	}
	planted[0] = segment.Orphan(planted[0])
	for _, name := range planted {
		if b, err := aio.ReadFile(r.w.FS(), filepath.Join(dir, name), 100); err != nil || string(b) != "nothing" {
			t.Fatalf("%s: %q, %v", name, b, err)
		}
	}
	sent = append(sent, r.sendWait(r.part(id, 0), 1, 100))
	r.mustHold(r.part(id, 0), sent)
}

// Names that mean nothing stand in no start's way, in whatever directory, and what is
// behind them stays.
func TestFilesOfOthersAreLeftAlone(t *testing.T) {
	r, id, sent := threeSegments(t)
	topic := filepath.Dir(filepath.Dir(r.part(id, 0).first.Path()))
	r.w.Kill()
	planted := []string{
		rigDir + "/README", rigDir + "/journals/journal-x", rigDir + "/journals/journal-", rigDir + "/journals/notes",
		rigDir + "/checkpoints/checkpoint-x.a", rigDir + "/checkpoints/notes", rigDir + "/topics/README",
		rigDir + "/topics/lost+found/README", rigDir + "/topics/nothing.1/0/README", topic + "/README", topic + "/x/README",
	}
	for _, path := range planted {
		for _, dir := range []string{filepath.Dir(filepath.Dir(path)), filepath.Dir(path)} {
			if err := r.w.FS().Mkdir(dir); err != nil {
				t.Fatal(err)
			}
		}
		if err := aio.WriteFileAtomic(r.w.FS(), path, []byte("nothing")); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		r.start()
		r.mustHold(r.part(id, 0), sent)
		sent = append(sent, r.sendWait(r.part(id, 0), 1, 100))
		r.close()
		r.w.Kill()
	}
	for _, path := range planted {
		if b, err := aio.ReadFile(r.w.FS(), path, 100); err != nil || string(b) != "nothing" {
			t.Errorf("%s: %q, %v", path, b, err)
		}
	}
}
