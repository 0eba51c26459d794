package engine

import (
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/segment"
	"github.com/mqd-broker/mqd/engine/timesearch"
)

// TimeLookup finds the first record whose timestamp is at or after a time. The
// caller owns it until its owner hears of the result.
type TimeLookup struct {
	// Request.
	Part *Partition
	Time int64 // milliseconds since 1970
	// Newest asks for the first of the records with the largest timestamp instead.
	Newest bool
	Owner  TimeOwner

	// Result: offset and timestamp of the record. Without one at or after Time
	// the offset is the durable end and the timestamp -1.
	Offset    int64
	Timestamp int64
	Err       error

	s     *Store
	seg   *segfile
	stage newestStage
	exact bool  // indexes were not enough
	start int64 // of the log when the records began to be looked at
	read  Read
	find  timesearch.Job
	job   aio.JobOp
}

// TimeOwner is told when a lookup is done, on the loop.
type TimeOwner interface {
	TimeFound(t *TimeLookup)
}

// LookUpTime starts t. Indexes are loaded and records decoded by helpers.
func (s *Store) LookUpTime(t *TimeLookup) {
	t.s, t.seg, t.stage = s, t.Part.first, newestKnown
	t.Offset, t.Timestamp, t.Err = 0, -1, nil
	if t.Newest {
		t.stage, t.Time = newestByIndex, segment.NoTime
	}
	t.step()
}

// step looks at the present segment and goes on to the next ones.
func (t *TimeLookup) step() {
	for t.seg != nil {
		seg := t.seg
		if seg.gated {
			t.s.gates.Push(t)
			return
		}
		if seg.index.TailFrom > 0 && seg.index.Older == nil {
			seg.reads++
			t.s.indexes.Load(seg, t)
			return
		}
		if t.stage != newestKnown {
			if t.newestIn(seg) {
				return
			}
		} else if e, ok := seg.index.FirstAtOrAfterTime(t.Time); ok {
			t.readFrom(e.Offset)
			return
		}
		t.seg = seg.next
	}
	if t.stage != newestKnown {
		t.newestFound()
		return
	}
	t.none()
}

// none ends a look-up for which there is no record. The largest timestamp may be that of one
// that has been removed or that may not be read yet: then those are looked at that may.
func (t *TimeLookup) none() {
	if start := t.Part.LogStart(); t.Newest && (!t.exact || start > t.start) {
		t.exact, t.start, t.stage, t.Time, t.seg = true, start, newestByRecords, segment.NoTime, t.Part.first
		t.step()
		return
	}
	t.finish(t.Part.visible, -1, nil)
}

func (t *TimeLookup) finish(offset, timestamp int64, err error) {
	t.Offset, t.Timestamp, t.Err, t.exact = offset, timestamp, err, false
	t.Owner.TimeFound(t)
}

// IndexLoaded goes on when an index has been loaded.
func (t *TimeLookup) IndexLoaded(err error) {
	t.seg.reads--
	if err != nil {
		t.finish(-1, -1, t.s.storage(err))
		return
	}
	t.step()
}

// CompleteJob goes on when a batch has been searched.
func (t *TimeLookup) CompleteJob(op *aio.JobOp) { t.found(op.Err) }

// timeReadBytes is how much is read at a time while the batch is looked for.
const timeReadBytes = 64 << 10

// readFrom goes on at offset, or at the log start: what is below may be there, and may
// have been removed meanwhile.
func (t *TimeLookup) readFrom(offset int64) {
	offset = max(offset, t.Part.LogStart())
	if offset >= t.Part.visible {
		t.ended()
		return
	}
	t.read = Read{Part: t.Part, Offset: offset, MaxBytes: timeReadBytes, Owner: t}
	t.s.Read(&t.read)
}

// ReadDone has a helper search what has been read.
func (t *TimeLookup) ReadDone(r *Read) {
	if r.Err == ErrOutOfRange && r.Offset < t.Part.LogStart() {
		t.s.Release(r)
		t.readFrom(r.Offset)
		return
	}
	if r.Err != nil || r.N == 0 {
		err, end := r.Err, r.N == 0 && r.Err == nil
		t.s.Release(r)
		if end {
			t.ended()
			return
		}
		t.finish(-1, -1, err)
		return
	}
	t.find = timesearch.Job{Time: t.Time, From: t.read.Offset, Pieces: r.Pieces[:r.N], Newest: t.stage == newestByRecords}
	t.job = aio.JobOp{Job: &t.find, Owner: t}
	t.s.drv.SubmitJob(&t.job)
}

func (t *TimeLookup) found(err error) {
	next := t.read.Next
	t.s.Release(&t.read)
	switch {
	case err != nil:
		t.finish(-1, -1, &CorruptError{Path: t.Part.dir, Offset: t.read.Offset, Expected: "whole records", Found: err.Error()})
	case t.stage == newestByRecords:
		t.newestRead(next)
	case t.find.Found && t.find.Offset < t.Part.LogStart():
		t.readFrom(t.find.Offset) // it has been removed meanwhile
	case t.find.Found:
		t.finish(t.find.Offset, t.find.Timestamp, nil)
	default:
		t.readFrom(next)
	}
}

// newestStage says how the largest timestamp of a partition is found.
type newestStage uint8

const (
	// newestKnown: it is known, or not asked for; a record with it is looked for.
	newestKnown newestStage = iota
	// newestByIndex: the indexes say what each segment has.
	newestByIndex
	// newestByRecords: so they do, but for the first and the last segment, of which not all
	// may be read. Those are read.
	newestByRecords
)

// newestIn takes a segment into account, and reports whether it has to be read for that.
func (t *TimeLookup) newestIn(seg *segfile) bool {
	if t.stage == newestByIndex || seg != t.Part.first && seg.next != nil {
		t.Time = max(t.Time, seg.index.MaxTimestamp())
		return false
	}
	t.readFrom(seg.base)
	return true
}

// newestRead takes records into account, and goes on behind them, or at the log start: the
// segment that was read may have been removed meanwhile, and those behind it.
func (t *TimeLookup) newestRead(next int64) {
	if t.find.Found {
		t.Time = max(t.Time, t.find.Timestamp)
	}
	next = max(next, t.Part.LogStart())
	if n := t.Part.segmentOf(next); n != t.seg {
		t.seg = n
		t.step()
		return
	}
	t.readFrom(next)
}

// newestFound looks for a record with the largest timestamp, if there is one.
func (t *TimeLookup) newestFound() {
	t.stage, t.seg = newestKnown, t.Part.first
	if t.Time < 0 {
		t.seg = nil // nobody has said when anything was
	}
	t.step()
}

// ended goes on when nothing more may be read.
func (t *TimeLookup) ended() {
	if t.stage == newestByRecords {
		t.newestFound()
		return
	}
	t.none()
}
