package engine

import (
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio/sim"
)

// tryUntilRefused appends until there is no room.
func (r *rig) tryUntilRefused(p *Partition, n, size, most int) (sent []*produced, refused *produced) {
	r.t.Helper()
	for range most {
		a := &produced{}
		a.Part, a.Batch, a.Owner = p, testBatch(r.t, n, size), a
		a.Header = mustCheck(r.t, a.Batch)
		switch err := p.store.Append(&a.Append); err {
		case nil:
			sent = append(sent, a)
		case ErrBusy, ErrDiskFull:
			if p.store.Stats().BusyJournal > 0 {
				return sent, a
			}
		default:
			r.t.Fatal(err)
		}
		r.run(2 * time.Millisecond)
	}
	r.t.Fatal("the ring never filled")
	return nil, nil
}

// A refused append had taken memory, and every further try took more, until there
// was none for anybody.
func TestARefusedAppendHoldsNoMemory(t *testing.T) {
	r := newRig(t, rigOptions{journal: 8 << 20, chunks: 16 << 20, maxBatch: 1 << 20})
	p := r.part(r.topic(1, ClassFlushed), 0)
	stall := r.w.Hold(sim.Filter{Ops: sim.Writes, Path: "*.log"})
	sent, again := r.tryUntilRefused(p, 90, 10_000, 100) // larger than the largest chunk
	before := p.store.Usage().ChunkBytes
	for range 200 {
		if err := p.store.Append(&again.Append); err != ErrBusy {
			t.Fatalf("append to a full ring: %v", err)
		}
	}
	if after := p.store.Usage().ChunkBytes; after != before {
		t.Fatalf("%d bytes of memory before, %d after 200 refusals", before, after)
	}
	stall.Release()
	for p.store.Append(&again.Append) != nil {
		r.turn()
	}
	r.until("ack", func() bool { return again.done })
	r.mustHold(p, append(sent, again))
}

// Partial blocks reach the files by checkpoints alone. When they fill the memory the
// ring may be nearly empty, and nothing else asks for one.
func TestMemoryFullOfPartialBlocksIsFreed(t *testing.T) {
	r := newRig(t, rigOptions{journal: 4 << 20, chunks: 512 << 10})
	id := r.topic(1, ClassFlushed)
	sent := make([][]*produced, 400) // more than there are chunks of 4 KiB
	for round := range 2 {
		for n := range sent {
			sent[n] = append(sent[n], r.send(r.part(id, n), 1, 100+round))
		}
	}
	r.until("acks", func() bool { return sent[len(sent)-1][1].done })
	for n := range sent {
		r.mustHold(r.part(id, n), sent[n])
	}
}

// A checkpoint needs room in the ring for a tail entry of every partition whose last
// block is in its file already. A ring that producers had filled had none, and was
// full for good.
func TestAFullRingHasRoomForEveryTailEntry(t *testing.T) {
	r := newRig(t, rigOptions{journal: 1 << 20, chunks: 8 << 20})
	id := r.topic(1, ClassFlushed)
	const partitions = 150
	sent := make([][]*produced, partitions)
	for n := range sent {
		sent[n] = append(sent[n], r.sendWait(r.part(id, n), 1, 100))
	}
	r.checkpointAll() // every last block is partial, and in its file
	stall := r.w.Hold(sim.Filter{Ops: sim.Writes, Path: "*.log"})
	for n := range sent { // every partition is dirty again
		a := &produced{}
		a.Part, a.Batch, a.Owner = r.part(id, n), testBatch(t, 1, 100), a
		a.Header = mustCheck(t, a.Batch)
		for tries := 0; tries < 50; tries++ {
			if err := a.Part.store.Append(&a.Append); err == nil {
				sent[n] = append(sent[n], a)
				break
			}
			r.turn()
		}
	}
	p := r.part(id, 0)
	more, last := r.tryUntilRefused(p, 4, 1000, 2000)
	sent[0] = append(sent[0], more...)
	stall.Release()
	r.until("room", func() bool { return p.store.Append(&last.Append) == nil })
	r.until("ack", func() bool { return last.done })
	sent[0] = append(sent[0], last)
	r.checkpointAll()
	for n := range sent {
		r.mustHold(r.part(id, n), sent[n])
	}
	if u := p.store.Usage(); u.DirtyPartitions != 0 || p.store.tailDebt != 0 {
		t.Fatalf("after a checkpoint: %+v, debt %d", u, p.store.tailDebt)
	}
}

func TestProducersAreSlowedBeforeTheRingIsFull(t *testing.T) {
	r := newRig(t, rigOptions{journal: 4 << 20, chunks: 16 << 20})
	p := r.part(r.topic(1, ClassFlushed), 0)
	stall := r.w.Hold(sim.Filter{Ops: sim.Writes, Path: "*.log"})
	var at [101]int64 // when each percent of fill was reached
	for at[90] == 0 {
		r.send(p, 8, 1000)
		if fill := p.store.fillPercent(); at[fill] == 0 {
			at[fill] = r.w.Now()
		}
	}
	early, late := at[67]-at[55], at[90]-at[78]
	if st := p.store.Stats(); st.BusySlow == 0 || late < 3*early {
		t.Fatalf("12%% of the ring took %v below the threshold, %v above: %+v", time.Duration(early), time.Duration(late), st)
	}
	stall.Release()
}

// What class memory puts into the ring counts as much as what is appended to it. It
// did not wait for its turn, and the waits added up: producers stood still for long
// after the ring was free again.
func TestClassMemoryIsSlowedLikeTheOthersAndGoesOnAtOnce(t *testing.T) {
	r := newRig(t, rigOptions{journal: 64 << 20, chunks: 128 << 20})
	p := r.part(r.topic(1, ClassMemory), 0)
	sent := []*produced{r.sendWait(p, 1, 100)}
	segments := r.w.Hold(sim.Filter{Ops: sim.Writes, Path: "*.log"})
	for p.store.fillPercent() < fullFill-1 {
		sent = append(sent, r.send(p, 1, 100_000))
	}
	device := r.w.Hold(sim.Filter{Ops: sim.Writes, Path: "*journal*"})
	for p.store.memoryBytes < memoryBacklog-200_000 {
		sent = append(sent, r.send(p, 1, 100_000))
	}
	device.Release()
	r.until("a full ring", func() bool { return p.store.fillPercent() > 85 || p.store.memory.Len() == 0 })
	if wait := p.store.throttle.Left(r.w.Now()); wait > 50*time.Millisecond {
		t.Fatalf("at %d%% of the ring the next batch waits for %v", p.store.fillPercent(), wait)
	}
	segments.Release()
	r.mustHold(p, append(sent, r.send(p, 1, 100)))
}
