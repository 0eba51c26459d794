package sim_test

import (
	"bytes"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
)

func TestFaultHitsTheNthMatchingOperation(t *testing.T) {
	w, d, f := writer(t, sim.Options{Seed: 1})
	b := block(t, d, 4096, 1)
	other := w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Writes, Path: "/g"}, Times: sim.Always})
	fault := w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Writes, Path: "f"}, Skip: 2, Times: 2, Err: syscall.ENOSPC})
	for i := range 6 {
		err := aio.WriteAt(d, f, b, int64(i)*4096, 0)
		if bad := i == 2 || i == 3; aio.IsNoSpace(err) != bad {
			t.Fatalf("write %d: %v", i, err)
		}
	}
	if fault.Hits() != 2 || fault.Seen() != 6 || other.Hits() != 0 {
		t.Fatalf("hits %d of %d seen, the other %d", fault.Hits(), fault.Seen(), other.Hits())
	}
	got := contentOf(t, w, "/f")
	for i, want := range []byte{1, 1, 0, 0, 1, 1} {
		if !bytes.Equal(got[i*4096:(i+1)*4096], fill(want, 4096)) {
			t.Fatalf("write %d left %d", i, got[i*4096])
		}
	}
}

func TestFaultEnds(t *testing.T) {
	w, d, f := writer(t, sim.Options{Seed: 1})
	b := block(t, d, 4096, 1)
	fault := w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Reads, Driver: d}, Times: sim.Always})
	if _, err := aio.ReadAt(d, f, b, 0); !errors.Is(err, syscall.EIO) {
		t.Fatalf("a failing read: %v", err)
	}
	fault.End()
	_, err := aio.ReadAt(d, f, b, 0)
	must(t, err)
}

func TestFailedWriteMayLeaveAnySectors(t *testing.T) {
	torn := 0
	for seed := range uint64(40) {
		w, d, f := writer(t, sim.Options{Seed: seed})
		w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Writes}})
		if err := aio.WriteAt(d, f, block(t, d, 4096, 7), 0, 0); !errors.Is(err, syscall.EIO) {
			t.Fatalf("a failing write: %v", err)
		}
		if n := bytes.Count(contentOf(t, w, "/f"), fill(7, 512)); n > 0 && n < 8 {
			torn++
		}
	}
	if torn < 10 {
		t.Fatalf("%d of 40 failed writes left a part", torn)
	}
}

func TestShortWriteGoesOn(t *testing.T) {
	w, d, f := writer(t, sim.Options{Seed: 1})
	fault := w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Writes}, Effect: sim.Shorten, Bytes: 512, Times: 3})
	op := &aio.Op{Kind: aio.KindWrite, File: f, Buf: block(t, d, 8192, 7), Off: 4096}
	must(t, aio.Do(d, op))
	if op.N != 8192 || fault.Hits() != 3 {
		t.Fatalf("wrote %d bytes after %d short writes", op.N, fault.Hits())
	}
	if got := contentOf(t, w, "/f"); !bytes.Equal(got[4096:4096+8192], fill(7, 8192)) {
		t.Fatal("the parts of a short write are not where they belong")
	}
	w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Writes}, Effect: sim.Shorten})
	if err := aio.WriteAt(d, f, block(t, d, 4096, 1), 0, 0); !errors.Is(err, aio.ErrShort) {
		t.Fatalf("a write without progress: %v", err)
	}
}

func TestShortWriteOfAHelperGoesOn(t *testing.T) {
	w := sim.New(sim.Options{Seed: 1})
	d := w.Driver(aio.Options{})
	fault := w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Writes}, Effect: sim.Shorten, Bytes: 2, Times: 2})
	must(t, aio.DoFile(d, &aio.FileOp{Kind: aio.FileWriteAtomic, Path: "/f", Data: []byte("content")}))
	if got := contentOf(t, w, "/f"); string(got) != "content" || fault.Hits() != 2 {
		t.Fatalf("%q after %d short writes", got, fault.Hits())
	}
}

func TestMisdirectedWriteLandsElsewhere(t *testing.T) {
	w, d, f := writer(t, sim.Options{Seed: 1})
	w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Writes}, Effect: sim.Misdirect, Bytes: 8192})
	must(t, aio.WriteAt(d, f, block(t, d, 4096, 7), 4096, 0))
	if got := contentOf(t, w, "/f"); got[4096] != 0 || got[12288] != 7 {
		t.Fatalf("a misdirected write left %d here and %d there", got[4096], got[12288])
	}
}

