//go:build !linux

package hostfs

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/mqd-broker/mqd/engine/aio"
)

// File is an open file.
type File struct {
	f    *os.File
	path string
	dir  *os.File // locked with it, or nil
}

// Fd is the file's descriptor. It stays the File's to close.
func (f *File) Fd() int { return int(f.f.Fd()) }

// Direct is false: nothing needs to be aligned.
func (f *File) Direct() bool { return false }

// Path is the path that the file was opened by.
func (f *File) Path() string { return f.path }

func openFile(path string, mode aio.OpenMode) (*File, error) {
	flags := os.O_RDONLY
	if mode&aio.OpenWrite != 0 {
		flags = os.O_RDWR
	}
	if mode&aio.OpenCreate != 0 {
		flags |= os.O_CREATE
	}
	if mode&aio.OpenExclusive != 0 {
		flags |= os.O_EXCL
	}
	f, err := os.OpenFile(path, flags, filePerm)
	if err != nil {
		return nil, err
	}
	if mode&aio.OpenDirect != 0 {
		if err := avoidCache(f.Fd()); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return &File{f: f, path: path}, nil
}

// ReadAt reads len(b) bytes at off; fewer, with io.EOF, at the end of the file.
func (f *File) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.f.ReadAt(b, off)
	if err == nil || err == io.EOF {
		return n, err
	}
	return n, failAt("read", f.path, off, err)
}

// WriteAt writes b at off, all of it unless there is an error.
func (f *File) WriteAt(b []byte, off int64) (int, error) {
	n, err := f.f.WriteAt(b, off)
	return n, failAt("write", f.path, off, err)
}

// Close closes the file.
func (f *File) Close() error {
	return fail("close", f.path, errors.Join(f.f.Close(), unlockDir(f.dir)))
}

// Size is the file's size in bytes.
func (f *File) Size() (int64, error) {
	st, err := f.f.Stat()
	if err != nil {
		return 0, fail("stat", f.path, err)
	}
	return st.Size(), nil
}

// Sync makes content, size and metadata durable; on Darwin that is F_FULLFSYNC.
func (f *File) Sync() error { return fail("fsync", f.path, f.f.Sync()) }

// Truncate sets the size in bytes.
func (f *File) Truncate(size int64) error {
	return failAt("truncate", f.path, size, f.f.Truncate(size))
}

// Allocate reserves n bytes at off by writing zeros behind the end of the file.
func (f *File) Allocate(off, n int64) error { return extend(f, off+n) }

func lock(f *File) error {
	return lockError(syscall.Flock(f.Fd(), syscall.LOCK_EX|syscall.LOCK_NB))
}

// statFS knows sizes and the device. It cannot tell one mount or one boot from
// another, so each process has identities of its own, equal to no other's.
func statFS(path string) (aio.FSInfo, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(path, &fs); err != nil {
		return aio.FSInfo{}, err
	}
	info := aio.FSInfo{
		TotalBytes: int64(fs.Blocks) * int64(fs.Bsize),
		FreeBytes:  int64(fs.Bavail) * int64(fs.Bsize),
		BootID:     processID(),
	}
	info.Mount = binary.BigEndian.Uint64(info.BootID[:])
	for _, c := range fs.Fstypename {
		if c == 0 {
			break
		}
		info.Type += string(rune(c))
	}
	st, err := os.Stat(path)
	if err != nil {
		return aio.FSInfo{}, err
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		info.Device = uint64(sys.Dev)
	}
	return info, nil
}

var processID = sync.OnceValue(func() (id [16]byte) {
	rand.Read(id[:]) // never fails: see its documentation
	return id
})
