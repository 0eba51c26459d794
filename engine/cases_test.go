package engine

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio/sim"
)

// These are cases that real brokers had, as far as they can be met below a protocol.

// S1: everything that was acknowledged is there after a power cut that loses all that
// was not flushed.
func TestTenThousandAcknowledgedMessagesSurviveAPowerCut(t *testing.T) {
	r := newRig(t, rigOptions{journal: 8 << 20, chunks: 16 << 20})
	id := r.topic(1, ClassFlushed)
	sent := make([]*produced, 10_000)
	for i := range sent {
		sent[i] = r.send(r.part(id, 0), 1, 180)
	}
	r.until("acks", func() bool { return sent[len(sent)-1].done })
	r.w.Crash(sim.KeepNone)
	r.start()
	r.mustHold(r.part(id, 0), sent)
}

// S5: a batch ends exactly at segment.bytes, one byte below and one above, with a start
// in between.
func TestBatchesThatEndAtTheEdgeOfASegment(t *testing.T) {
	const edge = 16 << 10
	for _, over := range []int{-1, 0, 1} {
		t.Run(fmt.Sprint(over), func(t *testing.T) {
			r := newRig(t, rigOptions{segment: edge})
			id := r.topic(1, ClassFlushed)
			sent := []*produced{r.sendWait(r.part(id, 0), 1, 1000)}
			overhead := len(sent[0].Batch) - 1000
			size := edge - len(sent[0].Batch) + over - overhead
			fits := r.sendWait(r.part(id, 0), 1, size)
			for want := edge - len(sent[0].Batch) + over; len(fits.Batch) != want; {
				// The lengths before a large value take a byte more.
				r = newRig(t, rigOptions{segment: edge})
				id = r.topic(1, ClassFlushed)
				sent = []*produced{r.sendWait(r.part(id, 0), 1, 1000)}
				size -= len(fits.Batch) - want
				fits = r.sendWait(r.part(id, 0), 1, size)
			}
			sent = append(sent, fits)
			r.checkpointAll()
			if segments := len(r.part(id, 0).bases); (segments > 1) != (over > 0) {
				t.Fatalf("%d segments", segments)
			}
			r.w.Kill()
			r.start()
			sent = append(sent, r.sendWait(r.part(id, 0), 3, 100), r.sendWait(r.part(id, 0), 1, 100))
			r.mustHold(r.part(id, 0), sent)
			p := r.part(id, 0)
			if len(p.bases) != 2 {
				t.Fatalf("%d segments, expected 2", len(p.bases))
			}
			for _, at := range []int64{p.bases[1].base - 1, p.bases[1].base} {
				if f := r.read(p, at, 1); f.Err != nil || f.Next <= at {
					t.Fatalf("fetch at %d, at the edge: next %d, %v", at, f.Next, f.Err)
				}
			}
			r.w.Crash(sim.KeepNone)
			r.start()
			r.mustHold(r.part(id, 0), sent)
			r.verifyPart(r.part(id, 0))
		})
	}
}

// S7: a torn tail of every kind is never served, and what comes next gets an offset
// above all that were.
func TestATornTailIsNeverServed(t *testing.T) {
	for seed := range uint64(30) {
		r := newRig(t, rigOptions{seed: seed + 1})
		id := r.topic(1, ClassFlushed)
		rng := rand.New(rand.NewPCG(seed, 7))
		var sent []*produced
		for range 5 + rng.IntN(20) {
			sent = append(sent, r.sendWait(r.part(id, 0), 1+rng.IntN(4), 100+rng.IntN(5000)))
		}
		var torn []*produced
		for range 1 + rng.IntN(5) { // in flight when the power goes
			torn = append(torn, r.send(r.part(id, 0), 1+rng.IntN(4), 100+rng.IntN(5000)))
		}
		r.turn()
		acked := len(sent)
		for _, a := range torn {
			if a.done {
				acked++
			}
		}
		sent = append(sent, torn...)
		r.w.Crash([]sim.Keep{sim.KeepRandom, sim.KeepPrefix}[seed%2])
		r.start()
		p := r.part(id, 0)
		got := r.readAll(p)
		for i, a := range sent {
			b, ok := got[a.Base]
			if i < acked && !ok || ok && !bytes.Equal(b, a.Batch) {
				t.Fatalf("seed %d: batch %d at %d: found %v", seed, i, a.Base, ok)
			}
		}
		last := sent[acked-1]
		if a := r.sendWait(p, 1, 100); a.Base <= last.Base+int64(last.Header.LastOffsetDelta) {
			t.Fatalf("seed %d: offset %d after %d was served", seed, a.Base, last.Base)
		}
	}
}

