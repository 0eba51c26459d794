package aio_test

import (
	"errors"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
)

// noFlush is a filesystem on which flushes fail.
type noFlush struct {
	aio.FS
	err error
}

type noFlushFile struct {
	aio.FSFile
	err error
}

func (f noFlush) Open(path string, mode aio.OpenMode) (aio.FSFile, error) {
	file, err := f.FS.Open(path, mode)
	return noFlushFile{file, f.err}, err
}

func (f noFlush) SyncDir(string) error { return f.err }
func (f noFlushFile) Sync() error      { return f.err }

// Between the failure of a flush on a helper and the loop's hearing of it a journal
// acknowledged what another flush had seemed to make durable.
func TestAFailedFlushIsNotedWhereItHappens(t *testing.T) {
	for _, op := range []aio.FileOp{
		{Kind: aio.FileSyncDir, Path: "/"},
		{Kind: aio.FileWriteAtomic, Path: "/f", Data: []byte("x")},
	} {
		for err, want := range map[error]bool{nil: false, syscall.EIO: true, syscall.ENOSPC: false} {
			fs := sim.New(sim.Options{Seed: 1}).FS()
			var failed atomic.Bool
			op.Failed = &failed
			if !aio.RunFileOp(noFlush{fs, err}, &op) || !errors.Is(op.Err, err) || failed.Load() != want {
				t.Errorf("kind %d, flushes end with %v: %v, noted %v", op.Kind, err, op.Err, failed.Load())
			}
			op.Failed = nil // nobody looks at it
			if aio.RunFileOp(noFlush{fs, err}, &op); !errors.Is(op.Err, err) {
				t.Errorf("kind %d: %v, expected %v", op.Kind, op.Err, err)
			}
		}
	}
}
