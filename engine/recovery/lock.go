package recovery

import (
	"errors"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
)

// The kernel releases the lock of a process that has been killed when everything
// that the process had in flight has ended, which may be a moment after its death.
const (
	lockWait  = 2 * time.Second
	lockPause = 20 * time.Millisecond
)

// lock takes an exclusive lock on path, and on the directory dir if it is named, waiting
// a moment for a dying holder. The lock ends with the file or the process. The error is
// aio.ErrLocked while another process lives and holds it.
func lock(d aio.Driver, path, dir string) (aio.File, error) {
	deadline := d.Clock().Now() + int64(lockWait)
	for {
		op := aio.FileOp{Kind: aio.FileLock, Path: path, Path2: dir}
		err := aio.DoFile(d, &op)
		if !errors.Is(err, aio.ErrLocked) || d.Clock().Now() >= deadline {
			return op.File, err
		}
		until := d.Clock().Now() + int64(lockPause)
		for now := d.Clock().Now(); now < until; now = d.Clock().Now() {
			if _, err := d.Poll(time.Duration(until - now)); err != nil {
				return aio.NoFile, err
			}
		}
	}
}
