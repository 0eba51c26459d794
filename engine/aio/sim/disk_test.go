package sim_test

import (
	"bytes"
	"testing"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
)

// block returns memory of d filled with v.
func block(t *testing.T, d aio.Driver, n int, v byte) []byte {
	t.Helper()
	b, err := d.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		b[i] = v
	}
	return b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// makeFile creates path with size bytes of zeros, durable in content and name.
func makeFile(t *testing.T, w *sim.World, path string, size int64) {
	t.Helper()
	f, err := w.FS().Open(path, aio.OpenWrite|aio.OpenCreate)
	must(t, err)
	must(t, f.Allocate(0, size))
	must(t, f.Sync())
	must(t, f.Close())
	must(t, w.FS().SyncDir("/"))
}

func contentOf(t *testing.T, w *sim.World, path string) []byte {
	t.Helper()
	b, err := aio.ReadFile(w.FS(), path, 1<<30)
	must(t, err)
	return b
}

func open(t *testing.T, d aio.Driver, path string, mode aio.OpenMode) aio.File {
	t.Helper()
	f, _, err := aio.OpenFile(d, path, mode)
	must(t, err)
	return f
}

func TestWriteIsLostWithoutAFlush(t *testing.T) {
	w := sim.New(sim.Options{Seed: 1})
	makeFile(t, w, "/f", 8192)
	d := w.Driver(aio.Options{})
	f := open(t, d, "/f", aio.OpenWrite|aio.OpenDirect)
	must(t, aio.WriteAt(d, f, block(t, d, 4096, 7), 0, 0))
	w.Crash(sim.KeepNone)
	if got := contentOf(t, w, "/f"); !bytes.Equal(got, make([]byte, 8192)) {
		t.Fatal("a write that was not flushed survived a crash that keeps nothing")
	}
}

func TestFdatasyncMakesCompletedWritesDurable(t *testing.T) {
	w := sim.New(sim.Options{Seed: 1})
	makeFile(t, w, "/f", 8192)
	d := w.Driver(aio.Options{})
	f := open(t, d, "/f", aio.OpenWrite|aio.OpenDirect)
	must(t, aio.WriteAt(d, f, block(t, d, 4096, 7), 0, 0))
	must(t, aio.Fdatasync(d, f))
	w.Crash(sim.KeepNone)
	want := append(bytes.Repeat([]byte{7}, 4096), make([]byte, 4096)...)
	if got := contentOf(t, w, "/f"); !bytes.Equal(got, want) {
		t.Fatal("a flushed write was lost")
	}
}
