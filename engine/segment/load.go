package segment

import (
	"errors"
	"fmt"
	"io"

	"github.com/mqd-broker/mqd/engine/aio"
)

// LoadJob loads the index of a sealed segment, and rebuilds it when there is any doubt
// about it. It compares identity and size with the log but does not read the
// log, unless it rebuilds.
type LoadJob struct {
	Log

	// Rebuilt says why the index had to be rebuilt; nil if it was loaded.
	Rebuilt error
	Report
}

var _ aio.Job = (*LoadJob)(nil)

// Run implements aio.Job. The error is one of reading or writing, or wraps
// ErrUnsupported for an index of a newer version.
func (j *LoadJob) Run(fs aio.FS) error {
	f, size, err := OpenLog(fs, j.LogPath())
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only: nothing can be lost
	j.Index, err = j.load(fs, f, size)
	if err == nil || !errors.Is(err, ErrRebuild) {
		return err
	}
	j.Rebuilt = err
	r := RebuildJob{Log: j.Log, Form: FormSealed}
	if err := r.Run(fs); err != nil {
		return fmt.Errorf("rebuild after %w: %w", j.Rebuilt, err)
	}
	j.Report = r.Report
	return nil
}

// load reads the index and compares it with the log, which holds logBytes, and with what
// is known of it.
func (l *Log) load(fs aio.FS, log io.ReaderAt, logBytes int64) (*Index, error) {
	data, err := readIndex(fs, l, logBytes)
	if err != nil {
		return nil, err
	}
	ix, err := Decode(data, l.ID, nil)
	if err == nil {
		err = l.fresh(ix, log, logBytes)
	}
	if err != nil {
		var ie *IndexError
		if errors.As(err, &ie) {
			ie.Path = l.IndexPath()
		}
		return nil, err
	}
	return ix, nil
}

// fresh checks that a sealed index is that of the log as it is.
func (l *Log) fresh(ix *Index, log io.ReaderAt, logBytes int64) error {
	whole := logBytes == ix.sealed.LogBytes
	if logBytes > ix.sealed.LogBytes {
		var err error
		if whole, _, err = newLogReader(log, logBytes).allZero(ix.sealed.LogBytes); err != nil {
			return err
		}
	}
	if !whole {
		return bad(ErrIndexStale, "log bytes", fLogBytes, logBytes, ix.sealed.LogBytes)
	}
	next, end := ix.NextOffset(), l.EndOffset
	// One that was made while the segment behind was gone says so, and is right about the log.
	if n := len(ix.ranges); n > 0 && ix.ranges[n-1].behind(next, logBytes) && ix.ranges[n-1].FromOffset == end {
		return nil
	}
	if end <= 0 || next == end || next < end && l.Chain != nil && l.Chain.AllowsGap(next, end) {
		return nil
	}
	return bad(ErrIndexStale, "next offset", fNextOffset, end, next)
}
