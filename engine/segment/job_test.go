package segment

import (
	"bytes"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
)

func load(t testing.TB, fs aio.FS, log Log) *LoadJob {
	t.Helper()
	j := &LoadJob{Log: log}
	if err := j.Run(fs); err != nil {
		t.Fatal(err)
	}
	return j
}

func TestASealedIndexLoadsAsItWasBuilt(t *testing.T) {
	_, fs := newDisk(t)
	l := randomLog(t, testID, newRand(t, 41), 3*readBytes)
	ix := sealed(t, fs, l)
	s := ix.Sealed()
	if s.Batches != uint64(len(l.batches)) || s.LogBytes != int64(len(l.data)) || s.Flags != 0 || len(ix.Quarantine()) != 0 {
		t.Fatalf("sealed %+v, quarantine %+v", s, ix.Quarantine())
	}
	want := l.index(DefaultIndexInterval)
	want.sealed = ix.sealed
	equal(t, "built index", ix, want)

	j := load(t, fs, l.job())
	if j.Rebuilt != nil {
		t.Fatalf("rebuilt: %v", j.Rebuilt)
	}
	equal(t, "loaded index", j.Index, ix)
	if err := CheckRegions(j.Index, 0, l.data); err != nil {
		t.Error(err)
	}
	next := l.job()
	next.EndOffset = l.next
	if j := load(t, fs, next); j.Rebuilt != nil {
		t.Errorf("with its end known: %v", j.Rebuilt)
	}
}

// TestAnyDoubtAboutAnIndexEndsInTheSameIndex is S6, S13, F08 and F09.
func TestAnyDoubtAboutAnIndexEndsInTheSameIndex(t *testing.T) {
	_, fs := newDisk(t)
	rng := newRand(t, 42)
	l := randomLog(t, testID, rng, 40_000)
	other := randomLog(t, ID{Topic: testID.Topic, Partition: testID.Partition, Base: 5}, rng, 40_000)
	sealed(t, fs, other)
	foreign := get(t, fs, other.id.IndexName())

	yesterday := newTestLog(testID)
	yesterday.newEpoch(3)
	for _, b := range l.batches[:20] {
		yesterday.appendRaw(t, l.data[b.Pos:b.End()])
	}
	sealed(t, fs, yesterday)
	stale := get(t, fs, testID.IndexName())

	want := sealed(t, fs, l)
	good := get(t, fs, testID.IndexName())
	garbage := make([]byte, len(good))
	for i := range garbage {
		garbage[i] = byte(rng.Uint32())
	}
	open := l.index(DefaultIndexInterval)
	for name, c := range map[string]struct {
		file  []byte
		times bool // append times survive
		kind  error
	}{
		"missing":        {nil, false, ErrIndexMissing},
		"empty":          {[]byte{}, false, ErrIndexTruncated},
		"seven bytes":    {good[:7], false, ErrIndexTruncated},
		"half":           {good[:len(good)/2], false, ErrIndexTruncated},
		"without footer": {good[:len(good)-footerBytes], true, ErrIndexTruncated},
		"garbage":        {garbage, false, ErrIndexDamaged},
		"zeros":          {make([]byte, len(good)), false, ErrIndexDamaged},
		"another's":      {foreign, false, ErrIndexIdentity},
		"yesterday's":    {stale, false, ErrIndexStale},
		"still open":     {AppendEntries(AppendHeader(nil, open, 1), open, 0, open.Len()), true, ErrIndexOpen},
	} {
		if err := fs.Remove(testDir + "/" + testID.IndexName()); err != nil {
			t.Fatal(err)
		}
		if c.file != nil {
			put(t, fs, testID.IndexName(), c.file)
		}
		log := l.job()
		log.NeighbourAppend = 1_800_000_000_000_900_000
		j := load(t, fs, log)
		if !errors.Is(j.Rebuilt, ErrRebuild) || !errors.Is(j.Rebuilt, c.kind) {
			t.Errorf("%s: rebuilt because of %v, want %v", name, j.Rebuilt, c.kind)
		}
		guessed := j.Index.Sealed().Flags&FlagGuessedTimes != 0
		if guessed == c.times {
			t.Errorf("%s: append times guessed: %v", name, guessed)
		}
		if c.times {
			equal(t, name+": entries", j.Index.blocks, want.blocks)
		}
		equal(t, name+": regions", j.Index.sealed.regions, want.sealed.regions)
		if j.Index.Len() != want.Len() || j.Index.NextOffset() != l.next || j.Index.End() != int64(len(l.data)) {
			t.Errorf("%s: %+v", name, j.Index)
		}
		if j := load(t, fs, log); j.Rebuilt != nil {
			t.Errorf("%s: rebuilt again: %v", name, j.Rebuilt)
		}
	}
}

