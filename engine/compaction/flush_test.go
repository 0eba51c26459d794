package compaction

import (
	"errors"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/segment"
)

// noFlush is a filesystem that flushes nothing.
type noFlush struct{ aio.FS }

type noFlushFile struct{ aio.FSFile }

func (f noFlush) Open(path string, mode aio.OpenMode) (aio.FSFile, error) {
	file, err := f.FS.Open(path, mode)
	return noFlushFile{file}, err
}

func (noFlush) SyncDir(string) error { return syscall.EIO }
func (noFlushFile) Sync() error      { return syscall.EIO }

// Until the loop had heard of a flush that failed on a helper, what another flush had
// seemed to make durable was acknowledged.
func TestAFailedFlushIsKnownBeforeTheLoopHearsOfIt(t *testing.T) {
	fs := sim.New(sim.Options{Seed: 1}).FS()
	l := segment.Log{Dir: "/t"}
	if err := errors.Join(fs.Mkdir("/t"), aio.WriteFileAtomic(fs, l.IndexPath(), nil)); err != nil {
		t.Fatal(err)
	}
	var writing, swapping atomic.Bool
	rewrite := rewriting{seg: &Segment{Log: l}, failed: &writing}
	swap := Swap{Log: l, Unless: &swapping}
	if err := rewrite.write(fs, true); err != nil || writing.Load() {
		t.Fatalf("%v, failed %v", err, writing.Load())
	}
	for name, err := range map[string]error{"writing": rewrite.write(noFlush{fs}, true), "swapping": swap.Run(noFlush{fs})} {
		if flush := (*FlushError)(nil); !errors.As(err, &flush) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !writing.Load() || !swapping.Load() {
		t.Errorf("the device counts as failed: writing %v, swapping %v", writing.Load(), swapping.Load())
	}
}
