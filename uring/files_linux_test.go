package uring

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/hostfs"
	"golang.org/x/sys/unix"
)

func TestAFileInUseIsNotClosed(t *testing.T) {
	d := open(t, small, Config{})
	f := newFile(t, d, 4096)
	op := aio.Op{Kind: aio.KindWrite, File: f, Buf: memory(t, d, 4096), Owner: &log{}}
	d.Submit(&op)
	violates(t, func() { d.SubmitFile(&aio.FileOp{Kind: aio.FileClose, File: f, Owner: fileLog{}}) })
	until(t, d, func() bool { return !op.InFlight() })
	check(t, aio.CloseFile(d, f))
}

type fileLog struct{}

func (fileLog) CompleteFile(*aio.FileOp) {}

func TestALockOutlivesWhatTheRingHasInFlight(t *testing.T) {
	d := open(t, small, Config{})
	op := aio.FileOp{Kind: aio.FileLock, Path: filepath.Join(t.TempDir(), "lock")}
	check(t, aio.DoFile(d, &op))
	// The ring reads only what is registered with it.
	b, err := d.Alloc(4096)
	check(t, err)
	if n, err := aio.ReadAt(d, op.File, b, 0); n != 0 || err != nil {
		t.Errorf("the lock is gone before the writes of a killed process have landed: %d bytes, %v", n, err)
	}
	check(t, aio.CloseFile(d, op.File))
}

func TestAFilesystemWithoutDirectIOIsReported(t *testing.T) {
	d := open(t, small, Config{})
	_, _, err := aio.OpenFile(d, "/proc/version", aio.OpenDirect)
	isError(t, err, aio.ErrNoDirect)
	if d.files.Free() != small.Files {
		t.Fatal("a file that was not opened keeps its handle")
	}
	f, _, err := aio.OpenFile(d, "/proc/version", 0)
	check(t, err)
	b, err := d.Alloc(4096)
	check(t, err)
	n, err := aio.ReadAt(d, f, b, 0)
	if want, _ := os.ReadFile("/proc/version"); err != nil || !bytes.Equal(b[:n], want) {
		t.Fatalf("read %q, %v", b[:n], err)
	}
}

// failingFS is a filesystem whose files cannot be sized or closed.
type failingFS struct {
	hostfs.FS
	size, close error
}

type failingFile struct {
	*hostfs.File
	fs failingFS
}

func (f failingFS) Open(path string, mode aio.OpenMode) (aio.FSFile, error) {
	file, err := f.FS.Open(path, mode)
	if err != nil {
		return nil, err
	}
	return failingFile{file.(*hostfs.File), f}, nil
}

func (f failingFile) Size() (int64, error) {
	if f.fs.size != nil {
		return 0, f.fs.size
	}
	return f.File.Size()
}

func (f failingFile) Close() error { return errors.Join(f.File.Close(), f.fs.close) }

func TestFailuresOfTheFilesystemArrive(t *testing.T) {
	broken := errors.New("broken")
	path := filepath.Join(t.TempDir(), "f")
	d := open(t, small, Config{FS: failingFS{close: broken}})
	f, _, err := aio.OpenFile(d, path, aio.OpenWrite|aio.OpenCreate)
	check(t, err)
	if err := aio.CloseFile(d, f); !errors.Is(err, broken) {
		t.Errorf("closing: %v", err)
	}
	if d.files.Get(f) != nil {
		t.Error("a file that could not be closed is still open")
	}
	d = open(t, small, Config{FS: failingFS{size: broken}})
	if _, _, err := aio.OpenFile(d, path, 0); !errors.Is(err, broken) {
		t.Errorf("opening: %v", err)
	}
	if d.files.Free() != small.Files {
		t.Error("a file that was not opened keeps its handle")
	}
}

