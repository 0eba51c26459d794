package engine

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/journal"
	"github.com/mqd-broker/mqd/engine/layout"
)

// roundsOf lists the rounds of the first shard's journal that hold batches of p, by
// the base offset of the batch.
func (r *rig) roundsOf(key Key) map[int64]journal.Header {
	r.t.Helper()
	d := r.w.Driver(aio.Options{ArenaBytes: 4 << 20, RecvBuffers: 2})
	region, err := journal.OpenFileRegionReadOnly(d, layout.JournalPath(rigDir, 0))
	if err != nil {
		r.t.Fatal(err)
	}
	rounds := map[int64]journal.Header{}
	_, err = journal.Scan(d, region, func(h *journal.Header, e *journal.Entry, _ []byte) error {
		if e.Kind == journal.KindBatch && (Key{Topic: e.Topic, Partition: e.Partition}) == key {
			rounds[e.BaseOffset] = *h
		}
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		r.t.Fatal(err)
	}
	return rounds
}

// spoilRound damages the header, or the bodies, of a round.
func (r *rig) spoilRound(h journal.Header, at int64) {
	r.t.Helper()
	if err := r.w.Corrupt(layout.JournalPath(rigDir, 0), h.Pos+at, 0x55); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) reported(text string) bool { return strings.Contains(strings.Join(r.log, "\n"), text) }

// A round that cannot be read costs what it held and nothing else.
func TestADamagedRoundCostsOnlyWhatItHeld(t *testing.T) {
	r := newRig(t, rigOptions{})
	id := r.topic(1, ClassFlushed)
	hurt, whole := r.part(id, 0), r.part(id, 1)
	var a, b []*produced
	for range 10 {
		a = append(a, r.sendWait(hurt, 2, 300))
		b = append(b, r.sendWait(whole, 3, 300))
	}
	r.run(5 * time.Millisecond)
	r.w.Crash(sim.KeepNone)
	r.spoilRound(r.roundsOf(hurt.key)[a[4].Base], 20)
	r.start()
	if !r.reported("LOSS DETECTED") || r.rec.Stats.Damaged != 1 {
		t.Fatalf("reported %q, %+v", r.log, r.rec.Stats)
	}
	r.mustHold(r.part(id, 1), b)
	got := map[int64]bool{}
	p := r.part(id, 0)
	for at := int64(0); at < a[9].Base; {
		f := r.read(p, at, 1<<16)
		if f.Err != nil {
			t.Logf("fetch at %d: %v, next %d", at, f.Err, f.Next)
			if at != a[4].Base || f.Next != a[5].Base {
				t.Fatalf("an error at %d, next %d; expected one at %d, next %d", at, f.Next, a[4].Base, a[5].Base)
			}
			got[at] = true
		}
		if f.Next <= at {
			t.Fatalf("fetch at %d: next %d", at, f.Next)
		}
		at = f.Next
		p.store.Release(&f.Read)
	}
	if !got[a[4].Base] {
		t.Fatal("the hole was passed over without a word")
	}
}

// Of a partition's newest batch nobody can say whether consumers have seen it: its
// offsets are not given out again, whether the round or only the body is damaged.
func TestOffsetsOfALostNewestBatchAreNotGivenOutAgain(t *testing.T) {
	for _, test := range []struct {
		name string
		at   int64
	}{{"round", 20}, {"body", 400}} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, rigOptions{})
			id := r.topic(1, ClassFlushed)
			hurt, other := r.part(id, 0), r.part(id, 1)
			first := r.sendWait(hurt, 2, 300)
			lost := r.sendWait(hurt, 2, 300)
			later := r.sendWait(other, 2, 300)
			r.run(5 * time.Millisecond)
			r.w.Crash(sim.KeepNone)
			r.spoilRound(r.roundsOf(hurt.key)[lost.Base], test.at)
			r.start()
			if !r.reported("LOSS DETECTED") {
				t.Fatalf("reported %q", r.log)
			}
			next := r.sendWait(r.part(id, 0), 1, 100)
			if next.Base <= lost.Base+1 {
				t.Fatalf("offset %d again, after %d to %d were acknowledged and lost", next.Base, lost.Base, lost.Base+1)
			}
			r.mustHold(r.part(id, 1), []*produced{later})
			if f := r.read(r.part(id, 0), lost.Base, 1<<16); test.name == "body" && (!errors.Is(f.Err, ErrCorrupt) || f.Next != next.Base) {
				t.Fatalf("fetch of what is lost: %v, next %d; expected %d", f.Err, f.Next, next.Base)
			}
			got := r.readFrom(r.part(id, 0), first.Base)
			if string(got[first.Base]) != string(first.Batch) || string(got[next.Base]) != string(next.Batch) {
				t.Fatal("what is not damaged cannot be read")
			}
			// The same holds for the life after, when nothing is damaged any more.
			r.w.Kill()
			r.start()
			if p := r.part(id, 0); p.End() != next.Base+1 {
				t.Fatalf("the log ends at %d, expected %d", p.End(), next.Base+1)
			}
		})
	}
}

