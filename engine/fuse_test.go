package engine

import (
	"errors"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
)

// errBlown is what a start ends with when its fuse has blown.
var errBlown = errors.New("the fuse has blown")

// fuse ends a start after a number of steps, as a crash would: every operation that is
// submitted and every call of the filesystem is a step. When none is left nothing
// works any more; the operation that was submitted last is in flight then, for
// World.Crash or World.Kill to decide about.
type fuse struct {
	left int
	safe bool // the start is over

	removals bool // only the removals of files are steps
}

// blown reports whether no step is left.
func (f *fuse) blown() bool { return !f.safe && f.left < 0 }

// step takes a step, if there is one left.
func (f *fuse) step() error {
	if !f.safe {
		f.left--
	}
	if f.blown() {
		return errBlown
	}
	return nil
}

func (f *fuse) wrap(d aio.Driver) aio.Driver { return &fusedDriver{Driver: d, f: f} }

type fusedDriver struct {
	aio.Driver
	f *fuse
}

// submitted takes a step; whether one was left, the next Poll tells.
func (f *fuse) submitted() {
	if !f.removals {
		_ = f.step()
	}
}

func (d *fusedDriver) Submit(op *aio.Op) {
	d.f.submitted()
	d.Driver.Submit(op)
}

func (d *fusedDriver) SubmitFile(op *aio.FileOp) {
	d.f.submitted()
	d.Driver.SubmitFile(op)
}

func (d *fusedDriver) Poll(wait time.Duration) (int, error) {
	if d.f.blown() {
		return 0, errBlown
	}
	return d.Driver.Poll(wait)
}

func (d *fusedDriver) FS() aio.FS { return &fusedFS{fs: d.Driver.FS(), f: d.f} }

type fusedFS struct {
	fs aio.FS
	f  *fuse
}

func (s *fusedFS) do(call func() error) error {
	if s.f.removals {
		return call()
	}
	return s.count(call)
}

func (s *fusedFS) count(call func() error) error {
	if err := s.f.step(); err != nil {
		return err
	}
	return call()
}

func (s *fusedFS) Open(path string, mode aio.OpenMode) (file aio.FSFile, err error) {
	err = s.do(func() error { file, err = s.fs.Open(path, mode); return err })
	if err != nil {
		return nil, err
	}
	return &fusedFile{file: file, s: s}, nil
}

func (s *fusedFS) Rename(from, to string) error {
	return s.do(func() error { return s.fs.Rename(from, to) })
}
func (s *fusedFS) Remove(path string) error {
	return s.count(func() error { return s.fs.Remove(path) })
}
func (s *fusedFS) RemoveAll(path string) error {
	return s.do(func() error { return s.fs.RemoveAll(path) })
}
func (s *fusedFS) Mkdir(path string) error { return s.do(func() error { return s.fs.Mkdir(path) }) }
func (s *fusedFS) ReadDir(path string) (l []aio.DirEntry, err error) {
	err = s.do(func() error { l, err = s.fs.ReadDir(path); return err })
	return l, err
}
func (s *fusedFS) SyncDir(path string) error { return s.do(func() error { return s.fs.SyncDir(path) }) }
func (s *fusedFS) Lock(path, dir string) (f aio.FSFile, err error) {
	err = s.do(func() error { f, err = s.fs.Lock(path, dir); return err })
	return f, err
}
func (s *fusedFS) Stat(path string) (i aio.FSInfo, err error) {
	err = s.do(func() error { i, err = s.fs.Stat(path); return err })
	return i, err
}

type fusedFile struct {
	file aio.FSFile
	s    *fusedFS
}

func (f *fusedFile) ReadAt(b []byte, off int64) (n int, err error) {
	err = f.s.do(func() error { n, err = f.file.ReadAt(b, off); return err })
	return n, err
}

func (f *fusedFile) WriteAt(b []byte, off int64) (n int, err error) {
	err = f.s.do(func() error { n, err = f.file.WriteAt(b, off); return err })
	return n, err
}

func (f *fusedFile) Close() error { return f.file.Close() }
func (f *fusedFile) Size() (n int64, err error) {
	err = f.s.do(func() error { n, err = f.file.Size(); return err })
	return n, err
}
func (f *fusedFile) Sync() error { return f.s.do(f.file.Sync) }
func (f *fusedFile) Truncate(size int64) error {
	return f.s.do(func() error { return f.file.Truncate(size) })
}
func (f *fusedFile) Allocate(off, n int64) error {
	return f.s.do(func() error { return f.file.Allocate(off, n) })
}

func (s *fusedFS) Spread(path string) { s.fs.Spread(path) }