func TestLostAppendTimesAreNotNewerThanTheSegmentBehind(t *testing.T) {
	_, fs := newDisk(t)
	l := randomLog(t, testID, newRand(t, 43), 40_000)
	put(t, fs, testID.LogName(), l.data)
	log := l.job()
	log.NeighbourAppend = 777
	ix := load(t, fs, log).Index
	for i := range ix.Len() {
		if ix.At(i).AppendTime != 777 {
			t.Fatalf("entry %d: %+v", i, ix.At(i))
		}
	}
	if ix.NewestAppend() != 777 {
		t.Errorf("newest %d", ix.NewestAppend())
	}
}

func TestASealedLogThatWasNotCutOffYetIsRead(t *testing.T) {
	_, fs := newDisk(t)
	l := randomLog(t, testID, newRand(t, 56), 30_000)
	put(t, fs, testID.LogName(), append(bytes.Clone(l.data), make([]byte, 2*readBytes)...))
	log := l.job()
	log.EndOffset = l.next
	for _, rebuilt := range []bool{true, false} {
		j := load(t, fs, log)
		if (j.Rebuilt != nil) != rebuilt || j.Index.Sealed().LogBytes != int64(len(l.data)) || len(j.Index.Quarantine()) != 0 {
			t.Fatalf("rebuilt %v, %+v, quarantine %+v", j.Rebuilt, j.Index.Sealed(), j.Index.Quarantine())
		}
		if err := CheckRegions(j.Index, 0, l.data); err != nil {
			t.Error(err)
		}
	}
	v := VerifyJob{Log: log}
	if err := v.Run(fs); err != nil || v.IndexFault != nil || len(v.Damage) != 0 {
		t.Errorf("%v, index %v, damage %+v", err, v.IndexFault, v.Damage)
	}
	put(t, fs, testID.LogName(), l.data)
	if j := load(t, fs, log); j.Rebuilt != nil {
		t.Errorf("cut off, it is rebuilt: %v", j.Rebuilt)
	}
	put(t, fs, testID.LogName(), append(bytes.Clone(l.data), 0, 0, 1))
	j := load(t, fs, log)
	if !errors.Is(j.Rebuilt, ErrIndexStale) || len(j.Index.Quarantine()) != 1 || j.Index.NextOffset() != l.next {
		t.Errorf("something behind the log: %v, quarantine %+v", j.Rebuilt, j.Index.Quarantine())
	}
	if j := load(t, fs, log); j.Rebuilt != nil {
		t.Errorf("something behind the log is a doubt for ever: %v", j.Rebuilt)
	}
}