// readFrom reads a partition from an offset on and returns its batches by base offset,
// going on behind damage as a consumer does.
func (r *rig) readFrom(p *Partition, at int64) map[int64][]byte {
	r.t.Helper()
	got := map[int64][]byte{}
	for at < p.Durable() {
		f := r.read(p, at, 1<<16)
		if f.Next <= at {
			r.t.Fatalf("fetch at %d of %d: next %d, error %v", at, p.Durable(), f.Next, f.Err)
		}
		r.split(f, got)
		at = f.Next
		p.store.Release(&f.Read)
	}
	return got
}

// threeSegments writes three sealed segments and part of a fourth, and starts again, so
// that everything is read from files.
func threeSegments(t *testing.T) (*rig, TopicID, []*produced) {
	t.Helper()
	r := newRig(t, rigOptions{segment: 16 << 10})
	id := r.topic(1, ClassFlushed)
	var sent []*produced
	for len(sent) == 0 || r.part(id, 0).first.next == nil || r.part(id, 0).first.next.next == nil || r.part(id, 0).first.next.next.next == nil {
		sent = append(sent, r.sendWait(r.part(id, 0), 2, 300))
	}
	sent = append(sent, r.sendWait(r.part(id, 0), 2, 300))
	r.checkpointAll()
	r.w.Kill()
	r.start()
	return r, id, sent
}

// mustLoseOne reads everything and checks that all of it is as it was but one batch,
// whose offsets are answered with an error that says where to go on.
func (r *rig) mustLoseOne(p *Partition, sent []*produced, lost *produced) {
	r.t.Helper()
	seen := 0
	for i, at := 0, int64(0); at < p.Durable(); {
		f := r.read(p, at, 1<<16)
		if f.Err != nil {
			last := lost.Base + int64(lost.Header.LastOffsetDelta)
			if !errors.Is(f.Err, ErrCorrupt) || at < lost.Base || at > last || f.Next != last+1 {
				r.t.Fatalf("fetch at %d: %v, next %d; lost are %d to %d", at, f.Err, f.Next, lost.Base, last)
			}
			seen++
			i++
		}
		got := map[int64][]byte{}
		r.split(f, got)
		for range got {
			if a := sent[i]; !bytes.Equal(got[a.Base], a.Batch) {
				r.t.Fatalf("batch %d at %d is not what was acknowledged", i, a.Base)
			}
			i++
		}
		if f.Next <= at {
			r.t.Fatalf("fetch at %d: next %d", at, f.Next)
		}
		at = f.Next
		p.store.Release(&f.Read)
	}
	if seen != 1 || p.LogStart() != 0 || p.Durable() != sent[len(sent)-1].Base+2 {
		r.t.Fatalf("%d errors, log from %d to %d", seen, p.LogStart(), p.Durable())
	}
}

// place is the segment of a batch and its position there.
func (r *rig) placeOf(p *Partition, sent []*produced, n int) (path string, pos int64) {
	seg := p.segmentOf(sent[n].Base)
	for _, a := range sent {
		if a.Base >= seg.base && a.Base < sent[n].Base {
			pos += int64(len(a.Batch))
		}
	}
	return seg.Path(), pos
}

func TestRotCostsOneBatchWhereverItIs(t *testing.T) {
	for _, test := range []struct {
		name   string
		damage func(r *rig, path string, pos int64, size int) error
	}{
		{"a bit of a record", func(r *rig, path string, pos int64, size int) error { return r.w.Corrupt(path, pos+int64(size)/2, 1) }},
		{"the length", func(r *rig, path string, pos int64, size int) error { return r.w.Corrupt(path, pos+10, 0x40) }},
		{"the length, by a little", func(r *rig, path string, pos int64, size int) error { return r.w.Corrupt(path, pos+11, 1) }},
		{"the magic", func(r *rig, path string, pos int64, size int) error { return r.w.Corrupt(path, pos+16, 0xff) }},
		{"the offset", func(r *rig, path string, pos int64, size int) error { return r.w.Corrupt(path, pos+7, 0x80) }},
	} {
		for _, n := range []int{0, 7, 30} { // first of a segment, in the middle, in the second
			t.Run(fmt.Sprintf("%s of batch %d", test.name, n), func(t *testing.T) {
				r, id, sent := threeSegments(t)
				p := r.part(id, 0)
				path, pos := r.placeOf(p, sent, n)
				if err := test.damage(r, path, pos, len(sent[n].Batch)); err != nil {
					t.Fatal(err)
				}
				r.mustLoseOne(p, sent, sent[n])
				if st := p.store.Stats(); st.CorruptReads != 1 || st.Verifications != 1 {
					t.Fatalf("%+v", st)
				}
				// Rot stays rot in the next life, and is not blessed by a new index.
				r.w.Kill()
				r.remove(strings.TrimSuffix(path, ".log") + ".index")
				r.start()
				r.mustLoseOne(r.part(id, 0), sent, sent[n])
			})
		}
	}
}

