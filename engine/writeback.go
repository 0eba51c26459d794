package engine

import (
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/segment"
)

// Writeback is paced by how full the journal's ring and the memory are.
const (
	// idleFill and fullFill are the fills, in percent, up to which one writer
	// brings full chunks to files, so that rounds have the device nearly for
	// themselves, and from which on as many do as may.
	idleFill, fullFill = 25, 75
	// lazyShare is the part of the writers, one in so many, that may. The others
	// are for checkpoints, whose many small writes and flushes the kernel puts
	// together when they come at the same time.
	lazyShare = 4
	// writeRetry is how long writing waits after a write that found no space.
	writeRetry = 200 * time.Millisecond
)

// dirtyList holds the partitions with bytes that are not flushed to a segment, in
// order of the oldest round that has such bytes: checkpoints begin at the front.
type dirtyList struct {
	first, last *Partition
	n           int
}

// add enters p by its dirtyLSN. It is nearly always the last.
func (l *dirtyList) add(p *Partition) {
	after := l.last
	for after != nil && after.dirtyLSN > p.dirtyLSN {
		after = after.dirtyPrev
	}
	next := l.first
	if after != nil {
		next = after.dirtyNext
		after.dirtyNext = p
	} else {
		l.first = p
	}
	if next != nil {
		next.dirtyPrev = p
	} else {
		l.last = p
	}
	p.dirtyPrev, p.dirtyNext = after, next
	l.n++
}

func (l *dirtyList) remove(p *Partition) {
	if p.dirtyPrev != nil {
		p.dirtyPrev.dirtyNext = p.dirtyNext
	} else {
		l.first = p.dirtyNext
	}
	if p.dirtyNext != nil {
		p.dirtyNext.dirtyPrev = p.dirtyPrev
	} else {
		l.last = p.dirtyPrev
	}
	p.dirtyPrev, p.dirtyNext = nil, nil
	l.n--
}

// oldest is the first partition that still counts, or nil.
func (l *dirtyList) oldest() *Partition {
	p := l.first
	for p != nil && p.dropped {
		p = p.dirtyNext
	}
	return p
}

// markDirty notes that the journal's round lsn holds bytes of p that are not
// flushed to its segment.
func (s *Store) markDirty(p *Partition, lsn uint64) {
	p.newestLSN = lsn
	if p.dirtyLSN == 0 {
		p.dirtyLSN = lsn
		s.dirty.add(p)
	}
	s.owe(p)
}

// markClean takes p off the list of dirty partitions.
func (s *Store) markClean(p *Partition) {
	if p.dirtyLSN != 0 {
		s.dirty.remove(p)
		p.dirtyLSN = 0
	}
	s.owe(p)
}

// flushedBelow notes that everything of p in rounds before lsn is flushed.
func (s *Store) flushedBelow(p *Partition, lsn uint64) {
	if p.dirtyLSN != 0 && p.dirtyLSN < lsn {
		s.dirty.remove(p)
		p.dirtyLSN = lsn
		s.dirty.add(p)
	}
}

// readyList holds partitions with something to write, first come first served.
type readyList struct{ first, last *Partition }

func (l *readyList) push(p *Partition) {
	p.isReady = true
	if l.last != nil {
		l.last.nextReady = p
	} else {
		l.first = p
	}
	l.last = p
}

func (l *readyList) pop() *Partition {
	p := l.first
	if p != nil {
		l.first = p.nextReady
		if l.first == nil {
			l.last = nil
		}
		p.isReady, p.nextReady = false, nil
	}
	return p
}

// consider enters a partition for writing if it has something to write.
func (s *Store) consider(p *Partition) {
	if !p.isReady && p.writer == nil && p.worthWriting() {
		s.ready.push(p)
	}
}

// worthWriting reports whether the journal has all of a chunk that the file has
// not, or of a segment that can be sealed. What is less waits for more, or for a
// checkpoint: then as much as possible goes with one write.
func (p *Partition) worthWriting() bool {
	if c := p.unsaved; c != nil && c.seg.safe >= c.pos+int64(len(c.mem)) {
		return true
	}
	seg := p.unwritten
	return seg != nil && seg.closed && !seg.sealed && seg.safe == seg.size
}

// writeback gives work to idle writers: what a checkpoint waits for comes first.
func (s *Store) writeback(now int64) {
	if s.failed != nil || now < s.writeAfter || s.closing >= closeJournal {
		return
	}
	for s.writersFree != nil {
		p, mode := s.nextFlush(), writeAll
		if p == nil && s.ready.first != nil && s.writing < s.lazyWriters() {
			p, mode = s.nextReady(), writeChunks
		}
		if p == nil {
			return
		}
		w := s.writersFree
		s.writersFree, w.next = w.next, nil
		s.writing++
		w.start(p, mode)
	}
}

// writingBack reports whether writers are at work or have work.
func (s *Store) writingBack() bool { return s.writing > 0 || s.ready.first != nil }