func TestAWriterThatKnowsTheTailOnlyIsEnoughToSeal(t *testing.T) {
	_, fs := newDisk(t)
	l := randomLog(t, testID, newRand(t, 55), 60_000)
	put(t, fs, testID.LogName(), l.data)
	log := l.job()
	log.NeighbourAppend = l.batches[len(l.batches)-1].AppendTime + 5
	for _, known := range []int{0, 1, len(l.batches) / 2} {
		from := len(l.batches) - known
		writer := NewTailIndex(testID, DefaultIndexInterval, nil, int64(len(l.data)), l.next)
		if known > 0 {
			writer = NewTailIndex(testID, DefaultIndexInterval, nil, l.batches[from].Pos, l.batches[from].BaseOffset)
		}
		for i := from; i < len(l.batches); i++ {
			writer.Add(&l.batches[i])
		}
		j := SealJob{Log: log, Writer: writer}
		if err := j.Run(fs); err != nil {
			t.Fatal(err)
		}
		ix := j.Index
		if ix.Sealed().Flags != FlagGuessedTimes || ix.NewestAppend() != log.NeighbourAppend || ix.Sealed().Batches != uint64(len(l.batches)) {
			t.Errorf("%d batches known: %+v, newest %d", known, ix.Sealed(), ix.NewestAppend())
		}
		bound := log.NeighbourAppend
		if known > 0 {
			bound = l.batches[from].AppendTime
		}
		if got := ix.At(0).AppendTime; got != bound {
			t.Errorf("%d batches known: the first is from %d, want %d", known, got, bound)
		}
	}
}

// TestABitFlippedInASealedLogCostsOneBatch is S2 as far as the files go.
func TestABitFlippedInASealedLogCostsOneBatch(t *testing.T) {
	w, fs := newDisk(t)
	rng := newRand(t, 44)
	l := randomLog(t, testID, rng, 64<<10)
	ix := sealed(t, fs, l)
	before := get(t, fs, testID.IndexName())
	path := testDir + "/" + testID.LogName()
	for range 200 {
		at := rng.IntN(len(l.data))
		mask := byte(1) << rng.IntN(8)
		if err := w.Corrupt(path, int64(at), mask); err != nil {
			t.Fatal(err)
		}
		hit := 0
		for l.batches[hit].End() <= int64(at) {
			hit++
		}
		data := get(t, fs, testID.LogName())
		region := at &^ (RegionBytes - 1)
		err := CheckRegions(ix, int64(region), data[region:min(region+RegionBytes, len(data))])
		var ce *CorruptError
		if !errors.As(err, &ce) || ce.Check != CheckRegion || ce.Pos != int64(region) {
			t.Fatalf("byte %d: the region check says %v", at, err)
		}
		v := VerifyJob{Log: l.job()}
		if err := v.Run(fs); err != nil {
			t.Fatal(err)
		}
		b := l.batches[hit]
		if len(v.Damage) != 1 || v.Fresh != 1 || v.IndexFault != nil || v.Batches != uint64(len(l.batches)-1) {
			t.Fatalf("byte %d: damage %+v, fresh %d, index %v", at, v.Damage, v.Fresh, v.IndexFault)
		}
		r := v.Damage[0]
		r.Check = CheckNone
		equal(t, "damage", r, Range{b.BaseOffset, b.LastOffset + 1, b.Pos, b.End(), CheckNone})

		// A rebuild does not bless what is damaged.
		if err := fs.Remove(testDir + "/" + testID.IndexName()); err != nil {
			t.Fatal(err)
		}
		rebuilt := load(t, fs, l.job()).Index
		if q, ok := rebuilt.Quarantined(b.LastOffset); !ok || q.ToOffset != b.LastOffset+1 {
			t.Fatalf("byte %d: quarantine %+v", at, rebuilt.Quarantine())
		}
		if _, ok := rebuilt.QuarantinedPos(b.Pos); !ok {
			t.Fatalf("byte %d: position not in quarantine", at)
		}
		if hit > 0 {
			if _, ok := rebuilt.Quarantined(b.BaseOffset - 1); ok {
				t.Fatalf("byte %d: the neighbour is in quarantine", at)
			}
		}
		put(t, fs, testID.IndexName(), before)
		if err := w.Corrupt(path, int64(at), mask); err != nil {
			t.Fatal(err)
		}
	}
	v := VerifyJob{Log: l.job()}
	if err := v.Run(fs); err != nil || len(v.Damage) != 0 || v.IndexFault != nil || v.Records == 0 {
		t.Errorf("whole again: %v, %+v, %v", err, v.Damage, v.IndexFault)
	}
}

