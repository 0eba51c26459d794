package aio

import "io"

// FS is a blocking filesystem: what helper threads and tools that stand outside
// a shard use. A driver's file operations and jobs run on its FS, so that the
// simulator sees (and can crash between) every step.
//
// Errors are of type *Error.
type FS interface {
	// Open opens path; see OpenMode.
	Open(path string, mode OpenMode) (FSFile, error)
	// Rename atomically replaces newPath by oldPath.
	Rename(oldPath, newPath string) error
	// Remove removes a file or empty directory; a missing one is no error.
	Remove(path string) error
	// RemoveAll removes path and all below it; a missing one is no error.
	RemoveAll(path string) error
	// Mkdir makes one directory; an existing one is no error. Its entry is
	// not synced.
	Mkdir(path string) error
	// ReadDir lists a directory, sorted by name.
	ReadDir(path string) ([]DirEntry, error)
	// SyncDir makes a directory's entries durable.
	SyncDir(path string) error
	// Lock takes an exclusive lock on path, creating it, and on the directory dir
	// unless that is empty; see FileLock. ErrLocked.
	Lock(path, dir string) (FSFile, error)
	// Stat describes the filesystem that holds path.
	Stat(path string) (FSInfo, error)
	// Spread advises that the directories in path have nothing to do with each other, so
	// that they are better placed apart. It changes no content, and what a filesystem
	// cannot do it does not.
	Spread(path string)
}

// FSFile is an open file of an FS. ReadAt and WriteAt of a file opened with
// OpenDirect need aligned memory, offsets and lengths.
type FSFile interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Size is the file's size in bytes.
	Size() (int64, error)
	// Sync makes content, size and metadata durable.
	Sync() error
	// Truncate sets the size in bytes.
	Truncate(size int64) error
	// Allocate reserves n bytes at off and extends the size to cover them.
	Allocate(off, n int64) error
}

// Job is work for a helper thread: decompression, the rebuilding of an index,
// whatever would hold a shard up. It owns what it touches until it completes.
type Job interface {
	Run(fs FS) error
}

// JobOp submits a Job. The caller owns it; see [Op].
type JobOp struct {
	Job   Job
	Owner JobCompleter
	Tag   uint64
	Err   error
	// InFlight is the driver's.
	InFlight bool
}

// JobCompleter receives completions of jobs, on the loop.
type JobCompleter interface {
	CompleteJob(op *JobOp)
}
