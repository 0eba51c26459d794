package engine

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/journal"
)

// writer of idempotent batches.
type idempotent struct {
	r     *rig
	id    int64
	epoch int16
	next  int32 // sequence number
}

// batch is the producer's next batch, of n records.
func (w *idempotent) batch(n int) []byte {
	w.r.t.Helper()
	plain := testBatch(w.r.t, n, 100)
	h := mustCheck(w.r.t, plain)
	b := batch.NewBuilder(nil, 1<<20)
	b.SetProducer(w.id, w.epoch, w.next)
	for it := h.Records(plain[batch.HeaderSize:]); it.Next(); {
		rec := it.Record()
		if err := b.Append(&batch.Record{Value: rec.Value, Timestamp: rec.Timestamp}); err != nil {
			w.r.t.Fatal(err)
		}
	}
	w.next = (w.next + int32(n)) & (1<<31 - 1)
	return b.Finish(batch.CodecNone)
}

// try appends bytes as they come from a client, once or again.
func (r *rig) try(p *Partition, b []byte) (*produced, error) {
	r.t.Helper()
	a := &produced{}
	a.Part, a.Owner, a.Batch = p, a, bytes.Clone(b)
	a.Header = mustCheck(r.t, a.Batch)
	var err error
	r.until("room", func() bool {
		err = p.store.Append(&a.Append)
		return err != ErrBusy
	})
	return a, err
}

// mustTry is try, with an acknowledgement.
func (r *rig) mustTry(p *Partition, b []byte) *produced {
	r.t.Helper()
	a, err := r.try(p, b)
	if err == nil {
		r.until("ack", func() bool { return a.done })
		err = a.Err
	}
	if err != nil {
		r.t.Fatalf("append: %v", err)
	}
	return a
}

// mustRepeat checks that what has been sent is answered with its old place and written
// nowhere else.
func (r *rig) mustRepeat(p *Partition, sent []*produced) {
	r.t.Helper()
	end := p.End()
	for _, a := range sent {
		if again := r.mustTry(p, a.Batch); again.Base != a.Base || again.Class < p.Class() {
			r.t.Fatalf("the batch at %d, sent again: offset %d, class %v", a.Base, again.Base, again.Class)
		}
	}
	if p.End() != end {
		r.t.Fatalf("log end %d after batches that were there, before %d", p.End(), end)
	}
}

func TestARetryIsAnsweredOnceWithItsOldOffset(t *testing.T) {
	for _, class := range []Class{ClassFlushed, ClassWritten, ClassMemory} {
		r := newRig(t, rigOptions{})
		p := r.part(r.topic(1, class), 0)
		w := &idempotent{r: r, id: 7, next: 1<<31 - 4} // the numbers wrap on the way
		other := &idempotent{r: r, id: 8}
		var sent, all []*produced
		for n := range 9 {
			sent = append(sent, r.mustTry(p, w.batch(1+n%3)))
			all = append(all, sent[n], r.mustTry(p, other.batch(2)))
			r.mustRepeat(p, sent[max(0, len(sent)-5):])
		}
		r.mustHold(p, all)
		if _, err := r.try(p, sent[3].Batch); !errors.Is(err, ErrForgotten) {
			t.Fatalf("class %v: the sixth batch back: %v", class, err)
		}
	}
}

func TestABatchOutOfItsOrderIsRefused(t *testing.T) {
	r := newRig(t, rigOptions{})
	p := r.part(r.topic(1, ClassFlushed), 0)
	w := &idempotent{r: r, id: 7}
	r.mustTry(p, w.batch(2))
	missing, late := w.batch(3), w.batch(1)
	for range 2 {
		if _, err := r.try(p, late); !errors.Is(err, ErrOutOfOrder) {
			t.Fatalf("a batch behind one that is missing: %v", err)
		}
	}
	r.mustTry(p, missing)
	r.mustTry(p, late)
	newer := &idempotent{r: r, id: 7, epoch: 1, next: 5}
	if _, err := r.try(p, newer.batch(1)); !errors.Is(err, ErrOutOfOrder) {
		t.Fatalf("an epoch that does not begin at 0: %v", err)
	}
	newer.next = 0
	r.mustTry(p, newer.batch(1))
	if _, err := r.try(p, w.batch(1)); !errors.Is(err, ErrFenced) {
		t.Fatalf("the epoch before: %v", err)
	}
	if p.End() != 7 {
		t.Fatalf("log end %d, want 7", p.End())
	}
	if st := p.store.Stats(); st.RefusedSequences != 4 || st.Duplicates != 0 {
		t.Fatalf("%+v", st)
	}
}