func TestAFlippedEpochIsFoundByItsRegion(t *testing.T) {
	_, fs := newDisk(t)
	l := randomLog(t, testID, newRand(t, 45), 30_000)
	sealed(t, fs, l)
	b := l.batches[13]
	data := bytes.Clone(l.data)
	data[b.Pos+batch.AtLeaderEpoch+3] ^= 1
	put(t, fs, testID.LogName(), data)
	log := l.job()
	log.Chain = nil // epochs are not known
	v := VerifyJob{Log: log}
	if err := v.Run(fs); err != nil {
		t.Fatal(err)
	}
	found := false
	for _, r := range v.Damage {
		if r.Check != CheckRegion {
			t.Errorf("damage %+v", r)
		}
		if b.Pos/RegionBytes != r.FromPos/RegionBytes && b.Pos/RegionBytes != (r.ToPos-1)/RegionBytes {
			t.Errorf("range %+v is not in the region of %+v", r, b)
		}
		found = found || r.FromPos == b.Pos && r.ToPos == b.End()
	}
	if !found || v.Fresh != len(v.Damage) {
		t.Errorf("damage %+v, fresh %d", v.Damage, v.Fresh)
	}
}

func TestUnreadableBlocksCostTheirBatchesOnly(t *testing.T) {
	w, fs := newDisk(t)
	l := randomLog(t, testID, newRand(t, 46), 3*readBytes)
	put(t, fs, testID.LogName(), l.data)
	const at = 40 * RegionBytes
	if err := w.BadSectors(testDir+"/"+testID.LogName(), at+512, 512); err != nil {
		t.Fatal(err)
	}
	j := load(t, fs, l.job())
	if j.Unreadable != 1 || len(j.Index.Quarantine()) != 1 {
		t.Fatalf("%d blocks unreadable, quarantine %+v", j.Unreadable, j.Index.Quarantine())
	}
	q := j.Index.Quarantine()[0]
	for _, b := range l.batches {
		hit := b.Pos < at+RegionBytes && b.End() > at
		if in := b.Pos >= q.FromPos && b.End() <= q.ToPos; in != hit {
			t.Errorf("batch at %d..%d: in quarantine %v", b.Pos, b.End(), in)
		}
	}
	if err := w.BadSectors(testDir+"/"+testID.LogName(), 0, int64(len(l.data))); err != nil {
		t.Fatal(err)
	}
	before := get(t, fs, testID.IndexName())
	r := RebuildJob{Log: l.job(), Form: FormSealed}
	if err := r.Run(fs); !errors.Is(err, syscall.EIO) {
		t.Errorf("a device that is gone: %v", err)
	}
	if !bytes.Equal(before, get(t, fs, testID.IndexName())) {
		t.Error("the index was replaced although the log could not be read")
	}
}

// What could not be read once is not damage for ever.
func TestAReadErrorIsNotWrittenDownAsDamage(t *testing.T) {
	w, fs := newDisk(t)
	l := randomLog(t, testID, newRand(t, 48), 3*readBytes)
	put(t, fs, testID.LogName(), l.data)
	const at = 40 * RegionBytes
	if err := w.BadSectors(testDir+"/"+testID.LogName(), at, 512); err != nil {
		t.Fatal(err)
	}
	seal := SealJob{Log: l.job(), Writer: l.index(DefaultIndexInterval)}
	if err := seal.Run(fs); err != nil || seal.Unreadable != 1 || len(seal.Index.Quarantine()) != 1 {
		t.Fatalf("%d blocks unreadable, quarantine %+v, error %v", seal.Unreadable, seal.Index.Quarantine(), err)
	}
	if get(t, fs, testID.IndexName()) != nil {
		t.Error("the damage was written down")
	}
	put(t, fs, testID.LogName(), l.data) // the device reads again
	if j := load(t, fs, l.job()); j.Unreadable != 0 || len(j.Index.Quarantine()) != 0 || get(t, fs, testID.IndexName()) == nil {
		t.Errorf("%d blocks unreadable, quarantine %+v", j.Unreadable, j.Index.Quarantine())
	}
}

