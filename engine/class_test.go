package engine

import (
	"bytes"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio/sim"
)

// change puts a class in force and waits for it.
func (r *rig) change(p *Partition, class Class) {
	r.t.Helper()
	cfg := r.config(class)
	r.topics[p.key.Topic].info.Config = cfg
	var c configured
	p.store.Configure(p, cfg, &c)
	r.until("change to class "+class.String(), func() bool { return c.done })
	if c.err != nil {
		r.t.Fatalf("change to class %v: %v", class, c.err)
	}
}

// mustNotChange reads p and checks that no offset that has been shown has become
// another batch.
func (r *rig) mustNotChange(p *Partition, shown []*produced) {
	r.t.Helper()
	for base, b := range r.readAll(p) {
		for _, a := range shown {
			if a.Base <= base && base <= a.Header.LastOffset()-a.Header.BaseOffset+a.Base && !bytes.Equal(a.Batch, b) {
				r.t.Fatalf("offset %d was acknowledged with other content", base)
			}
		}
	}
}

// A weaker class may acknowledge only what a checkpoint of that class has reserved:
// reservations of an earlier class do not count, because the newest checkpoint
// speaks of a class that loses less.
func TestAWeakerClassWaitsForAReservationOfItsOwn(t *testing.T) {
	for _, test := range []struct {
		name    string
		classes []Class
		end     func(w *sim.World)
	}{
		{"written then memory, killed", []Class{ClassWritten, ClassMemory}, func(w *sim.World) { w.Kill() }},
		{"memory, flushed, memory, power cut", []Class{ClassMemory, ClassFlushed, ClassMemory}, func(w *sim.World) { w.Crash(sim.KeepNone) }},
		{"memory, written, memory, killed", []Class{ClassMemory, ClassWritten, ClassMemory}, func(w *sim.World) { w.Kill() }},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, rigOptions{})
			id := r.topic(1, test.classes[0])
			p := r.part(id, 0)
			shown := []*produced{r.sendWait(p, 3, 100)}
			for _, class := range test.classes[1:] {
				r.change(p, class)
				shown = append(shown, r.sendWait(p, 2, 100))
			}
			test.end(r.w)
			r.start()
			p = r.part(id, 0)
			r.sendWait(p, 5, 50)
			r.mustNotChange(p, shown)
		})
	}
}

// A class that changes while the checkpoint is written that reserves for it: what was
// asked for under a weaker class counts, and otherwise it is asked for again. Before,
// nobody asked again, and appends were refused for good.
func TestAReservationOutlivesChangesOfClass(t *testing.T) {
	for _, classes := range [][]Class{{ClassMemory, ClassWritten}, {ClassWritten, ClassMemory}, {ClassMemory, ClassFlushed, ClassMemory}} {
		r := newRig(t, rigOptions{})
		id := r.topic(1, ClassFlushed)
		p, s := r.part(id, 0), r.shards[0].store
		r.sendWait(p, 1, 100)
		still := r.w.Hold(sim.Filter{Path: "checkpoint-*"})
		var changes [3]configured
		for i, class := range classes {
			s.Configure(p, r.config(class), &changes[i])
			r.until("a checkpoint that is being written", func() bool { return still.Count() > 0 })
			r.run(5 * time.Millisecond)
		}
		still.Release()
		r.until("changes", func() bool { return changes[len(classes)-1].done })
		last := classes[len(classes)-1]
		if a := r.sendWait(p, 2, 100); a.Class != last {
			t.Fatalf("%v: acknowledged as %v", classes, a.Class)
		}
	}
}

