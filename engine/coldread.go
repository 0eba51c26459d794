package engine

import (
	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/segment"
)

// ReadBufferBytes is the size of a buffer for reads from segment files. A batch
// that is larger is read into a buffer sized for the largest batch.
const ReadBufferBytes = 256 << 10

// coldStep says what a cold read waits for.
type coldStep uint8

const (
	coldOpen coldStep = iota
	coldIndex
	coldData
	coldHeld // answered; the buffer is in use until Release
)

// coldRead answers a read from a segment's file: open it, find the place by the
// index, read, pick the whole batches. There is a fixed number of them; reads
// beyond it queue.
type coldRead struct {
	s    *Store
	r    *Read
	seg  *segfile
	step coldStep
	buf  []byte // ReadBufferBytes
	big  []byte // for batches larger than that; allocated when first needed
	data aio.Op
	at   int64 // file position of the first byte read
	want int64 // position of the batch to begin with
	next *coldRead
}

// readCold starts or queues a cold read.
func (s *Store) readCold(r *Read, seg *segfile) {
	s.unpark(r)
	c := s.coldFree
	if c == nil {
		r.next = nil
		if s.coldLast != nil {
			s.coldLast.next = r
		} else {
			s.coldFirst = r
		}
		s.coldLast = r
		return
	}
	s.coldFree, c.next = c.next, nil
	c.r, c.seg, r.cold = r, seg, c
	seg.reads++
	s.stats.ColdReads++
	c.begin()
}

// coldNext gives a free cold read to the oldest read in the queue.
func (s *Store) coldNext() {
	r := s.coldFirst
	if r == nil || s.coldFree == nil {
		return
	}
	s.coldFirst = r.next
	if s.coldFirst == nil {
		s.coldLast = nil
	}
	r.next = nil
	s.tryRead(r)
}

// ColdWaiting reports whether a read from a segment file waits because all buffers
// for such reads hold answers that have not been released.
func (s *Store) ColdWaiting() bool { return s.coldFirst != nil }

func (s *Store) releaseCold(c *coldRead) {
	c.seg.reads--
	c.r, c.seg = nil, nil
	c.next, s.coldFree = s.coldFree, c
	s.coldNext()
}

// finish ends the cold read without data.
func (c *coldRead) finish(err error) {
	s, r := c.s, c.r
	r.cold = nil
	s.releaseCold(c)
	s.finishRead(r, err)
}

func (c *coldRead) begin() {
	c.step = coldOpen
	c.s.openSegment(c.r.Part, c.seg, c)
}

// segmentOpen continues when the file is open.
func (c *coldRead) segmentOpen(err error) {
	if err != nil {
		c.finish(c.s.storage(err))
		return
	}
	c.index()
}

// index finds the position to read from, loading the index if it must.
func (c *coldRead) index() {
	seg, offset := c.seg, c.r.start
	if e, ok := seg.tail.Floor(offset); ok {
		c.read(e.Pos)
		return
	}
	if seg.older != nil {
		if e, ok := seg.older.Floor(offset); ok {
			c.read(e.Pos)
			return
		}
		c.read(0)
		return
	}
	c.step = coldIndex
	c.s.loadIndex(c.r.Part, seg, c)
}

// segmentLog describes a segment to a job. The chain is a copy, because the job
// reads it on another thread.
func (p *Partition) segmentLog(seg *segfile, maxBatch int) segment.Log {
	log := segment.Log{
		Dir: p.dir, ID: p.segmentID(seg.base), Interval: int(p.cfg.IndexInterval),
		MaxBatchBytes: int64(maxBatch), Chain: p.epochs.Clone(),
		Created: p.store.wallBase + p.store.loop.Now(),
	}
	if seg.next != nil {
		log.EndOffset = seg.next.base
		log.NeighbourAppend = seg.next.appendTime
	}
	return log
}

// indexLoaded continues when the index has been loaded or rebuilt.
func (c *coldRead) indexLoaded(err error) {
	if err != nil {
		c.finish(c.s.storage(err))
		return
	}
	c.index()
}

// read reads from the block that holds pos.
func (c *coldRead) read(pos int64) {
	c.want = pos
	c.readInto(c.buf, pos)
}

