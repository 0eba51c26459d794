package mqdtest

import (
	"sync/atomic"
	"syscall"

	"github.com/mqd-broker/mqd/engine/aio"
)

// disk is what tests have said of the disk.
type disk struct {
	full   atomic.Bool // no room is told; what the ballast has given serves the broker's own needs
	broken atomic.Bool // nothing is written any more
}

// driver is a driver whose disk fails as a test wants it. Operations are carried out, and
// their outcome is another one.
type driver struct {
	aio.Driver
	disk *disk
}

// Notes implements aio.Driver: who runs a broker in a test knows what it runs on.
func (d *driver) Notes() []string { return nil }

// Submit implements aio.Driver.
func (d *driver) Submit(op *aio.Op) {
	if d.disk.broken.Load() && (op.Kind == aio.KindWrite || op.Kind == aio.KindFdatasync) {
		op.Owner = &failing{op.Owner}
	}
	d.Driver.Submit(op)
}

// SubmitFile implements aio.Driver.
func (d *driver) SubmitFile(op *aio.FileOp) {
	f := &failingFile{owner: op.Owner}
	switch op.Kind {
	case aio.FileStatFS:
		f.noRoom = d.disk.full.Load()
	case aio.FileAllocate, aio.FileTruncate, aio.FileSync, aio.FileSyncDir, aio.FileWriteAtomic:
		if d.disk.broken.Load() {
			f.err = syscall.EIO
		}
	}
	if f.noRoom || f.err != nil {
		op.Owner = f
	}
	d.Driver.SubmitFile(op)
}

// failing is the owner of a write that fails.
type failing struct{ owner aio.Completer }

// Complete tells the owner.
func (f *failing) Complete(op *aio.Op) {
	op.Owner = f.owner
	if op.Err == nil {
		op.N, op.Err = 0, &aio.Error{Op: "write", What: "the disk of mqdtest", Off: op.Off, Err: syscall.EIO}
	}
	op.Owner.Complete(op)
}

// failingFile is the owner of a file operation that fails.
type failingFile struct {
	owner  aio.FileCompleter
	err    error
	noRoom bool // the filesystem has none
}

// CompleteFile tells the owner.
func (f *failingFile) CompleteFile(op *aio.FileOp) {
	op.Owner = f.owner
	if f.noRoom {
		op.FS.FreeBytes = 0
	}
	if op.Err == nil && f.err != nil {
		op.Err = &aio.Error{Op: "file operation", What: "the disk of mqdtest", Off: -1, Err: f.err}
	}
	op.Owner.CompleteFile(op)
}
