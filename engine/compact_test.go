package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/engine/segment"
)

// keyed is a partition of a compacted topic and the records that it was sent.
type keyed struct {
	*rig
	id   TopicID
	rng  *rand.Rand
	sent []sentRecord // by offset
	dec  batch.Decoder
}

type sentRecord struct{ key, value string }

// noKey and deleted stand for a record without a key, and one without a value.
const noKey, deleted = "-", ""

func newKeyed(t *testing.T, o rigOptions, c layout.Compaction) *keyed {
	t.Helper()
	if o.segment == 0 {
		o.segment = segment.MinSegmentBytes
	}
	k := &keyed{rig: newRig(t, o), rng: rand.New(rand.NewPCG(o.seed, 5))}
	k.id = k.topic(1, ClassFlushed)
	k.configure(c)
	return k
}

func (k *keyed) configure(c layout.Compaction) {
	c.On = true
	k.topics[k.id].info.Config.Compaction = c
	k.part(k.id, 0).cfg.Compaction = c
}

// restart ends the stores in order, and starts them again.
func (k *keyed) restart() {
	k.t.Helper()
	k.close()
	k.w.Kill()
	k.start()
}

func (k *keyed) p() *Partition { return k.part(k.id, 0) }

// put appends one batch of records of the given codec.
func (k *keyed) put(codec batch.Codec, records ...sentRecord) {
	k.t.Helper()
	k.putBatch(k.build(codec, records))
	k.sent = append(k.sent, records...)
}

func (k *keyed) build(codec batch.Codec, records []sentRecord) []byte {
	b := batch.NewBuilder(nil, 1<<20)
	for i, s := range records {
		r := batch.Record{Timestamp: int64(1000 + len(k.sent) + i), Headers: []batch.RecordHeader{{Key: "n", Value: []byte{byte(i)}}}}
		if s.key != noKey {
			r.Key = []byte(s.key)
		}
		if s.value != deleted {
			r.Value = []byte(s.value)
		}
		if err := b.Append(&r); err != nil {
			k.t.Fatal(err)
		}
	}
	return b.Finish(codec)
}

func (k *keyed) putBatch(b []byte) *produced {
	k.t.Helper()
	p := k.p()
	a := &produced{}
	a.Part, a.Batch, a.Owner, a.Header = p, b, a, mustCheck(k.t, b)
	k.until("append", func() bool {
		err := p.store.Append(&a.Append)
		if err != nil && err != ErrBusy {
			k.t.Fatal(err)
		}
		return err == nil
	})
	k.until("ack", func() bool { return a.done })
	if a.Err != nil {
		k.t.Fatal(a.Err)
	}
	return a
}

// fill appends random records until there are so many segments.
func (k *keyed) fill(segments, keys int) {
	k.t.Helper()
	for len(k.p().bases) < segments {
		var records []sentRecord
		for range 1 + k.rng.IntN(20) {
			s := sentRecord{fmt.Sprint("key-", k.rng.IntN(keys)), fmt.Sprint("v", len(k.sent)+len(records), strings.Repeat("x", k.rng.IntN(300)))}
			switch k.rng.IntN(12) {
			case 0:
				s.value = deleted
			case 1:
				s.key = noKey
			}
			records = append(records, s)
		}
		k.put(batch.Codec(k.rng.IntN(int(batch.CodecZstd)+1)), records...)
	}
}

// compact has a pass made through everything that can be compacted.
func (k *keyed) compact() {
	k.t.Helper()
	k.checkpointAll()
	k.checkpointAll()
	k.pass()
}

// pass waits for the end of a pass.
func (k *keyed) pass() {
	k.t.Helper()
	c := k.p().store.cleaner
	from := c.Passes()
	k.until("a pass", func() bool {
		k.hurry()
		return c.Passes() > from
	})
	k.until("indexes", func() bool { return k.p().store.indexes.Sealing() == 0 })
}

// hurry has the cleaner do at once what it does later.
func (k *keyed) hurry() {
	if s := k.p().store; s.cleaner.Resting() {
		s.cleaner.Fire(nil, s.loop.Now())
	}
}

