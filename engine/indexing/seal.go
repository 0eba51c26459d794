package indexing

import (
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/segment"
)

// sealing writes the index of a segment that is complete.
type sealing struct {
	s       *Set
	seg     Segment
	job     segment.SealJob
	old     segment.RebuildJob // for a segment that an earlier life began
	op      aio.JobOp
	running bool
}

// Seal queues the writing of a sealed segment's index; one at a time per shard, so that a
// helper is not kept from other work.
func (s *Set) Seal(seg Segment) {
	q := &sealing{s: s, seg: seg}
	seg.Index().sealing = true
	s.seals.Push(q)
	if s.seals.Len() == 1 {
		q.submit()
	}
}

// Replace takes ix, which is whole, as the index of a segment whose log is another now, and
// has it written. Nobody is at work on the segment's index.
func (s *Set) Replace(seg Segment, ix *segment.Index) {
	x := seg.Index()
	s.Drop(x)
	x.Tail.Release()
	x.Tail, x.TailFrom, x.Damage, x.unread = ix, 0, nil, false
	s.Seal(seg)
}

// submit begins, unless the index is being loaded, whose end begins it.
func (q *sealing) submit() {
	x := q.seg.Index()
	if x.loading.isRunning() {
		return
	}
	q.running = true
	log := q.seg.Log()
	q.op = aio.JobOp{Owner: q}
	if x.TailFrom == 0 {
		q.job = segment.SealJob{Log: log, Writer: x.Tail}
		q.op.Job = &q.job
	} else {
		q.old = segment.RebuildJob{Log: log, Form: segment.FormSealed}
		q.op.Job = &q.old
	}
	q.s.Driver.SubmitJob(&q.op)
}

// CompleteJob takes the index that has been written in place of the one that grew, and
// goes on with the next segment. A failure costs only the index, which is a cache and
// is rebuilt when it is needed.
func (q *sealing) CompleteJob(op *aio.JobOp) {
	s, x := q.s, q.seg.Index()
	x.sealing = false
	switch {
	case op.Err != nil:
		s.stats.SealErrors++
		s.failed(q.seg.Log().ID, op.Err)
	case op.Job == &q.job:
		s.sealed(q.seg, &q.job.Report)
	default:
		s.sealed(q.seg, &q.old.Report)
	}
	s.seals.Take()
	if next := s.seals.Front(); next != nil {
		(*next).submit()
	}
	if x.loading != nil {
		x.loading.begin()
	}
}

// sealed replaces the index of a segment by the one of its sealed file.
func (s *Set) sealed(seg Segment, found *segment.Report) {
	s.stats.SealedSegments++
	x := seg.Index()
	x.Tail.Release()
	x.TailFrom = seg.Written()
	s.have(seg, found)
}

// atWork reports whether the index of seg is being written.
func (s *Set) atWork(seg Segment) bool {
	q := s.seals.Front()
	return q != nil && (*q).seg == seg && (*q).running
}
