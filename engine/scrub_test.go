package engine

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/scrub"
	"github.com/mqd-broker/mqd/engine/segment"
)

// scrubbed hears of a scrubber.
type scrubbed struct {
	found  []scrub.Finding
	failed []error
	passes int
}

func (s *scrubbed) ScrubDamage(f *scrub.Finding)                  { s.found = append(s.found, *f) }
func (s *scrubbed) ScrubUnable(_ segment.ID, _ string, err error) { s.failed = append(s.failed, err) }
func (s *scrubbed) ScrubPassed(int, *scrub.Stats)                 { s.passes++ }
func (r *rig) scrubber(rate int64) (*scrub.Scrubber, *scrubbed) {
	e := &scrubbed{}
	s := scrub.New(r.shards[0].loop, r.shards[0].store, scrub.Options{
		Rate: rate, Interval: time.Second, Busy: func() bool { return false }, Events: e,
	})
	s.Begin()
	return s, e
}

// fillSegments appends until a partition has n sealed segments with indexes.
func (r *rig) fillSegments(p *Partition, n int) (sent []*produced) {
	r.t.Helper()
	for len(p.bases) <= n {
		sent = append(sent, r.sendWait(p, 3, 2000))
	}
	r.until("sealed segments", func() bool {
		for _, seg := range p.bases[:n] {
			if !seg.sealed || seg.index.Sealing() {
				return false
			}
		}
		return true
	})
	return sent
}

func scrubRig(t *testing.T) (*rig, *Partition, []*produced) {
	r := newRig(t, rigOptions{segment: segment.MinSegmentBytes})
	p := r.part(r.topic(1, ClassFlushed), 0)
	return r, p, r.fillSegments(p, 3)
}

// The scrubber finds what has rotted before anybody reads it, and what it tells is what
// a reader meets.
func TestTheScrubberFindsWhatAReaderWouldMeet(t *testing.T) {
	r, p, sent := scrubRig(t)
	r.close()
	r.w.Crash(sim.KeepAll)
	r.start() // what has just been written is in memory
	p = r.part(p.key.Topic, 0)
	seg := p.bases[1]
	if err := r.w.Corrupt(seg.Path(), seg.Size/2, 4); err != nil {
		t.Fatal(err)
	}
	s, e := r.scrubber(1 << 30)
	r.until("a pass", func() bool { return e.passes == 2 })
	if len(e.found) != 1 || s.Stats().Damaged.Load() != 1 || len(e.failed) > 0 || r.shards[0].store.stats.ColdReads > 0 {
		t.Fatalf("found %+v, failed %v, %d reads", e.found, e.failed, r.shards[0].store.stats.ColdReads)
	}
	found := e.found[0].Range
	first, next := p.LogStart(), p.next
	met := 0
	for at := int64(0); at < sent[len(sent)-1].Base; {
		f := r.read(p, at, 1)
		if f.Err != nil {
			met++
			if !errors.Is(f.Err, ErrCorrupt) || at != found.FromOffset || f.Next != found.ToOffset {
				t.Fatalf("at %d: %v, next %d; the scrubber found %+v", at, f.Err, f.Next, found)
			}
		}
		at = f.Next
		r.shards[0].store.Release(&f.Read)
	}
	if met != 1 || p.LogStart() != first || p.next != next {
		t.Fatalf("%d errors, log %d to %d, before %d to %d", met, p.LogStart(), p.next, first, next)
	}
}

func TestTheScrubberHasLostIndexesMade(t *testing.T) {
	r, p, sent := scrubRig(t)
	file := filepath.Join(p.dir, segment.IndexName(p.bases[1].base))
	if err := r.w.FS().Remove(file); err != nil {
		t.Fatal(err)
	}
	s, e := r.scrubber(1 << 30)
	r.until("a pass", func() bool { return e.passes == 2 })
	if s.Stats().Indexes.Load() != 1 || len(e.found)+len(e.failed) > 0 {
		t.Fatalf("%d indexes made, found %v, failed %v", s.Stats().Indexes.Load(), e.found, e.failed)
	}
	if _, ok := segment.SealedEnd(r.w.FS(), p.dir, p.segmentID(p.bases[1].base), p.bases[1].Size); !ok {
		t.Fatal("the index is not there")
	}
	r.mustHold(p, sent)
}

// A topic is deleted while an index of it is being made: its memory goes when that has
// ended, and not before.
func TestAPartitionIsNotForgottenWhileAnIndexIsMade(t *testing.T) {
	r, p, _ := scrubRig(t)
	if err := r.w.FS().Remove(filepath.Join(p.dir, segment.IndexName(p.bases[0].base))); err != nil {
		t.Fatal(err)
	}
	s, e := r.scrubber(1 << 30)
	held := r.w.Hold(sim.Filter{Ops: sim.Renames, Path: "*.index.tmp"})
	r.until("the index is being written", func() bool { return held.Count() == 1 })
	d := &dropped{}
	r.shards[0].store.Drop(p, d)
	r.run(10 * time.Millisecond)
	if d.done || s.Resting() {
		t.Fatal("forgotten while its index is being made")
	}
	held.Release()
	r.until("the drop", func() bool { return d.done })
	r.until("a pass", func() bool { return e.passes > 0 })
	if len(e.found)+len(e.failed) > 0 || !s.Resting() {
		t.Fatalf("found %v, failed %v", e.found, e.failed)
	}
}
