package compaction

import (
	"errors"
	"slices"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/segment"
	"github.com/mqd-broker/mqd/internal/invariant"
)

// rules say what of a record stays.
type rules struct {
	keys *Keys
	to   int64 // what begins here or above stays as it is
	now  int64 // broker's time, milliseconds since 1970
	// stay is how long a tombstone stays after all that it supersedes has gone, milliseconds.
	stay int64
	// keepTombstones: something before this segment could not be compacted, so that an older
	// record may be there for a tombstone to hide.
	keepTombstones bool
}

// rewriting is the job that makes the compacted form of one segment, in a file beside it. A
// run handles one piece. First the segment is read until something in it is found that is to
// go: where there is nothing, nothing is written.
type rewriting struct {
	rules
	seg *Segment
	cur cursor

	begun   bool
	writing bool
	more    bool

	changed bool           // there is a new file, flushed
	bytes   int64          // its size
	index   *segment.Index // of it
	horizon int64          // the earliest one at which a tombstone may go, milliseconds; 0: none
	unsound bool           // something could not be understood, and stays as it is
	removed uint64         // records

	old    *segment.Index // of the segment as it is; nil: append times are not known
	newest int64          // append time of the newest batch
	run    emptied
	out    []byte // what goes to the file next
	outPos int64  // in the file, of out
	read   int64  // bytes that the last run has read
	keep   []bool
	re     batch.Rewrite
}

// emptied is a run of batches of which nothing is left.
type emptied struct {
	first, last int64 // offsets
	epoch       int32
	append      int64 // append time
	is          bool
}

var errChange = errors.New("something is to go")

// tempName is the file in which the compacted form of a log grows. What a crash leaves of it
// the next start removes.
func tempName(log *segment.Log) string { return aio.TempName(log.LogPath()) }

// Run implements aio.Job. After an error nothing is left but the segment as it was.
func (w *rewriting) Run(fs aio.FS) error {
	if !w.begun {
		w.begun = true
		w.cur = newCursor(w.seg)
		w.loadOld(fs)
	}
	before := w.cur.pos
	end, err := w.cur.read(fs, w.batch)
	w.read = w.cur.pos - before
	w.more = !end
	switch {
	case errors.Is(err, errChange):
		w.begin()
		return nil
	case err == nil && w.writing:
		if end {
			w.endRun()
			w.index.NoteAppend(w.newest)
		}
		if err = w.write(fs, end); err == nil {
			w.changed = end
			return nil
		}
	case err == nil:
		return nil
	}
	w.more = false
	if w.writing {
		_ = fs.Remove(tempName(&w.seg.Log)) // else the next start does
	}
	return err
}

// loadOld reads the index of the segment, for the times at which its batches were appended.
func (w *rewriting) loadOld(fs aio.FS) {
	w.newest = w.seg.Log.NeighbourAppend
	if ix, ok := segment.SealedIndex(fs, &w.seg.Log, w.seg.Bytes); ok {
		w.old, w.newest = ix, ix.NewestAppend()
	}
}

// appended is when the batch at pos was appended, about.
func (w *rewriting) appended(pos int64) int64 {
	if w.old == nil {
		return w.newest
	}
	e, _ := w.old.FloorPos(pos)
	return e.AppendTime
}

// begin begins to write.
func (w *rewriting) begin() {
	w.writing, w.more = true, true
	w.cur.rewind()
	w.horizon, w.unsound, w.removed = 0, false, 0
	interval := w.seg.Log.Interval
	if interval == 0 {
		interval = segment.DefaultIndexInterval
	}
	w.index = segment.NewIndex(w.seg.Log.ID, interval, nil)
}

// batch handles one batch of the segment.
func (w *rewriting) batch(h *batch.Header, b []byte) error {
	if h.Count == 0 {
		if w.writing {
			w.empty(h)
		}
		return nil
	}
	verdict, body := w.judge(h, b)
	switch {
	case verdict != verbatim && !w.writing:
		return errChange
	case !w.writing:
	case verdict == nothing:
		w.empty(h)
	case verdict == verbatim:
		w.emit(b)
	default:
		w.endRun()
		w.re.Keep = w.keep
		at := len(w.out)
		w.out = w.re.Append(w.out, *h, body)
		if len(w.out)-at > batch.MaxSize { // a tombstone's new time takes some bytes
			w.out = append(w.out[:at], b...)
		}
		w.enter(w.out[at:])
	}
	return nil
}

// verdict is what becomes of a batch.
type verdict uint8

const (
	verbatim verdict = iota // it stays as it is
	less                    // it loses records, or gets a delete horizon
	nothing                 // all of its records go
)

