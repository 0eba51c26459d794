package engine

import (
	"errors"
	"fmt"

	"github.com/mqd-broker/mqd/engine/aio"
)

// suspect is called when what has been read does not check, or could not be read.
func (c *coldRead) suspect(cause error) {
	if !c.verified {
		c.verified = true
		c.s.indexes.Verify(c.s.loop.Now(), c.seg, c)
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
		far = c.seg.InFile &^ (aio.BlockSize - 1)
	}
	if far == c.at || far >= c.seg.InFile {
		return false
	}
	c.probing = cause
	c.data = aio.Op{Kind: aio.KindRead, File: c.seg.file.Handle, Buf: c.buf[:aio.BlockSize], Off: far, Owner: c}
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

// Verified continues when the segment has been verified.
func (c *coldRead) Verified(err error) {
	if err != nil {
		c.finish(c.s.storage(err))
		return
	}
	c.index()
}

// errUnread is why a segment is verified again.
var errUnread = errors.New("the device did not read it")

// damaged answers that what is wanted cannot be read up to offset next.
func (c *coldRead) damaged(next int64, found string) {
	p := c.r.Part
	c.s.stats.CorruptReads++
	if c.seg.next != nil {
		next = min(next, c.seg.next.base)
	}
	c.r.Next = max(c.r.start+1, min(next, p.visible))
	c.finish(&CorruptError{
		Path: c.seg.Path(), Pos: c.want, Offset: c.r.start,
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
	if first, ok := p.mem.FirstBehind(&seg.Segment, r.start); ok {
		next = min(next, first)
	}
	if s.lost(r, next) {
		s.finishRead(r, r.Err)
		return
	}
	r.past = next
	s.tryRead(r)
}
