package indexing

import (
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/segment"
)

// verification reads a whole segment to find out what of it is damaged. It runs once
// for all who have met the damage.
type verification struct {
	s       *Set
	x       *State
	job     segment.VerifyJob
	op      aio.JobOp
	waiters []Verifier
}

// Verifier is told when State.Damage is there, or why it is not.
type Verifier interface {
	Verified(err error)
}

// Verify has a segment verified, and tells w.
func (s *Set) Verify(seg Segment, w Verifier) {
	x := seg.Index()
	if v := x.verifying; v != nil {
		v.waiters = append(v.waiters, w)
		return
	}
	v := &verification{s: s, x: x, waiters: []Verifier{w}}
	v.job.Log = seg.Log()
	if x.complete() {
		v.job.Index = x.Older
	} else {
		v.job.LogBytes = seg.Written()
	}
	v.op = aio.JobOp{Job: &v.job, Owner: v}
	x.verifying = v
	s.stats.Verifications++
	s.Driver.SubmitJob(&v.op)
}

// CompleteJob enters what is damaged.
func (v *verification) CompleteJob(op *aio.JobOp) {
	v.x.verifying = nil
	if op.Err == nil {
		v.x.Damage = v.job.Damage
	}
	for _, w := range v.waiters {
		w.Verified(op.Err)
	}
}
