package engine

import (
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/segment"
)

// Writeback paces the background writes by the fill of the journal's ring.
const (
	// busyWriteBytes is what a partition gathers before it is written while
	// the ring is nearly empty.
	busyWriteBytes = 64 << 10
	// idleFill and fullFill are the fills, in percent, below which writeback
	// has the lowest priority and above which producers are slowed.
	idleFill, fullFill = 25, 75
	// writeRetry is how long a partition waits after a write that found no
	// space.
	writeRetry = 200 * time.Millisecond
)

// markDirty notes that the journal's round lsn holds bytes of p that are not
// flushed to its segment.
func (s *Store) markDirty(p *Partition, lsn uint64) {
	p.newestLSN = lsn
	if p.dirtyLSN == 0 {
		p.dirtyLSN = lsn
	}
	if p.dirtyAt == 0 {
		s.dirty = append(s.dirty, p)
		p.dirtyAt = len(s.dirty)
	}
	s.owe(p)
}

// markClean takes p off the list of dirty partitions.
func (s *Store) markClean(p *Partition) {
	p.dirtyLSN = 0
	s.owe(p)
	if p.dirtyAt == 0 {
		return
	}
	last := s.dirty[len(s.dirty)-1]
	s.dirty[p.dirtyAt-1] = last
	last.dirtyAt = p.dirtyAt
	s.dirty[len(s.dirty)-1] = nil
	s.dirty = s.dirty[:len(s.dirty)-1]
	p.dirtyAt = 0
}

// writeback gives work to idle writers: partitions that a checkpoint waits for
// come first, then those with enough bytes.
func (s *Store) writeback(now int64) {
	if s.failed != nil || now < s.writeAfter || s.closing >= closeJournal {
		return
	}
	for s.writersFree != nil && len(s.dirty) > 0 {
		p, mode := s.nextDirty()
		if p == nil {
			return
		}
		w := s.writersFree
		s.writersFree, w.next = w.next, nil
		w.start(p, mode)
	}
}

// scanBudget bounds the partitions looked at per turn.
const scanBudget = 256

// nextDirty picks a partition to write, looking at a bounded number of them.
func (s *Store) nextDirty() (*Partition, writeMode) {
	lazy := s.checkpoint.target == 0
	threshold := int64(busyWriteBytes)
	if s.chunks.used() > s.chunks.size()/2 {
		threshold = aio.BlockSize
	}
	for n := min(scanBudget, len(s.dirty)); n > 0; n-- {
		if s.scan >= len(s.dirty) {
			s.scan = 0
		}
		p := s.dirty[s.scan]
		s.scan++
		if p.writer != nil || p.dropped {
			continue
		}
		if !lazy && p.dirtyLSN <= s.checkpoint.target {
			return p, writeAll
		}
		if p.unwrittenBytes() >= threshold {
			return p, writeBlocks
		}
	}
	return nil, writeBlocks
}

// unwrittenBytes is how much the journal has and the files have not.
func (p *Partition) unwrittenBytes() int64 {
	var n int64
	for seg := p.unwritten; seg != nil; seg = seg.next {
		n += seg.safe - seg.written
		if seg.closed && !seg.sealed && seg.safe == seg.size {
			n += busyWriteBytes // sealing is work too
		}
	}
	return n
}

// cleanChunks marks the chunks whose bytes are all in the file of seg.
func (s *Store) cleanChunks(p *Partition, seg *segfile) {
	for c := p.oldest; c != nil; c = c.next {
		if c.seg.base > seg.base || c.seg == seg && c.end() > seg.written {
			break
		}
		if c.clean || c.from == c.to {
			continue
		}
		s.chunks.markClean(c)
	}
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
	s.owe(p)
	if p.dropped {
		return
	}
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
		p.dirtyLSN = max(p.dirtyLSN, captured+1)
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
