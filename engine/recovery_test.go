package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/checkpoint"
	"github.com/mqd-broker/mqd/engine/layout"
)

func TestARecoveryOfManyPartitionsOpensFewFiles(t *testing.T) {
	r := newRig(t, rigOptions{journal: 16 << 20, chunks: 16 << 20})
	id := r.topic(1, ClassFlushed)
	sent := make([]*produced, 1500) // a driver has 1,024 files
	for n := range sent {
		sent[n] = r.send(r.part(id, n), 1, 100)
	}
	r.until("acks", func() bool { return sent[len(sent)-1].done })
	r.w.Kill()
	r.start()
	for n, a := range sent {
		r.mustHold(r.part(id, n), []*produced{a})
	}
}

// mustRefuse checks that a start is refused for a reason.
func (r *rig) mustRefuse(reason string) {
	r.t.Helper()
	err := r.tryStart()
	if !errors.Is(err, layout.ErrBadDataDir) || !strings.Contains(err.Error(), reason) {
		r.t.Fatalf("start: %v; expected a refusal that says %q", err, reason)
	}
}

// corrupt inverts a byte in the middle of a file.
func (r *rig) corrupt(path string) {
	r.t.Helper()
	f, err := r.w.FS().Open(path, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	size, err := f.Size()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.w.Corrupt(path, size/2, 0xff); err != nil {
		r.t.Fatal(err)
	}
}

// newestCheckpoint names the newest checkpoint of the first shard.
func (r *rig) newestCheckpoint() string {
	return layout.CheckpointPath(rigDir, 0, r.shards[0].store.checkpoint.seq)
}

func TestALostCheckpointIsNotedWhenItIsNeeded(t *testing.T) {
	for _, test := range []struct {
		name     string
		lose     func(r *rig)
		released bool // the journal has given up what the checkpoint before does not know of
		refusal  string
	}{
		{"damaged", func(r *rig) { r.corrupt(r.newestCheckpoint()) }, true, ""},
		{"gone", func(r *rig) { r.remove(r.newestCheckpoint()) }, true, ""},
		{"damaged, and the older one is older still", func(r *rig) {
			r.corrupt(r.newestCheckpoint())
			r.write(layout.CheckpointPath(rigDir, 0, r.shards[0].store.checkpoint.seq-1), r.kept)
		}, true, "given up rounds"},
		{"both are of before", func(r *rig) {
			r.write(r.newestCheckpoint(), r.kept)
			r.write(layout.CheckpointPath(rigDir, 0, r.shards[0].store.checkpoint.seq-1), r.kept)
		}, true, "the newer one is gone"},
		{"damaged, the journal has everything", func(r *rig) { r.corrupt(r.newestCheckpoint()) }, false, ""},
		{"both damaged", func(r *rig) {
			r.corrupt(r.newestCheckpoint())
			r.corrupt(layout.CheckpointPath(rigDir, 0, r.shards[0].store.checkpoint.seq-1))
		}, true, "no checkpoint of shard 0 can be used"},
		{"both gone", func(r *rig) {
			r.remove(r.newestCheckpoint())
			r.remove(layout.CheckpointPath(rigDir, 0, r.shards[0].store.checkpoint.seq-1))
		}, true, "no checkpoint of that shard"},
		{"no journal", func(r *rig) { r.remove(layout.JournalPath(rigDir, 0)) }, true, "there is no"},
		{"no node file", func(r *rig) { r.remove(rigDir + "/" + checkpoint.NodeFile) }, true, "but no mqd.node"},
		{"damaged node file", func(r *rig) { r.corrupt(rigDir + "/" + checkpoint.NodeFile) }, true, "mqd.node"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, rigOptions{})
			id := r.topic(1, ClassFlushed)
			var sent []*produced
			for range 20 {
				sent = append(sent, r.sendWait(r.part(id, 0), 2, 300))
			}
			r.checkpointAll()
			r.run(10 * time.Millisecond)
			for range 20 {
				sent = append(sent, r.sendWait(r.part(id, 0), 2, 300))
			}
			r.kept = r.contents(r.newestCheckpoint())
			if s := r.shards[0].store; test.released {
				r.checkpointAll()
			} else { // as for a reservation: the ring stays as it is
				before := s.Stats().Checkpoints
				s.checkpoint.reserve = true
				r.until("checkpoint", func() bool { return s.Stats().Checkpoints > before })
			}
			r.run(10 * time.Millisecond)
			r.w.Crash(sim.KeepNone)
			test.lose(r)
			if test.refusal != "" {
				r.mustRefuse(test.refusal)
				return
			}
			r.start()
			r.mustHold(r.part(id, 0), sent)
		})
	}
}