// held is what can be read of the partition, by offset. The batches leave no hole.
func (k *keyed) held() map[int64]batch.RecordView {
	k.t.Helper()
	p := k.p()
	got := map[int64]batch.RecordView{}
	for at := p.LogStart(); at < p.Durable(); {
		f := k.read(p, at, 1<<14)
		if f.Err != nil {
			k.t.Fatalf("read at %d: %v", at, f.Err)
		}
		batches := map[int64][]byte{}
		k.split(f, batches)
		for at < f.Next {
			b := batches[at]
			if b == nil {
				k.t.Fatalf("no batch begins at %d", at)
			}
			h, it, err := k.dec.Open(b)
			if err != nil {
				k.t.Fatalf("batch at %d: %v", at, err)
			}
			for it.Next() {
				r := it.Record()
				r.Key, r.Value = append([]byte(nil), r.Key...), append([]byte(nil), r.Value...)
				got[r.Offset] = r
			}
			if it.Err() != nil {
				k.t.Fatalf("batch at %d: %v", at, it.Err())
			}
			at = h.NextOffset()
		}
		p.store.Release(&f.Read)
	}
	return got
}

// expected says which records have to be there when everything below clean has been
// compacted, tombstones too unless gone is set.
func (k *keyed) expected(clean int64, gone bool) map[int64]bool {
	newest := map[string]int64{}
	for i, s := range k.sent {
		if int64(i) < clean && s.key != noKey {
			newest[s.key] = int64(i)
		}
	}
	want := map[int64]bool{}
	for i, s := range k.sent {
		at := int64(i)
		if at >= clean || s.key == noKey || newest[s.key] == at && !(gone && s.value == deleted) {
			want[at] = true
		}
	}
	return want
}

// mustHold compares what can be read with what has to be there.
func (k *keyed) mustHold(want map[int64]bool) {
	k.t.Helper()
	got := k.held()
	for i := range k.sent {
		r, ok := got[int64(i)]
		if ok != want[int64(i)] {
			k.t.Fatalf("offset %d (%q): there %v, expected %v", i, k.sent[i].key, ok, want[int64(i)])
		}
		if ok {
			k.mustBe(int64(i), &r)
		}
	}
	if len(got) > len(k.sent) {
		k.t.Fatalf("%d records, %d were sent", len(got), len(k.sent))
	}
}

// mustBe holds a record against what was sent.
func (k *keyed) mustBe(at int64, r *batch.RecordView) {
	k.t.Helper()
	s := k.sent[at]
	key := s.key
	if key == noKey {
		key = ""
	}
	if string(r.Key) != key || string(r.Value) != s.value || r.Timestamp != 1000+at || r.HeaderCount() != 1 {
		k.t.Fatalf("offset %d: key %q, %d bytes, time %d, %d headers; sent %q, %d bytes", at, r.Key, len(r.Value), r.Timestamp, r.HeaderCount(), s.key, len(s.value))
	}
}

// mustBeSound has every complete segment verified as the scrubber would.
func (k *keyed) mustBeSound() {
	k.t.Helper()
	for _, seg := range k.p().bases {
		if !seg.sealed {
			continue
		}
		j := segment.VerifyJob{Log: seg.Log()}
		if err := j.Run(k.w.FS()); err != nil || len(j.Damage) > 0 || j.IndexFault != nil || j.Index == nil {
			k.t.Fatalf("segment %d: %v, damage %+v, index %v", seg.base, err, j.Damage, j.IndexFault)
		}
	}
}

// clean is how far the partition can have been compacted.
func (k *keyed) clean() int64 {
	s := k.p().store
	clean := int64(0)
	for seg := k.p().first; seg != nil && s.mayCompact(k.p(), seg); seg = seg.next {
		clean = seg.next.base
	}
	return clean
}