func TestALogOfAnotherSizeIsNotSealed(t *testing.T) {
	_, fs := newDisk(t)
	l := randomLog(t, testID, newRand(t, 47), 9000)
	for name, data := range map[string][]byte{
		"shorter": l.data[:len(l.data)-100],
		"longer":  append(bytes.Clone(l.data), 0),
	} {
		put(t, fs, testID.LogName(), data)
		j := SealJob{Log: l.job(), Writer: l.index(DefaultIndexInterval)}
		if err := j.Run(fs); !errors.Is(err, ErrLogSize) {
			t.Errorf("%s: %v", name, err)
		}
		if get(t, fs, testID.IndexName()) != nil {
			t.Errorf("%s: there is an index", name)
		}
	}
	if err := fs.Remove(testDir + "/" + testID.LogName()); err != nil {
		t.Fatal(err)
	}
	for name, j := range map[string]aio.Job{
		"seal":    &SealJob{Log: l.job(), Writer: l.index(DefaultIndexInterval)},
		"load":    &LoadJob{Log: l.job()},
		"rebuild": &RebuildJob{Log: l.job(), Form: FormSealed},
		"verify":  &VerifyJob{Log: l.job()},
	} {
		if err := j.Run(fs); !aio.IsNotExist(err) {
			t.Errorf("%s without a log: %v", name, err)
		}
	}
}

func TestAnIndexOfANewerVersionIsLeftAlone(t *testing.T) {
	_, fs := newDisk(t)
	l := randomLog(t, testID, newRand(t, 48), 9000)
	sealed(t, fs, l)
	data := get(t, fs, testID.IndexName())
	data[hVersion+1] = 2
	resum(data)
	put(t, fs, testID.IndexName(), data)
	j := LoadJob{Log: l.job()}
	if err := j.Run(fs); !errors.Is(err, ErrUnsupported) {
		t.Errorf("%v", err)
	}
	if !bytes.Equal(data, get(t, fs, testID.IndexName())) {
		t.Error("the index was replaced")
	}
}

// openFile writes the index of an open log, encoded in pieces.
func openFile(t *testing.T, fs aio.FS, ix *Index, pieces int) {
	t.Helper()
	path := testDir + "/" + testID.IndexName()
	data := AppendHeader(nil, ix, 7)
	for at := 0; at < ix.Len(); at += pieces {
		data = AppendEntries(data, ix, at, min(at+pieces, ix.Len()))
	}
	if err := aio.WriteFileAtomic(fs, path, data); err != nil {
		t.Fatal(err)
	}
}

func TestADoubtfulOpenIndexIsRebuiltUpToTheCheckpoint(t *testing.T) {
	_, fs := newDisk(t)
	l := randomLog(t, testID, newRand(t, 50), 60_000)
	behind := append(bytes.Clone(l.data), 9, 9, 9) // newer than the checkpoint
	put(t, fs, testID.LogName(), append(behind, make([]byte, 100_000)...))
	want := l.index(DefaultIndexInterval)
	log := l.job()
	log.NeighbourAppend = 5
	for name, file := range map[string][]byte{"missing": nil, "garbage": bytes.Repeat([]byte{7}, 9000)} {
		if err := fs.Remove(testDir + "/" + testID.IndexName()); err != nil && !aio.IsNotExist(err) {
			t.Fatal(err)
		}
		if file != nil {
			put(t, fs, testID.IndexName(), file)
		}
		j := RebuildJob{Log: log, Form: FormOpen, LogBytes: want.End()}
		if err := j.Run(fs); err != nil {
			t.Fatal(err)
		}
		ix := j.Index
		if len(ix.Quarantine()) != 0 || ix.End() != want.End() || ix.NextOffset() != want.NextOffset() ||
			ix.Len() != want.Len() || ix.At(0).AppendTime != 5 || ix.MaxTimestamp() != want.MaxTimestamp() {
			t.Errorf("%s: %+v", name, ix)
		}
		again := RebuildJob{Log: log, Form: FormOpen, LogBytes: want.End()}
		if err := again.Run(fs); err != nil {
			t.Fatal(err)
		}
		equal(t, name, again.Index, ix)
	}
}

