package portable

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/mqd-broker/mqd/engine/aio"
)

// buffering is a filesystem that opens files without O_DIRECT where there is none.
type buffering struct {
	aio.FS
	note atomic.Pointer[string]
}

// Open opens path; see aio.FS.
func (b *buffering) Open(path string, mode aio.OpenMode) (aio.FSFile, error) {
	f, err := b.FS.Open(path, mode)
	if mode&aio.OpenDirect == 0 || !errors.Is(err, aio.ErrNoDirect) {
		return f, err
	}
	if b.note.Load() == nil {
		text := fmt.Sprintf("no direct I/O (%v): files go through the page cache. What is flushed is as safe as elsewhere; "+
			"what is acknowledged before that (durability written) survives the death of the process, but no longer that of the kernel", err)
		b.note.Store(&text)
	}
	return b.FS.Open(path, mode&^aio.OpenDirect)
}

// notes says that some file was opened without, if one was.
func (b *buffering) notes() []string {
	if text := b.note.Load(); text != nil {
		return []string{*text}
	}
	return nil
}
