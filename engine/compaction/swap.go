package compaction

import (
	"sync/atomic"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/segment"
)

// FlushError is a failed flush: nothing on the device can be believed after it.
type FlushError struct{ Err error }

// Error is the text of the failure.
func (e *FlushError) Error() string { return "flush: " + e.Err.Error() }

// Unwrap is the failure.
func (e *FlushError) Unwrap() error { return e.Err }

// Swap is the job that puts the compacted form of a segment in its place. Nobody may have
// the segment's files open or in mind meanwhile.
//
// The index goes first, and that is made durable: so no crash leaves the index of one log
// beside the other. It is a cache, and is made again when the new log is there. Then the log
// is replaced by renaming: a crash leaves the old one or the new one, each whole and flushed.
type Swap struct {
	Log segment.Log
	// Unless is set when the device has failed: then the flush of the new log proves nothing.
	Unless *atomic.Bool

	// Done: the name is that of the new log, whether or not that is durable.
	Done bool
}

var _ aio.Job = (*Swap)(nil)

// Run implements aio.Job. The error is a [*FlushError] if a flush has failed.
func (s *Swap) Run(fs aio.FS) error {
	if err := fs.Remove(s.Log.IndexPath()); err != nil {
		return err
	}
	if err := fs.SyncDir(s.Log.Dir); err != nil {
		return &FlushError{err}
	}
	if s.Unless.Load() {
		return &aio.Error{Op: "rename", What: tempName(&s.Log), Off: -1, Err: aio.ErrCanceled}
	}
	if err := fs.Rename(tempName(&s.Log), s.Log.LogPath()); err != nil {
		return err
	}
	s.Done = true
	if err := fs.SyncDir(s.Log.Dir); err != nil {
		return &FlushError{err}
	}
	return nil
}

// discarding is the job that removes a new log that is not wanted after all.
type discarding struct{ log segment.Log }

// Run implements aio.Job.
func (d *discarding) Run(fs aio.FS) error { return fs.Remove(tempName(&d.log)) }
