package aio

import (
	"errors"
	"sync/atomic"
	"syscall"
)

// Watched is fs with flushes that set failed when they fail, before whoever has asked for
// them hears of it. Drivers give it to their helpers (Options.FlushFailed), so that nobody
// who flushes there has to think of it. A nil failed: nobody looks at it.
//
// A lack of space is no failure here, for it is that of one file and may pass: who has
// flushed decides.
func Watched(fs FS, failed *atomic.Bool) FS {
	if failed == nil {
		return fs
	}
	return watched{fs, failed}
}

// watched is a filesystem whose failed flushes are noted.
type watched struct {
	FS
	failed *atomic.Bool
}

// watchedFile is a file of it.
type watchedFile struct {
	FSFile
	failed *atomic.Bool
}

// Open opens path; see FS.
func (w watched) Open(path string, mode OpenMode) (FSFile, error) {
	f, err := w.FS.Open(path, mode)
	if err != nil {
		return nil, err
	}
	return watchedFile{f, w.failed}, nil
}

// SyncDir makes a directory's entries durable; see FS.
func (w watched) SyncDir(path string) error {
	err := w.FS.SyncDir(path)
	if !notOpened(err) {
		NoteFlush(w.failed, err)
	}
	return err
}

// Sync makes the file durable; see FSFile.
func (f watchedFile) Sync() error {
	err := f.FSFile.Sync()
	NoteFlush(f.failed, err)
	return err
}

// Unwrap returns the file that is watched.
func (f watchedFile) Unwrap() FSFile { return f.FSFile }

// NoteFlush sets failed, unless it is nil, if err says that a flush has failed.
func NoteFlush(failed *atomic.Bool, err error) {
	if failed != nil && err != nil && !IsNoSpace(err) && !errors.Is(err, ErrClosed) {
		failed.Store(true)
	}
}

// notOpened reports whether err may say why a directory could not be opened: then nothing
// has been flushed in vain.
func notOpened(err error) bool {
	for _, e := range []error{syscall.ENOENT, syscall.EACCES, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EINTR} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
