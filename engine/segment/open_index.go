package segment

import (
	"errors"
	"fmt"
	"io"

	"github.com/mqd-broker/mqd/engine/aio"
)

// LoadJob loads the index of a segment, and rebuilds it when there is any doubt
// about it. It compares identity and size with the log but does not read the
// log, unless it rebuilds.
type LoadJob struct {
	Log
	// Form is the one that the index should have.
	Form Form
	// Resume is what the checkpoint knows, for FormOpen.
	Resume Resume

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
	data, err := readIndex(fs, &j.Log, size)
	if err == nil {
		j.Index, err = j.decode(data, f, size)
	}
	if err == nil {
		return j.unseal(fs, data)
	}
	if !errors.Is(err, ErrRebuild) {
		return err
	}
	j.Rebuilt = err
	if err := j.rebuild(fs); err != nil {
		return fmt.Errorf("rebuild after %w: %w", j.Rebuilt, err)
	}
	return nil
}

func (j *LoadJob) rebuild(fs aio.FS) error {
	r := RebuildJob{Log: j.Log, Form: j.Form}
	if j.Form == FormOpen {
		r.LogBytes, r.EndOffset = j.Resume.End, j.Resume.NextOffset
		if r.LogBytes == 0 {
			return j.empty(fs)
		}
	}
	if err := r.Run(fs); err != nil {
		return err
	}
	j.Report = r.Report
	if ix := j.Index; j.Form == FormOpen {
		// Behind the last batch there may be a recorded gap.
		ix.next = max(ix.next, j.Resume.NextOffset)
		ix.newest = max(ix.newest, j.Resume.NewestAppend)
	}
	return nil
}

// unseal replaces the file of a sealed index by that of an open one, if that is
// what the log is to be.
func (j *LoadJob) unseal(fs aio.FS, data []byte) error {
	if j.Form != FormOpen || Form(data[hForm]) == FormOpen {
		return nil
	}
	open := AppendHeader(make([]byte, 0, EntryAt(j.Index.Len())), j.Index, j.Created)
	return aio.WriteFileAtomic(fs, j.IndexPath(), AppendEntries(open, j.Index, 0, j.Index.Len()))
}

// decode reads the index from data and compares it with the log and with what
// is known of it.
func (j *LoadJob) decode(data []byte, log io.ReaderAt, logBytes int64) (*Index, error) {
	var ix *Index
	var err error
	if j.Form == FormOpen {
		ix, err = DecodeOpen(data, j.ID, j.Resume, nil)
	} else if ix, err = Decode(data, j.ID, nil); err == nil {
		err = j.fresh(ix, log, logBytes)
	}
	if err != nil {
		var ie *IndexError
		if errors.As(err, &ie) {
			ie.Path = j.IndexPath()
		}
		return nil, err
	}
	return ix, nil
}

// fresh checks that a sealed index is that of the log as it is.
func (j *LoadJob) fresh(ix *Index, log io.ReaderAt, logBytes int64) error {
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
	next, end := ix.NextOffset(), j.EndOffset
	if end <= 0 || next == end || next < end && j.Chain != nil && j.Chain.AllowsGap(next, end) {
		return nil
	}
	return bad(ErrIndexStale, "next offset", fNextOffset, end, next)
}

// empty writes the index of a log without batches.
func (j *LoadJob) empty(fs aio.FS) error {
	ix := NewIndex(j.ID, j.interval(), nil)
	if err := ix.adopt(Resume{NextOffset: j.Resume.NextOffset, MaxTimestamp: j.Resume.MaxTimestamp, NewestAppend: j.Resume.NewestAppend}); err != nil {
		return err
	}
	j.Index = ix
	return aio.WriteFileAtomic(fs, j.IndexPath(), AppendHeader(nil, ix, j.Created))
}
