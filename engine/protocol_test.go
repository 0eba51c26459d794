package engine

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio/sim"
)

// These are the tests that the storage protocol demands by name.

func TestManyPartitionsWithOneMessageNeverPinTheRing(t *testing.T) {
	partitions := 10_000
	if testing.Short() {
		partitions = 1000
	}
	const ring = 4 << 20
	r := newRig(t, rigOptions{journal: ring, chunks: 64 << 20})
	id := r.topic(1, ClassFlushed)
	sent := make([]*produced, partitions)
	for i := range sent {
		sent[i] = r.send(r.part(id, i), 1, 180)
	}
	r.until("acks", func() bool { return sent[partitions-1].done })
	var all []*produced // of one partition, ten times the ring
	for written := 0; written < 10*ring; {
		a := r.send(r.part(id, partitions), 64, 500)
		all = append(all, a)
		written += len(a.Batch)
	}
	r.until("acks", func() bool { return all[len(all)-1].done })
	r.w.Crash(sim.KeepRandom)
	r.start()
	r.mustHold(r.part(id, partitions), all)
	for i, a := range sent {
		p := r.part(id, i)
		if got := r.readAll(p); !bytes.Equal(got[0], a.Batch) || p.Durable() != 1 {
			t.Fatalf("partition %d: %d batches, durable %d", i, len(got), p.Durable())
		}
	}
}

func TestClassMemoryNeverGivesAnOffsetTwoContents(t *testing.T) {
	for _, class := range []Class{ClassMemory, ClassWritten} {
		t.Run(class.String(), func(t *testing.T) {
			r := newRig(t, rigOptions{})
			id := r.topic(1, class)
			served := map[int64][]byte{}
			lost := 0
			for life := 0; life < 5; life++ {
				p := r.part(id, 0)
				for _, b := range r.readAll(p) {
					_ = b
				}
				for i := 0; i < 20; i++ {
					a := r.sendWait(p, 1+i%3, 100)
					if a.Class != class {
						t.Fatalf("acknowledged as %v", a.Class)
					}
					if old, ok := served[a.Base]; ok && !bytes.Equal(old, a.Batch) {
						t.Fatalf("offset %d given out twice", a.Base)
					}
				}
				for base, b := range r.readAll(p) {
					if old, ok := served[base]; ok && !bytes.Equal(old, b) {
						t.Fatalf("offset %d has two contents", base)
					}
					served[base] = b
				}
				r.w.Crash(sim.KeepNone)
				r.start()
				p = r.part(id, 0)
				got := r.readAll(p)
				for base, b := range served {
					if got[base] == nil {
						lost++
					} else if !bytes.Equal(got[base], b) {
						t.Fatalf("offset %d changed by the crash", base)
					}
				}
			}
			if lost == 0 {
				t.Fatal("the power cut took nothing back: the test shows nothing")
			}
			if r.rec.Stats.Gaps == 0 {
				t.Fatal("no gap recorded")
			}
		})
	}
}

func TestClassWrittenSurvivesAKillWithoutAGap(t *testing.T) {
	r := newRig(t, rigOptions{})
	id := r.topic(1, ClassWritten)
	var sent []*produced
	for life := 0; life < 3; life++ {
		for i := 0; i < 20; i++ {
			sent = append(sent, r.sendWait(r.part(id, 0), 2, 100))
		}
		r.w.Kill()
		r.start()
		r.mustHold(r.part(id, 0), sent)
	}
}

type configured struct {
	done bool
	err  error
}

func (c *configured) Configured(_ *Partition, err error) { c.done, c.err = true, err }

func TestChangeToClassFlushedIsABarrier(t *testing.T) {
	r := newRig(t, rigOptions{})
	id := r.topic(1, ClassMemory)
	var sent []*produced
	for i := 0; i < 30; i++ {
		sent = append(sent, r.sendWait(r.part(id, 0), 2, 100))
	}
	cfg := r.config(ClassFlushed)
	r.topics[id].info.Config = cfg
	var c configured
	p := r.part(id, 0)
	p.store.Configure(p, cfg, &c)
	sent = append(sent, r.sendWait(p, 1, 100))
	r.until("barrier", func() bool { return c.done })
	a := r.sendWait(p, 1, 100)
	if a.Class != ClassFlushed || c.err != nil {
		t.Fatalf("after the change: class %v, error %v", a.Class, c.err)
	}
	sent = append(sent, a)
	r.w.Crash(sim.KeepNone)
	r.start()
	r.mustHold(r.part(id, 0), sent)
	if r.rec.Stats.Gaps != 0 {
		t.Fatal("a gap in a topic of class flushed")
	}
}

