package engine

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/journal"
	"github.com/mqd-broker/mqd/engine/layout"
)

// These tests, too, are demanded by name; docs/DURABILITY.md has the list.

// DSYNC makes its own bytes durable and no others: a batch of class flushed behind
// rounds of class written is not acknowledged before those are flushed too, because
// a start would not get past them.
func TestABatchBehindRoundsThatAreNotFlushed(t *testing.T) {
	r := newRig(t, rigOptions{dsync: sim.DSYNCOwnBytes})
	written, flushed := r.topic(1, ClassWritten), r.topic(2, ClassFlushed)
	for _, id := range []TopicID{written, flushed} {
		r.topics[id].info.Config.FlushInterval = time.Hour
	}
	var weak, sent []*produced
	for i := range 41 { // the last one, too, is behind a round that is not flushed
		for range i % 3 {
			weak = append(weak, r.sendWait(r.part(written, 0), 1, 300))
		}
		sent = append(sent, r.sendWait(r.part(flushed, 0), 2, 300))
	}
	if st := r.shards[0].store.journal.Stats(); st.DSYNCs == 0 || st.Flushes == 0 {
		t.Fatalf("%d writes with DSYNC, %d flushes: the test is to need both", st.DSYNCs, st.Flushes)
	}
	r.w.Crash(sim.KeepNone)
	r.start()
	r.mustHold(r.part(flushed, 0), sent)
	r.mustNotChange(r.part(written, 0), weak)
}

// What a killed process had written and not flushed is served by the next one. From
// then on a power cut must not take it.
func TestWhatIsServedAfterAKillSurvivesAPowerCut(t *testing.T) {
	for _, shards := range []int{1, 2} {
		r := newRig(t, rigOptions{})
		id := r.topic(1, ClassWritten)
		r.topics[id].info.Config.FlushInterval = time.Hour
		var sent [3][]*produced
		for i := range 60 {
			sent[i%3] = append(sent[i%3], r.sendWait(r.part(id, i%3), 2, 300))
		}
		if j := r.shards[0].store.journal; j.FlushedLSN() >= j.WrittenLSN() {
			t.Fatal("everything is flushed: the test shows nothing")
		}
		r.w.Kill()
		r.opts.shards = shards
		r.start()
		for n := range sent {
			r.mustHold(r.part(id, n), sent[n])
		}
		r.w.Crash(sim.KeepNone)
		r.start()
		for n := range sent {
			got := r.readAll(r.part(id, n))
			for _, a := range sent[n] {
				if !bytes.Equal(got[a.Base], a.Batch) {
					t.Fatalf("%d shards: the batch at %d of partition %d was served and is gone", shards, a.Base, n)
				}
			}
		}
	}
}

// Ten milliseconds of silence prove the newest round: damage to it is reported, and
// its offsets, which consumers have seen, are given to nothing else. That holds also
// for a partition of which nothing else is known but that it exists.
func TestRotInTheLastAcknowledgedRoundAfterSilence(t *testing.T) {
	for name, at := range map[string]int64{"header": 20, "body": 400} {
		for _, batches := range []int{1, 5} {
			t.Run(fmt.Sprintf("%s, batch %d", name, batches), func(t *testing.T) {
				r := newRig(t, rigOptions{})
				id := r.topic(1, ClassFlushed)
				var sent []*produced
				for range batches {
					sent = append(sent, r.sendWait(r.part(id, 0), 2, 300))
				}
				r.run(10 * time.Millisecond)
				r.w.Crash(sim.KeepNone)
				last := sent[batches-1]
				r.spoilRound(r.roundsOf(Key{Topic: id})[last.Base], at)
				r.start()
				if !r.reported("LOSS DETECTED") || r.rec.Stats.Damaged != 1 || r.rec.Stats.TornTails != 0 {
					t.Fatalf("reported %q, %+v", r.log, r.rec.Stats)
				}
				got := r.readFrom(r.part(id, 0), 0)
				for _, a := range sent[:batches-1] {
					if !bytes.Equal(got[a.Base], a.Batch) {
						t.Fatalf("the batch at %d is gone", a.Base)
					}
				}
				if a := r.sendWait(r.part(id, 0), 1, 100); a.Base <= last.Base+1 {
					t.Fatalf("offset %d again, after %d to %d were acknowledged and lost", a.Base, last.Base, last.Base+1)
				}
			})
		}
	}
}

// A batch that no chunk and no round of the usual size can take.
func TestABatchLargerThanTheLargestChunk(t *testing.T) {
	r := newRig(t, rigOptions{journal: 16 << 20, chunks: 8 << 20, maxBatch: 1 << 20, roundBytes: 256 << 10})
	id := r.topic(1, ClassFlushed)
	var sent []*produced
	for _, records := range []int{1, 90, 2, 95, 80} {
		sent = append(sent, r.send(r.part(id, 0), records, 10_000))
	}
	r.until("acks", func() bool { return sent[len(sent)-1].done })
	r.mustHold(r.part(id, 0), sent)
	r.w.Crash(sim.KeepNone)
	r.start()
	r.mustHold(r.part(id, 0), sent)
	r.checkpointAll()
	r.verifyPart(r.part(id, 0))
}

