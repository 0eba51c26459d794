// Package openfiles is what drivers of the machine have in common about files: the table
// of those that are open, and the tasks that helpers do with them or without.
//
// The loop of a driver makes a task of an operation ([Table.Begin], [Job]), a helper runs
// it ([Task.Run]), and the loop ends it ([Table.End]). The table is the loop's alone.
package openfiles

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/internal/invariant"
)

// File is an open file.
type File struct {
	Open aio.FSFile // nil: no file has this place
	Path string
	Fd   int // the descriptor; it stays Open's to close
	// Aligned: opened for direct I/O. Direct: and the filesystem has it.
	Aligned, Direct bool
	// Flying are the operations that need the file. The driver counts those that it
	// makes no task of.
	Flying int
}

// Table is the open files of a driver; a handle is a place in it.
type Table struct {
	all  []File
	free []aio.File
}

// New makes a table of n places.
func New(n int) Table {
	t := Table{all: make([]File, n), free: make([]aio.File, n)}
	for i := range t.free {
		t.free[i] = aio.File(n - 1 - i)
	}
	return t
}

// Free is the number of places that no file has.
func (t *Table) Free() int { return len(t.free) }

// At is the file of a handle that is open.
func (t *Table) At(h aio.File) *File { return &t.all[h] }

// Get is the file of a handle, nil if it is not one of an open file.
func (t *Table) Get(h aio.File) *File {
	if h < 0 || int(h) >= len(t.all) || t.all[h].Open == nil {
		return nil
	}
	return &t.all[h]
}

// Close closes all files. Nothing is in flight on them.
func (t *Table) Close() error {
	var errs []error
	for i := range t.all {
		if f := t.all[i].Open; f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// reserve sets a place aside for a file that is being opened.
func (t *Table) reserve() (aio.File, error) {
	n := len(t.free)
	if n == 0 {
		return aio.NoFile, fmt.Errorf("all %d places for open files of the driver are in use: %w", len(t.all), syscall.EMFILE)
	}
	h := t.free[n-1]
	t.free = t.free[:n-1]
	return h, nil
}

func (t *Table) release(h aio.File) {
	t.all[h] = File{}
	t.free = append(t.free, h)
}

// descriptor is what drivers need of the files of their blocking filesystem.
type descriptor interface {
	Fd() int
	Direct() bool
}

// wrapper is a file around another one.
type wrapper interface{ Unwrap() aio.FSFile }

// fileOf is the file that op has opened.
func fileOf(open aio.FSFile, op *aio.FileOp) File {
	inner := open
	for w, ok := inner.(wrapper); ok; w, ok = inner.(wrapper) {
		inner = w.Unwrap()
	}
	d, ok := inner.(descriptor)
	if !ok {
		invariant.Violated("openfiles: a file of a driver's filesystem has a descriptor")
	}
	return File{
		Open: open, Path: op.Path, Fd: d.Fd(),
		Aligned: op.Kind == aio.FileOpen && op.Mode&aio.OpenDirect != 0, Direct: d.Direct(),
	}
}
