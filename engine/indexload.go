package engine

import (
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/segment"
)

// indexLoad brings the index of what an earlier life has written to a segment:
// loaded if the segment is sealed, built from the log if it grows. It runs once
// for all who need it at the same time, and not while the segment's index is
// written: these jobs write the same file.
type indexLoad struct {
	s       *Store
	p       *Partition
	seg     *segfile
	load    segment.LoadJob
	build   segment.RebuildJob
	op      aio.JobOp
	running bool
	waiters []indexWaiter
}

// indexWaiter is told when segfile.older is there, or why it is not.
type indexWaiter interface {
	indexLoaded(err error)
}

// loadIndex has the index of what was there before loaded, and tells w.
func (s *Store) loadIndex(p *Partition, seg *segfile, w indexWaiter) {
	l := seg.loading
	if l == nil {
		l = &indexLoad{s: s, p: p, seg: seg}
		seg.loading = l
	}
	l.waiters = append(l.waiters, w)
	l.begin()
}

// begin submits the job, unless it runs or the index is being written, whose end
// begins it.
func (l *indexLoad) begin() {
	if l.running || l.s.sealingNow(l.seg) {
		return
	}
	l.running = true
	log := l.p.segmentLog(l.seg)
	l.op = aio.JobOp{Owner: l}
	if l.seg.sealed {
		l.load = segment.LoadJob{Log: log, Form: segment.FormSealed}
		l.op.Job = &l.load
	} else {
		log.EndOffset = 0
		l.build = segment.RebuildJob{Log: log, Form: segment.FormOpen, LogBytes: l.seg.tailFrom}
		l.op.Job = &l.build
	}
	l.s.drv.SubmitJob(&l.op)
}

// isRunning reports whether the job is under way. There may be no load at all.
func (l *indexLoad) isRunning() bool { return l != nil && l.running }

// CompleteJob enters the index and tells those who wait.
func (l *indexLoad) CompleteJob(op *aio.JobOp) {
	switch {
	case op.Err != nil:
	case op.Job == &l.load:
		l.s.haveIndex(l.seg, l.load.Index)
	default:
		l.s.haveIndex(l.seg, l.build.Index)
	}
	l.seg.loading = nil
	if q := l.s.seals.Front(); q != nil && (*q).seg == l.seg {
		(*q).submit()
	}
	for _, w := range l.waiters {
		w.indexLoaded(op.Err)
	}
}

// indexMemory bounds the indexes of sealed segments in memory, in bytes; but one.
const indexMemory = 64 << 20

// haveIndex enters the index of what was there before, and with it what is known to be
// damaged. Indexes of sealed segments go, the oldest first, when there are too many.
func (s *Store) haveIndex(seg *segfile, ix *segment.Index) {
	if seg.older != nil && seg.older.Sealed() != nil {
		s.indexBytes -= seg.older.MemBytes()
	}
	seg.older = ix
	if seg.damage == nil {
		seg.damage = ix.Quarantine()
	}
	if ix.Sealed() == nil {
		return
	}
	s.indexBytes += ix.MemBytes()
	s.indexes.Push(seg)
	for s.indexBytes > indexMemory && s.indexes.Len() > 1 {
		old := s.indexes.Take()
		if old.older == nil { // it came twice, and has gone
			continue
		}
		if old.reads > 0 || old.loading != nil {
			s.indexes.Push(old)
			return
		}
		s.indexBytes -= old.older.MemBytes()
		old.older = nil
	}
}

// sealing writes the index of a segment that is complete.
type sealing struct {
	s       *Store
	p       *Partition
	seg     *segfile
	job     segment.SealJob
	old     segment.RebuildJob // for a segment that an earlier life began
	op      aio.JobOp
	running bool
}

// sealLater queues the writing of a sealed segment's index; one at a time per
// shard, so that a helper is not kept from other work.
func (s *Store) sealLater(p *Partition, seg *segfile) {
	q := &sealing{s: s, p: p, seg: seg}
	seg.indexing = true
	s.seals.Push(q)
	if s.seals.Len() == 1 {
		q.submit()
	}
}

// submit begins, unless the index is being loaded, whose end begins it.
func (q *sealing) submit() {
	if q.seg.loading.isRunning() {
		return
	}
	q.running = true
	log := q.p.segmentLog(q.seg)
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

// CompleteJob takes the index that has been written in place of the one that grew, and
// goes on with the next segment. A failure costs only the index, which is a cache and
// is rebuilt when it is needed.
func (q *sealing) CompleteJob(op *aio.JobOp) {
	s := q.s
	q.seg.indexing = false
	switch {
	case op.Err != nil:
		s.stats.SealErrors++
		s.opts.Events.SealFailed(q.p.key, q.seg.base, op.Err)
	case op.Job == &q.job:
		s.sealed(q.seg, q.job.Index)
	default:
		s.sealed(q.seg, q.old.Index)
	}
	s.seals.Take()
	if next := s.seals.Front(); next != nil {
		(*next).submit()
	}
	if q.seg.loading != nil {
		q.seg.loading.begin()
	}
}

// sealed replaces the index of a segment by the one of its sealed file.
func (s *Store) sealed(seg *segfile, ix *segment.Index) {
	s.stats.SealedSegments++
	seg.tail.Release()
	seg.tailFrom = seg.size
	s.haveIndex(seg, ix)
}

// sealingNow reports whether the index of seg is being written.
func (s *Store) sealingNow(seg *segfile) bool {
	q := s.seals.Front()
	return q != nil && (*q).seg == seg && (*q).running
}