// The segments' disk takes nothing any more and the ring is full. The power goes at
// that moment: the ring has everything, for nothing in it was written over.
func TestAPowerCutWhileTheRingIsFull(t *testing.T) {
	r := newRig(t, rigOptions{journal: 512 << 10, chunks: 8 << 20})
	id := r.topic(1, ClassFlushed)
	p := r.part(id, 0)
	idle := r.sendWait(r.part(id, 1), 1, 100) // the oldest round is another's
	stall := r.w.Hold(sim.Filter{Ops: sim.Writes, Path: "*.log"})
	sent, refused := r.tryUntilRefused(p, 8, 400, 2000)
	r.until("acks", func() bool { return sent[len(sent)-1].done })
	r.mustHold(p, sent)
	for range 50 { // a full ring stays full, whoever insists
		if err := p.store.Append(&refused.Append); err != ErrBusy {
			t.Fatalf("append to a full ring: %v", err)
		}
		r.run(time.Millisecond)
	}
	if r.shards[0].store.Stats().SegmentBytes != 0 {
		t.Fatal("the segments' disk has not stalled")
	}
	r.w.Crash(sim.KeepNone)
	stall.Release()
	r.start()
	r.mustHold(r.part(id, 0), sent)
	r.mustHold(r.part(id, 1), []*produced{idle})
}

// movingPartition is the number of a partition of id that belongs to another shard
// of every one of the counts than of the count before it.
func (r *rig) movingPartition(id TopicID, counts ...int) int {
	r.t.Helper()
	slots := len(r.rec.Slots)
next:
	for n := range 10_000 {
		slot := SlotOf(Key{Topic: id, Partition: uint32(n)}, slots)
		for i := 1; i < len(counts); i++ {
			if layout.Assignment(slots, counts[i-1])[slot] == layout.Assignment(slots, counts[i])[slot] {
				continue next
			}
		}
		return n
	}
	r.t.Fatalf("no partition moves with each of %v", counts)
	return 0
}

// A slot moves, and moves again, while the ring of its first shard still has its
// rounds: the starts in between die before they come to release them. Then it
// takes new batches, and comes back.
func TestASlotThatMovesTwiceBeforeItsRoundsAreRecycled(t *testing.T) {
	for _, counts := range [][]int{{1, 2, 3}, {2, 3, 2}, {1, 3, 1}, {2, 3, 4}} {
		r := newRig(t, rigOptions{shards: counts[0]})
		id := r.topic(1, ClassFlushed)
		n := r.movingPartition(id, counts...)
		var sent []*produced
		for range 30 {
			sent = append(sent, r.sendWait(r.part(id, n), 2, 300))
		}
		for _, shards := range counts[1:] {
			r.w.Crash(sim.KeepRandom)
			if r.interrupt(shards, 1000) {
				t.Fatal("the start is to be over when it dies")
			}
		}
		r.w.Crash(sim.KeepRandom)
		r.opts.shards = counts[2]
		r.start()
		if r.rec.Stats.Skipped < 30 {
			t.Fatalf("the rounds have gone: %+v", r.rec.Stats)
		}
		r.mustHold(r.part(id, n), sent)
		for range 30 {
			sent = append(sent, r.sendWait(r.part(id, n), 2, 300))
		}
		r.w.Crash(sim.KeepRandom)
		r.opts.shards = counts[0]
		r.start()
		r.mustHold(r.part(id, n), sent)
	}
}

// Released rounds lie in the ring until they are written over. When the newest anchor
// cannot be read, they are replayed, next to those that the slot has got on other
// shards meanwhile.
func TestReleasedRoundsOfASlotThatHasMovedChangeNothing(t *testing.T) {
	counts := []int{1, 2, 3, 2, 3, 2}
	r := newRig(t, rigOptions{shards: counts[0]})
	id := r.topic(1, ClassFlushed)
	n := r.movingPartition(id, counts[:3]...)
	var sent []*produced
	for life := range counts {
		for range 20 {
			sent = append(sent, r.sendWait(r.part(id, n), 2, 300))
		}
		r.w.Crash(sim.KeepRandom)
		for shard := range r.opts.shards {
			r.spoilNewestAnchor(shard)
		}
		r.opts.shards = counts[(life+1)%len(counts)]
		r.start()
		if again := r.rec.Stats.Skipped; again < 20*min(life, 2) {
			t.Fatalf("life %d: %d batches were replayed again", life, again)
		}
		r.mustHold(r.part(id, n), sent)
	}
}

// spoilNewestAnchor damages the anchor of a shard's journal that counts.
func (r *rig) spoilNewestAnchor(shard int) {
	r.t.Helper()
	d := r.w.Driver(aio.Options{ArenaBytes: 4 << 20, RecvBuffers: 2})
	path := layout.JournalPath(rigDir, shard)
	region, err := journal.OpenFileRegionReadOnly(d, path)
	if err != nil {
		r.t.Fatal(err)
	}
	res, err := journal.Scan(d, region, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	s, err := journal.NewScanner(d)
	if err != nil {
		r.t.Fatal(err)
	}
	anchors, _ := s.ReadAnchors(region)
	for i := range anchors {
		if anchors[i].Sequence == res.Anchor.Sequence {
			if err := r.w.Corrupt(path, int64(i)*journal.BlockSize+60, 0xff); err != nil {
				r.t.Fatal(err)
			}
		}
	}
	if err := d.Close(); err != nil {
		r.t.Fatal(err)
	}
}