// A retry comes while the flush of the first one hangs. It is not answered before that has
// ended; when the power is cut instead, nothing is lost that anybody was promised, and the
// batch can be sent a third time.
func TestARetryDuringAHeldFlushThenAPowerCut(t *testing.T) {
	for _, cut := range []bool{false, true} {
		r := newRig(t, rigOptions{dsync: sim.DSYNCOwnBytes})
		id := r.topic(1, ClassFlushed)
		p := r.part(id, 0)
		w := &idempotent{r: r, id: 7}
		before := []*produced{r.mustTry(p, w.batch(2)), r.mustTry(p, w.batch(1))}
		hold := r.w.Hold(sim.Filter{Ops: sim.Writes | sim.Flushes, Path: "journal-*"})
		b := w.batch(3)
		first, err := r.try(p, b)
		if err != nil {
			t.Fatal(err)
		}
		again, err := r.try(p, b)
		if err != nil {
			t.Fatal(err)
		}
		r.run(50 * time.Millisecond)
		if first.done || again.done {
			t.Fatalf("answered while the flush hangs: first %v, retry %v", first.done, again.done)
		}
		r.mustRepeat(p, before) // what is durable is answered at once
		if cut {
			r.w.Crash(sim.KeepNone)
			hold.Release()
			r.start()
			p = r.part(id, 0)
			r.mustRepeat(p, before)
			first = r.mustTry(p, b)
			if first.Base != 3 {
				t.Fatalf("offset %d, want 3", first.Base)
			}
		} else {
			hold.Release()
			r.until("acks", func() bool { return first.done && again.done })
			if first.Err != nil || again.Err != nil || again.Base != first.Base || again.AppendTime != first.AppendTime || again.Class != ClassFlushed {
				t.Fatalf("first %+v, retry %+v", first.Append, again.Append)
			}
		}
		r.mustHold(p, append(before, first))
		r.mustRepeat(p, []*produced{first})
	}
}

func TestARetryFailsWithTheRoundOfTheFirst(t *testing.T) {
	r := newRig(t, rigOptions{shards: 2})
	id := r.topic(1, ClassFlushed)
	p := r.part(id, 0)
	w := &idempotent{r: r, id: 7}
	durable := r.mustTry(p, w.batch(1))
	hold := r.w.Hold(sim.Filter{Ops: sim.Writes | sim.Flushes, Path: "journal-*"})
	b := w.batch(3)
	first, err := r.try(p, b)
	if err != nil {
		t.Fatal(err)
	}
	again, err := r.try(p, b)
	if err != nil {
		t.Fatal(err)
	}
	r.w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Flushes | sim.Writes, Path: "journal-*"}, Times: sim.Always})
	hold.Release()
	r.until("failures", func() bool { return first.done && again.done })
	if !errors.Is(first.Err, ErrStorage) || !errors.Is(again.Err, ErrStorage) {
		t.Fatalf("first %v, retry %v", first.Err, again.Err)
	}
	if _, err := r.try(p, durable.Batch); !errors.Is(err, ErrStorage) {
		t.Fatalf("a retry on a failed log: %v", err)
	}
}

// A retry under a class that has just become a weaker one waits as the first did: no
// reservation covers the offset yet.
func TestARetryBehindAChangeToAWeakerClassWaits(t *testing.T) {
	r := newRig(t, rigOptions{})
	id := r.topic(1, ClassFlushed)
	p := r.part(id, 0)
	w := &idempotent{r: r, id: 7}
	hold := r.w.Hold(sim.Filter{Ops: sim.Writes | sim.Flushes, Path: "journal-*"})
	b := w.batch(3)
	first, err := r.try(p, b)
	if err != nil {
		t.Fatal(err)
	}
	var c configured
	p.store.Configure(p, r.config(ClassMemory), &c)
	if !c.done || p.Class() != ClassMemory {
		t.Fatal("the change is to be made by now")
	}
	again, err := r.try(p, b)
	if err != nil || again.done {
		t.Fatalf("retry: %v, done %v", err, again.done)
	}
	hold.Release()
	r.until("acks", func() bool { return first.done && again.done })
	if again.Class != ClassFlushed || again.Base != first.Base {
		t.Fatalf("retry: %+v", again.Append)
	}
}

