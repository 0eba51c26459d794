package engine

import (
	"encoding/binary"
	"path/filepath"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/chunks"
	"github.com/mqd-broker/mqd/engine/journal"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/engine/segment"
	"github.com/mqd-broker/mqd/internal/invariant"
)

// writeStep says what a writer waits for.
type writeStep uint8

const (
	writeIdle       writeStep = iota
	writeMkdir                // the partition's directory
	writeOpen                 // the segment's file
	writeAllocate             // room in it
	writeGiveBack             // what of it could be had, when all could not
	writeFill                 // the bytes of the first block that are only in the file
	writeTail                 // the journal to hold the block that is rewritten
	writeData                 // a piece
	writeTruncate             // a closed segment to its end
	writeFlush                // fdatasync or fsync; from here on it waits for something to be durable
	writeSyncDir              // the directory entry
	writeSyncTopic            // that of the partition's directory
	writeSyncTopics           // that of the topic's
	writeSealSync             // the metadata of a truncated segment
)

// writeMode says how much a writer has to do.
type writeMode uint8

const (
	// writeChunks writes full chunks only, without a flush.
	writeChunks writeMode = iota
	// writeAll writes the partial tail block too, and flushes.
	writeAll
)

// writer brings the bytes of one partition at a time from chunks to segment
// files. A store has a fixed number of them, which bounds the memory and the
// writes in flight of background work.
//
// It never writes bytes that the journal has not written. A block that is in the
// file already, because the tail had to be made durable, is rewritten only after
// its old content has been put into the journal again as a tail entry and
// flushed: a torn rewrite can then be repaired. The ring keeps that entry until
// the partition has been flushed again, because the partition is dirty.
type writer struct {
	s      *Store
	step   writeStep
	mode   writeMode
	p      *Partition
	seg    *segfile
	op     aio.Op
	file   aio.FileOp
	bounce []byte

	captured uint64 // LSN written when the work on this partition began
	tailLSN  uint64 // the tail entry that must be flushed before going on
	tailDone bool   // for this segment and position
	end      int64  // file position behind the piece being written
	offset   int64  // offset that belongs to end, when end == seg.Safe at the start
	target   int64  // seg.Safe when the work on this segment began
	seal     bool   // the segment was closed and all of it in the journal then
	began    uint64 // when the sync of the topic's directory did; in the count of dirsync
	next     *writer
}

// start gives a partition to the writer.
func (w *writer) start(p *Partition, mode writeMode) {
	if p.writer != nil {
		invariant.Violated("engine: one writer works on a partition")
	}
	p.writer = w
	w.s.owe(p)
	w.p, w.mode = p, mode
	w.captured = w.s.journal.WrittenLSN()
	w.segment()
}

// segment goes on with the oldest segment that is not complete.
func (w *writer) segment() {
	p := w.p
	for {
		w.seg = p.unwritten
		if w.seg == nil {
			w.done(nil)
			return
		}
		w.target, w.offset = w.seg.Safe, w.seg.safeOffset
		w.tailDone = false
		w.seal = w.seg.closed && !w.seg.sealed && w.target == w.seg.Size
		if w.seg.closed && w.seg.sealed && w.seg.flushed == w.seg.Size {
			p.unwritten = w.seg.next
			continue
		}
		break
	}
	if w.seg.InFile >= w.target && !w.mustFlush() && !w.seal {
		w.done(nil)
		return
	}
	w.seg.writing = true
	if !p.entries.Made() {
		w.fileOp(writeMkdir, aio.FileOp{Kind: aio.FileMkdirs, Path: p.dir})
		return
	}
	w.open()
}

func (w *writer) mustFlush() bool {
	return w.mode == writeAll && w.seg.flushed < w.target
}

func (w *writer) fileOp(step writeStep, op aio.FileOp) {
	w.step, w.file = step, op
	w.file.Owner = w
	w.s.drv.SubmitFile(&w.file)
}

func (w *writer) open() {
	w.step = writeOpen
	w.s.files.Open(&w.seg.file, w.seg, w)
}

// FileOpen continues when the segment's file is open.
func (w *writer) FileOpen(err error) {
	if err != nil {
		w.failed(err)
		return
	}
	need := roundUp(w.target, aio.BlockSize)
	if w.seg.file.Allocated < need {
		size := need
		if !w.s.DiskFull() { // what the ballast gave is for what has been acknowledged
			size = segment.NextAllocation(w.seg.file.Allocated, need, w.p.cfg.SegmentBytes)
		}
		w.allocate(size)
		return
	}
	w.data()
}

