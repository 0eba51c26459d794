package engine

import (
	"fmt"
	"path/filepath"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/indexing"
	"github.com/mqd-broker/mqd/engine/pick"
	"github.com/mqd-broker/mqd/engine/segment"
	"github.com/mqd-broker/mqd/engine/stage"
)

// coldRead answers a read from a segment's file: open it, find the place by the
// index, read, check, pick the whole batches. There is a fixed number of them; reads
// beyond it queue.
//
// What is read of a sealed segment is held against the checksums of its regions, of
// any other against the CRCs of its batches. Where that fails, or the device cannot
// read, the whole segment is verified once, which tells damage from its neighbours:
// those are served, and a fetch of what is damaged is answered with an error and the
// offset behind it. Nothing is changed or cut off.
type coldRead struct {
	s        *Store
	r        *Read
	seg      *segfile
	held     bool   // answered; the buffer is in use until Release
	verified bool   // the segment, for this read
	probing  error  // why a block elsewhere in the segment is being read
	noIndex  bool   // it cannot be had: the log is walked from its start
	buf      []byte // ReadBufferBytes
	big      []byte // for batches larger than that; allocated when first needed
	data     aio.Op
	since    int64 // loop time at which the read was submitted
	at       int64 // file position of the first byte read
	want     int64 // position of the batch to begin with
	stop     int64 // position at which the read ends: of damage, or of what is written
	next     *coldRead
}

// readCold starts or queues a cold read.
func (s *Store) readCold(r *Read, seg *segfile) {
	s.unpark(r)
	c := s.coldFree
	if c == nil {
		s.coldQueue.Push(r)
		return
	}
	s.coldFree, c.next = c.next, nil
	c.r, c.seg, r.cold = r, seg, c
	seg.reads++
	s.stats.ColdReads++
	c.begin()
}

// coldNext gives free cold reads to the oldest reads in the queue. Some of those may
// not need one any more.
func (s *Store) coldNext() {
	for s.coldQueue.Len() > 0 && s.coldFree != nil {
		s.tryRead(s.coldQueue.Take())
	}
}

// ColdWaiting reports whether a read from a segment file waits because all buffers
// for such reads hold answers that have not been released.
func (s *Store) ColdWaiting() bool { return s.coldQueue.Len() > 0 }

func (s *Store) releaseCold(c *coldRead) {
	if c.seg != nil {
		c.seg.reads--
	}
	c.r, c.seg = nil, nil
	c.next, s.coldFree = s.coldFree, c
	s.coldNext()
}

// finish ends the cold read without data.
func (c *coldRead) finish(err error) {
	s, r := c.s, c.r
	s.stopCold(c)
	s.finishRead(r, err)
}

// stopCold takes the read from c.
func (s *Store) stopCold(c *coldRead) {
	c.r.cold = nil
	s.releaseCold(c)
}

func (c *coldRead) begin() {
	c.held, c.verified, c.noIndex, c.probing = false, false, false, nil
	c.s.files.Open(&c.seg.file, c.seg, c)
}

// FileOpen continues when the segment's file is open.
func (c *coldRead) FileOpen(err error) {
	if err != nil {
		c.finish(c.s.storage(err))
		return
	}
	c.index()
}

// index finds the position to read from, loading the index if it must: also for its
// checksums, when the segment is sealed.
func (c *coldRead) index() {
	seg, offset := c.seg, c.r.start
	x := &seg.index
	e, ok := x.Floor(offset)
	if x.Older == nil && !c.noIndex && (!ok && x.TailFrom > 0 || seg.sealed && !x.Sealing()) {
		c.s.indexes.Load(seg, c)
		return
	}
	where := pick.Around(x.Damage, offset, e.Pos, seg.InFile)
	if where.Inside != nil && !c.verified && x.MayPass(c.s.loop.Now()) {
		c.suspect(errUnread)
		return
	}
	if where.Inside != nil {
		c.damaged(where.Inside.ToOffset, "damaged")
		return
	}
	c.stop = where.Stop
	c.read(where.Pos)
}

// IndexLoaded continues when the index has been loaded or rebuilt, or without it: a
// full disk, say, must not keep anybody from reading.
func (c *coldRead) IndexLoaded(err error) {
	if err != nil {
		c.s.stats.IndexErrors++
		c.noIndex = true
	}
	c.index()
}

// read reads from the block that holds pos.
func (c *coldRead) read(pos int64) {
	c.want = pos
	c.readInto(c.buf, pos)
}

func (c *coldRead) readInto(buf []byte, pos int64) {
	c.at = pos &^ (aio.BlockSize - 1)
	n := min(int64(len(buf)), roundUp(c.stop, aio.BlockSize)-c.at)
	if n <= 0 {
		c.beyond()
		return
	}
	c.data = aio.Op{Kind: aio.KindRead, File: c.seg.file.Handle, Buf: buf[:n], Off: c.at, Owner: c}
	c.since = c.s.loop.Now()
	c.s.drv.Submit(&c.data)
}

