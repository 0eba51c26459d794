package aio

import (
	"io"
	"path/filepath"
	"strings"
	"sync/atomic"
)

// tempSuffix marks the temporary file of FileWriteAtomic, and others that stand for what
// is to replace a file. Recovery may remove
// files that carry it.
const tempSuffix = ".tmp"

// IsTemp reports whether name is a leftover of an interrupted FileWriteAtomic.
func IsTemp(name string) bool { return strings.HasSuffix(name, tempSuffix) }

// TempName is the name of a file in which grows what is to replace path.
func TempName(path string) string { return path + tempSuffix }

// RunFileOp performs those file operations that need no handle table, by steps
// on fs; it reports false for the others (FileOpen, FileClose, FileAllocate,
// FileTruncate, FileSync, FileLock), which are the driver's. Drivers call it on a
// helper thread. It sets the operation's results, Err included.
func RunFileOp(fs FS, op *FileOp) bool {
	switch op.Kind {
	case FileSyncDir:
		op.Err = fs.SyncDir(op.Path)
	case FileRename:
		op.Err = fs.Rename(op.Path, op.Path2)
	case FileRemove:
		op.Err = fs.Remove(op.Path)
	case FileRemoveAll:
		op.Err = fs.RemoveAll(op.Path)
	case FileMkdirAll:
		op.Err = MkdirAll(fs, op.Path)
	case FileMkdirs:
		op.Err = makeDirs(fs, op.Path)
	case FileReadDir:
		op.Entries, op.Err = fs.ReadDir(op.Path)
	case FileRead:
		op.Data, op.Err = ReadFile(fs, op.Path, op.Len)
	case FileWriteAtomic:
		op.Err = writeFileAtomic(fs, op.Path, op.Data, op.Unless)
	case FileStatFS:
		op.FS, op.Err = fs.Stat(op.Path)
	default:
		return false
	}
	return true
}

// MkdirAll makes path and its missing parents, and makes their entries durable. It
// does not look first: a directory may have very many entries.
func MkdirAll(fs FS, path string) error {
	path = filepath.Clean(path)
	parent := filepath.Dir(path)
	if parent == path {
		return nil
	}
	err := fs.Mkdir(path)
	if IsNotExist(err) {
		if err = MkdirAll(fs, parent); err == nil {
			err = fs.Mkdir(path)
		}
	}
	if err != nil {
		return err
	}
	return fs.SyncDir(parent)
}

// makeDirs makes path and its missing parents, and nothing durable. It looks first no more
// than MkdirAll does.
func makeDirs(fs FS, path string) error {
	path = filepath.Clean(path)
	err := fs.Mkdir(path)
	if parent := filepath.Dir(path); IsNotExist(err) && parent != path {
		if err = makeDirs(fs, parent); err == nil {
			err = fs.Mkdir(path)
		}
	}
	return err
}

// ReadFile reads all of path, at most limit bytes; a larger file is ErrTooBig.
func ReadFile(fs FS, path string, limit int64) (data []byte, err error) {
	f, err := fs.Open(path, 0)
	if err != nil {
		return nil, err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, &Error{Op: "read", What: path, Off: -1, Err: ErrTooBig}
	}
	data = make([]byte, size)
	n, err := f.ReadAt(data, 0)
	if err == io.EOF {
		err = nil
	}
	return data[:n], err
}

// WriteFileAtomic replaces path by data so that a crash leaves the old content or
// the new: temporary file, sync, rename, sync of the directory.
func WriteFileAtomic(fs FS, path string, data []byte) error {
	return writeFileAtomic(fs, path, data, nil)
}

func writeFileAtomic(fs FS, path string, data []byte, unless *atomic.Bool) error {
	tmp := TempName(path)
	if err := writeWhole(fs, tmp, data); err != nil {
		return err
	}
	if unless != nil && unless.Load() {
		return &Error{Op: "rename", What: tmp, Off: -1, Err: ErrCanceled}
	}
	if err := fs.Rename(tmp, path); err != nil {
		return err
	}
	return fs.SyncDir(filepath.Dir(path))
}

func writeWhole(fs FS, path string, data []byte) error {
	f, err := fs.Open(path, OpenWrite|OpenCreate)
	if err != nil {
		return err
	}
	err = f.Truncate(0)
	if err == nil && len(data) > 0 {
		_, err = f.WriteAt(data, 0)
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