func (w *writer) allocate(size int64) {
	w.fileOp(writeAllocate, aio.FileOp{Kind: aio.FileAllocate, File: w.seg.file.Handle, Off: 0, Len: size})
}

// fileFailed goes on after a file operation that has failed. Where there is no space to
// spare there may be some for what is there.
func (w *writer) fileFailed(op *aio.FileOp) {
	need := roundUp(w.target, aio.BlockSize)
	if w.step != writeAllocate || !aio.IsNoSpace(op.Err) || op.Len <= need {
		w.failed(op.Err)
		return
	}
	w.s.foundFull(op.Err)
	w.fileOp(writeGiveBack, aio.FileOp{Kind: aio.FileTruncate, File: w.seg.file.Handle, Len: w.seg.file.Allocated})
}

// CompleteFile continues after a file operation.
func (w *writer) CompleteFile(op *aio.FileOp) {
	if op.Err != nil {
		w.fileFailed(op)
		return
	}
	switch w.step {
	case writeMkdir:
		w.s.dirSyncs.Made(&w.p.entries)
		w.open()
	case writeAllocate:
		w.seg.file.Allocated = op.Len
		w.data()
	case writeGiveBack:
		w.allocate(roundUp(w.target, aio.BlockSize))
	case writeFlush:
		w.syncDirs()
	case writeSyncDir:
		w.seg.entry = true
		w.syncDirs()
	case writeSyncTopic, writeSyncTopics:
		if w.step == writeSyncTopic && !w.s.dirSyncs.Knows(w.p.key.Topic) {
			w.syncDir(writeSyncTopics, filepath.Dir(filepath.Dir(w.p.dir)))
			return
		}
		w.s.dirSyncs.Ended(&w.p.entries, w.p.key.Topic, w.began)
		w.flushed()
	case writeTruncate:
		w.fileOp(writeSealSync, aio.FileOp{Kind: aio.FileSync, File: w.seg.file.Handle})
	case writeSealSync:
		w.sealed()
	default:
		invariant.Violated("engine: a writer knows what it waits for")
	}
}

// failed ends the work. After a flush that failed nothing on the device can be believed;
// other failures are this shard's, unless they may pass: then it is tried again later.
func (w *writer) failed(err error) {
	flush := w.step >= writeFlush
	if flush {
		w.s.stats.FlushErrors++
		w.s.deviceFailed.Store(true)
	}
	if flush || !layout.MayPass(err) {
		w.s.fail(err)
	}
	w.done(err)
}

// data writes the next piece, or goes on to the flush.
func (w *writer) data() {
	seg := w.seg
	if seg.InFile >= w.target {
		w.flush()
		return
	}
	c := w.p.mem.UnsavedHolding(&seg.Segment, seg.InFile)
	if c == nil {
		invariant.Violated("engine: bytes that are not in the file are in memory")
	}
	if w.mode == writeChunks && !w.seal && c.Pos+int64(len(c.Mem)) > w.target {
		w.flush() // it still fills
		return
	}
	block := seg.InFile &^ (aio.BlockSize - 1)
	if seg.InFile != block && !w.tailDone {
		w.rewrite(c, block)
		return
	}
	w.piece(c, block)
}

// rewrite prepares the rewriting of a block that is partly in the file: its old
// content must be in memory and in the journal.
func (w *writer) rewrite(c *chunks.Chunk, block int64) {
	if c.Pos == block && c.From > 0 {
		w.step = writeFill
		w.op = aio.Op{Kind: aio.KindRead, File: w.seg.file.Handle, Buf: w.bounce, Off: block, Owner: w}
		w.s.drv.Submit(&w.op)
		return
	}
	w.step = writeTail
	s := w.s
	at := int(block - c.Pos)
	old := c.Mem[at : at+int(w.seg.InFile-block)]
	s.beginEntry(w.p, journal.KindTail, w.seg.base)
	binary.BigEndian.PutUint64(s.tailPos[:], uint64(block))
	s.pieces[0], s.pieces[1] = s.tailPos[:], old
	lsn, err := s.journal.AppendVec(&s.entry, s.pieces[:2], journal.NeedFlushed)
	if err != nil {
		w.tailLSN = 0 // tried again when the journal has room
		if err != journal.ErrFull {
			w.done(err)
			return
		}
	} else {
		w.tailLSN = lsn
		s.markDirty(w.p, lsn)
		s.stats.TailEntries++
	}
	s.parkWriter(w)
}

