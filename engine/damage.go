package engine

import (
	"fmt"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/segment"
)

// verification reads a whole segment to find out what of it is damaged. It runs once
// for all reads that have met the damage.
type verification struct {
	seg     *segfile
	job     segment.VerifyJob
	op      aio.JobOp
	waiters []*coldRead
}

// suspect is called when what has been read does not check, or could not be read.
func (c *coldRead) suspect(cause error) {
	if !c.verified {
		c.verified = true
		c.s.verify(c)
		return
	}
	// Verified, and nothing found that explains it.
	if c.data.Err != nil {
		c.finish(c.s.storage(cause))
		return
	}
	c.damaged(c.r.start+1, cause.Error())
}

// probe reads a block far from the one that could not be read, before a whole segment
// is verified for it: if that fails too it is the device that has failed, and not a
// sector. It reports false when the segment has no other block.
func (c *coldRead) probe(cause error) bool {
	far := int64(0)
	if c.at == 0 {
		far = c.seg.written &^ (aio.BlockSize - 1)
	}
	if far == c.at || far >= c.seg.written {
		return false
	}
	c.probing = cause
	c.data = aio.Op{Kind: aio.KindRead, File: c.seg.file, Buf: c.buf[:aio.BlockSize], Off: far, Owner: c}
	c.s.drv.Submit(&c.data)
	return true
}

// probed goes on when the probe has ended.
func (c *coldRead) probed(err error) {
	cause := c.probing
	c.probing = nil
	if err != nil {
		c.finish(c.s.storage(cause))
		return
	}
	c.suspect(cause)
}

// verify has the segment of c verified and then lets c go on.
func (s *Store) verify(c *coldRead) {
	seg := c.seg
	if v := seg.verifying; v != nil {
		v.waiters = append(v.waiters, c)
		return
	}
	v := &verification{seg: seg, waiters: []*coldRead{c}}
	v.job.Log = c.r.Part.segmentLog(seg)
	if seg.older != nil && seg.older.Sealed() != nil {
		v.job.Index = seg.older
	} else {
		v.job.LogBytes = seg.written
	}
	v.op = aio.JobOp{Job: &v.job, Owner: v}
	seg.verifying = v
	s.stats.Verifications++
	s.drv.SubmitJob(&v.op)
}

// CompleteJob enters what is damaged.
func (v *verification) CompleteJob(op *aio.JobOp) {
	v.seg.verifying = nil
	if op.Err == nil {
		v.seg.damage = v.job.Damage
	}
	for _, c := range v.waiters {
		if op.Err != nil {
			c.finish(c.s.storage(op.Err))
		} else {
			c.index()
		}
	}
}

// hasRegions reports whether the checksums of the segment's regions are at hand and
// nothing is known to be damaged.
func (seg *segfile) hasRegions() bool {
	return seg.older != nil && seg.older.Sealed() != nil && len(seg.damage) == 0
}

// floor is the last index entry whose offset is at most offset.
func (seg *segfile) floor(offset int64) (segment.Entry, bool) {
	if e, ok := seg.tail.Floor(offset); ok {
		return e, true
	}
	if seg.older == nil {
		return segment.Entry{}, false
	}
	return seg.older.Floor(offset)
}

// damaged answers that what is wanted cannot be read up to offset next.
func (c *coldRead) damaged(next int64, found string) {
	p := c.r.Part
	c.s.stats.CorruptReads++
	if c.seg.next != nil {
		next = min(next, c.seg.next.base)
	}
	c.r.Next = max(c.r.start+1, min(next, p.visible))
	c.finish(&CorruptError{
		Path: p.logPath(c.seg), Pos: c.want, Offset: c.r.start,
		Expected: fmt.Sprintf("a batch with offset %d", c.r.start), Found: found,
	})
}

// beyond goes on with a read for which its segment has nothing at or behind the
// offset: what comes next is in memory, in the next segment, or not there yet.
func (s *Store) beyond(r *Read, seg *segfile) {
	p := r.Part
	next := p.visible
	if seg.next != nil {
		next = min(next, seg.next.base)
	}
	for c := p.oldest; c != nil; c = c.next {
		if c.seg == seg && c.firstPos != noBatch && c.firstOffset > r.start {
			next = min(next, c.firstOffset)
			break
		}
	}
	if s.lost(r, next) {
		s.finishRead(r, r.Err)
		return
	}
	r.past = next
	s.tryRead(r)
}