func TestTheNewestRecordOfEachKeyStays(t *testing.T) {
	for seed := uint64(1); seed <= 6; seed++ {
		k := newKeyed(t, rigOptions{seed: seed}, layout.Compaction{Tombstones: time.Hour})
		for round := range 3 {
			k.fill(4+3*round, 40)
			k.compact()
			k.mustHold(k.expected(k.clean(), false))
			k.mustBeSound()
		}
		before, clean := k.p().Bytes(), k.clean()
		if k.p().store.Stats().CompactedBytes == 0 {
			t.Fatal("nothing has gone")
		}
		// The same after a start, which compacts everything again and finds nothing to do.
		k.restart()
		k.mustHold(k.expected(clean, false))
		k.fill(len(k.p().bases)+1, 1)
		k.restart()
		if len(k.log) > 0 {
			t.Fatalf("reported: %v", k.log)
		}
		k.compact()
		k.mustHold(k.expected(k.clean(), false))
		if k.p().Bytes() > before+3*segment.MinSegmentBytes {
			t.Fatalf("%d bytes, were %d", k.p().Bytes(), before)
		}
		k.w.Kill()
	}
}

// A tombstone stays as long as the topic says after what it deletes has gone, and then goes.
func TestTombstonesGoWhenTheirTimeHasCome(t *testing.T) {
	k := newKeyed(t, rigOptions{seed: 9}, layout.Compaction{Tombstones: 20 * time.Second})
	k.fill(6, 30)
	k.compact()
	clean := k.clean()
	k.mustHold(k.expected(clean, false))
	k.run(15 * time.Second)
	k.mustHold(k.expected(clean, false))
	k.run(12 * time.Second) // the cleaner comes by itself
	k.until("indexes", func() bool { return k.p().store.indexes.Sealing() == 0 })
	k.mustHold(k.expected(clean, true))
	k.mustBeSound()
}

// The machine stops before each step of a compaction, with any part of what is not durable.
// Each segment is what it was or what it becomes, whole, and the compaction can be done again.
func TestACrashAtEveryStepOfACompaction(t *testing.T) {
	k := newKeyed(t, rigOptions{seed: 7}, layout.Compaction{Tombstones: time.Hour})
	k.fill(4, 10)
	k.checkpointAll()
	k.checkpointAll()
	least := k.expected(k.clean(), false)
	rng, steps := rand.New(rand.NewPCG(1, 2)), 0
	seen := map[uint64]bool{}
	k.w.Watch(func(m *sim.Moment) {
		steps++
		for _, images := range []*sim.Images{m.PowerCuts(), m.Kills()} {
			for n := range 4 {
				image := images.Image(func(int) bool { return n == 0 || n > 1 && rng.IntN(2) == 0 })
				if sum := image.Sum(); !seen[sum] {
					seen[sum] = true
					k.mustGoOn(image, least)
				}
			}
		}
	})
	k.pass()
	k.w.Watch(nil)
	k.mustHold(least)
	if steps < 20 || len(seen) < 20 {
		t.Fatalf("%d steps, %d images", steps, len(seen))
	}
}

// mustGoOn starts on an image of a machine on which a compaction was under way.
func (k *keyed) mustGoOn(image *sim.Image, least map[int64]bool) {
	k.t.Helper()
	r := &rig{t: k.t, opts: k.opts, topics: k.topics, w: image.World(sim.Options{Seed: 3})}
	r.pause = r.w.ClientDriver(pauseOptions)
	next := &keyed{rig: r, id: k.id, rng: k.rng, sent: k.sent}
	next.start()
	got := next.held()
	for at := range least {
		if _, ok := got[at]; !ok {
			k.t.Fatalf("offset %d is lost", at)
		}
	}
	for at, rec := range got {
		next.mustBe(at, &rec)
	}
	next.mustHoldOnly(next.p())
	next.compact()
	next.mustHold(next.expected(next.clean(), false))
	next.mustBeSound()
	if said := strings.Join(next.log, "\n"); strings.Contains(said, "LOSS") || strings.Contains(said, "DAMAGED") || strings.Contains(said, "not compacted") {
		k.t.Fatalf("reported: %s", said)
	}
	next.w.Kill()
}

