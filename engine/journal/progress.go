package journal

import (
	"errors"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/internal/invariant"
)

// flying is a round that has been submitted and is not below the written
// watermark.
type flying struct {
	lsn, prev uint64
	proof     uint64 // the flushed watermark in its header
	size      int
	dsync     bool
	data      bool // holds more than marks and wraps
	written   bool
}

// flight follows rounds from their submission to the watermarks, in order of LSN.
type flight struct {
	ring  []flying
	first uint64 // number of the oldest
	next  uint64 // number of the next
	// writes counts the writes in flight, rounds the rounds in the queue. Wraps
	// do not count among these, nor do marks: a round does not wait for a mark
	// that has just gone, though its acknowledgements do.
	writes, rounds int
	bytes          int // being written

	// written and flushed are the watermarks. writtenData, flushedData are the
	// newest rounds up to them that hold more than marks and wraps;
	// writtenProof, flushedProof the newest flushed watermark that stands in a
	// header up to them.
	written, flushed           uint64
	writtenData, flushedData   uint64
	writtenProof, flushedProof uint64
}

func (f *flight) push(r flying) uint64 {
	if f.next-f.first == uint64(len(f.ring)) {
		invariant.Violated("journal: no more rounds are in flight than there are buffers")
	}
	f.ring[f.next%uint64(len(f.ring))] = r
	f.next++
	f.writes++
	f.bytes += r.size
	if r.data {
		f.rounds++
	}
	return f.next - 1
}

// advance moves the watermarks over the rounds at the front that are written.
func (f *flight) advance() {
	for f.first < f.next {
		r := &f.ring[f.first%uint64(len(f.ring))]
		if !r.written {
			return
		}
		f.first++
		if r.data {
			f.rounds--
		}
		f.written, f.writtenProof = r.lsn, r.proof
		if r.data {
			f.writtenData = r.lsn
		}
		if r.dsync {
			if f.flushed != r.prev {
				invariant.Violated("journal: DSYNC is used only while everything earlier is durable")
			}
			f.flushed, f.flushedData, f.flushedProof = r.lsn, f.writtenData, f.writtenProof
		}
	}
}

// flusher runs flushes, one at a time.
type flusher struct {
	j    *Journal
	op   aio.Op
	busy bool
	// plain is the newest round written without DSYNC, wanted the newest that
	// is to be flushed, hold the newest of those that an entry waits for.
	plain, wanted, hold uint64
	// What the running flush covers.
	cover, coverData, coverProof uint64
	coverAnchor                  bool
}

// Complete is called when a flush has ended.
func (f *flusher) Complete(op *aio.Op) { f.j.flushDone(op) }

// wrote is called when a round's write has ended.
func (j *Journal) wrote(s *slot, op *aio.Op) {
	switch s {
	case j.wrap:
		j.wrapped = false
	case j.big:
		j.bigBusy = false
	default:
		j.free = append(j.free, s)
	}
	r := &j.flight.ring[s.flight%uint64(len(j.flight.ring))]
	j.flight.writes--
	j.flight.bytes -= r.size
	if op.Err != nil {
		j.writeFailed(op, s.lsn, r.dsync)
	}
	if j.state == failed {
		return
	}
	r.written = true
	j.flight.advance()
	j.startFlush()
	j.report()
}

// startFlush submits a flush if one is wanted and what it is to cover is written.
func (j *Journal) startFlush() {
	f := &j.flush
	if f.busy || j.state == failed {
		return
	}
	rounds := f.wanted > j.flight.flushed && f.wanted <= j.flight.written
	anchor := j.releaser.phase == releaseWritten
	if !rounds && !anchor {
		return
	}
	f.busy = true
	f.cover, f.coverData, f.coverProof = j.flight.written, j.flight.writtenData, j.flight.writtenProof
	f.coverAnchor = anchor
	j.stats.Flushes++
	j.region.Flush(&f.op)
}

func (j *Journal) flushDone(op *aio.Op) {
	f := &j.flush
	f.busy = false
	if op.Err != nil {
		j.fail(&FlushError{LSN: f.cover, Err: op.Err})
	}
	if j.state == failed {
		return
	}
	if f.cover > j.flight.flushed {
		j.flight.flushed, j.flight.flushedData, j.flight.flushedProof = f.cover, f.coverData, f.coverProof
	}
	if f.coverAnchor {
		j.anchorDurable()
	}
	j.startFlush()
	j.report()
}

// Flush makes everything durable that has been submitted so far, and returns the
// LSN that FlushedLSN will reach. Entries in the filling round are not among it.
func (j *Journal) Flush() uint64 {
	if j.state == failed {
		return j.lastLSN
	}
	if j.flush.plain > j.flight.flushed {
		j.flush.wanted = j.lastLSN
		j.startFlush()
	}
	return j.lastLSN
}

// report tells the observer of progress, unless the device has failed.
func (j *Journal) report() {
	w, f := j.flight.written, j.flight.flushed
	if j.state == failed || w == j.reportedWritten && f == j.reportedFlushed && !j.releaser.madeRoom || j.deviceFailed() {
		return
	}
	j.reportedWritten, j.reportedFlushed = w, f
	j.releaser.madeRoom = false
	j.opts.Observer.JournalProgress(w, f)
}

// deviceFailed reports whether a flush has failed on the device, and fails the
// journal if so.
func (j *Journal) deviceFailed() bool {
	if !j.opts.DeviceFailed.Load() {
		return false
	}
	j.fail(ErrDeviceFailed)
	return true
}

// writeFailed fails the journal after a write. A write with DSYNC contains a flush,
// and its error does not tell which of the two it was: unless it is one that only
// the write can give, the device is taken to have failed.
func (j *Journal) writeFailed(op *aio.Op, lsn uint64, dsync bool) {
	j.stats.WriteErrors++
	write := &WriteError{LSN: lsn, Pos: op.Off, Length: len(op.Buf), Err: op.Err}
	if !dsync || errors.Is(op.Err, aio.ErrShort) || errors.Is(op.Err, aio.ErrCanceled) || errors.Is(op.Err, aio.ErrClosed) {
		j.fail(write)
		return
	}
	j.fail(&FlushError{LSN: lsn, Err: write})
}

// fail ends the journal.
func (j *Journal) fail(err error) {
	var flush *FlushError
	if errors.As(err, &flush) {
		j.stats.FlushErrors++
		j.opts.DeviceFailed.Store(true)
	}
	if j.state == failed {
		return
	}
	j.state, j.err = failed, err
	j.opts.Observer.JournalFailed(err)
}