// S9: very many very small batches in one round.
func TestFiveThousandBatchesOfOneByte(t *testing.T) {
	r := newRig(t, rigOptions{journal: 8 << 20, chunks: 8 << 20})
	id := r.topic(1, ClassFlushed)
	first := r.send(r.part(id, 0), 1, 1) // in flight, while the rest gathers
	sent := []*produced{first}
	rounds := r.shards[0].store.journal.Stats().Rounds
	for len(sent) < 5001 {
		sent = append(sent, r.send(r.part(id, 0), 1, 1))
	}
	r.until("acks", func() bool { return sent[len(sent)-1].done })
	for i, a := range sent {
		if a.Err != nil {
			t.Fatalf("batch %d: %v", i, a.Err)
		}
	}
	if n := r.shards[0].store.journal.Stats().Rounds - rounds; n > 3 {
		t.Fatalf("%d rounds, expected one for nearly all of the batches", n)
	}
	r.mustHold(r.part(id, 0), sent)
	r.w.Crash(sim.KeepNone)
	r.start()
	r.mustHold(r.part(id, 0), sent)
}

// S10: batches of every size, then fetches at random offsets: each answer begins with
// the batch that holds the offset.
func TestFetchesAtRandomOffsetsBeginInTheRightBatch(t *testing.T) {
	r := newRig(t, rigOptions{journal: 8 << 20, chunks: 2 << 20, maxBatch: 300 << 10, segment: 1 << 20})
	id := r.topic(1, ClassFlushed)
	rng := rand.New(rand.NewPCG(r.opts.seed, 10))
	var sent []*produced
	for range 10 {
		for range 16 { // pipelined
			sent = append(sent, r.send(r.part(id, 0), 1+rng.IntN(3), 1+rng.IntN(1<<rng.IntN(17))))
		}
		r.until("acks", func() bool { return sent[len(sent)-1].done })
	}
	check := func(fetches int) {
		p := r.part(id, 0)
		for range fetches {
			at := rng.Int64N(p.Durable())
			f := r.read(p, at, 1+rng.IntN(1<<18))
			got := map[int64][]byte{}
			r.split(f, got)
			first := int64(-1)
			for base := range got {
				if first < 0 || base < first {
					first = base
				}
			}
			h := mustCheckStored(t, got[first])
			if f.Err != nil || first > at || h.LastOffset() < at {
				t.Fatalf("fetch at %d: begins with %d to %d, %v", at, first, h.LastOffset(), f.Err)
			}
			p.store.Release(&f.Read)
		}
	}
	check(500)
	r.checkpointAll()
	r.verifyPart(r.part(id, 0))
	r.w.Crash(sim.KeepNone)
	r.start()
	check(500)
	r.verifyPart(r.part(id, 0))
}

// S11: an idle partition never gets an empty segment.
func TestAnIdlePartitionGetsNoEmptySegment(t *testing.T) {
	r := newRig(t, rigOptions{segment: 16 << 10})
	id := r.topic(1, ClassFlushed)
	sent := []*produced{r.sendWait(r.part(id, 0), 1, 100)}
	for range 3 {
		r.run(3 * time.Second)
		r.checkpointAll()
		r.w.Kill()
		r.start()
		if n := len(r.part(id, 0).bases); n != 1 {
			t.Fatalf("%d segments", n)
		}
	}
	sent = append(sent, r.sendWait(r.part(id, 0), 1, 100))
	r.mustHold(r.part(id, 0), sent)
}

// S14: between its ack and the write to the segment every batch can be read, at every
// moment, on a disk that does one write at a time.
func TestEverythingCanBeReadBetweenAckAndSegmentWrite(t *testing.T) {
	r := newRig(t, rigOptions{segment: 64 << 10, journal: 4 << 20, chunks: 4 << 20})
	id := r.topic(1, ClassFlushed)
	p := r.part(id, 0)
	slow := r.w.Hold(sim.Filter{Ops: sim.Writes | sim.Flushes, Path: "*.log"})
	rng := rand.New(rand.NewPCG(r.opts.seed, 14))
	var sent []*produced
	for i := range 400 {
		sent = append(sent, r.sendWait(p, 1+rng.IntN(3), 1+rng.IntN(3000)))
		if i%3 == 0 {
			slow.ReleaseOne()
		}
		if i%7 == 0 {
			r.run(time.Millisecond)
		}
		a := sent[rng.IntN(len(sent))]
		f := &reader{}
		f.Part, f.Offset, f.MaxBytes, f.Owner = p, a.Base, 1, f
		p.store.Read(&f.Read)
		r.until("read", func() bool { slow.ReleaseOne(); return f.done })
		got := map[int64][]byte{}
		r.split(f, got)
		if f.Err != nil || !bytes.Equal(got[a.Base], a.Batch) || f.Next > p.Durable() {
			t.Fatalf("fetch at %d of %d: %d pieces, next %d, %v", a.Base, p.Durable(), f.N, f.Next, f.Err)
		}
		p.store.Release(&f.Read)
	}
	slow.Release()
	r.mustHold(p, sent)
}