// A crash came between the sealing and the next checkpoint: of the sealed file the open
// index takes the append times.
func TestALogSealedJustBeforeTheCrashIsOpenAgain(t *testing.T) {
	_, fs := newDisk(t)
	l := randomLog(t, testID, newRand(t, 51), 60_000)
	sealed(t, fs, l)
	part := NewIndex(testID, DefaultIndexInterval, nil)
	for i := range l.batches[:50] {
		part.Add(&l.batches[i])
	}
	for range 2 {
		j := RebuildJob{Log: l.job(), Form: FormOpen, LogBytes: part.End()}
		if err := j.Run(fs); err != nil {
			t.Fatal(err)
		}
		if j.Index.Len() != part.Len() || j.Index.End() != part.End() || j.Index.NextOffset() != part.NextOffset() {
			t.Fatalf("%+v, want %+v", j.Index, part)
		}
		for i := range part.Len() {
			equal(t, "entry", j.Index.At(i), part.At(i))
		}
		if Form(get(t, fs, testID.IndexName())[hForm]) != FormOpen {
			t.Fatal("the file is still that of a sealed index")
		}
	}
}

func TestVerifyTellsWhenTheIndexIsWrong(t *testing.T) {
	_, fs := newDisk(t)
	l := randomLog(t, testID, newRand(t, 52), 30_000)
	ix := sealed(t, fs, l)
	ix.at(2).pos += 5
	v := VerifyJob{Log: l.job(), Index: ix}
	if err := v.Run(fs); err != nil {
		t.Fatal(err)
	}
	var ie *IndexError
	if !errors.As(v.IndexFault, &ie) || ie.At != EntryAt(2) || len(v.Damage) != 0 {
		t.Errorf("index %v, damage %+v", v.IndexFault, v.Damage)
	}
	put(t, fs, testID.IndexName(), []byte("no index"))
	v = VerifyJob{Log: l.job()}
	if err := v.Run(fs); err != nil || !errors.Is(v.IndexFault, ErrIndexTruncated) || v.Batches != uint64(len(l.batches)) {
		t.Errorf("%v, index %v, %d batches", err, v.IndexFault, v.Batches)
	}
	open := l.index(DefaultIndexInterval)
	put(t, fs, testID.LogName(), append(bytes.Clone(l.data), 1, 2, 3))
	v = VerifyJob{Log: l.job(), Index: open}
	if err := v.Run(fs); err != nil || v.IndexFault != nil || len(v.Damage) != 0 || v.Batches != uint64(len(l.batches)) {
		t.Errorf("an open log: %v, index %v, damage %+v", err, v.IndexFault, v.Damage)
	}
}

// runJob runs a job on a helper of d.
func runJob(t testing.TB, d *sim.Driver, j aio.Job) error {
	t.Helper()
	done := jobDone(false)
	op := aio.JobOp{Job: j, Owner: &done}
	d.SubmitJob(&op)
	for range 100_000 {
		if done {
			return op.Err
		}
		if _, err := d.Poll(0); err != nil {
			return err
		}
	}
	return fmt.Errorf("the job does not end")
}

type jobDone bool

func (d *jobDone) CompleteJob(*aio.JobOp) { *d = true }

