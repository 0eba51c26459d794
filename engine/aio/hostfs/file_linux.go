package hostfs

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/mqd-broker/mqd/engine/aio"
	"golang.org/x/sys/unix"
)

// maxTransfer is the most that one system call is asked to read or write, in
// bytes. Linux caps a transfer just below 2 GiB; this keeps the rest of a capped
// one aligned.
const maxTransfer = 1 << 30

// File is an open file.
type File struct {
	fd     int
	path   string
	direct bool
	dir    *os.File // locked with it, or nil
}

// Fd is the file's descriptor. It stays the File's to close.
func (f *File) Fd() int { return f.fd }

// Direct reports whether the file bypasses the page cache, so that memory,
// offsets and lengths must be aligned to aio.BlockSize.
func (f *File) Direct() bool { return f.direct }

// Path is the path that the file was opened by.
func (f *File) Path() string { return f.path }

func openFile(path string, mode aio.OpenMode) (*File, error) {
	flags := unix.O_CLOEXEC
	if mode&aio.OpenWrite != 0 {
		flags |= unix.O_RDWR
	}
	if mode&aio.OpenCreate != 0 {
		flags |= unix.O_CREAT
	}
	if mode&aio.OpenExclusive != 0 {
		flags |= unix.O_EXCL
	}
	if mode&aio.OpenDirect != 0 {
		flags |= unix.O_DIRECT
	}
	fd, err := retry(func() (int, error) { return unix.Open(path, flags, filePerm) })
	if err != nil {
		if err == unix.EINVAL && mode&aio.OpenDirect != 0 {
			dropExclusive(path, mode)
			return nil, noDirect(err.Error())
		}
		return nil, err
	}
	f := &File{fd: fd, path: path, direct: mode&aio.OpenDirect != 0}
	if f.direct {
		if err := checkAlignment(fd); err != nil {
			unix.Close(fd)
			dropExclusive(path, mode)
			return nil, err
		}
	}
	return f, nil
}

// dropExclusive removes the file that a failed exclusive creation left: the
// kernel refuses O_DIRECT only after it has made the file.
func dropExclusive(path string, mode aio.OpenMode) {
	const ours = aio.OpenCreate | aio.OpenExclusive
	if mode&ours == ours {
		_ = unix.Unlink(path)
	}
}

func noDirect(why string) error { return fmt.Errorf("%w (%s)", aio.ErrNoDirect, why) }

// checkAlignment refuses a direct file whose filesystem wants more than
// aio.BlockSize of alignment. Kernels before 6.1 do not tell (STATX_DIOALIGN);
// there the first transfer would.
func checkAlignment(fd int) error {
	var st unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_DIOALIGN, &st)
	if err != nil || st.Mask&unix.STATX_DIOALIGN == 0 {
		return nil
	}
	switch {
	case st.Dio_offset_align == 0:
		return noDirect("the filesystem says that this file has none")
	case st.Dio_offset_align > aio.BlockSize || st.Dio_mem_align > aio.BlockSize:
		return noDirect(fmt.Sprintf("it needs offsets aligned to %d and memory to %d bytes; %d is what there is",
			st.Dio_offset_align, st.Dio_mem_align, aio.BlockSize))
	}
	return nil
}

// ReadAt reads len(b) bytes at off; fewer, with io.EOF, at the end of the file.
func (f *File) ReadAt(b []byte, off int64) (int, error) {
	done := 0
	for done < len(b) {
		part := b[done:min(len(b), done+maxTransfer)]
		n, err := retry(func() (int, error) { return unix.Pread(f.fd, part, off+int64(done)) })
		if err != nil {
			return done, failAt("read", f.path, off+int64(done), err)
		}
		done += n
		// A direct read ends unaligned only at the end of the file; to go
		// on from there would be refused.
		if n == 0 || f.direct && n%aio.BlockSize != 0 {
			break
		}
	}
	if done < len(b) {
		return done, io.EOF
	}
	return done, nil
}

// WriteAt writes b at off, all of it unless there is an error.
func (f *File) WriteAt(b []byte, off int64) (int, error) {
	done := 0
	for done < len(b) {
		part := b[done:min(len(b), done+maxTransfer)]
		n, err := retry(func() (int, error) { return unix.Pwrite(f.fd, part, off+int64(done)) })
		if err == nil && n == 0 {
			err = aio.ErrShort
		}
		if err != nil {
			return done, failAt("write", f.path, off+int64(done), err)
		}
		done += n
	}
	return done, nil
}

// Close closes the file.
func (f *File) Close() error {
	// The descriptor is gone whatever close says, EINTR included.
	return fail("close", f.path, errors.Join(unix.Close(f.fd), unlockDir(f.dir)))
}

// Size is the file's size in bytes.
func (f *File) Size() (int64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(f.fd, &st); err != nil {
		return 0, fail("stat", f.path, err)
	}
	return st.Size, nil
}

// Sync makes content, size and metadata durable. A failure is final: see the
// package comment.
func (f *File) Sync() error { return fail("fsync", f.path, unix.Fsync(f.fd)) }

// Truncate sets the size in bytes.
func (f *File) Truncate(size int64) error {
	_, err := retry(func() (int, error) { return 0, unix.Ftruncate(f.fd, size) })
	return failAt("truncate", f.path, size, err)
}

// Allocate reserves n bytes at off and extends the size to cover them. On a filesystem
// that cannot reserve, zeros are written behind the end of a file that is not direct.
func (f *File) Allocate(off, n int64) error {
	_, err := retry(func() (int, error) { return 0, unix.Fallocate(f.fd, 0, off, n) })
	if err == unix.EOPNOTSUPP && !f.direct {
		return extend(f, off+n)
	}
	return failAt("fallocate", f.path, off, err)
}

// lock takes the whole-file lock of the open file. It belongs to the open file
// and not to the process, so that a second open in one process is refused too.
func lock(f *File) error {
	_, err := retry(func() (int, error) { return 0, unix.Flock(f.fd, unix.LOCK_EX|unix.LOCK_NB) })
	return lockError(err)
}

// retry repeats a call that a signal has interrupted before it did anything.
func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err != unix.EINTR {
			return n, err
		}
	}
}
