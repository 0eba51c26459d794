package aio

import "sync/atomic"

// FileKind says what a [FileOp] does.
type FileKind uint8

// The file operations. The kernel may block on each of them, so a driver runs
// them on a bounded pool of helper threads and completes them on the loop.
const (
	FileNone FileKind = iota
	// FileOpen opens Path with Mode. Results: File, Size.
	FileOpen
	// FileClose closes File. Nothing may be in flight on it.
	FileClose
	// FileAllocate reserves Len bytes at Off and extends the size of File to
	// cover them. They read as zeros.
	FileAllocate
	// FileTruncate sets the size of File to Len.
	FileTruncate
	// FileSync makes all of File durable, its size and metadata included.
	FileSync
	// FileSyncDir makes the entries of the directory Path durable.
	FileSyncDir
	// FileRename renames Path to Path2, atomically replacing it.
	FileRename
	// FileRemove removes the file or empty directory Path. A missing file is
	// no error.
	FileRemove
	// FileRemoveAll removes Path and all below it. A missing path is no error.
	FileRemoveAll
	// FileMkdirAll creates the directory Path, its missing parents, and makes
	// the new entries durable.
	FileMkdirAll
	// FileMkdirs creates the directory Path and its missing parents. The entries are
	// durable when FileSyncDir has been done with what they are in.
	FileMkdirs
	// FileReadDir lists the directory Path. Result: Entries, sorted by name.
	FileReadDir
	// FileRead reads the whole file Path, which may be at most Len bytes.
	// Result: Data.
	FileRead
	// FileWriteAtomic replaces Path by Data: temporary file beside it, sync,
	// rename, sync of the directory. A crash leaves the old or the new content.
	FileWriteAtomic
	// FileLock creates Path if need be and takes an exclusive lock on it that
	// ends with the process or with FileClose, and one on the directory Path2 if
	// it is named and its filesystem has such locks: whoever removes Path does not
	// let anybody else in. ErrLocked if another holds one of them. Result: File.
	FileLock
	// FileStatFS describes the filesystem that holds Path. Result: FS.
	FileStatFS
)

// OpenMode tells FileOpen how to open.
type OpenMode uint8

// Bits of OpenMode. Without OpenWrite the file is opened for reading.
const (
	OpenWrite     OpenMode = 1 << iota
	OpenCreate             // create it if it is missing; the directory is not synced
	OpenExclusive          // with OpenCreate: it must be missing
	OpenDirect             // O_DIRECT: offsets, lengths and memory aligned to BlockSize
)

// BlockSize is the alignment, in bytes, of every direct read and write: offset,
// length and memory address.
const BlockSize = 4096

// DirEntry is one name in a directory.
type DirEntry struct {
	Name string
	Dir  bool
	Size int64 // bytes, for files
}

// UnknownBytes stands for the size of a filesystem that tells none, as ramfs and some
// network filesystems do: larger than any.
const UnknownBytes = int64(1) << 60

// FSInfo describes a filesystem and what it stands on.
type FSInfo struct {
	TotalBytes, FreeBytes int64
	Type                  string // "ext4", "xfs", "tmpfs", ...
	// Device identifies the block device, and Mount this mount of it; BootID
	// this boot of the kernel. Equal values mean that nothing between them
	// and us has been restarted.
	Device, Mount uint64
	BootID        [16]byte
}

// FileCompleter receives completions of file operations, on the loop.
type FileCompleter interface {
	CompleteFile(op *FileOp)
}

// FileOp is one file operation. The caller owns it; see [Op].
type FileOp struct {
	// Request.
	Kind        FileKind
	Mode        OpenMode
	File        File
	Path, Path2 string
	Off, Len    int64
	Owner       FileCompleter
	Tag         uint64
	// Unless keeps FileWriteAtomic from giving the name Path to what it has written and
	// synced, if it is set by then; the error is ErrCanceled. nil: never.
	Unless *atomic.Bool

	// Result, except Data of FileWriteAtomic, which is request.
	Err     error
	Size    int64
	Data    []byte
	Entries []DirEntry
	FS      FSInfo

	// InFlight is the driver's.
	InFlight bool
}
