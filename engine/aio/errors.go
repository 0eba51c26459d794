package aio

import (
	"errors"
	"fmt"
	"syscall"
)

// Errors of operations. Errors of the kernel are wrapped, so that errors.Is
// finds the errno as well.
var (
	// ErrCanceled: the operation ended because it was asked to.
	ErrCanceled = errors.New("operation cancelled")
	// ErrClosed: the driver or the handle is closed.
	ErrClosed = errors.New("closed")
	// ErrNoBuffers: the receive pool is empty.
	ErrNoBuffers = errors.New("receive buffers used up")
	// ErrNoMemory: the arena is used up.
	ErrNoMemory = errors.New("I/O memory used up")
	// ErrMapping: the system does not give so much I/O memory.
	ErrMapping = errors.New("there is not so much memory")
	// ErrShort: a write made no progress.
	ErrShort = errors.New("write made no progress")
	// ErrLocked: another process holds the lock.
	ErrLocked = errors.New("locked by another process")
	// ErrTooBig: a file is larger than the caller's limit.
	ErrTooBig = errors.New("file larger than expected")
	// ErrNoDirect: the filesystem has no O_DIRECT.
	ErrNoDirect = errors.New("filesystem does not support O_DIRECT")
)

// Error is a failed operation: what was asked, of what, and why it failed.
type Error struct {
	Op   string // "write", "fdatasync", "rename", ...
	What string // path, or "file 3", "socket 12"
	Off  int64  // byte offset, -1 where it has no meaning
	Err  error
}

// Error puts the parts in one line.
func (e *Error) Error() string {
	if e.Off >= 0 {
		return fmt.Sprintf("%s %s at %d: %v", e.Op, e.What, e.Off, e.Err)
	}
	return fmt.Sprintf("%s %s: %v", e.Op, e.What, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// IsNoSpace reports whether err says that the filesystem is full.
func IsNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// IsNotExist reports whether err says that a path does not exist.
func IsNotExist(err error) bool { return errors.Is(err, syscall.ENOENT) }

// mediaErrors are what Linux says of blocks that a device does not read: an error of no
// known cause, of the medium, of the integrity data.
var mediaErrors = []error{syscall.EIO, syscall.ENODATA, syscall.EILSEQ}

// IsUnreadable reports whether err says that the device does not read what was asked
// for, and not that something else is wrong: then others may be readable.
func IsUnreadable(err error) bool {
	for _, e := range mediaErrors {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