// Nobody who reads while segments are replaced gets anything but what there was or what there
// is, and slow readers do not hold up the others.
func TestReadersAreNotDisturbedByACompaction(t *testing.T) {
	for _, cold := range []bool{false, true} {
		t.Run(fmt.Sprintf("cold %v", cold), func(t *testing.T) {
			k := newKeyed(t, rigOptions{seed: 11}, layout.Compaction{Tombstones: time.Hour})
			k.fill(8, 20)
			if cold {
				k.restart()
			}
			k.checkpointAll()
			k.checkpointAll()
			p := k.p()
			held := k.read(p, 0, 1<<12) // an answer that is not released
			if held.Err != nil || held.N == 0 {
				t.Fatalf("%v, %d pieces", held.Err, held.N)
			}
			first := map[int64][]byte{}
			k.split(held, first)
			readers := make([]*reader, 6)
			begin := func(f *reader, at int64) {
				*f = reader{}
				f.Part, f.Offset, f.MaxBytes, f.Owner = p, at, 1<<13, f
				p.store.Read(&f.Read)
			}
			for i := range readers {
				readers[i] = &reader{}
				begin(readers[i], k.rng.Int64N(p.Durable()))
			}
			c, answers := p.store.cleaner, 0
			for from := c.Passes(); c.Passes() == from; {
				if answers > 1_000_000 {
					t.Fatal("the compaction does not end")
				}
				k.hurry()
				k.turn()
				for _, f := range readers {
					if !f.done {
						continue
					}
					if f.Err != nil {
						t.Fatalf("read at %d: %v", f.Offset, f.Err)
					}
					answers++
					k.mustBeOfWhatWasSent(f)
					p.store.Release(&f.Read)
					begin(f, k.rng.Int64N(p.Durable()))
				}
				if !cold && answers > 2000 && held.N > 0 { // its memory cannot go before
					again := map[int64][]byte{}
					k.split(held, again)
					if fmt.Sprint(again) != fmt.Sprint(first) {
						t.Fatal("the answer has changed under its reader")
					}
					p.store.Release(&held.Read)
				}
			}
			if answers < 100 || p.store.Stats().CompactedSegments == 0 {
				t.Fatalf("%d answers, %d segments", answers, p.store.Stats().CompactedSegments)
			}
			p.store.Release(&held.Read)
			k.finish(readers)
			k.until("indexes", func() bool { return p.store.indexes.Sealing() == 0 })
			k.mustHold(k.expected(k.clean(), false))
		})
	}
}

// finish waits for readers. Those who have their answers keep others from reading files.
func (k *keyed) finish(readers []*reader) {
	k.until("the readers", func() bool {
		readers = slices.DeleteFunc(readers, func(f *reader) bool {
			if f.done {
				k.p().store.Release(&f.Read)
			}
			return f.done
		})
		return len(readers) == 0
	})
}

// mustBeOfWhatWasSent checks the records of an answer, and that it leaves no hole.
func (k *keyed) mustBeOfWhatWasSent(f *reader) {
	k.t.Helper()
	batches := map[int64][]byte{}
	k.split(f, batches)
	covered := false
	for _, b := range batches {
		h, it, err := k.dec.Open(b)
		if err != nil {
			k.t.Fatal(err)
		}
		covered = covered || h.BaseOffset <= f.Offset && f.Offset <= h.LastOffset()
		for it.Next() {
			r := it.Record()
			k.mustBe(r.Offset, &r)
		}
		if it.Err() != nil {
			k.t.Fatal(it.Err())
		}
	}
	if !covered {
		k.t.Fatalf("an answer for %d of %d batches does not have it", f.Offset, len(batches))
	}
}

// A key map that holds a part of the keys makes for several passes, and the same log.
func TestFewKeysAtATimeLeadToTheSame(t *testing.T) {
	k := newKeyed(t, rigOptions{seed: 12, keys: 4 << 10}, layout.Compaction{Tombstones: time.Hour})
	k.fill(10, 1000)
	k.compact()
	clean := k.clean()
	k.until("all of it", func() bool {
		k.hurry()
		return k.p().store.cleaner.Clean(k.p().key) == clean
	})
	if passes := k.p().store.cleaner.Passes(); passes < 3 {
		t.Fatalf("%d passes", passes)
	}
	k.mustHold(k.expected(clean, false))
	k.mustBeSound()
}