// progressed continues a writer that waits for the journal; false: it still waits.
func (w *writer) progressed(flushed uint64) bool {
	switch {
	case w.s.failed != nil:
		w.done(w.s.failed)
	case w.tailLSN == 0:
		w.data()
	case w.tailLSN <= flushed:
		w.tailDone = true
		w.data()
	default:
		return false
	}
	return true
}

// piece writes from block, in chunk c, up to the end of the chunk or of what is to
// be written. A partial block at the end goes through the bounce buffer, padded
// with zeros.
func (w *writer) piece(c *chunks.Chunk, block int64) {
	w.step = writeData
	at := int(block - c.Pos)
	end := min(w.target, c.End())
	n := int(end - block)
	buf := c.Mem[at : at+n]
	if whole := n &^ (aio.BlockSize - 1); whole > 0 {
		buf = buf[:whole]
		end = block + int64(whole)
	} else {
		clear(w.bounce[copy(w.bounce, buf):])
		buf = w.bounce
	}
	w.end = end
	w.op = aio.Op{Kind: aio.KindWrite, File: w.seg.file.Handle, Buf: buf, Off: block, Owner: w}
	w.s.drv.Submit(&w.op)
}

// Complete continues after a data operation.
func (w *writer) Complete(op *aio.Op) {
	if op.Err != nil {
		w.failed(op.Err)
		return
	}
	switch w.step {
	case writeFill:
		c := w.p.mem.UnsavedHolding(&w.seg.Segment, w.seg.InFile)
		copy(c.Mem[:c.From], w.bounce)
		c.From = 0
		w.data()
	case writeData:
		w.seg.InFile = w.end
		w.s.stats.SegmentBytes += uint64(len(op.Buf))
		w.s.stats.SegmentWrites++
		w.s.cleanChunks(w.p)
		w.data()
	case writeFlush:
		w.syncDirs()
	default:
		invariant.Violated("engine: a writer knows what it waits for")
	}
}

// flush makes what has been written durable if this work is to.
func (w *writer) flush() {
	seg := w.seg
	switch {
	case w.seal:
		w.fileOp(writeTruncate, aio.FileOp{Kind: aio.FileTruncate, File: seg.file.Handle, Len: seg.Size})
	case !w.mustFlush():
		seg.writing = false
		if seg.next != nil && seg.InFile == seg.Size && seg.sealed {
			w.segment()
			return
		}
		w.done(nil)
	case !seg.entry:
		w.fileOp(writeFlush, aio.FileOp{Kind: aio.FileSync, File: seg.file.Handle})
	default:
		w.step = writeFlush
		w.op = aio.Op{Kind: aio.KindFdatasync, File: seg.file.Handle, Owner: w}
		w.s.drv.Submit(&w.op)
	}
}

// sealed: the segment is complete, durable and truncated. Its index is written in
// the background.
func (w *writer) sealed() {
	w.seg.sealed = true
	w.seg.file.Allocated = w.seg.Size
	w.s.indexes.Seal(w.seg)
	w.syncDirs()
}

// syncDirs goes on when the segment's entry is durable, and those that lead to it.
func (w *writer) syncDirs() {
	switch {
	case !w.seg.entry:
		w.syncDir(writeSyncDir, w.p.dir)
	case w.s.dirSyncs.Cover(&w.p.entries, w.p.key.Topic):
		w.flushed()
	default:
		w.began = w.s.dirSyncs.Begin()
		w.syncDir(writeSyncTopic, filepath.Dir(w.p.dir))
	}
}

func (w *writer) syncDir(step writeStep, path string) {
	w.fileOp(step, aio.FileOp{Kind: aio.FileSyncDir, Path: path})
}

func (w *writer) flushed() {
	if w.s.deviceFailed.Load() { // whatever was lost with another flush, this one has not brought back
		w.s.fail(ErrStorage)
		w.done(ErrStorage)
		return
	}
	seg := w.seg
	w.s.stats.SegmentFlushes++
	seg.flushed, seg.flushedOffset = w.target, w.offset
	seg.writing = false
	if seg.next != nil {
		w.segment()
		return
	}
	w.done(nil)
}

// done gives the partition back.
func (w *writer) done(err error) {
	p := w.p
	if w.seg != nil {
		w.seg.writing = false
	}
	p.writer, w.p, w.seg, w.step = nil, nil, nil, writeIdle
	w.s.writerDone(w, p, err)
}
