package segment

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/mqd-broker/mqd/engine/aio"
)

// Log names a segment to a job and says what the log should hold.
type Log struct {
	Dir      string // directory of the partition, as aio.FS takes it
	ID       ID
	Interval int // index interval in bytes, for an index that is built
	// EndOffset is the offset behind the last batch; 0 means unknown. For a
	// sealed segment the base of the next one tells it.
	EndOffset int64
	Chain     Chain // nil for dense offsets
	// NeighbourAppend stands for append times that are lost: the oldest one of
	// the segment behind, so that this one is never younger.
	NeighbourAppend int64
	Created         int64 // Unix time in nanoseconds, for an index that is written
	// Rewrites counts how often compaction has replaced the log in this life: what has been
	// read of another one says nothing of this.
	Rewrites int
}

// LogPath names the log's file.
func (l *Log) LogPath() string { return filepath.Join(l.Dir, l.ID.LogName()) }

// IndexPath names the index's file.
func (l *Log) IndexPath() string { return filepath.Join(l.Dir, l.ID.IndexName()) }

func (l *Log) interval() int {
	if l.Interval == 0 {
		return DefaultIndexInterval
	}
	return l.Interval
}

// Report is what a job that reads a log has found.
type Report struct {
	// Index of the log as it is. Its quarantine lists what cannot be read.
	Index *Index
	// Unreadable counts blocks of 4 KiB that the device could not read; their
	// batches are in the quarantine. The index of a sealed segment is in memory
	// only then, without checksums of regions, and the file as it was.
	Unreadable int
	// Unwritten: the disk was too full for the index file, which is as it was. The index
	// is a cache, so that nobody has to do without it while it is in memory.
	Unwritten bool
}

// RebuildJob makes the index of a log from the log. It verifies every batch and
// the order of their offsets before it vouches for a byte: what does not hold
// goes on the quarantine list. It takes entries of the present index file, if
// any, as hints for append times and for where batches begin, and replaces the
// file atomically, unless the device could not read all of the log.
type RebuildJob struct {
	Log
	// Form is that of the index to write. The index of an open log has no room
	// for a quarantine: it is in Report only, and found again when the log is
	// sealed.
	Form Form
	// LogBytes is the end of an open log; 0 means unknown, up to zeros. A
	// sealed log ends where its file does; with its end offset known there may
	// be zeros behind it, which a crash has kept from being cut off.
	LogBytes int64

	Report
}

var _ aio.Job = (*RebuildJob)(nil)

// Run implements aio.Job. An error leaves the index file as it was.
func (j *RebuildJob) Run(fs aio.FS) error {
	b := build{Log: &j.Log, form: j.Form, logBytes: j.LogBytes}
	var err error
	j.Report, err = b.run(fs)
	return err
}

// build reads a log and writes its index.
type build struct {
	*Log
	form     Form
	logBytes int64
	// writer is the index of exactly this log. Without one the hints come from
	// the index file.
	writer *Index

	hints   *Index
	times   *appendTimes
	ix      *Index
	batches uint64
	records uint64
	minTime int64
}

func (b *build) run(fs aio.FS) (Report, error) {
	f, size, err := OpenLog(fs, b.LogPath())
	if err != nil {
		return Report{}, err
	}
	defer func() { _ = f.Close() }() // read only: nothing can be lost
	end, tail, err := b.extent(size)
	if err != nil {
		return Report{}, err
	}
	l := newJobReader(f, end)
	s := newScanner(l, ScanOptions{
		Path: b.LogPath(), To: end, Offset: b.ID.Base, EndOffset: b.EndOffset,
		Chain: b.Chain, Tail: tail,
	})
	b.ix = NewIndex(b.ID, b.interval(), nil)
	if b.hints = b.writer; b.hints == nil {
		b.hints = b.salvaged(fs, size)
	}
	b.times = newAppendTimes(b.hints, b.writer.whole(), b.NeighbourAppend)
	b.minTime = NoTime
	if err := s.walk(b.hints, b.add, b.ix.skip); err != nil {
		return Report{}, withPath(err, b.LogPath())
	}
	b.ix.newest = b.times.newest()
	unreadable := len(l.unreadable)
	if unreadable > 0 && b.form == FormSealed {
		// What the device does not read now it may read again: it is not written
		// down as damage for ever.
		return Report{Index: b.ix, Unreadable: unreadable}, nil
	}
	if b.ix.End() < end && b.form == FormSealed {
		l = newJobReader(f, b.ix.End()) // the last region ends with the last batch
	}
	err = b.write(fs, l)
	if err != nil && !aio.IsNoSpace(err) {
		return Report{}, withPath(err, b.LogPath())
	}
	return Report{Index: b.ix, Unreadable: unreadable, Unwritten: err != nil}, nil
}