// The same when the new class has its reservation: the first one still waits for the
// flush, and nobody hears of its offset before.
func TestARetryIsNotAnsweredBeforeItCanBeRead(t *testing.T) {
	r := newRig(t, rigOptions{method: journal.MethodWriteFlush})
	id := r.topic(1, ClassWritten)
	p := r.part(id, 0)
	w := &idempotent{r: r, id: 7}
	r.mustTry(p, w.batch(1))
	r.change(p, ClassFlushed)
	// A flush under way would hold back the write of the first one.
	r.until("a journal at rest", func() bool { return !p.store.journal.InFlight() && p.store.journal.Backlog() == 0 })
	written := r.w.Hold(sim.Filter{Ops: sim.Writes, Path: "journal-*"})
	hold := r.w.Hold(sim.Filter{Ops: sim.Flushes, Path: "journal-*"})
	b := w.batch(3)
	first, err := r.try(p, b)
	if err != nil {
		t.Fatal(err)
	}
	var c configured
	p.store.Configure(p, r.config(ClassWritten), &c)
	r.until("a reservation", func() bool { return p.reserve > p.next })
	again, err := r.try(p, b)
	if err != nil {
		t.Fatal(err)
	}
	written.Release()
	r.run(20 * time.Millisecond)
	if p.store.journal.WrittenLSN() < p.newestLSN || first.done {
		t.Fatal("the first one is to be written, and not flushed")
	}
	if again.done {
		t.Fatalf("answered as %v up to %d, durable %d", again.Class, again.Base+2, p.Durable())
	}
	hold.Release()
	r.until("acks", func() bool { return first.done && again.done })
	if again.Err != nil || again.Base != first.Base || p.Durable() != 4 {
		t.Fatalf("first %+v, retry %+v, durable %d", first.Append, again.Append, p.Durable())
	}
}

// What is appended under a weaker class is not acknowledged before what came under the
// stronger one: a producer that loses both sends again what it has heard nothing of, and
// behind that there must be no hole.
func TestAcksDoNotOvertakeAcrossAChangeToAWeakerClass(t *testing.T) {
	for _, to := range []Class{ClassMemory, ClassWritten} {
		r := newRig(t, rigOptions{method: journal.MethodWriteFlush})
		id := r.topic(1, ClassFlushed)
		p := r.part(id, 0)
		w := &idempotent{r: r, id: 7}
		r.mustTry(p, w.batch(1))
		r.until("a journal at rest", func() bool { return !p.store.journal.InFlight() && p.store.journal.Backlog() == 0 })
		hold := r.w.Hold(sim.Filter{Ops: sim.Flushes, Path: "journal-*"})
		first, err := r.try(p, w.batch(3))
		if err != nil {
			t.Fatal(err)
		}
		var c configured
		p.store.Configure(p, r.config(to), &c)
		r.until("a reservation", func() bool { return p.reserve > p.next })
		b := w.batch(2)
		a := &produced{}
		a.Part, a.Owner, a.Batch, a.Header = p, a, bytes.Clone(b), mustCheck(t, b)
		if err := p.store.Append(&a.Append); err != ErrBusy || first.done {
			t.Fatalf("class %v: %v, the first one done: %v", to, err, first.done)
		}
		hold.Release()
		r.until("the first ack", func() bool { return first.done })
		if second := r.mustTry(p, b); first.Class != ClassFlushed || second.Class != to || second.Base != 4 {
			t.Fatalf("class %v: %+v, then %+v", to, first.Append, second.Append)
		}
	}
}

