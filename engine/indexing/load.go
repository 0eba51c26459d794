package indexing

import (
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/segment"
)

// load brings the index of what an earlier life has written to a segment: loaded if the
// segment is sealed, built from the log if it grows. It runs once for all who need it at
// the same time, and not while the segment's index is written.
type load struct {
	s       *Set
	seg     Segment
	load    segment.LoadJob
	build   segment.RebuildJob
	op      aio.JobOp
	running bool
	afresh  bool // the file is of no use
	waiters []Waiter
}

// Waiter is told when State.Older is there, or why it is not.
type Waiter interface {
	IndexLoaded(err error)
}

// Load has the index of what was there before loaded, and tells w.
func (s *Set) Load(seg Segment, w Waiter) {
	x := seg.Index()
	if x.loading == nil {
		x.loading = &load{s: s, seg: seg}
	}
	x.loading.waiters = append(x.loading.waiters, w)
	x.loading.begin()
}

// Make has the index of a sealed segment made from its log, whatever its file holds, and
// tells w.
func (s *Set) Make(seg Segment, w Waiter) {
	if x := seg.Index(); x.loading == nil {
		x.loading = &load{s: s, seg: seg, afresh: true}
	}
	s.Load(seg, w)
}

// begin submits the job, unless it runs or the index is being written, whose end
// begins it.
func (l *load) begin() {
	if l.running || l.s.atWork(l.seg) {
		return
	}
	l.running = true
	log := l.seg.Log()
	l.op = aio.JobOp{Owner: l}
	switch {
	case l.afresh:
		l.build = segment.RebuildJob{Log: log, Form: segment.FormSealed}
		l.op.Job = &l.build
	case l.seg.Sealed():
		l.load = segment.LoadJob{Log: log}
		l.op.Job = &l.load
	default:
		log.EndOffset = 0
		l.build = segment.RebuildJob{Log: log, Form: segment.FormOpen, LogBytes: l.seg.Index().TailFrom}
		l.op.Job = &l.build
	}
	l.s.Driver.SubmitJob(&l.op)
}

// isRunning reports whether the job is under way. There may be no load at all.
func (l *load) isRunning() bool { return l != nil && l.running }

// CompleteJob enters the index and tells those who wait.
func (l *load) CompleteJob(op *aio.JobOp) {
	switch {
	case op.Err != nil:
	case op.Job == &l.load:
		l.s.have(l.seg, &l.load.Report)
	default:
		l.s.have(l.seg, &l.build.Report)
	}
	l.seg.Index().loading = nil
	if q := l.s.seals.Front(); q != nil && (*q).seg == l.seg {
		(*q).submit()
	}
	for _, w := range l.waiters {
		w.IndexLoaded(op.Err)
	}
}