func TestShardCountChangesBetweenLives(t *testing.T) {
	r := newRig(t, rigOptions{shards: 3, segment: 64 << 10})
	id := r.topic(1, ClassFlushed)
	sent := make([][]*produced, 12)
	for _, shards := range []int{1, 2, 3, 1} {
		for i := 0; i < 240; i++ {
			n := i % len(sent)
			sent[n] = append(sent[n], r.sendWait(r.part(id, n), 3, 300))
		}
		r.w.Crash(sim.KeepRandom)
		r.opts.shards = shards
		r.start()
		for n := range sent {
			r.mustHold(r.part(id, n), sent[n])
		}
	}
}

func TestFailedFlushStopsEveryJournalOnTheDevice(t *testing.T) {
	r := newRig(t, rigOptions{shards: 2})
	id := r.topic(1, ClassFlushed)
	parts := [2]*Partition{}
	for n := 0; parts[0] == nil || parts[1] == nil; n++ {
		p := r.part(id, n)
		parts[p.store.opts.Shard] = p
	}
	first := r.sendWait(parts[0], 1, 100)
	second := r.sendWait(parts[1], 1, 100)
	r.w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Flushes | sim.Writes, Driver: r.shards[0].drv}, Times: sim.Always})
	failed := r.send(parts[0], 1, 100)
	r.until("failure", func() bool { return failed.done })
	if !errors.Is(failed.Err, ErrStorage) {
		t.Fatalf("acknowledged after a failed flush: %v", failed.Err)
	}
	// The other journal has seen no error of its own.
	other := &produced{}
	other.Part, other.Batch, other.Owner = parts[1], testBatch(t, 1, 100), other
	other.Header = mustCheck(t, other.Batch)
	err := parts[1].store.Append(&other.Append)
	if err == nil {
		r.until("refusal", func() bool { return other.done })
		err = other.Err
	}
	if !errors.Is(err, ErrStorage) {
		t.Fatalf("the other journal acknowledges on a failed device: %v", err)
	}
	for i, p := range parts {
		got := r.readAll(p)
		want := []*produced{first, second}[i]
		if !bytes.Equal(got[want.Base], want.Batch) {
			t.Fatalf("partition on shard %d: what was durable cannot be read after the failure", i)
		}
	}
}

func TestDeletedTopicsLeaveNothingAndComeBackEmpty(t *testing.T) {
	r := newRig(t, rigOptions{})
	id := r.topic(1, ClassFlushed)
	for i := 0; i < 50; i++ {
		r.sendWait(r.part(id, i%2), 3, 300)
	}
	keep := r.topic(2, ClassFlushed)
	kept := []*produced{r.sendWait(r.part(keep, 0), 3, 300)}
	r.topics[id].deleted = true
	for n := 0; n < 2; n++ {
		p := r.part(id, n)
		var d dropped
		p.store.Drop(p, &d)
		r.until("drop", func() bool { return d.done })
	}
	again := r.topic(3, ClassFlushed)
	r.topics[again].info.Name = r.topics[id].info.Name
	fresh := []*produced{r.sendWait(r.part(again, 0), 2, 100)}
	r.w.Crash(sim.KeepRandom)
	r.start()
	r.mustHold(r.part(keep, 0), kept)
	r.mustHold(r.part(again, 0), fresh)
	if s := r.shards[0].store; s.Partition(Key{Topic: id}) != nil {
		t.Fatal("a deleted topic came back")
	}
	if u := r.shards[0].store.Usage(); u.PinnedPieces != 0 {
		t.Fatalf("pinned: %+v", u)
	}
}

type dropped struct{ done bool }

func (d *dropped) Dropped(Key) { d.done = true }

