// Package hostfs is the blocking filesystem of the machine: what helper threads
// of drivers, and tools that stand outside a shard, use as their [aio.FS].
//
// On Linux every step is one plain system call, so that seccomp, strace and the
// audit log see it, and direct files (aio.OpenDirect) bypass the page cache.
// On macOS, for development, the same interface stands on package os, whose Sync is
// F_FULLFSYNC: with F_NOCACHE in place of O_DIRECT, and files preallocated by writing
// zeros.
//
// Nothing here repeats a failed sync: after one, the kernel may have dropped the
// data that the next one then reports as safe.
package hostfs

import (
	"errors"
	"io/fs"
	"os"
	"sort"
	"syscall"

	"github.com/mqd-broker/mqd/engine/aio"
)

// Modes of what is created. Nobody else has any business with a broker's data.
const (
	filePerm = 0o600
	dirPerm  = 0o700
)

// FS is the machine's filesystem. It has no state; its methods may be called by
// any number of goroutines.
type FS struct{}

var (
	_ aio.FS     = FS{}
	_ aio.FSFile = (*File)(nil)
)

// New returns the machine's filesystem.
func New() FS { return FS{} }

// Open opens path; see aio.OpenMode. The file is a *File. Without O_DIRECT
// support the error wraps aio.ErrNoDirect.
func (FS) Open(path string, mode aio.OpenMode) (aio.FSFile, error) {
	f, err := openFile(path, mode)
	if err != nil {
		return nil, fail("open", path, err)
	}
	return f, nil
}

// Rename atomically replaces newPath by oldPath. Only SyncDir makes it durable.
func (FS) Rename(oldPath, newPath string) error {
	return fail("rename", oldPath+" to "+newPath, os.Rename(oldPath, newPath))
}

// Remove removes a file or an empty directory; a missing one is no error.
func (FS) Remove(path string) error {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fail("remove", path, err)
}

// RemoveAll removes path and all below it; a missing one is no error.
func (FS) RemoveAll(path string) error {
	return fail("remove", path, os.RemoveAll(path))
}

// Mkdir makes one directory with mode 0700; an existing one is no error.
func (FS) Mkdir(path string) error {
	err := os.Mkdir(path, dirPerm)
	if errors.Is(err, fs.ErrExist) {
		st, serr := os.Stat(path)
		switch {
		case serr == nil && st.IsDir():
			return nil
		case serr != nil && !errors.Is(serr, fs.ErrNotExist):
			err = serr // a filesystem that has stopped shows names, and nothing else
		}
	}
	return fail("mkdir", path, err)
}

// ReadDir lists a directory, sorted by name. A name that disappears meanwhile is
// left out.
func (FS) ReadDir(path string) ([]aio.DirEntry, error) {
	list, err := os.ReadDir(path)
	if err != nil {
		return nil, fail("readdir", path, err)
	}
	entries := make([]aio.DirEntry, 0, len(list))
	for _, e := range list {
		entry := aio.DirEntry{Name: e.Name(), Dir: e.IsDir()}
		if !entry.Dir {
			info, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, fail("readdir", path, err)
			}
			entry.Size = info.Size()
		}
		entries = append(entries, entry)
	}
	sort.Slice(entries, func(i, j int) bool { return entries[i].Name < entries[j].Name })
	return entries, nil
}

// SyncDir makes a directory's entries durable.
func (FS) SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return fail("syncdir", path, err)
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return fail("syncdir", path, err)
}

// Lock takes an exclusive lock on path, which it creates, and on the directory dir
// unless that is empty. The lock ends with the process or with Close. The error wraps
// aio.ErrLocked when it is held already.
func (FS) Lock(path, dir string) (aio.FSFile, error) {
	f, err := openFile(path, aio.OpenWrite|aio.OpenCreate)
	if err != nil {
		return nil, fail("lock", path, err)
	}
	if err = lock(f); err == nil && dir != "" {
		f.dir, err = lockDir(dir)
	}
	if err != nil {
		if cerr := f.Close(); cerr != nil {
			err = errors.Join(err, cerr)
		}
		return nil, fail("lock", path, err)
	}
	return f, nil
}

// lockDir takes an exclusive lock on a directory. Network filesystems that lock only
// files open for writing have none: then the result is nil.
func lockDir(path string) (*os.File, error) {
	d, err := os.Open(path)
	if err != nil {
		return nil, nil // the file beside is locked
	}
	err = lockError(syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB))
	if err == nil {
		return d, nil
	}
	cerr := d.Close()
	if errors.Is(err, aio.ErrLocked) {
		return nil, errors.Join(err, cerr)
	}
	return nil, cerr
}

// unlockDir gives up the lock of lockDir.
func unlockDir(d *os.File) error {
	if d == nil {
		return nil
	}
	return d.Close()
}

// Stat describes the filesystem that holds path.
func (FS) Stat(path string) (aio.FSInfo, error) {
	info, err := statFS(path)
	if err != nil {
		return aio.FSInfo{}, fail("statfs", path, err)
	}
	return info, nil
}

// fail puts err into the one form of this package's errors: the operation, the
// path, and what the kernel said. A nil err stays nil.
func fail(op, what string, err error) error {
	return failAt(op, what, -1, err)
}

func failAt(op, what string, off int64, err error) error {
	if err == nil {
		return nil
	}
	var pe *fs.PathError
	var le *os.LinkError
	var se *os.SyscallError
	switch {
	case errors.As(err, &pe):
		err = pe.Err
	case errors.As(err, &le):
		err = le.Err
	case errors.As(err, &se):
		err = se.Err
	}
	return &aio.Error{Op: op, What: what, Off: off, Err: err}
}

// lockError turns flock's answer into the port's.
func lockError(err error) error {
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return aio.ErrLocked
	}
	return err
}