// Complete continues when data has been read.
func (c *coldRead) Complete(op *aio.Op) {
	if c.probing != nil {
		c.probed(op.Err)
		return
	}
	c.s.opts.Stages.Add(stage.ColdRead, c.s.loop.Now()-c.since)
	have := op.Buf[:op.N]
	err := op.Err
	if err != nil && !c.verified && c.probe(err) {
		return
	}
	if err == nil {
		err = c.check(have)
	}
	if err != nil {
		c.suspect(err)
		return
	}
	c.pick(have[:min(int64(len(have)), c.stop-c.at)])
}

// check holds what has been read against the checksums of the segment's regions. A
// segment that has been damaged has none that could be trusted.
func (c *coldRead) check(have []byte) error {
	seg := c.seg
	if short := min(int64(len(c.data.Buf)), seg.InFile-c.at) - int64(len(have)); short > 0 {
		return fmt.Errorf("%s: %w: %d bytes are missing at %d", seg.Path(), ErrCorrupt, short, c.at)
	}
	if !seg.index.HasRegions() {
		return nil
	}
	return segment.CheckRegions(seg.index.Older, c.at, have)
}

// pick answers with as many whole batches as fit.
func (c *coldRead) pick(have []byte) {
	p, r := c.r.Part, c.r
	w := pick.Want{Offset: r.start, Below: p.visible, MaxBytes: r.MaxBytes, MaxRecords: r.MaxRecords, Gaps: &p.epochs}
	if !c.seg.index.HasRegions() {
		w.Check = pick.CheckBatches
	}
	rest := have[min(c.want-c.at, int64(len(have))):]
	a := pick.Batches(rest, &w)
	pos := c.want + int64(a.Passed)
	switch {
	case a.To > a.From:
		c.held = true
		r.measure(c.seg, c.want+int64(a.From))
		c.seg.reads-- // of the segment nothing more is wanted
		c.seg = nil
		r.Pieces[0], r.N, r.Bytes, r.Next = rest[a.From:a.To], 1, a.To-a.From, a.Next
		c.s.finishRead(r, nil)
	case a.Fault != nil:
		c.suspect(a.Fault)
	case a.Missing >= 0:
		c.damaged(a.Missing, "missing")
	case a.Size > 0 && pos+int64(a.Size) > c.stop:
		c.suspect(fmt.Errorf("%w: a batch of %d bytes at %d passes the end of what is written", ErrCorrupt, a.Size, pos))
	case a.Size > 0:
		c.larger(pos, a.Size)
	case pos >= c.stop:
		c.beyond()
	case a.Passed > 0:
		c.read(pos)
	default:
		c.suspect(fmt.Errorf("%w: no batch at %d", ErrCorrupt, pos))
	}
}

// larger reads a batch of size bytes that the buffer does not hold.
func (c *coldRead) larger(pos int64, size int) {
	if pos != c.want && int64(size)+aio.BlockSize <= int64(len(c.buf)) {
		c.read(pos) // it lies at the end of the buffer
		return
	}
	if size+aio.BlockSize > len(c.big) {
		n := roundUp(int64(max(size, c.s.opts.MaxBatch)+aio.BlockSize), aio.BlockSize)
		big, err := c.s.drv.Alloc(int(n))
		if err != nil {
			c.finish(c.s.storage(err))
			return
		}
		c.big = big
	}
	c.want = pos
	c.readInto(c.big, pos)
}

// beyond: the file holds nothing more at or behind the offset that is wanted.
func (c *coldRead) beyond() {
	s, r, seg := c.s, c.r, c.seg
	s.stopCold(c)
	s.beyond(r, seg)
}

// Index is the segment's.
func (seg *segfile) Index() *indexing.State { return &seg.index }

// Path names the segment's file.
func (seg *segfile) Path() string { return filepath.Join(seg.part.dir, segment.LogName(seg.base)) }

// Busy reports whether the segment's open file is in use.
func (seg *segfile) Busy() bool { return seg.reads > 0 || seg.writing }

// Sealed reports whether the segment is complete, Read whether somebody reads it.
func (seg *segfile) Sealed() bool { return seg.sealed }
func (seg *segfile) Read() bool   { return seg.reads > 0 }

// Written is the number of bytes in the file.
func (seg *segfile) Written() int64 { return seg.InFile }

// Log describes the segment to a job. The chain is a copy, because the job reads it on
// another thread. Batches may be larger than the limit of today: they were appended under
// another.
func (seg *segfile) Log() segment.Log {
	p := seg.part
	log := segment.Log{
		Dir: p.dir, ID: p.segmentID(seg.base), Interval: int(p.cfg.IndexInterval),
		Chain:   p.epochs.Clone(),
		Created: p.store.wallBase + p.store.loop.Now(), Rewrites: seg.rewrites,
	}
	if seg.next != nil {
		log.EndOffset = seg.next.base
		log.NeighbourAppend = seg.next.appendTime
	}
	return log
}

// storage wraps an I/O error of a read. The log goes on: only this answer fails.
func (s *Store) storage(err error) error {
	s.stats.ReadErrors++
	return fmt.Errorf("read: %w: %w", ErrStorage, err)
}

// roundUp rounds n up to a multiple of unit, a power of two.
func roundUp(n, unit int64) int64 { return (n + unit - 1) &^ (unit - 1) }
