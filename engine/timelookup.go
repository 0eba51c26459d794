package engine

import (
	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine/aio"
)

// TimeLookup finds the first record whose timestamp is at or after a time. The
// caller owns it until its owner hears of the result.
type TimeLookup struct {
	// Request.
	Part  *Partition
	Time  int64 // milliseconds since 1970
	Owner TimeOwner

	// Result: offset and timestamp of the record. Without one at or after Time
	// the offset is the durable end and the timestamp -1.
	Offset    int64
	Timestamp int64
	Err       error

	s    *Store
	seg  *segfile
	read Read
	find findRecord
	job  aio.JobOp
}

// TimeOwner is told when a lookup is done, on the loop.
type TimeOwner interface {
	TimeFound(t *TimeLookup)
}

// LookUpTime starts t. Indexes are loaded and records decoded by helpers.
func (s *Store) LookUpTime(t *TimeLookup) {
	t.s, t.seg = s, t.Part.first
	t.Offset, t.Timestamp, t.Err = 0, -1, nil
	t.step()
}

// step looks at the present segment and goes on to the next ones.
func (t *TimeLookup) step() {
	for t.seg != nil {
		seg := t.seg
		if seg.tailFrom > 0 && seg.older == nil {
			seg.reads++
			t.s.loadIndex(t.Part, seg, t)
			return
		}
		if seg.older != nil {
			if e, ok := seg.older.FirstAtOrAfterTime(t.Time); ok {
				t.readFrom(e.Offset)
				return
			}
		}
		if e, ok := seg.tail.FirstAtOrAfterTime(t.Time); ok {
			t.readFrom(e.Offset)
			return
		}
		t.seg = seg.next
	}
	t.finish(t.Part.visible, -1, nil)
}

func (t *TimeLookup) finish(offset, timestamp int64, err error) {
	t.Offset, t.Timestamp, t.Err = offset, timestamp, err
	t.Owner.TimeFound(t)
}

// indexLoaded goes on when an index has been loaded.
func (t *TimeLookup) indexLoaded(err error) {
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

func (t *TimeLookup) readFrom(offset int64) {
	if offset >= t.Part.visible {
		t.finish(t.Part.visible, -1, nil)
		return
	}
	t.read = Read{Part: t.Part, Offset: offset, MaxBytes: timeReadBytes, Owner: t}
	t.s.Read(&t.read)
}

// ReadDone has a helper search what has been read.
func (t *TimeLookup) ReadDone(r *Read) {
	if r.Err != nil || r.N == 0 {
		err, end := r.Err, r.N == 0 && r.Err == nil
		t.s.Release(r)
		if end {
			t.finish(t.Part.visible, -1, nil)
			return
		}
		t.finish(-1, -1, err)
		return
	}
	t.find = findRecord{time: t.Time, pieces: r.Pieces[:r.N]}
	t.job = aio.JobOp{Job: &t.find, Owner: t}
	t.s.drv.SubmitJob(&t.job)
}

func (t *TimeLookup) found(err error) {
	next := t.read.Next
	t.s.Release(&t.read)
	switch {
	case err != nil:
		t.finish(-1, -1, &CorruptError{Path: t.Part.dir, Offset: t.read.Offset, Expected: "whole records", Found: err.Error()})
	case t.find.ok:
		t.finish(t.find.offset, t.find.timestamp, nil)
	default:
		t.readFrom(next)
	}
}

// findRecord searches batches for the first record at or after a time. It runs on
// a helper, because it may have to decompress.
type findRecord struct {
	time   int64
	pieces [][]byte

	ok                bool
	offset, timestamp int64
}

// Run implements aio.Job.
func (f *findRecord) Run(aio.FS) error {
	var all []byte
	for _, p := range f.pieces {
		all = append(all, p...)
	}
	for len(all) > 0 {
		b, rest, err := batch.Split(all)
		if err != nil {
			return err
		}
		h, err := batch.CheckStored(b)
		if err != nil {
			return err
		}
		if h.MaxTimestamp >= f.time {
			return f.inBatch(&h, b[batch.HeaderSize:])
		}
		all = rest
	}
	return nil
}

// decompressedLimit bounds what one batch may expand to, in bytes.
const decompressedLimit = 64 << 20

func (f *findRecord) inBatch(h *batch.Header, body []byte) error {
	records, err := batch.Decompress(nil, *h, body, decompressedLimit)
	if err != nil {
		return err
	}
	it := h.Records(records)
	for it.Next() {
		if rec := it.Record(); rec.Timestamp >= f.time {
			f.ok, f.offset, f.timestamp = true, rec.Offset, rec.Timestamp
			return nil
		}
	}
	return it.Err()
}
