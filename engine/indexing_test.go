package engine

import (
	"testing"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/segment"
)

// indexJobs counts the jobs that read or write an index, and how many of one
// segment were under way at once.
type indexJobs struct {
	aio.Driver
	running, most, all int
}

// SubmitJob implements aio.Driver.
func (d *indexJobs) SubmitJob(op *aio.JobOp) {
	switch op.Job.(type) {
	case *segment.LoadJob, *segment.RebuildJob, *segment.SealJob:
		d.all++
		d.running++
		d.most = max(d.most, d.running)
		op.Owner = &jobEnd{d, op.Owner}
	}
	d.Driver.SubmitJob(op)
}

type jobEnd struct {
	d     *indexJobs
	owner aio.JobCompleter
}

// CompleteJob passes the end of a job on.
func (e *jobEnd) CompleteJob(op *aio.JobOp) {
	e.d.running--
	e.owner.CompleteJob(op)
}

// Jobs on one segment's index write one temporary file: the second to rename it
// found nothing, and its read failed.
func TestReadersAndWriterOfOneIndexTakeTurns(t *testing.T) {
	r := newRig(t, rigOptions{segment: 64 << 10})
	id := r.topic(1, ClassFlushed)
	sent := []*produced{r.sendWait(r.part(id, 0), 2, 400)}
	r.w.Crash(sim.KeepNone)
	r.start()

	p, s := r.part(id, 0), r.shards[0].store
	jobs := &indexJobs{Driver: s.indexes.Driver}
	s.indexes.Driver = jobs
	// The old index is missing, and everybody asks for it while its segment is
	// completed and sealed.
	reads := make([]*reader, 5)
	for i := range reads {
		f := &reader{}
		f.Part, f.Offset, f.MaxBytes, f.Owner = p, 0, 1<<16, f
		s.Read(&f.Read)
		reads[i] = f
	}
	for range 40 {
		sent = append(sent, r.sendWait(p, 8, 500))
	}
	r.until("reads", func() bool {
		for i, f := range reads {
			if !f.done {
				return false
			}
			if f.Err != nil {
				t.Fatalf("read %d: %v", i, f.Err)
			}
			if f.N > 0 {
				s.Release(&f.Read)
				f.N = 0
			}
		}
		return true
	})
	r.until("seals", func() bool { return s.Stats().SealedSegments > 0 && s.indexes.Sealing() == 0 })
	if jobs.most != 1 {
		t.Errorf("%d jobs on indexes at once, expected 1 for the one segment with old content", jobs.most)
	}
	r.mustHold(p, sent)
}