// The leader epoch is in no batch's own CRC, and the chain of offsets does not see it:
// the checksum of the region alone tells.
func TestTheEpochOfASealedBatchIsWatchedByItsRegion(t *testing.T) {
	r, id, sent := threeSegments(t)
	p := r.part(id, 0)
	path, pos := r.placeOf(p, sent, 5)
	if err := r.w.Corrupt(path, pos+13, 0x20); err != nil {
		t.Fatal(err)
	}
	f := r.read(p, sent[5].Base, 1<<16)
	if !errors.Is(f.Err, ErrCorrupt) {
		t.Fatalf("a batch with a changed epoch: %v", f.Err)
	}
}

// A bad sector makes the blocks of 4 KiB unreadable that it is in; every batch that has
// no byte in them is served.
func TestABadSectorCostsWhatLiesInItsBlock(t *testing.T) {
	r, id, sent := threeSegments(t)
	p := r.part(id, 0)
	seg := p.first
	const block = 4096
	if err := r.w.BadSectors(seg.Path(), block+512, 512); err != nil {
		t.Fatal(err)
	}
	got := r.readFrom(p, 0)
	pos := int64(0)
	for i, a := range sent {
		if a.Base >= seg.next.base {
			pos = 1 << 40 // another segment
		}
		end := pos + int64(len(a.Batch))
		hit := pos < 2*block && end > block
		if ok := bytes.Equal(got[a.Base], a.Batch); ok == hit {
			t.Fatalf("batch %d at %d to %d: served %v", i, pos, end, ok)
		}
		pos = end
	}
}

// What the device did not read while an index was built is not taken for lost: it is tried
// again, but a sector that stays bad does not have its segment verified for every fetch.
func TestAReadErrorThatPassesIsNoDamage(t *testing.T) {
	r, id, sent := threeSegments(t)
	p := r.part(id, 0)
	seg := p.first
	if err := r.w.FS().Remove(filepath.Join(p.dir, p.segmentID(seg.base).IndexName())); err != nil {
		t.Fatal(err)
	}
	passing := r.w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Reads, Path: "*.log"}, Times: 2}) // the whole, and its first block
	r.mustHold(p, sent)
	if passing.Hits() != 2 || len(seg.index.Damage) != 0 {
		t.Fatalf("%d faults, damage %v", passing.Hits(), seg.index.Damage)
	}
	if err := r.w.BadSectors(seg.Path(), 0, 512); err != nil {
		t.Fatal(err)
	}
	verified := p.store.Stats().Verifications
	for range 20 {
		if f := r.read(p, 0, 1<<16); !errors.Is(f.Err, ErrCorrupt) {
			t.Fatalf("a fetch of a bad sector: %v", f.Err)
		}
	}
	if n := p.store.Stats().Verifications - verified; n != 1 {
		t.Fatalf("20 fetches of a bad sector had its segment verified %d times", n)
	}
}

// A device that reads nothing any more is not searched for damage, segment by segment.
func TestADeadDeviceIsNoDamage(t *testing.T) {
	r, id, sent := threeSegments(t)
	p := r.part(id, 0)
	r.mustHold(p, sent)
	r.sealsMayFail = true
	dead := r.w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Reads, Path: "*.log"}, Times: sim.Always})
	for _, n := range []int{0, 20, 40} {
		if f := r.read(p, sent[n].Base, 1<<16); !errors.Is(f.Err, ErrStorage) || errors.Is(f.Err, ErrCorrupt) {
			t.Fatalf("fetch at %d from a dead device: %v", sent[n].Base, f.Err)
		}
	}
	if st := p.store.Stats(); st.Verifications != 0 || st.CorruptReads != 0 {
		t.Fatalf("%+v", st)
	}
	dead.End()
	r.mustHold(p, sent)
}