func TestLyingDiskMakesNothingDurable(t *testing.T) {
	w, d, f := writer(t, sim.Options{Seed: 1})
	w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Flushes | sim.Writes}, Effect: sim.Lie, Times: sim.Always})
	must(t, aio.WriteAt(d, f, block(t, d, 4096, 1), 0, 0))
	must(t, aio.Fdatasync(d, f))
	must(t, aio.WriteAt(d, f, block(t, d, 4096, 2), 4096, aio.FlagDSYNC))
	if got := contentOf(t, w, "/f"); got[0] != 1 || got[4096] != 2 {
		t.Fatal("a lying disk does not show what was written")
	}
	w.Crash(sim.KeepNone)
	if got := contentOf(t, w, "/f"); !bytes.Equal(got, make([]byte, 64<<10)) {
		t.Fatal("a lying disk made something durable")
	}
}

func TestRetryOfAFailedFlushSucceedsAndProvesNothing(t *testing.T) {
	lost := 0
	for seed := range uint64(20) {
		w, d, f := writer(t, sim.Options{Seed: seed})
		b := block(t, d, 4096, 7)
		for i := range int64(16) {
			must(t, aio.WriteAt(d, f, b, i*4096, 0))
		}
		w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Flushes}})
		if err := aio.Fdatasync(d, f); !errors.Is(err, syscall.EIO) {
			t.Fatalf("a failing flush: %v", err)
		}
		must(t, aio.Fdatasync(d, f))
		w.Crash(sim.KeepAll)
		lost += bytes.Count(contentOf(t, w, "/f"), make([]byte, 4096))
	}
	if lost == 0 {
		t.Fatal("no failed flush lost anything")
	}
}

func TestFileOperationsFailByPath(t *testing.T) {
	w := sim.New(sim.Options{Seed: 1})
	d := w.Driver(aio.Options{})
	makeFile(t, w, "/f", 4096)
	f := open(t, d, "/f")
	for _, c := range []struct {
		ops  sim.Ops
		path string
		op   aio.FileOp
	}{
		{sim.Opens, "/f", aio.FileOp{Kind: aio.FileOpen, Path: "/f"}},
		{sim.Allocates, "f", aio.FileOp{Kind: aio.FileAllocate, File: f, Len: 8192}},
		{sim.Truncates, "/*", aio.FileOp{Kind: aio.FileTruncate, File: f, Len: 0}},
		{sim.Flushes, "?", aio.FileOp{Kind: aio.FileSync, File: f}},
		{sim.DirSyncs, "/", aio.FileOp{Kind: aio.FileSyncDir, Path: "/"}},
		{sim.Renames, "g", aio.FileOp{Kind: aio.FileRename, Path: "/f", Path2: "/g"}},
		{sim.Removes, "", aio.FileOp{Kind: aio.FileRemove, Path: "/f"}},
		{sim.Mkdirs, "/d", aio.FileOp{Kind: aio.FileMkdirAll, Path: "/d"}},
		{sim.ReadDirs, "/", aio.FileOp{Kind: aio.FileReadDir, Path: "/"}},
		{sim.Locks, "lock", aio.FileOp{Kind: aio.FileLock, Path: "/lock"}},
		{sim.Stats, "/", aio.FileOp{Kind: aio.FileStatFS, Path: "/"}},
		{sim.Writes, "*.tmp", aio.FileOp{Kind: aio.FileWriteAtomic, Path: "/h", Data: []byte("x")}},
		{sim.Reads, "/f", aio.FileOp{Kind: aio.FileRead, Path: "/f", Len: 4096}},
		{sim.Closes, "/f", aio.FileOp{Kind: aio.FileClose, File: f}},
	} {
		w.Inject(sim.Fault{Filter: sim.Filter{Ops: c.ops, Path: "/nothing"}, Times: sim.Always, Err: syscall.EPERM})
		fault := w.Inject(sim.Fault{Filter: sim.Filter{Ops: c.ops, Path: c.path}, Err: syscall.EACCES})
		op := c.op
		if err := aio.DoFile(d, &op); !errors.Is(err, syscall.EACCES) || fault.Hits() != 1 {
			t.Fatalf("operation %d with a fault for %q: %v, %d hits", op.Kind, c.path, err, fault.Hits())
		}
	}
	if got := contentOf(t, w, "/f"); len(got) != 4096 {
		t.Fatalf("failed operations left a file of %d bytes", len(got))
	}
}

