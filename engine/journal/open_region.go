package journal

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
)

// prewriteBytes is the size of the writes that fill a new file, prewriteDepth how
// many are in flight.
const (
	prewriteBytes = 1 << 20
	prewriteDepth = 4
)

// pollWait bounds one turn of the blocking calls of start-up.
const pollWait = 50 * time.Millisecond

// tempSuffix marks a file whose creation has not been completed.
const tempSuffix = ".tmp"

// OpenFileRegion opens the file path, for start-up only: it blocks.
func OpenFileRegion(d aio.Driver, path string) (*FileRegion, error) {
	return openRegion(d, path, aio.OpenWrite|aio.OpenDirect)
}

// OpenFileRegionReadOnly is OpenFileRegion for tools that must not change the file.
func OpenFileRegionReadOnly(d aio.Driver, path string) (*FileRegion, error) {
	return openRegion(d, path, aio.OpenDirect)
}

func openRegion(d aio.Driver, path string, mode aio.OpenMode) (*FileRegion, error) {
	file, size, err := aio.OpenFile(d, path, mode)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	return &FileRegion{d: d, file: file, size: size &^ (BlockSize - 1), path: path}, nil
}

// CreateFileRegion makes the file path of the given size in bytes, rounded down to
// whole blocks, and writes all of it, so that no later write allocates or grows
// anything. It is made under another name, flushed, and renamed: a file called
// path is complete. An existing one is left alone, ErrExists. It blocks, and
// takes 1 MiB from the driver's arena.
func CreateFileRegion(d aio.Driver, path string, size int64) (*FileRegion, error) {
	return createRegion(d, path, size, func(*FileRegion) error { return nil })
}

// CreateFile is CreateFileRegion and Create in one: a file called path is a
// journal.
func CreateFile(d aio.Driver, path string, size int64, id Identity) (*FileRegion, error) {
	return createRegion(d, path, size, func(r *FileRegion) error { return Create(d, r, id) })
}

func createRegion(d aio.Driver, path string, size int64, fill func(*FileRegion) error) (*FileRegion, error) {
	size &^= BlockSize - 1
	if size < MinRegion {
		return nil, fmt.Errorf("journal: %s: expected at least %d bytes, found %d: %w", path, MinRegion, size, ErrRegion)
	}
	if file, _, err := aio.OpenFile(d, path, 0); err == nil {
		return nil, fmt.Errorf("journal: create %s: %w", path, first(ErrExists, aio.CloseFile(d, file)))
	} else if !aio.IsNotExist(err) {
		return nil, fmt.Errorf("journal: create: %w", err)
	}
	temp := path + tempSuffix
	if err := aio.DoFile(d, &aio.FileOp{Kind: aio.FileRemove, Path: temp}); err != nil {
		return nil, fmt.Errorf("journal: create: %w", err)
	}
	file, _, err := aio.OpenFile(d, temp, aio.OpenWrite|aio.OpenCreate|aio.OpenExclusive|aio.OpenDirect)
	if err != nil {
		return nil, fmt.Errorf("journal: create: %w", err)
	}
	r := &FileRegion{d: d, file: file, size: size, path: path}
	if err := r.complete(temp, fill); err != nil {
		err = first(err, r.Close())
		return nil, fmt.Errorf("journal: create %s: %w", path, first(err, aio.DoFile(d, &aio.FileOp{Kind: aio.FileRemove, Path: temp})))
	}
	return r, nil
}

// complete fills the new file and gives it its name.
func (r *FileRegion) complete(temp string, fill func(*FileRegion) error) error {
	if err := aio.DoFile(r.d, &aio.FileOp{Kind: aio.FileAllocate, File: r.file, Len: r.size}); err != nil {
		return err
	}
	if err := r.prewrite(); err != nil {
		return err
	}
	if err := fill(r); err != nil {
		return err
	}
	if err := aio.DoFile(r.d, &aio.FileOp{Kind: aio.FileSync, File: r.file}); err != nil {
		return err
	}
	if err := aio.DoFile(r.d, &aio.FileOp{Kind: aio.FileRename, Path: temp, Path2: r.path}); err != nil {
		return err
	}
	return aio.DoFile(r.d, &aio.FileOp{Kind: aio.FileSyncDir, Path: filepath.Dir(r.path)})
}

// prewrite writes zeros over the whole file.
func (r *FileRegion) prewrite() error {
	zeros, err := r.d.Alloc(int(min(r.size, prewriteBytes)))
	if err != nil {
		return err
	}
	clear(zeros)
	p := prewriter{r: r, zeros: zeros}
	for i := range p.ops {
		p.ops[i].Owner = &p
		p.next(&p.ops[i])
	}
	for p.busy > 0 {
		if _, err := r.d.Poll(pollWait); err != nil {
			return err
		}
	}
	return p.err
}

// prewriter keeps several writes of zeros in flight.
type prewriter struct {
	r     *FileRegion
	zeros []byte
	ops   [prewriteDepth]aio.Op
	off   int64
	busy  int
	err   error
}

func (p *prewriter) next(op *aio.Op) {
	n := min(int64(len(p.zeros)), p.r.size-p.off)
	if n == 0 || p.err != nil {
		return
	}
	p.busy++
	p.r.Write(op, p.zeros[:n], p.off, 0)
	p.off += n
}

// Complete notes the end of a write and submits the next.
func (p *prewriter) Complete(op *aio.Op) {
	p.busy--
	p.err = first(p.err, op.Err)
	p.next(op)
}

// Close closes the file, for shutdown and tools: it blocks. Nothing may be in
// flight on it.
func (r *FileRegion) Close() error { return aio.CloseFile(r.d, r.file) }

// first returns the first error that is one.
func first(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// waiter waits for one operation of a region.
type waiter struct {
	op   aio.Op
	done bool
}

// Complete notes the end.
func (w *waiter) Complete(*aio.Op) { w.done = true }

func (w *waiter) wait(d aio.Driver) error {
	for !w.done {
		if _, err := d.Poll(pollWait); err != nil {
			return err
		}
	}
	return w.op.Err
}

func readRegion(d aio.Driver, r Region, buf []byte, off int64) error {
	w := &waiter{}
	w.op.Owner = w
	r.Read(&w.op, buf, off)
	if err := w.wait(d); err != nil {
		return err
	}
	if w.op.N < len(buf) {
		return fmt.Errorf("journal: expected %d bytes at %d, found %d: %w", len(buf), off, w.op.N, ErrRegion)
	}
	return nil
}

func writeRegion(d aio.Driver, r Region, buf []byte, off int64, how aio.Flags) error {
	w := &waiter{}
	w.op.Owner = w
	r.Write(&w.op, buf, off, how)
	if err := w.wait(d); err != nil {
		return &WriteError{Pos: off, Length: len(buf), Err: err}
	}
	return nil
}

func flushRegion(d aio.Driver, r Region) error {
	w := &waiter{}
	w.op.Owner = w
	r.Flush(&w.op)
	if err := w.wait(d); err != nil {
		return &FlushError{Err: err}
	}
	return nil
}