// An idempotent producer that repeats a batch gets the offset that it had, also when all of
// its records have gone meanwhile, and after a start.
func TestARetryIsKnownAfterItsRecordsHaveGone(t *testing.T) {
	k := newKeyed(t, rigOptions{seed: 13}, layout.Compaction{Tombstones: time.Hour})
	b := batch.NewBuilder(nil, 1<<20)
	b.SetProducer(4, 1, 0)
	if err := b.Append(&batch.Record{Timestamp: 1000, Key: []byte("a"), Value: []byte("1"), Headers: []batch.RecordHeader{{Key: "n"}}}); err != nil {
		t.Fatal(err)
	}
	made := b.Finish(batch.CodecNone)
	first := k.putBatch(append([]byte(nil), made...))
	k.sent = append(k.sent, sentRecord{"a", "1"})
	k.put(batch.CodecNone, sentRecord{"a", "2"})
	k.fill(4, 10)
	k.compact()
	if _, there := k.held()[first.Base]; there {
		t.Fatal("the record has not gone")
	}
	for range 2 {
		again := k.putBatch(append([]byte(nil), made...))
		if again.Base != first.Base || k.p().End() != int64(len(k.sent)) {
			t.Fatalf("offset %d, was %d; the log ends at %d of %d", again.Base, first.Base, k.p().End(), len(k.sent))
		}
		k.restart()
	}
}

// What expands to too much stays as it is, with what it may supersede; no tombstone behind it
// goes.
func TestABombStaysAsItIs(t *testing.T) {
	k := newKeyed(t, rigOptions{seed: 14, maxBatch: 1 << 18}, layout.Compaction{})
	k.put(batch.CodecNone, sentRecord{"a", "1"}, sentRecord{"b", "1"})
	k.put(batch.CodecGzip, sentRecord{"a", strings.Repeat("0", 100<<10)}, sentRecord{"b", "2"})
	p := k.p()
	bomb := bombOf(t)
	at := k.putBatch(bomb).Base
	for len(k.sent) < int(p.End()) {
		k.sent = append(k.sent, sentRecord{noKey, "bomb"})
	}
	k.put(batch.CodecZstd, sentRecord{"b", deleted})
	for n := 0; len(p.bases) < 3; n++ {
		k.put(batch.CodecNone, sentRecord{noKey, strings.Repeat("x", 1000)})
	}
	k.compact()
	k.run(20 * time.Second) // in which a tombstone whose time has come would go
	got := k.readAll(p)
	if b := got[at]; string(b[batch.AtAttributes:]) != string(bomb[batch.AtAttributes:]) {
		t.Fatal("the bomb has changed")
	}
	var dec batch.Decoder
	left := map[int64]bool{}
	for base, b := range got {
		if base == at {
			continue
		}
		_, it, err := dec.Open(b)
		if err != nil {
			t.Fatal(err)
		}
		for it.Next() {
			left[it.Record().Offset] = true
		}
	}
	tombstone := int64(len(k.sent)) - 1
	for k.sent[tombstone].key != "b" {
		tombstone--
	}
	if left[0] || left[1] || !left[2] || left[3] || !left[tombstone] {
		t.Fatalf("left at the start: %v %v %v %v, the tombstone: %v", left[0], left[1], left[2], left[3], left[tombstone])
	}
}

// bombOf is a batch of few bytes that expands to more than compaction reads.
func bombOf(t *testing.T) []byte {
	t.Helper()
	b := batch.NewBuilder(nil, batch.MaxSize)
	if err := b.Append(&batch.Record{Key: []byte("b"), Value: make([]byte, 80<<20)}); err != nil {
		t.Fatal(err)
	}
	return b.Finish(batch.CodecZstd)
}