// TestACrashDuringSealingLeavesAnIndexThatLoads is S4 for the index: power is cut
// after each step in turn.
func TestACrashDuringSealingLeavesAnIndexThatLoads(t *testing.T) {
	l := randomLog(t, testID, newRand(t, 53), 20_000)
	writer := l.index(DefaultIndexInterval)
	for _, keep := range []sim.Keep{sim.KeepNone, sim.KeepAll, sim.KeepRandom, sim.KeepPrefix} {
		for steps := 0; ; steps++ {
			w, fs := newDisk(t)
			put(t, fs, testID.LogName(), l.data)
			openFile(t, fs, writer, 1000)
			d := w.Driver(aio.Options{})
			var done jobDone
			d.SubmitJob(&aio.JobOp{Job: &SealJob{Log: l.job(), Writer: writer}, Owner: &done})
			for range steps {
				w.Step()
			}
			if _, err := d.Poll(0); err != nil {
				t.Fatal(err)
			}
			w.Crash(keep)
			j := load(t, fs, l.job())
			if j.Rebuilt != nil && !errors.Is(j.Rebuilt, ErrIndexOpen) {
				t.Fatalf("crash %v after %d steps: %v", keep, steps, j.Rebuilt)
			}
			if done && j.Rebuilt != nil {
				t.Fatalf("crash %v after the job was done: %v", keep, j.Rebuilt)
			}
			if j.Index.Sealed().Flags != 0 || j.Index.NewestAppend() != writer.NewestAppend() && j.Rebuilt == nil {
				t.Fatalf("crash %v after %d steps: %+v", keep, steps, j.Index.Sealed())
			}
			if done {
				break
			}
			if steps > 200 {
				t.Fatal("the job does not end")
			}
		}
	}
}

func TestRegionsAreCheckedAtTheirBoundaries(t *testing.T) {
	_, fs := newDisk(t)
	l := randomLog(t, testID, newRand(t, 54), 20_000)
	ix := sealed(t, fs, l)
	size := len(l.data)
	for from := 0; from < size; from += RegionBytes {
		for to := from; to < size; to += RegionBytes {
			if err := CheckRegions(ix, int64(from), l.data[from:to]); err != nil {
				t.Fatal(err)
			}
		}
		// A direct read returns whole blocks, past the end too.
		if err := CheckRegions(ix, int64(from), append(bytes.Clone(l.data[from:]), 1, 2, 3)); err != nil {
			t.Fatal(err)
		}
	}
	if err := CheckRegions(ix, int64(roundUp(int64(size))), nil); err != nil {
		t.Error(err)
	}
	violates(t, "odd position", func() { _ = CheckRegions(ix, 1, l.data[1:]) })
	violates(t, "odd length", func() { _ = CheckRegions(ix, 0, l.data[:5000]) })
	violates(t, "open segment", func() { _ = CheckRegions(l.index(DefaultIndexInterval), 0, l.data) })
	data := l.data[:8192]
	if n := testing.AllocsPerRun(100, func() { _ = CheckRegions(ix, 0, data) }); n != 0 {
		t.Errorf("CheckRegions allocates %v times", n)
	}
}

func TestTheQuarantineIsBounded(t *testing.T) {
	ix := NewIndex(ID{}, DefaultIndexInterval, nil)
	for i := range int64(MaxRanges + 10) {
		ix.skip(Range{FromOffset: i * 3, ToOffset: i*3 + 1, FromPos: i * 200, ToPos: i*200 + 100, Check: CheckCRC})
		ix.Add(&Batch{Pos: i*200 + 100, Size: 100, BaseOffset: i*3 + 1, LastOffset: i*3 + 2})
	}
	q := ix.Quarantine()
	if len(q) != MaxRanges || q[MaxRanges-1].ToOffset != (MaxRanges+9)*3+1 {
		t.Fatalf("%d ranges, the last %+v", len(q), q[len(q)-1])
	}
	ix.sealed = &Sealed{LogBytes: ix.End(), regions: make([]uint32, regionCount(ix.End()))}
	back, err := Decode(AppendSealed(nil, ix, 1), ID{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "quarantine", back.Quarantine(), q)
	if _, ok := ix.Quarantined(1); ok {
		t.Error("a readable offset is in quarantine")
	}
	violates(t, "a range that does not follow", func() { ix.skip(Range{}) })
}