func (r *rig) remove(path string) {
	r.t.Helper()
	if err := r.w.FS().Remove(path); err != nil {
		r.t.Fatal(err)
	}
}

func TestJournalsOfOtherShardsAreRefused(t *testing.T) {
	r := newRig(t, rigOptions{shards: 2})
	for n := range 8 {
		r.sendWait(r.part(r.topic(1, ClassFlushed), n), 1, 100)
	}
	r.w.Crash(sim.KeepNone)
	a, b := layout.JournalPath(rigDir, 0), layout.JournalPath(rigDir, 1)
	for _, m := range [][2]string{{a, a + "x"}, {b, a}, {a + "x", b}} {
		if err := r.w.FS().Rename(m[0], m[1]); err != nil {
			t.Fatal(err)
		}
	}
	r.mustRefuse("it is the journal of shard 1")
}

func TestDataOfATopicThatNobodyKnowsIsRefused(t *testing.T) {
	for _, where := range []string{"a journal", "a checkpoint"} {
		r := newRig(t, rigOptions{})
		id := r.topic(1, ClassFlushed)
		a := r.sendWait(r.part(id, 0), 1, 100)
		if where == "a checkpoint" {
			r.checkpointAll()
		}
		r.w.Crash(sim.KeepNone)
		topic := r.topics[id]
		delete(r.topics, id)
		r.mustRefuse(where + " names topic")
		r.w.Kill()
		r.topics[id] = topic
		r.start()
		r.mustHold(r.part(id, 0), []*produced{a})
	}
}

// A catalog forgets a deleted topic once a start is over. Until then no round may be
// left in a journal that speaks of it, or the next start would meet a topic that
// nobody has known.
func TestNothingOfAnEarlierLifeIsLeftWhenAStartIsOver(t *testing.T) {
	r := newRig(t, rigOptions{})
	id := r.topic(1, ClassFlushed)
	r.sendWait(r.part(id, 0), 3, 200)
	r.topics[id].deleted = true
	r.w.Kill()
	r.start()
	delete(r.topics, id)
	r.w.Crash(sim.KeepNone)
	r.start()
}

func TestAppendTimeDoesNotGoBackWithTheClock(t *testing.T) {
	r := newRig(t, rigOptions{})
	id := r.topic(1, ClassFlushed)
	last := r.sendWait(r.part(id, 0), 1, 100).AppendTime
	for _, cut := range []func(){func() { r.w.Crash(sim.KeepNone) }, func() { r.checkpointAll(); r.w.Kill() }, r.close} {
		cut()
		r.w.Kill()
		r.w.JumpWall(-time.Hour)
		r.start()
		a := r.sendWait(r.part(id, 0), 1, 100)
		if a.AppendTime < last {
			t.Fatalf("append time %v after %v", a.AppendTime, last)
		}
		last = a.AppendTime
	}
}

// Every start here dies at one of its steps, in order, with another number of shards
// each time.
func TestAStartMayDieAtEveryStep(t *testing.T) {
	r := newRig(t, rigOptions{shards: 3, segment: 16 << 10, journal: 256 << 10, maxBatch: 16 << 10})
	id := r.topic(1, ClassFlushed)
	sent := make([][]*produced, 7)
	for step := 0; ; step += 1 + step/40 {
		for n := range sent {
			sent[n] = append(sent[n], r.sendWait(r.part(id, n), 1+step%3, 700))
		}
		r.w.Crash(sim.KeepRandom)
		r.opts.shards = 1 + (r.opts.shards+step)%3
		r.fuse = &fuse{left: step}
		err := r.tryStart()
		if err != nil {
			r.w.Crash([]sim.Keep{sim.KeepNone, sim.KeepRandom, sim.KeepPrefix}[step%3])
			r.fuse = nil
			r.opts.shards = 1 + (r.opts.shards+step/2)%3
			r.start()
		} else {
			r.fuse.safe = true
		}
		for n := range sent {
			r.mustHold(r.part(id, n), sent[n])
		}
		if err == nil {
			if step < 60 {
				t.Fatal("a start takes more steps")
			}
			return
		}
		r.fuse = nil
	}
}

// The checkpoint and the journal of a shard that is no more go one after the other.
// What is left in between must not look as if something were missing.
func TestAStartMayDieWhileItRemovesWhatIsStale(t *testing.T) {
	for n := range 12 {
		r := newRig(t, rigOptions{shards: 3, journal: 256 << 10, maxBatch: 16 << 10})
		id := r.topic(1, ClassFlushed)
		sent := make([]*produced, 8)
		for i := range sent {
			sent[i] = r.sendWait(r.part(id, i), 1, 500)
		}
		r.checkpointAll()
		r.w.Kill()
		r.opts.shards = 1
		r.fuse = &fuse{left: n, removals: true}
		err := r.tryStart()
		r.w.Crash(sim.KeepNone)
		r.fuse = nil
		r.opts.shards = 1 + n%3
		r.start()
		for i, a := range sent {
			r.mustHold(r.part(id, i), []*produced{a})
		}
		if n == 0 && err == nil {
			t.Fatal("nothing is removed")
		}
	}
}

