package portable

import (
	"errors"
	"fmt"
	"sync/atomic"

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
	f    aio.FSFile // nil: not open
	path string
	fd   int
	// aligned: opened for direct I/O. direct: and the filesystem has it.
	aligned, direct bool
	flying          int // operations that need f
}

// files is the table of open files; a handle is a place in it.
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
	n := len(f.free)
	if n == 0 {
		return aio.NoFile, fmt.Errorf("all %d places for open files of the driver are in use: %w", len(f.tab), unix.EMFILE)
	}
	h := f.free[n-1]
	f.free = f.free[:n-1]
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

// put makes the file that op has opened the one of its reserved handle.
func (f *files) put(h aio.File, file aio.FSFile, op *aio.FileOp) {
	desc, ok := file.(descriptor)
	if !ok {
		invariant.Violated("portable: a file of the driver's filesystem has a descriptor")
	}
	f.tab[h] = openFile{
		f: file, path: op.Path, fd: desc.Fd(),
		aligned: op.Kind == aio.FileOpen && op.Mode&aio.OpenDirect != 0, direct: desc.Direct(),
	}
}

// forget takes a file that is closed out of the table.
func (f *files) forget(h aio.File) {
	if f.tab[h].flying > 0 {
		invariant.Violated("portable: a file that is closed has nothing in flight")
	}
	f.release(h)
}

// buffering is a filesystem that opens files without O_DIRECT where there is none.
type buffering struct {
	aio.FS
	note atomic.Pointer[string]
}

// Open opens path; see aio.FS.
func (b *buffering) Open(path string, mode aio.OpenMode) (aio.FSFile, error) {
	f, err := b.FS.Open(path, mode)
	if mode&aio.OpenDirect == 0 || !errors.Is(err, aio.ErrNoDirect) {
		return f, err
	}
	if b.note.Load() == nil {
		text := fmt.Sprintf("no direct I/O (%v): files go through the page cache. What is flushed is as safe as elsewhere; "+
			"what is acknowledged before that (durability written) survives the death of the process, but no longer that of the kernel", err)
		b.note.Store(&text)
	}
	return b.FS.Open(path, mode&^aio.OpenDirect)
}

// notes says that some file was opened without, if one was.
func (b *buffering) notes() []string {
	if text := b.note.Load(); text != nil {
		return []string{*text}
	}
	return nil
}
