package sim

import (
	"io"
	"syscall"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim/disk"
	"github.com/mqd-broker/mqd/internal/invariant"
)

// fsys is the blocking filesystem. On a helper each of its calls is one step,
// which the world schedules; elsewhere a call takes effect at once.
type fsys struct {
	w    *World
	d    *Driver // nil for the world's own, which no crash ends
	help *helper // nil outside a helper
}

// FS is the filesystem for code outside a driver: tests that prepare or inspect
// the disk. It lives through crashes; files opened by it do not.
func (w *World) FS() aio.FS { return &fsys{w: w} }

// FS is the blocking filesystem of d's helpers.
func (d *Driver) FS() aio.FS { return aio.Watched(&fsys{w: d.w, d: d}, d.opt.FlushFailed) }

// step is taken at the start of every call. It returns with the mutex held and
// with the fault that is to strike, or with an error.
func (s *fsys) step(op Ops, what, path, more string) (*Fault, error) {
	subj := subject{op: op, d: s.d, path: disk.Clean(path)}
	if more != "" {
		subj.more = disk.Clean(more)
	}
	if s.help != nil {
		s.help.next = subj
		if !s.help.park() {
			return nil, fsError(what, path, aio.ErrClosed)
		}
	}
	s.w.mu.Lock()
	if s.d == nil {
		return nil, nil // the world's own: trouble is not for the test itself
	}
	if s.w.opt.Mode == RealTime {
		s.w.holdHere(&subj)
	}
	if s.help == nil {
		s.w.burn() // a helper's step has been an event
	}
	if s.d.dead {
		s.w.mu.Unlock()
		return nil, fsError(what, path, aio.ErrClosed)
	}
	if s.help == nil {
		s.w.look(&subj)
	}
	return s.w.strike(&subj), nil
}

func fsError(what, path string, err error) error {
	if err == nil {
		return nil
	}
	return &aio.Error{Op: what, What: path, Off: -1, Err: err}
}

// do runs one step; a fault fails it before anything has happened.
func (s *fsys) do(op Ops, what, path string, f func() error) error {
	return s.do2(op, what, path, "", f)
}

func (s *fsys) do2(op Ops, what, path, more string, f func() error) error {
	fault, err := s.step(op, what, path, more)
	if err != nil {
		return err
	}
	defer s.w.mu.Unlock()
	if fault != nil && fault.Effect == Fail {
		return fsError(what, path, fault.Err)
	}
	return fsError(what, path, f())
}

func (s *fsys) Open(path string, mode aio.OpenMode) (aio.FSFile, error) {
	h, err := s.open(path, mode)
	if err != nil {
		return nil, err
	}
	return h, nil
}

func (s *fsys) open(path string, mode aio.OpenMode) (*handle, error) {
	h := &handle{fs: s, path: disk.Clean(path), mode: mode, epoch: s.w.age()}
	err := s.do(Opens, "open", path, func() (err error) {
		h.ino, err = s.w.tree.Open(path, mode)
		return err
	})
	return h, err
}

func (s *fsys) Rename(from, to string) error {
	return s.do2(Renames, "rename", from, to, func() error { return s.w.tree.Rename(from, to) })
}

func (s *fsys) Remove(path string) error {
	return s.do(Removes, "remove", path, func() error { return s.w.tree.Remove(path) })
}

// RemoveAll removes what is below first, one name a step.
func (s *fsys) RemoveAll(path string) error {
	list, err := s.ReadDir(path)
	switch {
	case err == nil:
		for _, e := range list {
			if err := s.RemoveAll(path + "/" + e.Name); err != nil {
				return err
			}
		}
	case aio.IsNotExist(err):
		return nil
	case !isErrno(err, syscall.ENOTDIR):
		return err
	}
	return s.Remove(path)
}

func (s *fsys) Mkdir(path string) error {
	return s.do(Mkdirs, "mkdir", path, func() error { return s.w.tree.Mkdir(path) })
}

func (s *fsys) ReadDir(path string) (list []aio.DirEntry, err error) {
	err = s.do(ReadDirs, "readdir", path, func() (err error) {
		list, err = s.w.tree.ReadDir(path)
		return err
	})
	return list, err
}

func (s *fsys) SyncDir(path string) error {
	return s.do(DirSyncs, "syncdir", path, func() error { return s.w.tree.SyncDir(path) })
}

func (s *fsys) Lock(path, dir string) (aio.FSFile, error) {
	h, err := s.lock(path, dir)
	if err != nil {
		return nil, err
	}
	return h, nil
}

func (s *fsys) lock(path, dir string) (*handle, error) {
	h := &handle{fs: s, path: disk.Clean(path), mode: aio.OpenWrite, epoch: s.w.age()}
	err := s.do(Locks, "lock", path, func() (err error) {
		h.ino, err = s.w.tree.Open(path, aio.OpenWrite|aio.OpenCreate)
		switch {
		case err != nil:
			return err
		case !h.ino.TryLock():
			s.w.tree.Close(h.ino)
			return aio.ErrLocked
		}
		h.locks[0] = h.ino
		if dir == "" {
			return nil
		}
		with, err := s.w.tree.LookupDir(dir)
		if err == nil && !with.TryLock() {
			err = aio.ErrLocked
		}
		if err != nil {
			h.close()
			return err
		}
		h.locks[1] = with
		return nil
	})
	return h, err
}