func TestATableOfFilesBeyondTheLimitOfDescriptorsIsRefused(t *testing.T) {
	var old unix.Rlimit
	check(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	o := small
	o.Files = 1 << 20
	if old.Cur > uint64(o.Files) {
		t.Skipf("the limit of %d is above any table", old.Cur)
	}
	if _, err := New(o, Config{}); !errors.Is(err, unix.EMFILE) {
		t.Fatalf("%v", err)
	}
}

// gate is a job that waits.
type gate struct {
	in, out *sync.WaitGroup
}

func (g gate) Run(aio.FS) error { g.in.Done(); g.out.Wait(); return nil }

type jobLog struct{ n *int }

func (l jobLog) CompleteJob(*aio.JobOp) { *l.n++ }

func TestHelpersAreBounded(t *testing.T) {
	d := open(t, small, Config{})
	var in, out sync.WaitGroup
	in.Add(small.Helpers)
	out.Add(1)
	done := 0
	ops := make([]aio.JobOp, 10)
	for i := range ops {
		ops[i] = aio.JobOp{Job: gate{&in, &out}, Owner: jobLog{&done}}
		if i >= small.Helpers {
			ops[i].Job = counter{}
		}
		d.SubmitJob(&ops[i])
	}
	in.Wait()
	d.pool.mu.Lock()
	waiting := d.pool.todo.Len()
	d.pool.mu.Unlock()
	if waiting != len(ops)-small.Helpers {
		t.Errorf("%d jobs wait for %d busy helpers, expected %d", waiting, small.Helpers, len(ops)-small.Helpers)
	}
	violates(t, func() { d.SubmitJob(&ops[0]) })
	out.Done()
	until(t, d, func() bool { return done == len(ops) })
}

type counter struct{}

func (counter) Run(aio.FS) error { return nil }

func TestAPollDeliversABoundedNumber(t *testing.T) {
	d := open(t, small, Config{})
	f := newFile(t, d, 0)
	o := &log{}
	ops := make([]aio.Op, 1000)
	for i := range ops {
		ops[i] = aio.Op{Kind: aio.KindRead, File: f, Owner: o} // of nothing: over at once
		d.Submit(&ops[i])
	}
	for want := len(ops); want > 0; {
		n, err := d.Poll(0)
		check(t, err)
		if n != min(want, maxDelivered) {
			t.Fatalf("%d completions, expected %d", n, min(want, maxDelivered))
		}
		want -= n
	}
	if o.n != len(ops) || d.InFlight() != 0 {
		t.Fatalf("%d completions, %d in flight", o.n, d.InFlight())
	}
}

func TestACompletionMayNotPoll(t *testing.T) {
	d := open(t, small, Config{})
	f := newFile(t, d, 0)
	d.Submit(&aio.Op{Kind: aio.KindRead, File: f, Owner: &log{then: func(*aio.Op) {
		violates(t, func() { _, _ = d.Poll(0) })
		violates(t, func() { _ = d.Close() })
	}}})
	n, err := d.Poll(0)
	if n != 1 || err != nil {
		t.Fatal(n, err)
	}
}

func TestSlotsGrowAndAreUsedAgain(t *testing.T) {
	d := open(t, small, Config{})
	f := newFile(t, d, 0)
	b := memory(t, d, 100*aio.BlockSize)
	ops := make([]aio.Op, 100)
	for round := range 3 {
		for i := range ops {
			at := i * aio.BlockSize
			ops[i] = aio.Op{Kind: aio.KindWrite, File: f, Buf: b[at : at+aio.BlockSize], Off: int64(at), Owner: &log{}}
			d.Submit(&ops[i])
		}
		until(t, d, func() bool { return d.InFlight() == 0 })
		for i := range ops {
			check(t, ops[i].Err)
		}
		if len(d.slots.tab) != 112 || len(d.messages.chunks) != 7 {
			t.Fatalf("round %d: %d slots, %d chunks of messages", round, len(d.slots.tab), len(d.messages.chunks))
		}
	}
	if !bytes.Equal(readBack(t, d, f, len(b)), b) {
		t.Fatal("the file does not hold what was written")
	}
}