// F01: a segment that cannot be written fails the log at once; what is durable can be
// read, and the next start has everything.
func TestAFailedSegmentWriteStopsTheLogAndNotItsReaders(t *testing.T) {
	for name, f := range map[string]sim.Filter{
		"write":      {Ops: sim.Writes, Path: "*.log"},
		"flush":      {Ops: sim.Flushes, Path: "*.log"},
		"truncate":   {Ops: sim.Truncates, Path: "*.log"},
		"open":       {Ops: sim.Opens, Path: "*.log"},
		"allocate":   {Ops: sim.Allocates, Path: "*.log"},
		"dir sync":   {Ops: sim.DirSyncs, Path: "/data/topics/*/*"},
		"checkpoint": {Ops: sim.Writes, Path: "checkpoint-*"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, rigOptions{segment: 16 << 10})
			id := r.topic(1, ClassFlushed)
			p, s := r.part(id, 0), r.shards[0].store
			sent := []*produced{r.sendWait(p, 2, 300)}
			r.sealsMayFail = true
			fault := r.w.Inject(sim.Fault{Filter: f, Times: sim.Always})
			for i := 0; s.Failed() == nil && i < 400; i++ {
				a := &produced{}
				a.Part, a.Batch, a.Owner = p, testBatch(t, 4, 500), a
				a.Header = mustCheck(t, a.Batch)
				if err := s.Append(&a.Append); err == nil {
					r.until("outcome", func() bool { return a.done })
					if a.Err == nil {
						sent = append(sent, a)
					}
				} else {
					r.turn()
				}
				if i%10 == 9 {
					s.checkpoint.begin()
					r.run(5 * time.Millisecond)
				}
			}
			if !errors.Is(s.Failed(), ErrStorage) || fault.Hits() == 0 {
				t.Fatalf("the log goes on after %d failures: %v", fault.Hits(), s.Failed())
			}
			got := r.readAll(p)
			for _, a := range sent {
				if !bytes.Equal(got[a.Base], a.Batch) {
					t.Fatalf("the batch at %d cannot be read after the failure", a.Base)
				}
			}
			r.w.Crash(sim.KeepNone)
			fault.End()
			r.start()
			got = r.readAll(r.part(id, 0))
			for _, a := range sent {
				if !bytes.Equal(got[a.Base], a.Batch) {
					t.Fatalf("the batch at %d was acknowledged and is lost", a.Base)
				}
			}
		})
	}
}

// Whatever may pass by itself, such as a table of files that is full, is tried again.
func TestShortagesPass(t *testing.T) {
	for name, fault := range map[string]sim.Fault{
		"no space for a checkpoint": {Filter: sim.Filter{Ops: sim.Writes, Path: "checkpoint-*"}, Err: syscall.ENOSPC},
		"no file for a checkpoint":  {Filter: sim.Filter{Ops: sim.Opens, Path: "checkpoint-*"}, Err: syscall.EMFILE},
		"no space for a segment":    {Filter: sim.Filter{Ops: sim.Allocates, Path: "*.log"}, Err: syscall.ENOSPC},
		"no file":                   {Filter: sim.Filter{Ops: sim.Opens, Path: "*.log"}, Err: syscall.EMFILE},
		"no memory":                 {Filter: sim.Filter{Ops: sim.Opens, Path: "*.log"}, Err: syscall.ENOMEM},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, rigOptions{journal: 512 << 10})
			id := r.topic(1, ClassFlushed)
			p := r.part(id, 0)
			fault.Times = 5
			r.w.Inject(fault)
			var sent []*produced
			for range 400 {
				sent = append(sent, r.send(p, 4, 500))
			}
			r.until("acks", func() bool { return sent[len(sent)-1].done })
			r.checkpointAll()
			if err := p.store.Failed(); err != nil {
				t.Fatalf("a shortage is a failure: %v", err)
			}
			r.mustHold(p, sent)
		})
	}
}