// A retry behind a change to class flushed is not answered before the barrier of the
// change: what it repeats has only been in memory.
func TestARetryBehindAChangeToAStrongerClassIsAsDurable(t *testing.T) {
	for _, class := range []Class{ClassMemory, ClassWritten} {
		r := newRig(t, rigOptions{dsync: sim.DSYNCOwnBytes})
		id := r.topic(1, class)
		r.topics[id].info.Config.FlushInterval = time.Hour
		p := r.part(id, 0)
		w := &idempotent{r: r, id: 7}
		b := w.batch(3)
		first := r.mustTry(p, b)
		hold := r.w.Hold(sim.Filter{Ops: sim.Flushes, Path: "journal-*"})
		cfg := r.config(ClassFlushed)
		r.topics[id].info.Config = cfg
		var c configured
		p.store.Configure(p, cfg, &c)
		r.until("the new class", func() bool { return p.Class() == ClassFlushed })
		again, err := r.try(p, b)
		if err != nil {
			t.Fatal(err)
		}
		r.run(20 * time.Millisecond)
		if again.done {
			t.Fatalf("class %v: answered as %v while the flush hangs", class, again.Class)
		}
		hold.Release()
		r.until("ack", func() bool { return again.done })
		if again.Err != nil || again.Class != ClassFlushed || again.Base != first.Base {
			t.Fatalf("class %v: retry %+v", class, again.Append)
		}
		r.w.Crash(sim.KeepNone)
		r.start()
		p = r.part(id, 0)
		if got := r.readAll(p); !bytes.Equal(got[first.Base], first.Batch) {
			t.Fatalf("class %v: the batch at %d is gone", class, first.Base)
		}
		r.mustRepeat(p, []*produced{first})
	}
}

// What producers have sent is known again after any end: from the journal, from a
// checkpoint, from both, and with another number of shards.
func TestRetriesAreKnownAfterAStart(t *testing.T) {
	ends := map[string]func(r *rig){
		"kill":           func(r *rig) { r.w.Kill() },
		"power cut":      func(r *rig) { r.w.Crash(sim.KeepNone) },
		"orderly end":    func(r *rig) { r.close(); r.w.Kill() },
		"three, then 1":  func(r *rig) { r.opts.shards = 3; r.w.Kill(); r.start(); r.opts.shards = 1; r.w.Crash(sim.KeepRandom) },
		"one, then two":  func(r *rig) { r.w.Crash(sim.KeepPrefix); r.opts.shards = 2 },
		"start, and cut": func(r *rig) { r.w.Kill(); r.start(); r.w.Crash(sim.KeepNone) },
	}
	for name, end := range ends {
		for _, checkpoint := range []int{0, 4, 9} {
			t.Run(name, func(t *testing.T) {
				r := newRig(t, rigOptions{})
				x := &retrying{r: r, id: r.topic(1, ClassFlushed), sent: map[*idempotent][]*produced{}}
				for round := range 9 {
					x.produce(1 + round%3)
					if round+1 == checkpoint {
						r.checkpointAll()
					}
				}
				for range 2 {
					end(r)
					r.start()
					x.repeat()
					x.produce(2)
				}
			})
		}
	}
}

// retrying is two producers in each of three partitions, and what they have sent.
type retrying struct {
	r       *rig
	id      TopicID
	writers [3][2]*idempotent
	sent    map[*idempotent][]*produced
}

// produce has each producer send a batch of n records.
func (x *retrying) produce(n int) {
	for part := range x.writers {
		for i, w := range x.writers[part] {
			if w == nil {
				w = &idempotent{r: x.r, id: int64(10*part + i), next: int32(i * 1000)}
				x.writers[part][i] = w
			}
			x.sent[w] = append(x.sent[w], x.r.mustTry(x.r.part(x.id, part), w.batch(n)))
		}
	}
}

// repeat has each producer send its newest five batches again.
func (x *retrying) repeat() {
	for part := range x.writers {
		for _, w := range x.writers[part] {
			all := x.sent[w]
			x.r.mustRepeat(x.r.part(x.id, part), all[len(all)-5:])
		}
	}
}

// A checkpoint that is written while producers go on speaks of no batch behind its end:
// after a power cut that takes those the retries are written.
func TestACheckpointKnowsOfNothingThatMayBeLost(t *testing.T) {
	r := newRig(t, rigOptions{})
	id := r.topic(1, ClassFlushed)
	p := r.part(id, 0)
	w := &idempotent{r: r, id: 7}
	kept := []*produced{r.mustTry(p, w.batch(1)), r.mustTry(p, w.batch(1))}
	r.checkpointAll()
	hold := r.w.Hold(sim.Filter{Ops: sim.Writes | sim.Flushes, Path: "journal-*"})
	var lost [][]byte
	for range 3 {
		b := w.batch(2)
		lost = append(lost, b)
		if _, err := r.try(p, b); err != nil {
			t.Fatal(err)
		}
	}
	c := &p.store.checkpoint
	before := p.store.Stats().Checkpoints
	c.reserve = true // one that has nothing flushed
	r.until("a checkpoint", func() bool { return p.store.Stats().Checkpoints > before })
	r.w.Crash(sim.KeepNone)
	hold.Release()
	r.start()
	if r.reported("cannot be used") {
		t.Fatalf("reported: %q", r.log)
	}
	p = r.part(id, 0)
	r.mustRepeat(p, kept)
	for _, b := range lost {
		kept = append(kept, r.mustTry(p, b))
	}
	r.mustRepeat(p, kept)
	if p.End() != 8 {
		t.Fatalf("log end %d, want 8", p.End())
	}
}