func TestABatchLargerThanAChunkAndThanARound(t *testing.T) {
	r := newRig(t, rigOptions{roundBytes: 32 << 10, journal: 1 << 20})
	id := r.topic(1, ClassFlushed)
	var sent []*produced
	for i, records := range []int{1, 40, 100, 1, 120, 3, 64} {
		sent = append(sent, r.send(r.part(id, 0), records, 900+i))
	}
	r.until("acks", func() bool { return sent[len(sent)-1].done })
	r.mustHold(r.part(id, 0), sent)
	r.w.Crash(sim.KeepNone)
	r.start()
	r.mustHold(r.part(id, 0), sent)
}

func TestAStalledSegmentDiskSlowsProducersAndLosesNothing(t *testing.T) {
	r := newRig(t, rigOptions{journal: 512 << 10, chunks: 8 << 20})
	id := r.topic(1, ClassFlushed)
	p := r.part(id, 0)
	stall := r.w.Hold(sim.Filter{Ops: sim.Writes, Path: "*.log"})
	var sent []*produced
	refused := false
	for i := 0; i < 2000 && !refused; i++ {
		a := &produced{}
		a.Part, a.Batch, a.Owner = p, testBatch(t, 8, 400), a
		a.Header = mustCheck(t, a.Batch)
		switch err := p.store.Append(&a.Append); err {
		case nil:
			sent = append(sent, a)
		case ErrBusy:
			r.run(20 * time.Millisecond)
			refused = p.store.stats.BusyJournal > 0 && !r.shards[0].store.ringHasRoom(8*400)
		default:
			t.Fatal(err)
		}
	}
	if !refused {
		t.Fatal("the ring never filled")
	}
	stall.Release()
	for i := 0; i < 100; i++ {
		sent = append(sent, r.send(p, 8, 400))
	}
	r.until("acks", func() bool { return sent[len(sent)-1].done })
	r.mustHold(p, sent)
	r.w.Crash(sim.KeepRandom)
	r.start()
	r.mustHold(r.part(id, 0), sent)
}

func TestLongPollIsAnsweredByTheNextBatchOrByTime(t *testing.T) {
	r := newRig(t, rigOptions{})
	p := r.part(r.topic(1, ClassFlushed), 0)
	f := &reader{}
	f.Part, f.MaxBytes, f.MinBytes, f.Owner = p, 1<<16, 1, f
	f.Until = r.shards[0].loop.Now() + int64(time.Second)
	p.store.Read(&f.Read)
	a := r.sendWait(p, 1, 100)
	r.until("answer", func() bool { return f.done })
	if f.N != 1 || !bytes.Equal(f.Pieces[0], a.Batch) {
		t.Fatalf("%d pieces", f.N)
	}
	p.store.Release(&f.Read)
	f.done, f.Offset = false, 1
	f.Until = r.w.Now() + int64(50*time.Millisecond)
	p.store.Read(&f.Read)
	r.until("end of the wait", func() bool { return f.done })
	if f.N != 0 || f.Next != 1 || r.w.Now() < f.Until {
		t.Fatalf("%d pieces, next %d at %d of %d", f.N, f.Next, r.w.Now(), f.Until)
	}
	if u := p.store.Usage(); u.WaitingReads != 0 || u.PinnedPieces != 0 {
		t.Fatalf("left behind: %+v", u)
	}
}

type found struct{ done bool }

func (f *found) TimeFound(*TimeLookup) { f.done = true }

func TestTimeLookupFindsTheFirstRecordAtOrAfter(t *testing.T) {
	r := newRig(t, rigOptions{segment: 16 << 10})
	id := r.topic(1, ClassFlushed)
	first := int64(1000) + int64(testSerial) + 1
	const records = 400
	for i := 0; i < records/4; i++ {
		r.sendWait(r.part(id, 0), 4, 200)
	}
	check := func() {
		p := r.part(id, 0)
		for at := int64(-3); at < records+3; at += 7 {
			var f found
			l := &TimeLookup{Part: p, Time: first + at, Owner: &f}
			p.store.LookUpTime(l)
			r.until("lookup", func() bool { return f.done })
			want, stamp := max(at, 0), first+max(at, 0)
			if at >= records {
				want, stamp = records, -1
			}
			if l.Err != nil || l.Offset != want || l.Timestamp != stamp {
				t.Fatalf("time of record %d: offset %d, timestamp %d, error %v", at, l.Offset, l.Timestamp, l.Err)
			}
		}
	}
	check()
	r.w.Kill()
	r.start()
	check()
}