func TestAMissingSegmentIsReported(t *testing.T) {
	r := newRig(t, rigOptions{segment: 16 << 10})
	id := r.topic(1, ClassFlushed)
	for range 60 {
		r.sendWait(r.part(id, 0), 4, 300)
	}
	r.checkpointAll()
	p := r.part(id, 0)
	first, second := p.first, p.first.next
	r.w.Crash(sim.KeepNone)
	r.remove(first.Path())
	r.start()
	want := fmt.Sprintf("no segment for offsets 0 to %d", second.base-1)
	if !strings.Contains(strings.Join(r.log, "\n"), want) {
		t.Fatalf("reported %q, expected %q", r.log, want)
	}
	p = r.part(id, 0)
	if p.LogStart() != 0 {
		t.Fatalf("the log start moved to %d without a word", p.LogStart())
	}
	if f := r.read(p, 3, 1<<16); !errors.Is(f.Err, ErrCorrupt) || f.Next != p.first.base {
		t.Fatalf("fetch of what is missing: %v, next %d; expected %d", f.Err, f.Next, p.first.base)
	}
}

// Two generations of the first shard's checkpoint know every partition: the one of
// everything, which a start writes first, and its own. When its own is damaged, the
// older one must not be believed about partitions of other shards.
func TestAnOldCheckpointOfEverythingDoesNotSpeakForOtherShards(t *testing.T) {
	r := newRig(t, rigOptions{shards: 2})
	id := r.topic(1, ClassFlushed)
	n := 0
	for r.part(id, n).store.opts.Shard == 0 {
		n++
	}
	sent := []*produced{r.sendWait(r.part(id, n), 2, 300)}
	r.w.Kill()
	r.start() // the partition is in the checkpoint of everything
	for range 3 {
		for range 20 {
			sent = append(sent, r.sendWait(r.part(id, n), 2, 300))
		}
		s := r.shards[1].store
		before := s.Stats().Checkpoints
		s.checkpoint.begin()
		r.until("checkpoint", func() bool { return s.Stats().Checkpoints > before })
		r.run(5 * time.Millisecond)
	}
	r.w.Crash(sim.KeepNone)
	r.corrupt(r.newestCheckpoint())
	r.start()
	r.mustHold(r.part(id, n), sent)
}

// The directory of a topic is made by whoever comes first. Others who find it there
// must not rely on its entry before it is durable.
func TestATopicsDirectoryIsDurableBeforeItsFilesAreReliedOn(t *testing.T) {
	r := newRig(t, rigOptions{shards: 2})
	id := r.topic(1, ClassFlushed)
	var parts [2]*Partition
	for n := 0; parts[0] == nil || parts[1] == nil; n++ {
		p := r.part(id, n)
		parts[p.store.opts.Shard] = p
	}
	numbers := [2]int{int(parts[0].key.Partition), int(parts[1].key.Partition)}
	var sent [2][]*produced
	for i, p := range parts {
		sent[i] = append(sent[i], r.sendWait(p, 2, 300))
	}
	// The first shard has made the directory, and gets no further.
	still := r.w.Hold(sim.Filter{Ops: sim.DirSyncs, Driver: r.shards[0].drv})
	r.shards[0].store.checkpoint.begin()
	r.until("a directory whose entry is not durable", func() bool { return still.Count() > 0 })
	s := r.shards[1].store
	before := s.Stats().Checkpoints
	s.checkpoint.begin()
	r.until("checkpoint", func() bool { return s.Stats().Checkpoints > before })
	r.run(20 * time.Millisecond)
	r.w.Crash(sim.KeepNone)
	still.Release()
	r.start()
	for i, n := range numbers {
		r.mustHold(r.part(id, n), sent[i])
	}
}