func TestADamagedActiveSegmentServesTheRest(t *testing.T) {
	for name, indexed := range map[string]bool{"before its index is built": false, "after that": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, rigOptions{})
			id := r.topic(1, ClassFlushed)
			var sent []*produced
			for range 40 {
				sent = append(sent, r.sendWait(r.part(id, 0), 2, 300))
			}
			r.checkpointAll()
			r.w.Kill()
			r.start()
			p := r.part(id, 0)
			if indexed {
				r.mustHold(p, sent)
			}
			path, pos := r.placeOf(p, sent, 20)
			if err := r.w.Corrupt(path, pos+200, 8); err != nil {
				t.Fatal(err)
			}
			r.mustLoseOne(p, sent, sent[20])
		})
	}
}

// Whatever has become of an index file, the log is served whole, and appends go on
// behind it.
func TestIndexFilesAreCaches(t *testing.T) {
	write := func(r *rig, path string, data []byte) {
		if err := aio.WriteFileAtomic(r.w.FS(), path, data); err != nil {
			r.t.Fatal(err)
		}
	}
	var before []byte // the index of the segment before
	for name, spoil := range map[string]func(r *rig, path string, old []byte){
		"another's": func(r *rig, path string, old []byte) {
			if before != nil {
				write(r, path, before)
			}
			before = old
		},
		"missing":  func(r *rig, path string, _ []byte) { r.remove(path) },
		"empty":    func(r *rig, path string, _ []byte) { write(r, path, nil) },
		"7 bytes":  func(r *rig, path string, old []byte) { write(r, path, old[:7]) },
		"half":     func(r *rig, path string, old []byte) { write(r, path, old[:len(old)/2]) },
		"garbage":  func(r *rig, path string, old []byte) { write(r, path, bytes.Repeat([]byte("garbage!"), len(old)/8)) },
		"too long": func(r *rig, path string, old []byte) { write(r, path, append(old[:len(old):len(old)], old...)) },
		"a bit":    func(r *rig, path string, old []byte) { r.corrupt(path) },
	} {
		t.Run(name, func(t *testing.T) {
			r, id, sent := threeSegments(t)
			p := r.part(id, 0)
			r.readFrom(p, 0)
			for seg := p.first; seg.next != nil; seg = seg.next {
				path := strings.TrimSuffix(seg.Path(), ".log") + ".index"
				old, err := aio.ReadFile(r.w.FS(), path, 1<<20)
				if err != nil {
					t.Fatal(err)
				}
				spoil(r, path, old)
			}
			r.w.Kill()
			r.start()
			r.mustHold(r.part(id, 0), sent)
			sent = append(sent, r.sendWait(r.part(id, 0), 3, 200))
			r.mustHold(r.part(id, 0), sent)
		})
	}
}

// An index that is made anew does not know when batches were appended: then nothing is
// known, and not that it was at the beginning of time.
func TestAnIndexMadeAnewDoesNotTellWhenBatchesWereAppended(t *testing.T) {
	r := newRig(t, rigOptions{})
	id := r.topic(1, ClassFlushed)
	var sent []*produced
	for range 60 { // several entries of an index
		sent = append(sent, r.sendWait(r.part(id, 0), 2, 300))
	}
	log := r.part(id, 0).active.Path()
	r.close()
	r.w.Kill()
	path := strings.TrimSuffix(log, ".log") + ".index"
	if _, err := aio.ReadFile(r.w.FS(), path, 1<<20); err == nil {
		r.remove(path)
	}
	r.start()
	p := r.part(id, 0)
	r.readFrom(p, 0)
	for _, a := range sent {
		if from, to := p.Appended(a.Base); from > a.AppendTime || to < a.AppendTime {
			t.Errorf("offset %d: appended at %d, told %d to %d", a.Base, a.AppendTime, from, to)
		}
	}
}