// A damaged segment stays what it is, and so does what it may hide: the rest is compacted.
func TestADamagedSegmentIsLeftAlone(t *testing.T) {
	k := newKeyed(t, rigOptions{seed: 15}, layout.Compaction{})
	k.fill(6, 20)
	k.checkpointAll()
	k.checkpointAll()
	p := k.p()
	seg := p.bases[1]
	if err := k.w.Corrupt(seg.Path(), seg.Size/2, 4); err != nil {
		t.Fatal(err)
	}
	size := seg.Size
	k.pass()
	k.run(20 * time.Second) // in which another may be made
	if seg.Size != size || seg.rewrites > 0 || p.bases[0].rewrites == 0 || p.bases[2].rewrites == 0 {
		t.Fatalf("rewritten: %d, %d, %d times", p.bases[0].rewrites, seg.rewrites, p.bases[2].rewrites)
	}
	found := 0
	for at := int64(0); at < p.Durable(); {
		f := k.read(p, at, 1<<14)
		if f.Err != nil {
			found++
		} else {
			k.mustBeOfWhatWasSent(f)
		}
		at = f.Next
		p.store.Release(&f.Read)
	}
	if found != 1 {
		t.Fatalf("%d places are damaged", found)
	}
}

// A segment that could not be read once keeps what a tombstone behind it deletes. However well
// it can be read later, the tombstone stays: what is deleted does not come back.
func TestATombstoneStaysForWhatCouldNotBeReadOnce(t *testing.T) {
	for _, c := range []struct {
		name  string
		value bool // it is the segment of the value that cannot be read, not the tombstone's
		skip  int  // readings that succeed before
	}{
		{"the tombstone while keys are noted", false, 0},
		{"the value while keys are noted", true, 0},
		{"the value while its segment is rewritten", true, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newKeyed(t, rigOptions{seed: 18}, layout.Compaction{})
			k.put(batch.CodecNone, sentRecord{"once", "value"})
			k.fill(3, 20)
			deletion := int64(len(k.sent))
			k.put(batch.CodecNone, sentRecord{"once", deleted})
			k.fill(6, 20)
			k.checkpointAll()
			k.checkpointAll()
			seg := k.p().segmentOf(deletion)
			if c.value {
				seg = k.p().first
			}
			k.w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Reads, Path: seg.Path()}, Skip: c.skip})
			k.pass()
			k.run(10 * time.Second)
			for segments := 9; segments < 18; segments += 3 {
				k.fill(segments, 20)
				k.compact()
				got := k.held()
				_, value := got[0]
				if r, ok := got[deletion]; value && !ok {
					t.Fatalf("what is deleted is there again: %q", got[0].Value)
				} else if ok {
					k.mustBe(deletion, &r)
				}
			}
			k.restart()
			k.compact()
			if _, ok := k.held()[0]; ok {
				t.Fatal("a later life has not deleted it")
			}
		})
	}
}

// A disk that is full, or fails to write, costs a compaction and nothing else. A flush that
// fails ends the log, as any does.
func TestFailuresOfTheDiskCostACompaction(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault sim.Fault
		ends  bool
	}{
		{"no space", sim.Fault{Filter: sim.Filter{Ops: sim.Writes, Path: "*.log.tmp"}, Times: 1, Err: syscall.ENOSPC}, false},
		{"a write fails", sim.Fault{Filter: sim.Filter{Ops: sim.Writes, Path: "*.log.tmp"}, Times: 1, Err: syscall.EIO}, false},
		{"a rename fails", sim.Fault{Filter: sim.Filter{Ops: sim.Renames, Path: "*.log.tmp"}, Times: 1, Err: syscall.EIO}, false},
		{"the log's flush fails", sim.Fault{Filter: sim.Filter{Ops: sim.Flushes, Path: "*.log.tmp"}, Times: 1, Err: syscall.EIO}, true},
		{"the directory's flush fails", sim.Fault{Filter: sim.Filter{Ops: sim.DirSyncs}, Times: 1, Err: syscall.EIO}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newKeyed(t, rigOptions{seed: 16}, layout.Compaction{Tombstones: time.Hour})
			k.sealsMayFail = true
			k.fill(4, 20)
			k.checkpointAll()
			k.checkpointAll()
			least := k.expected(k.clean(), false)
			k.w.Inject(c.fault)
			s := k.p().store
			k.until("a failure", func() bool {
				k.hurry()
				return s.Stats().CompactionErrors > 0
			})
			if (s.Failed() != nil) != c.ends {
				t.Fatalf("the log has failed: %v", s.Failed())
			}
			got := k.held()
			for at := range least {
				if r, ok := got[at]; !ok {
					t.Fatalf("offset %d is lost", at)
				} else {
					k.mustBe(at, &r)
				}
			}
			k.w.Crash(sim.KeepNone)
			k.start()
			k.compact()
			k.mustHold(k.expected(k.clean(), false))
			k.mustBeSound()
		})
	}
}