// lazyWriters is the number of writers that may be at work when no checkpoint
// waits for them.
func (s *Store) lazyWriters() int {
	most := max(1, s.opts.Writers/lazyShare)
	fill := max(s.fillPercent(), 100*s.chunks.unwritten()/s.chunks.size())
	switch {
	case fill >= fullFill || s.closing != closeNot:
		return most
	case fill <= idleFill:
		return 1
	}
	return 1 + int(fill-idleFill)*(most-1)/(fullFill-idleFill)
}

// nextFlush picks a partition that a checkpoint waits for, or nil.
func (s *Store) nextFlush() *Partition {
	for p := s.dirty.first; p != nil && p.dirtyLSN <= s.checkpoint.target; p = p.dirtyNext {
		if p.writer == nil && !p.dropped {
			return p
		}
	}
	return nil
}

// nextReady takes a partition with something to write, or nil.
func (s *Store) nextReady() *Partition {
	p := s.ready.pop()
	for p != nil && (p.writer != nil || p.dropped || !p.worthWriting()) {
		p = s.ready.pop()
	}
	return p
}

// cleanChunks marks the chunks of p whose bytes are all in files.
func (s *Store) cleanChunks(p *Partition) {
	c := p.unsaved
	for c != nil && c.from != c.to && c.end() <= c.seg.written {
		s.chunks.markClean(c)
		c = c.next
	}
	if c != nil && c.from == c.to { // room for what comes next
		c = nil
	}
	p.unsaved = c
	if s.starved {
		s.roomMade()
	}
}

// parkWriter lets a writer wait for the journal.
func (s *Store) parkWriter(w *writer) {
	w.next = s.writersParked
	s.writersParked = w
}

// progressed continues writers that waited for the journal.
func (s *Store) progressed(flushed uint64) {
	parked := s.writersParked
	s.writersParked = nil
	for w := parked; w != nil; {
		next := w.next
		w.next = nil
		if !w.progressed(flushed) {
			s.parkWriter(w)
		}
		w = next
	}
	s.roomMade()
}

// writerDone takes a writer back and updates what the partition owes.
func (s *Store) writerDone(w *writer, p *Partition, err error) {
	mode, captured := w.mode, w.captured
	w.next, s.writersFree = s.writersFree, w
	s.writing--
	s.owe(p)
	if p.dropped {
		return
	}
	s.consider(p)
	s.fullDisk = err != nil && aio.IsNoSpace(err)
	if err != nil {
		s.writeAfter = s.loop.Now() + int64(writeRetry)
		s.stats.WriteErrors++
		return
	}
	if mode != writeAll {
		return
	}
	if p.active.flushed == p.active.size && p.unwritten == p.active && p.memory == 0 {
		s.markClean(p)
	} else {
		s.flushedBelow(p, captured+1)
	}
	s.checkpoint.flushedOne()
}

// sealing is the background work on a segment that is complete.
type sealing struct {
	s    *Store
	p    *Partition
	seg  *segfile
	job  segment.SealJob
	old  segment.RebuildJob // for a segment that an earlier life began
	op   aio.JobOp
	next *sealing

	running bool
}

// sealLater queues the writing of a sealed segment's index; one at a time per
// shard, so that a helper is not kept from other work.
func (s *Store) sealLater(p *Partition, seg *segfile) {
	q := &sealing{s: s, p: p, seg: seg}
	seg.indexing = true
	if s.sealLast != nil {
		s.sealLast.next = q
		s.sealLast = q
		return
	}
	s.sealFirst, s.sealLast = q, q
	q.submit()
}

// submit begins, unless the index is being loaded, whose end begins it.
func (q *sealing) submit() {
	if q.seg.loading.isRunning() {
		return
	}
	q.running = true
	log := q.p.segmentLog(q.seg, q.s.opts.MaxBatch)
	q.op = aio.JobOp{Owner: q}
	if q.seg.tailFrom == 0 {
		q.job = segment.SealJob{Log: log, Writer: q.seg.tail}
		q.op.Job = &q.job
	} else {
		q.old = segment.RebuildJob{Log: log, Form: segment.FormSealed}
		q.op.Job = &q.old
	}
	q.s.drv.SubmitJob(&q.op)
}

// CompleteJob goes on with the next segment. A failure costs only the index,
// which is a cache and is rebuilt when it is needed.
func (q *sealing) CompleteJob(op *aio.JobOp) {
	s := q.s
	q.seg.indexing = false
	if op.Err != nil {
		s.stats.SealErrors++
		s.opts.Events.SealFailed(q.p.key, q.seg.base, op.Err)
	} else {
		s.stats.SealedSegments++
	}
	s.sealFirst = q.next
	if s.sealFirst == nil {
		s.sealLast = nil
	} else {
		s.sealFirst.submit()
	}
	if q.seg.loading != nil {
		q.seg.loading.begin()
	}
}

// sealingNow reports whether the index of seg is being written.
func (s *Store) sealingNow(seg *segfile) bool {
	return s.sealFirst != nil && s.sealFirst.seg == seg && s.sealFirst.running
}
