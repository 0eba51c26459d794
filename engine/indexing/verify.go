package indexing

import (
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/segment"
)

// unreadRetry is how long what the device could not read counts as damaged before it is
// tried again. The error may have been a passing one.
const unreadRetry = 10 * time.Second

// verification reads a whole segment to find out what of it is damaged. It runs once
// for all who have met the damage.
type verification struct {
	s       *Set
	x       *State
	began   int64
	job     segment.VerifyJob
	op      aio.JobOp
	waiters []Verifier
}

// Verifier is told when State.Damage is there, or why it is not.
type Verifier interface {
	Verified(err error)
}

// Verify has a segment verified, and tells w. Now is the loop's clock.
func (s *Set) Verify(now int64, seg Segment, w Verifier) {
	x := seg.Index()
	if v := x.verifying; v != nil {
		v.waiters = append(v.waiters, w)
		return
	}
	v := &verification{s: s, x: x, began: now, waiters: []Verifier{w}}
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
		v.x.Damage, v.x.unread = v.job.Damage, v.job.Unreadable > 0
		v.x.lookAgain = v.began + int64(unreadRetry)
	}
	for _, w := range v.waiters {
		w.Verified(op.Err)
	}
}
