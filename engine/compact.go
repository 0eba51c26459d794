package engine

import (
	"errors"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/compaction"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/engine/segment"
)

// compacting is a store as its cleaner sees it.
type compacting Store

// Count implements compaction.Source.
func (c *compacting) Count() int { return len(c.list) }

// Now implements compaction.Source.
func (c *compacting) Now() int64 { return (*Store)(c).Time() }

// Slow implements compaction.Source: what producers and readers wait for comes first.
func (c *compacting) Slow() int64 {
	s := (*Store)(c)
	return compaction.Slow(s.fillPercent() > idleFill || s.ColdWaiting(), s.DiskFull())
}

// FlushFailed implements compaction.Source.
func (c *compacting) FlushFailed(err error) {
	c.stats.FlushErrors++
	c.deviceFailed.Store(true)
	(*Store)(c).fail(err)
}

// Compactable implements compaction.Source. Where a segment is complete and checkpoints still
// go on in it, the next ones are asked for.
func (c *compacting) Compactable(i int, clean func(Key) int64) compaction.State {
	s, p := (*Store)(c), c.list[i]
	if !p.cfg.Compaction.On || s.failed != nil || s.closing != closeNot || s.DiskFull() {
		return compaction.State{}
	}
	st := compaction.State{Key: p.key, Config: p.cfg.Compaction}
	from := clean(p.key)
	seg := p.first
	for ; seg != nil && s.mayCompact(p, seg); seg = seg.next {
		st.End = seg.next.base
		st.Bytes += seg.Size
		if st.End > from {
			st.Dirty += seg.Size
		}
	}
	if seg != nil && seg.sealed && seg.base >= p.recorded.Safe(s.checkpoint.seq) && seg.next.Size > 0 {
		s.checkpoint.pressed = true
	}
	return st
}

// CompactableSegments implements compaction.Source.
func (c *compacting) CompactableSegments(k Key) (segs []compaction.Segment, conf layout.Compaction) {
	s := (*Store)(c)
	p := s.parts[k]
	if p == nil {
		return nil, conf
	}
	for seg := p.first; seg != nil && s.mayCompact(p, seg); seg = seg.next {
		segs = append(segs, compaction.Segment{Log: seg.Log(), Bytes: seg.Size})
	}
	return segs, p.cfg.Compaction
}

// mayCompact reports whether nothing will ever be written to seg again, by a start neither,
// and all of it is for consumers to see.
func (s *Store) mayCompact(p *Partition, seg *segfile) bool {
	return s.settled(p, seg) && seg.next != nil && seg.next.base <= p.visible && p.visSeg != seg &&
		seg.base < p.recorded.Safe(s.checkpoint.seq)
}

// Stands implements compaction.Source.
func (c *compacting) Stands(log *segment.Log) bool {
	s := (*Store)(c)
	seg := s.sealedSegment(log.ID)
	return seg != nil && seg.rewrites == log.Rewrites && seg.part.cfg.Compaction.On &&
		s.failed == nil && s.closing == closeNot && s.mayCompact(seg.part, seg)
}

// Replace implements compaction.Source.
func (c *compacting) Replace(log *segment.Log, bytes int64, ix *segment.Index, done compaction.Replaced) {
	s := (*Store)(c)
	s.replacing = replacement{
		s: s, seg: s.sealedSegment(log.ID), bytes: bytes, index: ix, done: done,
		swap: compaction.Swap{Log: *log, Unless: s.deviceFailed},
	}
	s.replacing.turn()
}

// replacement puts a compacted log in the place of a segment's, one at a time. First what of
// the segment is in memory goes, as soon as nobody is being sent any of it. From then on
// whoever wants to read the segment waits, until those who do already have their answer and
// the files have been exchanged: nobody goes by positions in a file that is another by then.
type replacement struct {
	s        *Store
	seg      *segfile // nil: there is none
	bytes    int64
	index    *segment.Index
	done     compaction.Replaced
	swap     compaction.Swap
	op       aio.JobOp
	swapping bool // the job is under way
}

// gated is somebody who waits for a segment to be replaced.
type gated interface{ ungate() }

// turn goes on if it can.
func (r *replacement) turn() {
	seg, s := r.seg, r.s
	if seg == nil || r.swapping {
		return
	}
	p := seg.part
	switch {
	case s.failed != nil, s.closing != closeNot, p.dropped, !p.cfg.Compaction.On:
		r.end(compaction.ErrGone)
	case !seg.gated && !p.mem.DropThrough(&seg.Segment):
	default:
		seg.gated = true
		if seg.reads > 0 || seg.file.Opening() || seg.index.Busy() {
			return
		}
		s.files.Close(&seg.file)
		r.swapping = true
		r.op = aio.JobOp{Job: &r.swap, Owner: r}
		s.drv.SubmitJob(&r.op)
	}
}

// CompleteJob enters the new log.
func (r *replacement) CompleteJob(op *aio.JobOp) {
	if r.swap.Done {
		seg := r.seg
		seg.Size, seg.Safe, seg.InFile, seg.flushed, seg.file.Allocated = r.bytes, r.bytes, r.bytes, r.bytes, r.bytes
		seg.rewrites++
		r.s.indexes.Replace(seg, r.index)
	}
	err := op.Err
	if err != nil && !r.swap.Done && errors.Is(err, aio.ErrCanceled) {
		err = compaction.ErrGone // the device has failed, and that has been told
	}
	r.end(err)
}

// end lets those go on who wait.
func (r *replacement) end(err error) {
	s, done := r.s, r.done
	r.seg.gated = false
	*r = replacement{}
	for n := s.gates.Len(); n > 0; n-- {
		s.gates.Take().ungate()
	}
	done.SegmentReplaced(err)
}

// ungate goes on with a read.
func (r *Read) ungate() { r.Part.store.tryRead(r) }

// gate has a read wait until its segment has been replaced.
func (s *Store) gate(r *Read) {
	s.unpark(r)
	s.gates.Push(r)
}

// ungate goes on with a lookup.
func (t *TimeLookup) ungate() { t.step() }