// salvaged returns what the present index file has of use, nil without one.
func (b *build) salvaged(fs aio.FS, logBytes int64) *Index {
	data, err := readIndex(fs, b.Log, logBytes)
	if err != nil {
		return nil // it is a cache, and about to be replaced
	}
	return salvage(data, b.ID)
}

// extent is the part of the file that is log, and what may follow it there.
func (b *build) extent(size int64) (int64, Tail, error) {
	switch {
	case size > MaxLogBytes:
		return 0, 0, fmt.Errorf("%s: %w: expected at most %d bytes, found %d", b.LogPath(), ErrLogSize, int64(MaxLogBytes), size)
	case b.form == FormSealed && b.logBytes > 0 && size != b.logBytes,
		b.form == FormOpen && size < b.logBytes:
		return 0, 0, fmt.Errorf("%s: %w: expected %d bytes, found %d", b.LogPath(), ErrLogSize, b.logBytes, size)
	case b.form == FormOpen && b.logBytes == 0:
		return size, TailZeros, nil
	case b.form == FormOpen:
		return b.logBytes, TailExact, nil
	case b.writer == nil && b.EndOffset > 0:
		return size, TailZeros, nil // a crash may have come before it was truncated
	}
	return size, TailExact, nil
}

func (b *build) add(batch *Batch) {
	t, exact := b.times.of(batch)
	batch.AppendTime = t
	n := b.ix.Len()
	b.ix.Add(batch)
	if b.ix.Len() > n && !exact {
		b.times.guessed = true
	}
	b.batches++
	b.records += uint64(batch.Records)
	if b.batches == 1 || batch.BaseTimestamp < b.minTime {
		b.minTime = batch.BaseTimestamp
	}
}

// write seals the index if it is to be, and writes its file.
func (b *build) write(fs aio.FS, l *logReader) error {
	var data []byte
	if b.form == FormSealed {
		regions, err := l.allRegions()
		if err != nil {
			return err
		}
		b.ix.sealed = &Sealed{
			LogBytes: l.end, Batches: b.batches, Records: b.records, MinTimestamp: b.minTime,
			regions: regions[:len(regions):len(regions)],
		}
		if b.times.guessed {
			b.ix.sealed.Flags |= FlagGuessedTimes
		}
		data = AppendSealed(make([]byte, 0, sealedBytes(b.ix)), b.ix, b.Created)
	} else {
		data = AppendHeader(make([]byte, 0, EntryAt(b.ix.Len())), b.ix, b.Created)
		data = AppendEntries(data, b.ix, 0, b.ix.Len())
	}
	return aio.WriteFileAtomic(fs, b.IndexPath(), data)
}

// OpenLog opens a log for reading past the page cache, where that is possible:
// the cache may show data that the device does not have.
func OpenLog(fs aio.FS, path string) (aio.FSFile, int64, error) {
	f, err := fs.Open(path, aio.OpenDirect)
	if errors.Is(err, aio.ErrNoDirect) {
		f, err = fs.Open(path, 0)
	}
	if err != nil {
		return nil, 0, err
	}
	size, err := f.Size()
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return f, size, nil
}

// readIndex reads an index file, whatever its form. A file that cannot be read is
// one that must be rebuilt.
func readIndex(fs aio.FS, l *Log, logBytes int64) ([]byte, error) {
	data, err := aio.ReadFile(fs, l.IndexPath(), MaxIndexFileBytes(logBytes, MinIndexInterval))
	switch {
	case err == nil:
		return data, nil
	case aio.IsNotExist(err):
		return nil, fmt.Errorf("%s: %w: %w", l.IndexPath(), ErrIndexMissing, ErrRebuild)
	}
	return nil, fmt.Errorf("%w: %w", ErrRebuild, err)
}
