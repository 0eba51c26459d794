package layout

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/mqd-broker/mqd/engine/aio"
)

// ErrCorrupt: what is stored does not check.
var ErrCorrupt = errors.New("stored data corrupt")

// ErrBadDataDir: the data directory cannot be used.
var ErrBadDataDir = errors.New("data directory not usable")

// MayPass reports whether a failure may pass by itself, so that what failed is tried
// again: something is short that others can give back. Anything else is the disk's or
// the filesystem's, and does not.
func MayPass(err error) bool {
	for _, short := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EAGAIN, syscall.EINTR} {
		if errors.Is(err, short) {
			return true
		}
	}
	return aio.IsNoSpace(err)
}

// CorruptError says where stored data does not check.
type CorruptError struct {
	Path            string
	Pos             int64 // byte position in the file, or LSN of a journal
	Offset          int64 // offset of the batch, -1 when not known
	Expected, Found string
}

// Error puts place and contents in one line.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s: corrupt at %d (offset %d): expected %s, found %s", e.Path, e.Pos, e.Offset, e.Expected, e.Found)
}

// Unwrap makes a CorruptError an ErrCorrupt.
func (e *CorruptError) Unwrap() error { return ErrCorrupt }
