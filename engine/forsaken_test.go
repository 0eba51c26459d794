package engine

import (
	"bytes"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/checkpoint"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/engine/recovery"
)

// loseJournal kills the node, removes a shard's journal, and has its checkpoint say that
// this was accepted, as a salvage does.
func (r *rig) loseJournal(shard int) {
	r.t.Helper()
	r.w.Kill()
	fs := r.w.FS()
	c, err := checkpoint.Load(fs, filepath.Join(rigDir, layout.CheckpointsDir), checkpoint.Identity{Node: r.rec.Node.ID, Shard: uint16(shard)})
	if err != nil {
		r.t.Fatal(err)
	}
	h := c.Header
	h.Flags |= checkpoint.FlagForsaken
	for range 2 {
		h.Sequence++
		if err := aio.WriteFileAtomic(fs, layout.CheckpointPath(rigDir, shard, h.Sequence), c.Encode(&h)); err != nil {
			r.t.Fatal(err)
		}
	}
	if err := fs.Remove(layout.JournalPath(rigDir, shard)); err != nil {
		r.t.Fatal(err)
	}
	if err := fs.SyncDir(filepath.Join(rigDir, layout.JournalsDir)); err != nil {
		r.t.Fatal(err)
	}
}

// mustHave checks that batches can be read, and that nothing that was not sent can.
func (r *rig) mustHave(p *Partition, must, may []*produced) {
	r.t.Helper()
	got := r.readAll(p)
	for _, a := range must {
		if b, ok := got[a.Base]; !ok || !bytes.Equal(b, a.Batch) {
			r.t.Fatalf("offset %d: not what was acknowledged (found: %v)", a.Base, ok)
		}
	}
	for _, a := range may {
		if b, ok := got[a.Base]; ok && !bytes.Equal(b, a.Batch) {
			r.t.Fatalf("offset %d has another content", a.Base)
		}
		delete(got, a.Base)
	}
	for _, a := range must {
		delete(got, a.Base)
	}
	if len(got) > 0 {
		r.t.Fatalf("%d batches that nobody sent", len(got))
	}
}

// A start that does without a journal, and is killed or loses power at one of its steps,
// leaves the next one as much as there was. What stood in segments behind the checkpoint
// stays, and what another journal has.
func TestAStartWithoutALostJournalMayDieAtEveryStep(t *testing.T) {
	for _, cut := range []bool{false, true} {
		for steps, blown := 0, true; blown; steps += 3 {
			r := newRig(t, rigOptions{seed: uint64(steps + 1), shards: 2, journal: 1 << 20, chunks: 4 << 20, segment: 64 << 10})
			id := r.topic(1, ClassFlushed)
			var sent, tail [4][]*produced
			lost := r.part(id, 0).store.opts.Shard
			for n := range sent {
				sent[n] = append(sent[n], r.sendWait(r.part(id, n), 1, 300))
			}
			r.checkpointAll()
			for n := range tail {
				for range 3 {
					tail[n] = append(tail[n], r.sendWait(r.part(id, n), 1, 100<<10))
				}
			}
			r.until("segments are written", func() bool { return r.part(id, 0).unwritten == r.part(id, 0).active })
			shardOf := func(n int) int { return r.part(id, n).store.opts.Shard }
			var of [4]int
			for n := range of {
				of[n] = shardOf(n)
			}
			r.loseJournal(lost)
			r.w.Light(sim.Fuse{Steps: steps})
			err := r.tryStart()
			if blown = r.w.Blown(); err != nil && !blown {
				t.Fatalf("step %d: %v", steps, err)
			}
			if cut {
				r.w.Crash(sim.KeepRandom)
			} else {
				r.w.Kill()
			}
			r.start()
			for n := range sent {
				p := r.part(id, n)
				keep := slices.Clone(sent[n])
				if of[n] != lost {
					keep = append(keep, tail[n]...)
				} else if n == 0 && !cut {
					keep = append(keep, tail[n][:2]...) // whole segments
				}
				r.mustHave(p, keep, tail[n])
				if jumped := p.End() >= recovery.JumpBehindLoss; jumped != (of[n] == lost) || p.End() > 2*recovery.JumpBehindLoss {
					t.Fatalf("step %d: partition %d goes on at %d", steps, n, p.End())
				}
				more := r.sendWait(p, 1, 100)
				r.mustHave(p, append(keep, more), tail[n])
			}
			r.w.End()
		}
	}
}

// An empty newest segment, which a trim of everything leaves, has no room for offsets that
// far above its base.
func TestAPartitionWithoutMessagesGoesOnBehindALostJournal(t *testing.T) {
	r := newRig(t, rigOptions{})
	id := r.topic(1, ClassFlushed)
	p := r.part(id, 0)
	r.sendWait(p, 1, 300)
	r.trim(p, p.End())
	r.checkpointAll()
	path := p.active.Path()
	r.loseJournal(0)
	f, err := r.w.FS().Open(path, aio.OpenWrite|aio.OpenCreate) // as a salvage makes it
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
	r.start()
	p = r.part(id, 0)
	sent := []*produced{r.sendWait(p, 1, 300), r.sendWait(p, 3, 300)}
	if sent[0].Base < recovery.JumpBehindLoss {
		t.Errorf("the log goes on at %d", sent[0].Base)
	}
	r.mustHave(p, sent, nil)
	for range 2 {
		r.checkpointAll()
		r.w.Kill()
		r.start()
		r.mustHave(r.part(id, 0), sent, nil)
	}
}

// A journal that has been brought back before the start counts.
func TestALostJournalThatIsBackIsReplayed(t *testing.T) {
	r := newRig(t, rigOptions{})
	id := r.topic(1, ClassFlushed)
	sent := []*produced{r.sendWait(r.part(id, 0), 1, 300)}
	path := layout.JournalPath(rigDir, 0)
	r.w.Kill()
	data, err := aio.ReadFile(r.w.FS(), path, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	r.loseJournal(0)
	f, err := r.w.FS().Open(path, aio.OpenWrite|aio.OpenCreate)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(data, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	r.start()
	r.mustHold(r.part(id, 0), sent)
	if end := r.part(id, 0).End(); end != 1 {
		t.Errorf("the log goes on at %d", end)
	}
}

// What an earlier life has left behind the end was dropped by the start since, and its
// offsets may have been given out again.
func TestOnlyBatchesOfTheLifeThatLostItsJournalAreKept(t *testing.T) {
	for age := range int32(2) {
		r := newRig(t, rigOptions{})
		r.w.Kill()
		r.start()
		id := r.topic(1, ClassFlushed)
		p := r.part(id, 0)
		sent := r.sendWait(p, 1, 300)
		r.checkpointAll()
		path, end, next := p.active.Path(), p.active.Size, p.End()
		r.w.Kill()
		left := testBatch(t, 1, 300)
		batch.Stamp(left, next, int32(r.rec.Term)-age)
		f, err := r.w.FS().Open(path, aio.OpenWrite)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(left, end); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			t.Fatal(err)
		}
		r.loseJournal(0)
		r.start()
		p = r.part(id, 0)
		got := r.readAll(p)
		if kept, ok := got[next]; ok != (age == 0) || ok && !bytes.Equal(kept, left) || !bytes.Equal(got[0], sent.Batch) {
			t.Errorf("%d lives ago: kept %v", age, ok)
		}
		if want := next + 1 - int64(age) + recovery.JumpBehindLoss; p.End() != want {
			t.Errorf("%d lives ago: it goes on at %d, expected %d", age, p.End(), want)
		}
	}
}