// Batches of class memory that were acknowledged and lost do not hold up their producer,
// which goes on behind them; it can still repeat what has survived.
func TestAProducerGoesOnBehindALoss(t *testing.T) {
	r := newRig(t, rigOptions{})
	id := r.topic(1, ClassMemory)
	p := r.part(id, 0)
	w := &idempotent{r: r, id: 7}
	kept := []*produced{r.mustTry(p, w.batch(1)), r.mustTry(p, w.batch(2))}
	r.run(time.Second)
	r.checkpointAll()
	hold := r.w.Hold(sim.Filter{Ops: sim.Writes, Path: "journal-*"})
	for range 3 {
		r.mustTry(p, w.batch(2)) // in memory alone
	}
	r.w.Crash(sim.KeepNone)
	hold.Release()
	r.start()
	p = r.part(id, 0)
	r.mustRepeat(p, kept)
	next := w.batch(1)
	a := r.mustTry(p, next)
	if _, err := r.try(p, (&idempotent{r: r, id: 7, next: w.next + 1}).batch(1)); !errors.Is(err, ErrOutOfOrder) {
		t.Fatalf("the loss excuses one jump: %v", err)
	}
	r.mustRepeat(p, append(kept, a))
}

func TestADeletedTopicTakesItsProducersAlong(t *testing.T) {
	r := newRig(t, rigOptions{})
	id := r.topic(1, ClassFlushed)
	p := r.part(id, 0)
	w := &idempotent{r: r, id: 7}
	r.mustTry(p, w.batch(1))
	b := w.batch(2)
	r.mustTry(p, b)
	r.topics[id].deleted = true
	var d dropped
	p.store.Drop(p, &d)
	r.until("drop", func() bool { return d.done })
	if n := p.store.producers.Len(); n != 0 {
		t.Fatalf("%d producers of a deleted topic", n)
	}
	again := r.topic(2, ClassFlushed)
	if a := r.mustTry(r.part(again, 0), b); a.Base != 0 {
		t.Fatalf("offset %d in a new topic", a.Base)
	}
	r.w.Crash(sim.KeepNone)
	r.start()
	if n := r.shards[0].store.producers.Len(); n != 1 {
		t.Fatalf("%d producers after a start, want 1", n)
	}
}

func TestNothingIsAllocatedForABatchOfAnIdempotentProducer(t *testing.T) {
	d := &instant{queue: make([]*aio.Op, 0, 64)}
	r := newRig(t, rigOptions{journal: 128 << 20, chunks: 64 << 20, wrap: func(under aio.Driver) aio.Driver {
		d.Driver = under
		return d
	}})
	s, l := r.shards[0].store, r.shards[0].loop
	p := r.part(r.topic(1, ClassFlushed), 0)
	w := &idempotent{r: r, id: 7}
	r.mustTry(p, w.batch(4))
	r.run(5 * time.Millisecond)
	d.on = true
	acks := 0
	a := &quietAppend{acks: &acks}
	a.Part, a.Owner, a.Batch = p, a, w.batch(4)
	a.Header = mustCheck(t, a.Batch)
	one := func() {
		for range 2 { // a retry comes before the first one is acknowledged
			if err := s.Append(&a.Append); err != nil {
				t.Fatal(err)
			}
		}
		for turns, before := 0, acks; acks < before+2; turns++ {
			if _, err := l.Turn(); err != nil || turns > 1000 {
				t.Fatalf("no acknowledgement after %d turns: %v", turns, err)
			}
		}
		if err := s.Append(&a.Append); err != nil { // and again
			t.Fatal(err)
		}
		a.Header.BaseSequence += 4
	}
	for range 2000 {
		one()
	}
	if n := testing.AllocsPerRun(2000, one); n != 0 {
		t.Fatalf("%v allocations for a batch and two retries", n)
	}
	if st := s.Stats(); st.Duplicates != 2*4001 {
		t.Fatalf("%d retries were known, want %d", st.Duplicates, 2*4001)
	}
}
