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
	log := l.p.segmentLog(l.seg, l.s.opts.MaxBatch)
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
	if op.Err == nil {
		if op.Job == &l.load {
			l.seg.older = l.load.Index
		} else {
			l.seg.older = l.build.Index
		}
	}
	l.seg.loading = nil
	if q := l.s.sealFirst; q != nil && q.seg == l.seg {
		q.submit()
	}
	for _, w := range l.waiters {
		w.indexLoaded(op.Err)
	}
}