func (c *coldRead) readInto(buf []byte, pos int64) {
	c.step = coldData
	c.at = pos &^ (aio.BlockSize - 1)
	end := (c.seg.written + aio.BlockSize - 1) &^ (aio.BlockSize - 1)
	n := min(int64(len(buf)), end-c.at)
	if n <= 0 {
		c.finish(nil)
		return
	}
	c.data = aio.Op{Kind: aio.KindRead, File: c.seg.file, Buf: buf[:n], Off: c.at, Owner: c}
	c.s.drv.Submit(&c.data)
}

// Complete continues when data has been read.
func (c *coldRead) Complete(op *aio.Op) {
	if op.Err != nil {
		c.finish(c.s.storage(op.Err))
		return
	}
	have := op.Buf[:op.N]
	if end := c.seg.written - c.at; int64(len(have)) > end {
		have = have[:end]
	}
	c.pick(have)
}

// pick finds the batch that contains the offset wanted and answers with as many
// whole batches as fit.
func (c *coldRead) pick(have []byte) {
	p, r := c.r.Part, c.r
	rest := have[c.want-c.at:]
	from, records := -1, 0
	at := 0
	for at+batch.HeaderSize <= len(rest) {
		h, err := batch.ParseHeader(rest[at:])
		if err != nil {
			c.corrupt(c.want+int64(at), err)
			return
		}
		size := h.Size()
		last := h.BaseOffset + int64(h.LastOffsetDelta)
		if last < r.start {
			at += size
			continue
		}
		if h.BaseOffset >= p.visible {
			break
		}
		if at+size > len(rest) {
			break
		}
		if from >= 0 && (at+size-from > r.MaxBytes || over(records, int(h.Count), r.MaxRecords)) {
			break
		}
		if from < 0 {
			if c.s.lost(r, h.BaseOffset) {
				c.finish(r.Err)
				return
			}
			from = at
		}
		at += size
		records += int(h.Count)
		r.Next = last + 1
	}
	if from < 0 {
		c.further(rest, at)
		return
	}
	c.step = coldHeld
	r.Pieces[0], r.N, r.Bytes = rest[from:at], 1, at-from
	c.s.finishRead(r, nil)
}

// further goes on where no whole batch was found: at the next place, or with a
// larger buffer for a batch that does not fit.
func (c *coldRead) further(rest []byte, at int) {
	pos := c.want + int64(at)
	switch {
	case pos >= c.seg.written:
		c.finish(nil)
	case at > 0:
		c.read(pos)
	case len(rest) >= batch.HeaderSize && c.bigEnough():
		c.readInto(c.big, pos)
	default:
		c.finish(&CorruptError{
			Path: c.r.Part.logPath(c.seg), Pos: pos, Offset: c.r.start,
			Expected: "a whole batch", Found: "the end of what has been written",
		})
	}
}

// bigEnough makes the large buffer ready; false when it has been tried already.
func (c *coldRead) bigEnough() bool {
	if len(c.data.Buf) > len(c.buf) {
		return false
	}
	if c.big == nil {
		big, err := c.s.drv.Alloc(int(roundUp(int64(c.s.opts.MaxBatch)+aio.BlockSize, aio.BlockSize)))
		if err != nil {
			return false
		}
		c.big = big
	}
	return true
}

func (c *coldRead) corrupt(pos int64, cause error) {
	c.s.stats.CorruptReads++
	c.finish(&CorruptError{
		Path: c.r.Part.logPath(c.seg), Pos: pos, Offset: c.r.start,
		Expected: "a batch header", Found: cause.Error(),
	})
}

// storage wraps an I/O error of a read. The log goes on: only this answer fails.
func (s *Store) storage(err error) error {
	s.stats.ReadErrors++
	return &readError{err}
}

type readError struct{ err error }

func (e *readError) Error() string   { return "read: " + e.err.Error() }
func (e *readError) Unwrap() []error { return []error{ErrStorage, e.err} }

// roundUp rounds n up to a multiple of unit, a power of two.
func roundUp(n, unit int64) int64 { return (n + unit - 1) &^ (unit - 1) }
