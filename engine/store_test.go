package engine

import (
	"bytes"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio/sim"
)

func TestAppendIsAcknowledgedAndRead(t *testing.T) {
	r := newRig(t, rigOptions{})
	p := r.part(r.topic(1, ClassFlushed), 0)
	var sent []*produced
	for i := 0; i < 100; i++ {
		sent = append(sent, r.sendWait(p, 1+i%7, 50+i))
	}
	r.mustHold(p, sent)
}

// mustHold checks that p holds exactly the batches sent, in order and dense.
func (r *rig) mustHold(p *Partition, sent []*produced) {
	r.t.Helper()
	got := r.readAll(p)
	next := int64(0)
	for i, a := range sent {
		if a.Base != next {
			r.t.Fatalf("batch %d: acknowledged at %d, expected %d", i, a.Base, next)
		}
		next += int64(a.Header.Count)
		if b, ok := got[a.Base]; !ok || !bytes.Equal(b, a.Batch) {
			r.t.Fatalf("batch %d at offset %d: not what was acknowledged (found: %v)", i, a.Base, ok)
		}
	}
	if p.Durable() != next || len(got) != len(sent) {
		r.t.Fatalf("durable offset %d with %d batches, expected %d with %d", p.Durable(), len(got), next, len(sent))
	}
}

func TestEverythingAcknowledgedIsThereAfterKillAndPowerCut(t *testing.T) {
	for _, cut := range []struct {
		name string
		do   func(w *sim.World)
	}{
		{"kill", func(w *sim.World) { w.Kill() }},
		{"power cut", func(w *sim.World) { w.Crash(sim.KeepNone) }},
		{"power cut, some sectors kept", func(w *sim.World) { w.Crash(sim.KeepRandom) }},
	} {
		t.Run(cut.name, func(t *testing.T) {
			r := newRig(t, rigOptions{segment: 64 << 10})
			id := r.topic(1, ClassFlushed)
			var sent [4][]*produced
			for life := 0; life < 4; life++ {
				for i := 0; i < 150; i++ {
					n := i % 4
					sent[n] = append(sent[n], r.sendWait(r.part(id, n), 1+i%5, 100+i*3))
				}
				cut.do(r.w)
				r.start()
				for n := range sent {
					r.mustHold(r.part(id, n), sent[n])
				}
			}
		})
	}
}

func TestRingWrapsAndSegmentsRoll(t *testing.T) {
	r := newRig(t, rigOptions{segment: 128 << 10, journal: 512 << 10, chunks: 1 << 20})
	id := r.topic(1, ClassFlushed)
	var sent [3][]*produced
	for i := 0; i < 3000; i++ {
		n := i % 3
		sent[n] = append(sent[n], r.send(r.part(id, n), 4, 400))
	}
	r.until("acks", func() bool { a := sent[2][len(sent[2])-1]; return a.done && sent[0][len(sent[0])-1].done })
	r.run(100 * time.Millisecond)
	st := r.shards[0].store.Stats()
	if st.SealedSegments == 0 || st.Checkpoints == 0 || st.TailEntries == 0 {
		t.Fatalf("nothing sealed, checkpointed or rewritten: %+v", st)
	}
	for n := range sent {
		r.mustHold(r.part(id, n), sent[n])
	}
	if st := r.shards[0].store.Stats(); st.ColdReads == 0 {
		t.Fatalf("nothing was read from segment files: %+v", st)
	}
	r.w.Crash(sim.KeepRandom)
	r.start()
	for n := range sent {
		r.mustHold(r.part(id, n), sent[n])
	}
}

func TestOrderlyEndLeavesNothingToReplay(t *testing.T) {
	r := newRig(t, rigOptions{})
	id := r.topic(1, ClassMemory)
	p := r.part(id, 0)
	var sent []*produced
	for i := 0; i < 50; i++ {
		sent = append(sent, r.sendWait(p, 2, 100))
	}
	r.close()
	r.w.Crash(sim.KeepNone)
	r.start()
	if r.rec.Stats.Replayed != 0 || r.rec.Stats.Gaps != 0 {
		t.Fatalf("after an orderly end: %+v", r.rec.Stats)
	}
	r.mustHold(r.part(id, 0), sent)
}

func TestSmallMemoryIsUsedToTheLast(t *testing.T) {
	r := newRig(t, rigOptions{chunks: 512 << 10, segment: 64 << 10})
	id := r.topic(1, ClassFlushed)
	var sent [3][]*produced
	for i := 0; i < 600; i++ {
		n := i % len(sent)
		sent[n] = append(sent[n], r.send(r.part(id, n), 8, 500))
	}
	r.until("acks", func() bool { return sent[2][199].done && sent[0][199].done && sent[1][199].done })
	for n := range sent {
		r.mustHold(r.part(id, n), sent[n])
	}
}

func TestAClassMadeWeakerTwiceGetsItsReservation(t *testing.T) {
	r := newRig(t, rigOptions{})
	id := r.topic(1, ClassFlushed)
	p := r.part(id, 0)
	r.sendWait(p, 1, 100)
	for range 3 {
		for _, class := range []Class{ClassMemory, ClassFlushed} {
			var c configured
			p.store.Configure(p, r.config(class), &c)
			r.until("change", func() bool { return c.done })
		}
	}
	var c configured
	p.store.Configure(p, r.config(ClassWritten), &c)
	r.until("change", func() bool { return c.done })
	if a := r.sendWait(p, 1, 100); a.Class != ClassWritten {
		t.Fatalf("acknowledged as %v", a.Class)
	}
}