// Retention goes on beside compaction, and so does the deletion of a partition.
func TestSegmentsAreTrimmedAndDroppedWhileTheyAreCompacted(t *testing.T) {
	for step := range 14 {
		k := newKeyed(t, rigOptions{seed: 17}, layout.Compaction{Tombstones: time.Hour})
		k.fill(6, 20)
		k.checkpointAll()
		k.checkpointAll()
		p := k.p()
		for range step * 35 {
			k.hurry()
			k.turn()
		}
		if step%2 == 0 {
			start := p.bases[2].base
			k.trim(p, start)
			k.run(10 * time.Second)
			k.mustHoldOnly(p)
			for at, r := range k.held() {
				if at >= start {
					k.mustBe(at, &r)
				}
			}
		} else {
			gone := &droppedPartition{}
			p.store.Drop(p, gone)
			k.until("the drop", func() bool { return gone.done })
			k.run(10 * time.Second)
		}
		k.close()
		k.w.Kill()
	}
}

type droppedPartition struct{ done bool }

func (d *droppedPartition) Dropped(Key) { d.done = true }

// The scrubber takes nothing for damage that compaction has done under it.
func TestTheScrubberUnderstandsCompaction(t *testing.T) {
	for seed := uint64(20); seed < 28; seed++ {
		k := newKeyed(t, rigOptions{seed: seed}, layout.Compaction{})
		s, told := k.scrubber(1 << 30)
		k.fill(5, 20)
		for range 4 { // with tombstones that go, so that segments are replaced again and again
			k.fill(len(k.p().bases)+1, 20)
			k.checkpointAll()
			k.checkpointAll()
			k.pass()
		}
		from := told.passes
		k.until("a pass of the scrubber", func() bool { return told.passes > from+1 })
		if len(told.found) > 0 || len(told.failed) > 0 || s.Stats().Segments.Load() == 0 {
			t.Fatalf("found %+v, failed %v", told.found, told.failed)
		}
		s.Stop()
		k.w.Kill()
	}
}

// What is removed while keys are noted is not missed: the next pass does without it.
func TestARemovalWhileKeysAreNotedIsNoFailure(t *testing.T) {
	k := newKeyed(t, rigOptions{seed: 12}, layout.Compaction{Tombstones: time.Hour})
	k.fill(6, 30)
	k.checkpointAll()
	k.checkpointAll()
	opens := k.w.Hold(sim.Filter{Ops: sim.Opens, Path: "*.log"})
	k.hurry()
	k.until("the first segment is wanted", func() bool { return opens.Count() > 0 })
	start := k.p().bases[2].base
	k.trim(k.p(), start)
	k.until("removal", func() bool { return len(k.names(k.p().dir)) <= 2*len(k.p().bases) })
	opens.Release()
	k.pass()
	if len(k.log) > 0 || k.p().store.cleaner.Stats().Errors > 0 {
		t.Fatalf("reported: %v", k.log)
	}
	want := k.expected(k.clean(), false)
	for at := range start {
		delete(want, at)
	}
	k.mustHold(want)
}
