package engine

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio/sim"
)

// ackDevice reports the device failed, as another shard would, when it hears of its
// own ack.
type ackDevice struct {
	produced
	r *rig
}

func (a *ackDevice) Appended(x *Append) {
	a.done = true
	a.r.device.Store(true)
}

// Another shard may find the device failed while acks of a round leave here. The
// queue of appends that was being worked off lost count of itself, and the loop never
// came back.
func TestADeviceThatFailsWhileAcksLeave(t *testing.T) {
	r := newRig(t, rigOptions{})
	p := r.part(r.topic(1, ClassFlushed), 0)
	r.sendWait(p, 1, 100)
	first := &ackDevice{r: r}
	first.Part, first.Batch, first.Owner = p, testBatch(t, 1, 100), first
	first.Header = mustCheck(t, first.Batch)
	if err := p.store.Append(&first.Append); err != nil {
		t.Fatal(err)
	}
	var rest []*produced
	for range 5 { // in the same round
		rest = append(rest, r.send(p, 1, 100))
	}
	r.until("acks", func() bool { return first.done && rest[4].done })
	for i, a := range rest {
		if !errors.Is(a.Err, ErrStorage) {
			t.Fatalf("append %d behind the failure: error %v, class %v", i, a.Err, a.Class)
		}
	}
	if err := p.store.Append(&rest[0].Append); !errors.Is(err, ErrStorage) {
		t.Fatalf("append after the failure: %v", err)
	}
}

// A writer that waits for its tail entry to be flushed hears nothing more of a
// journal that has failed. It kept its partition from being dropped and the store
// from ending.
func TestAFailedJournalLetsWritersDropsAndTheEndGo(t *testing.T) {
	r := newRig(t, rigOptions{})
	memory := r.part(r.topic(2, ClassMemory), 0)
	p, s := r.part(r.topic(1, ClassFlushed), 0), r.shards[0].store
	kept := r.sendWait(p, 2, 300)
	r.sendWait(memory, 1, 100)
	r.checkpointAll()
	r.sendWait(p, 1, 100) // the block that is partly in the file has to be written again
	r.run(5 * time.Millisecond)
	stall := r.w.Hold(sim.Filter{Ops: sim.Writes, Path: "journal-*"})
	s.checkpoint.begin()
	r.until("a writer that waits", func() bool { return s.writersParked != nil })
	r.sendWait(memory, 1, 100) // acknowledged, and never in the journal
	r.w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Writes, Path: "journal-*"}, Times: sim.Always})
	stall.Release()
	r.until("failure", func() bool { return s.Failed() != nil })
	if got := r.readAll(p); string(got[kept.Base]) != string(kept.Batch) {
		t.Fatal("what was durable cannot be read after the failure")
	}
	var dropped [2]dropped
	s.Drop(p, &dropped[0])
	s.Drop(memory, &dropped[1])
	r.until("drops", func() bool { return dropped[0].done && dropped[1].done })
	r.close()
}

// A store that fails while it ends was waiting for a last checkpoint that could not
// come.
func TestAStoreThatFailsWhileItEndsEnds(t *testing.T) {
	r := newRig(t, rigOptions{})
	p, s := r.part(r.topic(1, ClassFlushed), 0), r.shards[0].store
	r.sendWait(p, 2, 300)
	r.w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Writes, Path: "*.log"}, Times: sim.Always})
	r.close()
	if s.Failed() == nil {
		t.Fatal("a segment that cannot be written is no failure")
	}
}

// A full disk must not keep a store from ending: the journal has everything.
func TestAStoreEndsOnAFullDisk(t *testing.T) {
	r := newRig(t, rigOptions{})
	id := r.topic(1, ClassFlushed)
	sent := []*produced{r.sendWait(r.part(id, 0), 2, 300)}
	full := r.w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Allocates, Path: "*.log"}, Times: sim.Always, Err: syscall.ENOSPC})
	r.close()
	if now := time.Duration(r.w.Now()); now > 30*time.Second {
		t.Fatalf("it took until %v", now)
	}
	if !r.shards[0].store.CutShort() {
		t.Fatal("an end without the last checkpoint counts as one with it")
	}
	r.w.Crash(sim.KeepNone)
	full.End()
	r.start()
	r.mustHold(r.part(id, 0), sent)
}

// A disk that was full has room again when the end comes: that is tried.
func TestAnEndTriesADiskThatWasFull(t *testing.T) {
	r := newRig(t, rigOptions{})
	id := r.topic(1, ClassMemory)
	p, s := r.part(id, 0), r.shards[0].store
	full := r.w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Allocates, Path: "*.log"}, Times: sim.Always, Err: syscall.ENOSPC})
	sent := []*produced{r.sendWait(p, 2, 300)}
	r.run(200 * time.Millisecond) // until it is in the journal
	s.checkpoint.begin()
	r.until("a write without space", func() bool { return s.fullDisk })
	full.End()
	r.close()
	if s.CutShort() {
		t.Fatal("the end gave up the last checkpoint")
	}
	r.w.Crash(sim.KeepNone)
	r.start()
	if st := r.rec.Stats; st.Replayed != 0 || st.Gaps != 0 {
		t.Fatalf("the next start had something to recover: %+v", st)
	}
	r.mustHold(r.part(id, 0), sent)
}

// A writer that comes to a partial block when the journal has closed gets no tail entry
// any more, and must not be waited for.
func TestAWriterThatComesTooLateForTheJournalLetsTheEndGo(t *testing.T) {
	r := newRig(t, rigOptions{})
	id := r.topic(1, ClassFlushed)
	sent := []*produced{r.sendWait(r.part(id, 0), 2, 300)}
	r.close()
	r.w.Kill()
	r.start()
	late, full := r.part(id, 0), r.part(id, 1)
	sent = append(sent, r.sendWait(late, 2, 300))
	other := r.sendWait(full, 2, 300)
	noSpace := r.w.Inject(sim.Fault{
		Filter: sim.Filter{Ops: sim.Allocates, Path: full.active.Path()}, Times: sim.Always, Err: syscall.ENOSPC,
	})
	hold := r.w.Hold(sim.Filter{Ops: sim.Reads, Path: late.active.Path()})
	s := r.shards[0].store
	s.Close()
	r.until("the end without a checkpoint", func() bool { return s.closing == closeJournal && hold.Count() > 0 })
	r.until("the journal's end", s.journal.Idle)
	hold.Release()
	r.until("the end", s.Closed)
	r.w.Crash(sim.KeepNone)
	noSpace.End()
	r.start()
	r.mustHold(r.part(id, 0), sent)
	r.mustHold(r.part(id, 1), []*produced{other})
}

// The broker's time stands still while the calendar is behind what it was; what waits for
// time to pass goes on.
func TestAClockThatGoesBackStopsNothing(t *testing.T) {
	r := newRig(t, rigOptions{})
	id := r.topic(1, ClassFlushed)
	sent := []*produced{r.sendWait(r.part(id, 0), 2, 300)}
	r.close()
	r.w.Kill()
	r.w.JumpWall(-time.Hour)
	r.start()
	s := r.shards[0].store
	before := s.journal.Stats().Marks
	sent = append(sent, r.sendWait(r.part(id, 0), 2, 300))
	if a, b := sent[0].AppendTime, sent[1].AppendTime; b < a {
		t.Fatalf("append time %d after %d", b, a)
	}
	r.until("the proof of the newest round", func() bool { return s.journal.Stats().Marks > before })
	r.close()
	r.w.Kill()
	r.start()
	r.mustHold(r.part(id, 0), sent)
}
