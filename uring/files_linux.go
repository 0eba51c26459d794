package uring

import (
	"fmt"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/internal/invariant"
	"golang.org/x/sys/unix"
)

// descriptor is what the driver needs of the files of its blocking filesystem.
type descriptor interface {
	Fd() int
	Direct() bool
}

// openFile is an entry of the table of open files.
type openFile struct {
	f      aio.FSFile
	path   string
	direct bool
	// inRing: registered with the ring. Lock files are too, although nothing is
	// read or written through them: the kernel keeps registered files, and so
	// the lock, until everything that the ring had in flight has ended. A write
	// of a process that has been killed can then not land on what the next
	// process has written.
	inRing bool
	used   bool
	flying int // operations that need f
}

// files is the table of open files. A file's number is its handle and, if it is
// registered, its place in the ring's table.
type files struct {
	tab  []openFile
	free []aio.File
}

func newFiles(n int) files {
	f := files{tab: make([]openFile, n), free: make([]aio.File, n)}
	for i := range f.free {
		f.free[i] = aio.File(n - 1 - i)
	}
	return f
}

// reserve sets a handle aside for a file that is being opened.
func (f *files) reserve() (aio.File, error) {
	if len(f.free) == 0 {
		return aio.NoFile, fmt.Errorf("%w: all %d are in use: %w", ErrTooManyFiles, len(f.tab), unix.EMFILE)
	}
	h := f.free[len(f.free)-1]
	f.free = f.free[:len(f.free)-1]
	f.tab[h].used = true
	return h, nil
}

// release frees a handle.
func (f *files) release(h aio.File) {
	f.tab[h] = openFile{}
	f.free = append(f.free, h)
}

// get returns the open file of a handle, or nil.
func (f *files) get(h aio.File) *openFile {
	if h < 0 || int(h) >= len(f.tab) || f.tab[h].f == nil {
		return nil
	}
	return &f.tab[h]
}

// putFile makes the file that op has opened the one of its reserved handle.
func (d *Driver) putFile(h aio.File, file aio.FSFile, op *aio.FileOp) error {
	e := &d.files.tab[h]
	desc, ok := file.(descriptor)
	if !ok {
		invariant.Violated("uring: a file of the driver's filesystem has a descriptor")
	}
	if err := d.ring.setFile(int(h), desc.Fd()); err != nil {
		return &aio.Error{Op: "open", What: op.Path, Off: -1, Err: err}
	}
	e.inRing = true
	e.f, e.path, e.direct = file, op.Path, desc.Direct()
	return nil
}

// takeFile takes a file out of the table and the ring, to be closed.
func (d *Driver) takeFile(h aio.File) (aio.FSFile, error) {
	e := d.files.get(h)
	if e.flying > 0 {
		invariant.Violated("uring: a file that is closed has nothing in flight")
	}
	var err error
	if e.inRing {
		if err = d.ring.setFile(int(h), -1); err != nil {
			err = &aio.Error{Op: "close", What: e.path, Off: -1, Err: err}
		}
	}
	f := e.f
	d.files.release(h)
	return f, err
}