// An index of yesterday beside the log of today: the append position comes from the
// log.
func TestAStaleIndexIsNotBelieved(t *testing.T) {
	r, id, sent := threeSegments(t)
	p := r.part(id, 0)
	r.readFrom(p, 0) // builds the index of the active segment
	path := strings.TrimSuffix(p.active.Path(), ".log") + ".index"
	old, err := aio.ReadFile(r.w.FS(), path, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for range 12 {
		sent = append(sent, r.sendWait(p, 2, 300))
	}
	r.checkpointAll()
	r.w.Kill()
	if err := aio.WriteFileAtomic(r.w.FS(), path, old); err != nil {
		t.Fatal(err)
	}
	r.start()
	sent = append(sent, r.sendWait(r.part(id, 0), 1, 100))
	r.mustHold(r.part(id, 0), sent)
}

// A full disk keeps nobody from reading, although an index cannot be written.
func TestColdReadsGoOnWhenTheIndexCannotBeWritten(t *testing.T) {
	r, id, sent := threeSegments(t)
	p := r.part(id, 0)
	for seg := p.first; seg.next != nil; seg = seg.next {
		r.remove(strings.TrimSuffix(seg.Path(), ".log") + ".index")
	}
	full := r.w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Writes, Path: "*.index*"}, Times: sim.Always, Err: syscall.ENOSPC})
	var f found
	l := &TimeLookup{Part: p, Time: 0, Owner: &f}
	p.store.LookUpTime(l)
	r.until("lookup", func() bool { return f.done })
	if l.Err != nil || l.Offset != 0 {
		t.Fatalf("the first record by time: offset %d, %v", l.Offset, l.Err)
	}
	r.mustHold(p, sent)
	if full.Hits() == 0 || p.store.Stats().ReadErrors > 0 {
		t.Fatalf("%d indexes were to be written, %d reads have failed", full.Hits(), p.store.Stats().ReadErrors)
	}
}

// A write that the disk does only in part is gone on with; nothing is lost or twice.
func TestShortWritesAreGoneOnWith(t *testing.T) {
	r := newRig(t, rigOptions{segment: 16 << 10})
	id := r.topic(1, ClassFlushed)
	short := r.w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Writes}, Times: sim.Always, Effect: sim.Shorten, Bytes: 4096})
	var sent []*produced
	for range 60 {
		sent = append(sent, r.sendWait(r.part(id, 0), 8, 500))
	}
	r.checkpointAll()
	r.mustHold(r.part(id, 0), sent)
	if short.Hits() == 0 {
		t.Fatal("no write was long enough to be shortened")
	}
	r.w.Crash(sim.KeepNone)
	short.End()
	r.start()
	r.mustHold(r.part(id, 0), sent)
}

// A disk that is full holds producers up and nobody else, and goes on by itself when
// there is space again.
func TestAFullDiskHoldsUpProducersAlone(t *testing.T) {
	r := newRig(t, rigOptions{journal: 512 << 10, chunks: 4 << 20, segment: 64 << 10})
	id := r.topic(1, ClassFlushed)
	p := r.part(id, 0)
	first := r.sendWait(p, 2, 300)
	if err := r.w.SetCapacity(rigDir, 1<<10); err != nil {
		t.Fatal(err)
	}
	sent, again := r.tryUntilRefused(p, 4, 1000, 2000)
	sent = append([]*produced{first}, sent...)
	r.until("acks", func() bool { return sent[len(sent)-1].done })
	r.mustHold(p, sent)
	if p.store.Failed() != nil {
		t.Fatalf("a full disk is a failure: %v", p.store.Failed())
	}
	if err := r.w.SetCapacity(rigDir, 1<<40); err != nil {
		t.Fatal(err)
	}
	r.until("room", func() bool { return p.store.Append(&again.Append) == nil })
	r.until("ack", func() bool { return again.done })
	r.mustHold(p, append(sent, again))
}

// Reads that queue for a buffer all go on, also when the one that is next needs none any
// more, because its partition is gone.
func TestQueuedColdReadsAllGoOn(t *testing.T) {
	r, id, sent := threeSegments(t)
	other := r.topic(2, ClassFlushed)
	gone := r.part(other, 0)
	r.sendWait(gone, 2, 300)
	r.checkpointAll()
	r.w.Kill()
	r.start()
	p := r.part(id, 0)
	gone = r.part(other, 0)
	var held []*reader
	for len(held) < 4 { // all the buffers there are
		held = append(held, r.read(p, sent[len(held)].Base, 1))
	}
	start := func(p *Partition) *reader {
		f := &reader{}
		f.Part, f.MaxBytes, f.Owner = p, 1, f
		p.store.Read(&f.Read)
		return f
	}
	queued := []*reader{start(gone), start(gone), start(p)}
	if !p.store.ColdWaiting() {
		t.Fatal("nothing waits for a buffer")
	}
	var d dropped
	p.store.Drop(gone, &d)
	p.store.Release(&held[0].Read)
	r.until("the reads that queued", func() bool { return queued[0].done && queued[1].done && queued[2].done })
	if queued[0].Err != ErrDropped || queued[2].Err != nil {
		t.Fatalf("%v, %v", queued[0].Err, queued[2].Err)
	}
}