// The newest checkpoint of a shard was the first to say that a partition may lose what
// it shows. When it is damaged, the older one does not know that, nor, perhaps, that
// there is such a partition.
func TestALostCheckpointMayHaveReservedOffsets(t *testing.T) {
	for _, before := range []Class{ClassNone, ClassFlushed, ClassWritten} {
		for name, end := range map[string]func(w *sim.World){
			"killed":    func(w *sim.World) { w.Kill() },
			"power cut": func(w *sim.World) { w.Crash(sim.KeepNone) },
		} {
			t.Run(fmt.Sprintf("from class %v, %s", before, name), func(t *testing.T) {
				r := newRig(t, rigOptions{shards: 2})
				first := before
				if before == ClassNone { // a partition that is new
					first = ClassMemory
				}
				id := r.topic(1, first)
				n := 0
				for r.part(id, n).store.opts.Shard == 0 {
					n++
				}
				p := r.part(id, n)
				var shown []*produced
				if before != ClassNone {
					shown = append(shown, r.sendWait(p, 2, 100))
					r.checkpointAll()
					r.change(p, ClassMemory)
				}
				shown = append(shown, r.sendWait(p, 3, 100))
				newest := layout.CheckpointPath(rigDir, 1, p.store.checkpoint.seq)
				end(r.w)
				r.corrupt(newest)
				r.start()
				p = r.part(id, n)
				r.sendWait(p, 7, 50)
				r.mustNotChange(p, shown)
			})
		}
	}
}

// A start gives partitions of shards that are no more to others, whose checkpoints are
// then their only record. When one of those is damaged, and its older generation is of a
// life before, that knows nothing of them, however well it agrees with its journal.
func TestACheckpointOfALifeBeforeIsNotEnough(t *testing.T) {
	r := newRig(t, rigOptions{shards: 3})
	id := r.topic(1, ClassFlushed)
	n := 0
	for layout.Assignment(len(r.rec.Slots), 2)[SlotOf(Key{Topic: id, Partition: uint32(n)}, len(r.rec.Slots))] != 1 || r.part(id, n).store.opts.Shard != 2 {
		n++
	}
	sent := []*produced{r.sendWait(r.part(id, n), 2, 300)}
	r.close()
	r.w.Kill()
	before := r.contents(r.generations(1)[0])
	r.opts.shards = 2
	r.start()
	r.mustHold(r.part(id, n), sent)
	r.w.Crash(sim.KeepNone)
	r.corrupt(layout.CheckpointPath(rigDir, 1, r.rec.Sequence[1]))
	r.write(layout.CheckpointPath(rigDir, 1, r.rec.Sequence[1]-1), before)
	r.mustRefuse("of an earlier start")
}

// A start that died behind its checkpoint of everything is of a later time than the
// checkpoints of the other shards, and makes up for each of them.
func TestADamagedOlderCheckpointDoesNotHinderAStart(t *testing.T) {
	for checkpoints := range 4 {
		r := newRig(t, rigOptions{shards: 2})
		id := r.topic(1, ClassFlushed)
		sent := make([]*produced, 12)
		for n := range sent {
			sent[n] = r.sendWait(r.part(id, n), 2, 300)
		}
		r.checkpointAll()
		older := layout.CheckpointPath(rigDir, 1, r.shards[1].store.checkpoint.seq-1)
		if died := r.interrupt(2, checkpoints); died != (checkpoints < 3) {
			t.Fatalf("after %d checkpoints: died %v", checkpoints, died)
		}
		r.w.Kill()
		if checkpoints < 2 { // else it has been written anew
			r.corrupt(older)
		}
		r.start()
		for n, a := range sent {
			r.mustHold(r.part(id, n), []*produced{a})
		}
	}
}

// What a start does is bounded by the journal: of segments that the journal says nothing
// of it opens neither log nor index, however many there are, and reads each directory once.
func TestAStartOpensNoSegmentThatTheJournalDoesNotName(t *testing.T) {
	const parts = 4
	for _, segments := range []int{3, 30} {
		r := newRig(t, rigOptions{segment: 16 << 10})
		id := r.topic(1, ClassFlushed)
		var sent [parts][]*produced
		for n := range parts {
			for range segments {
				sent[n] = append(sent[n], r.sendWait(r.part(id, n), 1, 12<<10))
			}
		}
		r.checkpointAll()
		// One partition has something in the journal.
		sent[1] = append(sent[1], r.sendWait(r.part(id, 1), 1, 100))
		r.w.Kill()
		count := func(ops sim.Ops, path string) *sim.Injection {
			return r.w.Inject(sim.Fault{Filter: sim.Filter{Ops: ops, Path: path}, Times: sim.Always, Skip: 1 << 30})
		}
		logs, indexes := count(sim.Opens, "*.log"), count(sim.Opens, "*.index")
		reads, lists := count(sim.Reads, "*.index"), count(sim.ReadDirs, "/data/topics/*/*")
		r.start()
		if logs.Seen() != 1 || indexes.Seen() != 0 || reads.Seen() != 0 || lists.Seen() != parts+1 {
			t.Errorf("%d segments: opened %d logs and %d indexes, read %d times from indexes, listed %d directories of %d and the catalog",
				segments*parts, logs.Seen(), indexes.Seen(), reads.Seen(), lists.Seen(), parts)
		}
		for n := range parts {
			r.mustHold(r.part(id, n), sent[n])
		}
		r.close()
	}
}