func (s *fsys) Stat(path string) (info aio.FSInfo, err error) {
	err = s.do(Stats, "statfs", path, func() error {
		n, err := s.w.tree.Lookup(path)
		if err == nil {
			info = s.w.statFS(n)
		}
		return err
	})
	return info, err
}

func (w *World) statFS(n *disk.Inode) aio.FSInfo {
	info := aio.FSInfo{Type: "sim", Mount: w.mounts, BootID: w.boot}
	info.Device, info.TotalBytes, info.FreeBytes = n.Space()
	return info
}

// age is the world's epoch.
func (w *World) age() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.epoch
}

// handle is an open file.
type handle struct {
	fs   *fsys
	ino  *disk.Inode
	path string
	mode aio.OpenMode
	// locks are the file and the directory that it holds a lock on, or nil.
	locks [2]*disk.Inode
	shut  bool
	// epoch is the world's when the file was opened: a handle ends with
	// its process.
	epoch uint64
}

// do runs one step on the open file; f deals with the fault, if any.
func (h *handle) do(op Ops, what string, f func(*Fault) error) error {
	fault, err := h.fs.step(op, what, h.path, "")
	if err != nil {
		return err
	}
	defer h.fs.w.mu.Unlock()
	if h.shut || h.epoch != h.fs.w.epoch {
		return fsError(what, h.path, aio.ErrClosed)
	}
	return fsError(what, h.path, f(fault))
}

// simple is do for a step that a fault fails before anything has happened.
func (h *handle) simple(op Ops, what string, f func() error) error {
	return h.do(op, what, func(fault *Fault) error {
		if fault != nil && fault.Effect == Fail {
			return fault.Err
		}
		return f()
	})
}

// ReadAt reads from the file; it returns io.EOF where it ends.
func (h *handle) ReadAt(b []byte, off int64) (n int, err error) {
	err = h.simple(Reads, "read", func() (err error) {
		if err := h.checkIO(b, off); err != nil {
			return err
		}
		n, err = h.ino.ReadAt(b, off)
		return err
	})
	if err == nil && n < len(b) {
		err = io.EOF
	}
	return n, err
}

// WriteAt writes to the file. A short write is one step; the rest is another.
func (h *handle) WriteAt(b []byte, off int64) (n int, err error) {
	for first := true; err == nil && (first || n < len(b)); first = false {
		err = h.do(Writes, "write", func(fault *Fault) error {
			if h.mode&aio.OpenWrite == 0 {
				return syscall.EBADF
			}
			if err := h.checkIO(b, off); err != nil {
				return err
			}
			rest, dsync := b[n:], disk.Cached
			at, err := h.fs.w.spoil(h.ino, fault, &rest, off+int64(n), &dsync)
			switch {
			case err != nil:
				return err
			case len(rest) == 0 && len(b) > 0:
				return aio.ErrShort
			case !h.fs.w.put(h.ino, rest, at, dsync):
				return syscall.ENOSPC
			}
			n += len(rest)
			return nil
		})
	}
	return n, err
}

func (h *handle) Size() (size int64, err error) {
	err = h.simple(Stats, "stat", func() error {
		size = h.ino.Size()
		return nil
	})
	return size, err
}

func (h *handle) Sync() error {
	return h.do(Flushes, "fsync", func(fault *Fault) error {
		return h.fs.w.flush(h.ino, h.ino.Mark(), fault)
	})
}

func (h *handle) Truncate(size int64) error {
	return h.simple(Truncates, "truncate", func() error {
		switch {
		case size < 0, h.mode&aio.OpenWrite == 0:
			return syscall.EINVAL
		case size != h.ino.Size() && !h.ino.Resize(size):
			return syscall.ENOSPC
		}
		return nil
	})
}

func (h *handle) Allocate(off, n int64) error {
	return h.simple(Allocates, "allocate", func() error {
		switch {
		case off < 0 || n <= 0:
			return syscall.EINVAL
		case h.mode&aio.OpenWrite == 0:
			return syscall.EBADF
		case off+n > h.ino.Size() && !h.ino.Resize(off+n):
			return syscall.ENOSPC
		}
		return nil
	})
}

func (h *handle) Close() error {
	return h.simple(Closes, "close", func() error {
		h.close()
		return nil
	})
}

func (h *handle) close() {
	h.shut = true
	h.unlock()
	h.fs.w.tree.Close(h.ino)
}

// unlock gives up the locks that it holds.
func (h *handle) unlock() {
	for _, ino := range h.locks {
		if ino != nil {
			ino.Unlock()
		}
	}
}

// handle is the open file that f means, or nil.
func (d *Driver) handle(f aio.File) *handle {
	if f < 0 || int(f) >= len(d.files) {
		return nil
	}
	return d.files[f]
}

// install gives h a place in the table of open files.
func (d *Driver) install(h *handle) (aio.File, error) {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	if d.dead {
		return aio.NoFile, aio.ErrClosed
	}
	for i, o := range d.files {
		if o == nil {
			d.files[i] = h
			return aio.File(i), nil
		}
	}
	h.close()
	return aio.NoFile, syscall.EMFILE
}

// remove takes f out of the table.
func (d *Driver) remove(f aio.File) *handle {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	h := d.handle(f)
	if h == nil {
		return nil
	}
	for i := range d.slots {
		op := d.slots[i].op
		if op != nil && !d.slots[i].over && op.File == f && op.Kind <= aio.KindFdatasync {
			invariant.Violated("sim: a file was closed with operations in flight")
		}
	}
	d.files[f] = nil
	return h
}

// Spread does nothing: nothing is placed.
func (s *fsys) Spread(string) {}