// judge says what becomes of a batch, with w.keep and w.re.Horizon. body are its records.
func (w *rewriting) judge(h *batch.Header, b []byte) (verdict, []byte) {
	w.re.Horizon = 0
	if h.Attributes.Control() || h.BaseOffset >= w.to {
		return verbatim, nil
	}
	body, err := w.cur.expand(h, b)
	if err != nil {
		w.unsound = true
		return verbatim, nil
	}
	w.keep = slices.Grow(w.keep[:0], int(h.Count))
	gone, tombstones := 0, false
	it := h.Records(body)
	for it.Next() {
		r := it.Record()
		stays := w.stays(h, &r)
		if !stays {
			gone++
		}
		tombstones = tombstones || stays && r.Key != nil && r.Value == nil && r.Offset < w.to
		w.keep = append(w.keep, stays)
	}
	if it.Err() != nil {
		w.unsound = true
		return verbatim, nil
	}
	w.removed += uint64(gone)
	if gone == int(h.Count) {
		return nothing, nil
	}
	if tombstones && w.outlived(h) || gone > 0 {
		return less, body
	}
	return verbatim, nil
}

// stays reports whether a record stays.
func (w *rewriting) stays(h *batch.Header, r *batch.RecordView) bool {
	if r.Key == nil || r.Offset >= w.to {
		return true
	}
	if newest, ok := w.keys.Newest(r.Key); ok && newest > r.Offset {
		return false
	}
	if r.Value != nil || w.mayHide() || !h.Attributes.DeleteHorizon() {
		return true
	}
	return h.BaseTimestamp > w.now
}

// mayHide reports whether a tombstone may hide an older record that is still there.
func (w *rewriting) mayHide() bool { return w.keepTombstones || w.unsound }

// outlived takes note of a batch with tombstones that stay, and reports whether it is to get
// the time at which they may go: all that they supersede has gone before.
func (w *rewriting) outlived(h *batch.Header) bool {
	at := h.BaseTimestamp
	fresh := !h.Attributes.DeleteHorizon()
	if w.mayHide() {
		return false
	}
	if fresh {
		at = w.now + w.stay
		w.re.Horizon = at
	}
	if w.horizon == 0 || at < w.horizon {
		w.horizon = at
	}
	return fresh
}

// empty makes a batch part of the run of those of which nothing is left.
func (w *rewriting) empty(h *batch.Header) {
	r := &w.run
	if r.is && r.last+1 == h.BaseOffset && r.epoch == h.LeaderEpoch && h.LastOffset()-r.first < batch.MaxRecords {
		r.last = h.LastOffset()
		return
	}
	w.endRun()
	*r = emptied{first: h.BaseOffset, last: h.LastOffset(), epoch: h.LeaderEpoch, append: w.appended(w.cur.pos), is: true}
}

// endRun has one empty batch stand for the run.
func (w *rewriting) endRun() {
	if !w.run.is {
		return
	}
	w.run.is = false
	at := len(w.out)
	w.out = batch.AppendEmpty(w.out, w.run.first, w.run.last, w.run.epoch)
	w.note(w.out[at:], w.run.append)
}

// emit has a batch go to the file as it is.
func (w *rewriting) emit(b []byte) {
	w.endRun()
	w.out = append(w.out, b...)
	w.enter(b)
}

// enter notes the last batch of w.out, which comes from where the cursor is.
func (w *rewriting) enter(b []byte) {
	w.note(b, w.appended(w.cur.pos))
}

// note indexes the last batch of w.out, after a look at what has been made: nothing else
// looks before it replaces what there was.
func (w *rewriting) note(b []byte, appended int64) {
	h, err := batch.CheckStored(b)
	if err != nil {
		invariant.Violated("compaction: what is written are whole batches")
	}
	var ib segment.Batch
	ib.Set(w.index.End(), &h)
	ib.AppendTime = appended
	w.index.Add(&ib)
}

// write brings w.out to the file, and at the end flushes it.
func (w *rewriting) write(fs aio.FS, end bool) (err error) {
	f, err := fs.Open(tempName(&w.seg.Log), aio.OpenWrite|aio.OpenCreate)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	if w.outPos == 0 {
		if err := f.Truncate(0); err != nil { // of an earlier try
			return err
		}
	}
	if len(w.out) > 0 {
		if _, err := f.WriteAt(w.out, w.outPos); err != nil {
			return err
		}
	}
	w.outPos += int64(len(w.out))
	w.out = w.out[:0]
	if !end {
		return nil
	}
	w.bytes = w.outPos
	if err := f.Sync(); err != nil {
		return &FlushError{err}
	}
	return nil
}