func TestFullDiskFailsWhatGrows(t *testing.T) {
	w, d, f := writer(t, sim.Options{Seed: 1, Capacity: 64 << 10})
	b := block(t, d, 4096, 7)
	must(t, aio.WriteAt(d, f, b, 0, 0))
	if err := aio.WriteAt(d, f, b, 64<<10, 0); !aio.IsNoSpace(err) {
		t.Fatalf("a write beyond a full disk: %v", err)
	}
	if err := aio.DoFile(d, &aio.FileOp{Kind: aio.FileAllocate, File: f, Len: 128 << 10}); !aio.IsNoSpace(err) {
		t.Fatalf("allocating beyond a full disk: %v", err)
	}
	if err := aio.DoFile(d, &aio.FileOp{Kind: aio.FileWriteAtomic, Path: "/g", Data: []byte("x")}); !aio.IsNoSpace(err) {
		t.Fatalf("a new file on a full disk: %v", err)
	}
	must(t, w.SetCapacity("/", 1<<20))
	must(t, aio.WriteAt(d, f, b, 64<<10, 0))
}

func TestDamageIsSeenByReads(t *testing.T) {
	w, d, f := writer(t, sim.Options{Seed: 1})
	b := block(t, d, 4096, 0)
	must(t, w.Corrupt("/f", 5000, 0x10))
	_, err := aio.ReadAt(d, f, b, 4096)
	must(t, err)
	if b[5000-4096] != 0x10 {
		t.Fatalf("a flipped bit reads as %#x", b[5000-4096])
	}
	must(t, w.BadSectors("/f", 8192, 1))
	if _, err := aio.ReadAt(d, f, b, 8192); !errors.Is(err, syscall.EIO) {
		t.Fatalf("reading a bad sector: %v", err)
	}
	must(t, aio.WriteAt(d, f, b, 8192, 0))
	_, err = aio.ReadAt(d, f, b, 8192)
	must(t, err)
	for _, err := range []error{w.Corrupt("/f", 1<<20, 1), w.Corrupt("/", 0, 1), w.BadSectors("/g", 0, 1), w.BadSectors("/f", -1, 1)} {
		if err == nil {
			t.Fatal("damage outside a file is no error")
		}
	}
}

func TestMountIsADiskOfItsOwn(t *testing.T) {
	w := sim.New(sim.Options{Seed: 1})
	must(t, w.Mount("/journal", 1<<20))
	d := w.Driver(aio.Options{})
	must(t, aio.DoFile(d, &aio.FileOp{Kind: aio.FileWriteAtomic, Path: "/journal/a", Data: fill(0, 4096)}))
	makeFile(t, w, "/b", 4096)
	a, b := open(t, d, "/journal/a"), open(t, d, "/b")
	buf := block(t, d, 4096, 7)
	must(t, aio.WriteAt(d, a, buf, 0, 0))
	must(t, aio.WriteAt(d, b, buf, 0, 0))
	must(t, aio.Fdatasync(d, a))
	if n := w.Unflushed(); n != 4096 {
		t.Fatalf("%d bytes are not flushed, expected those of the other disk", n)
	}
	w.Crash(sim.KeepNone)
	if contentOf(t, w, "/journal/a")[0] != 7 || contentOf(t, w, "/b")[0] != 0 {
		t.Fatal("a flush of one disk flushed another, or not its own")
	}
}