// While the barrier of a change has not been passed, a checkpoint must still speak
// of the old class: what that has acknowledged can be lost.
func TestACheckpointBeforeTheBarrierSpeaksOfTheOldClass(t *testing.T) {
	r := newRig(t, rigOptions{})
	id := r.topic(1, ClassMemory)
	p, s := r.part(id, 0), r.shards[0].store
	shown := []*produced{r.sendWait(p, 3, 100)}
	stall := r.w.Hold(sim.Filter{Ops: sim.Writes | sim.Flushes, Path: "journal-*"})
	shown = append(shown, r.sendWait(p, 4, 100))
	cfg := r.config(ClassFlushed)
	r.topics[id].info.Config = cfg
	var c configured
	s.Configure(p, cfg, &c)
	r.run(5 * time.Millisecond) // the journal takes nothing, appends go under the new class
	before := s.Stats().Checkpoints
	s.checkpoint.reserve = true
	r.until("checkpoint", func() bool { return s.Stats().Checkpoints > before })
	if c.done {
		t.Fatal("the change is done although nothing has been flushed")
	}
	r.w.Crash(sim.KeepNone)
	stall.Release()
	r.start()
	p = r.part(id, 0)
	r.sendWait(p, 8, 50)
	r.mustNotChange(p, shown)
}

func TestChangesOfClassTakeTurns(t *testing.T) {
	r := newRig(t, rigOptions{})
	id := r.topic(1, ClassMemory)
	p := r.part(id, 0)
	r.sendWait(p, 1, 100)
	classes := []Class{ClassFlushed, ClassMemory, ClassWritten, ClassFlushed, ClassWritten, ClassFlushed}
	done := make([]configured, len(classes))
	for i, class := range classes {
		p.store.Configure(p, r.config(class), &done[i])
	}
	r.until("all changes", func() bool {
		for i := 1; i < len(done); i++ {
			if done[i].done && !done[i-1].done {
				t.Fatalf("change %d is done before change %d", i, i-1)
			}
		}
		return done[len(done)-1].done
	})
	if a := r.sendWait(p, 1, 100); a.Class != ClassFlushed {
		t.Fatalf("acknowledged as %v", a.Class)
	}
}

// reconfigurer asks for another change as soon as it hears of one.
type reconfigurer struct {
	r    *rig
	left int
}

func (c *reconfigurer) Configured(p *Partition, err error) {
	if c.left--; c.left > 0 {
		p.store.Configure(p, c.r.config([]Class{ClassMemory, ClassFlushed}[c.left%2]), c)
	}
}

func TestAChangeMayBeAskedForByWhoeverHearsOfOne(t *testing.T) {
	r := newRig(t, rigOptions{})
	parts := []*Partition{r.part(r.topic(1, ClassFlushed), 0), r.part(r.topic(2, ClassMemory), 0)}
	var askers []*reconfigurer
	for _, p := range parts {
		r.sendWait(p, 1, 100)
		c := &reconfigurer{r: r, left: 6}
		askers = append(askers, c)
		p.store.Configure(p, r.config(ClassWritten), c)
	}
	r.until("all changes", func() bool { return askers[0].left == 0 && askers[1].left == 0 })
}

// Once the window had been full, everything counted as not flushed for as long as
// writes went on, and every turn asked for a flush.
func TestAFullWindowIsFlushedOnceAndNotForEver(t *testing.T) {
	r := newRig(t, rigOptions{journal: 4 << 20, chunks: 16 << 20})
	id := r.topic(1, ClassWritten)
	const window = 256 << 10
	r.topics[id].info.Config.FlushBytes = window
	r.topics[id].info.Config.FlushInterval = time.Minute
	p := r.part(id, 0)
	r.sendWait(p, 1, 100)
	before, bytes := p.store.journal.Stats(), 0
	var last *produced
	for bytes < 3<<20 {
		last = r.send(p, 8, 1000)
		bytes += len(last.Batch)
		r.turn()
	}
	r.until("ack", func() bool { return last.done })
	after := p.store.journal.Stats()
	if n := after.Flushes - before.Flushes; n > 3*3<<20/window {
		t.Fatalf("%d flushes in %d rounds for %d bytes with a window of %d", n, after.Rounds-before.Rounds, bytes, window)
	}
	r.until("the end of the window", func() bool { return p.store.journal.FlushedLSN() >= p.newestLSN || p.store.unflushed.Bytes() < window })
}