func TestHoldFreezesWhatItChooses(t *testing.T) {
	w, d, f := writer(t, sim.Options{Seed: 1})
	must(t, aio.DoFile(d, &aio.FileOp{Kind: aio.FileWriteAtomic, Path: "/g", Data: fill(0, 4096)}))
	g := open(t, d, "/g")
	b := block(t, d, 4096, 7)
	hold := w.Hold(sim.Filter{Ops: sim.Writes, Path: "/g"})
	o := &log{}
	for range 3 {
		d.Submit(&aio.Op{Kind: aio.KindWrite, File: g, Buf: b, Owner: o, Tag: uint64(len(o.ops))})
	}
	must(t, aio.WriteAt(d, f, b, 0, 0)) // the other file goes on
	for range 20 {
		_, err := d.Poll(time.Second)
		must(t, err)
	}
	if len(o.ops) != 0 || hold.Count() != 3 || contentOf(t, w, "/g")[0] != 0 {
		t.Fatalf("%d of 3 held writes completed, %d are held", len(o.ops), hold.Count())
	}
	if !hold.ReleaseOne() {
		t.Fatal("nothing to release")
	}
	for len(o.ops) == 0 {
		_, err := d.Poll(time.Second)
		must(t, err)
	}
	if hold.Count() != 2 || contentOf(t, w, "/g")[0] != 7 {
		t.Fatalf("%d are held after one was released", hold.Count())
	}
	hold.Release()
	for len(o.ops) < 3 {
		_, err := d.Poll(time.Second)
		must(t, err)
	}
	must(t, aio.WriteAt(d, g, b, 0, 0))
	violates(t, hold.Release)
}

func TestHoldStopsAHelperBeforeAStep(t *testing.T) {
	w := sim.New(sim.Options{Seed: 1})
	d := w.Driver(aio.Options{})
	hold := w.Hold(sim.Filter{Ops: sim.Renames, Path: "/f"})
	o := &log{}
	d.SubmitFile(&aio.FileOp{Kind: aio.FileWriteAtomic, Path: "/f", Data: []byte("x"), Owner: o})
	for hold.Count() == 0 {
		_, err := d.Poll(time.Second)
		must(t, err)
	}
	if got := contentOf(t, w, "/f.tmp"); string(got) != "x" {
		t.Fatalf("before the rename the temporary file holds %q", got)
	}
	hold.Release()
	for o.files == 0 {
		_, err := d.Poll(time.Second)
		must(t, err)
	}
	if got := contentOf(t, w, "/f"); string(got) != "x" {
		t.Fatalf("the file holds %q", got)
	}
}

func TestHoldOfARealTimeWorldCanBeWaitedFor(t *testing.T) {
	w := sim.New(sim.Options{Seed: 1, Mode: sim.RealTime})
	makeFile(t, w, "/f", 4096)
	hold := w.Hold(sim.Filter{Ops: sim.Flushes})
	done := make(chan error)
	go func() {
		d := w.Driver(aio.Options{})
		f, _, err := aio.OpenFile(d, "/f", aio.OpenWrite)
		if err == nil {
			err = aio.Fdatasync(d, f)
		}
		if err == nil {
			err = aio.DoFile(d, &aio.FileOp{Kind: aio.FileSync, File: f})
		}
		done <- err
	}()
	for range 2 { // the flush of the data path, then the helper's
		hold.Wait(1)
		if hold.Count() != 1 {
			t.Fatalf("%d operations are held", hold.Count())
		}
		old := hold
		hold = w.Hold(sim.Filter{Ops: sim.Flushes})
		old.Release()
	}
	hold.Release()
	must(t, <-done)
}

func TestHoldLetsGoOfTheDead(t *testing.T) {
	for _, mode := range []sim.Mode{sim.Virtual, sim.RealTime} {
		w := sim.New(sim.Options{Seed: 1, Mode: mode})
		makeFile(t, w, "/f", 4096)
		d := w.Driver(aio.Options{})
		f := open(t, d, "/f")
		hold := w.Hold(sim.Filter{Ops: sim.Writes | sim.Renames})
		d.Submit(&aio.Op{Kind: aio.KindWrite, File: f, Buf: block(t, d, 4096, 7), Owner: &log{}})
		d.SubmitFile(&aio.FileOp{Kind: aio.FileRename, Path: "/f", Path2: "/g", Owner: &log{}})
		for hold.Count() < 2 {
			_, err := d.Poll(time.Millisecond)
			must(t, err)
		}
		w.Crash(sim.KeepNone)
		must(t, d.Close())
		hold.Release()
		for range 10 {
			w.Step()
		}
		if got := contentOf(t, w, "/f"); !bytes.Equal(got, make([]byte, 4096)) {
			t.Fatal("a write of a dead driver reached the disk")
		}
	}
}
