package engine

import "github.com/mqd-broker/mqd/engine/retention"

// Trim moves the log start of p up to offset, which is at most the durable end, and has
// the segments below it removed; see [retention.LogStart]. done, which may be nil, hears
// when the new log start is durable and in force. A log start never goes back: for an
// offset below it nothing is done. ErrOutOfRange is the answer to one above the durable
// end.
func (s *Store) Trim(p *Partition, offset int64, done retention.Done) {
	err := s.failed
	switch {
	case err != nil:
	case p.dropped:
		err = ErrDropped
	case s.closing != closeNot:
		err = ErrClosing
	case offset > p.visible:
		err = ErrOutOfRange
	case offset > p.LogStart():
		if offset == p.next {
			s.Roll(p)
		}
		p.start.Ask(offset, done)
		if !p.isTrimming {
			p.isTrimming = true
			s.trimming.Push(p)
		}
		return
	}
	if done != nil {
		done.Trimmed(p.LogStart(), err)
	}
}

// Oldest is the base offset of the oldest segment, which may be going; 0 without one.
func (p *Partition) Oldest() int64 {
	if p.first == nil {
		return 0
	}
	return p.first.base
}

// Since is about when the newest segment got its first batch, 0 while it is empty. Of what
// an earlier life has written only the newest batch counts.
func (p *Partition) Since() int64 {
	if p.active == nil || p.active.Size == 0 {
		return 0
	}
	return p.active.index.Since(p.active.appendTime)
}

// Roll begins a new segment, unless the newest one is empty.
func (s *Store) Roll(p *Partition) {
	if p.active != nil && p.active.Size > 0 && !p.dropped {
		p.addSegment(p.next)
		s.consider(p)
	}
}

// trimOn goes on with the trims of p, and reports whether they are done. After the log
// has failed nothing becomes durable any more; files are left to the next start.
func (s *Store) trimOn(p *Partition) bool {
	err := s.failed
	switch {
	case err != nil:
	case p.dropped:
		err = ErrDropped
	case s.closing >= closeJournal:
		err = ErrClosing
	}
	p.start.Answer(err)
	if err != nil {
		p.isTrimming = false
		return true
	}
	var bases []int64
	for p.below(p.first) && p.removable(p.first) {
		bases = append(bases, p.first.base)
		s.forgetFirst(p)
	}
	s.remover.Add(p.dir, bases)
	if !p.start.Settled() && s.checkpoint.stage < checkpointCapture {
		s.checkpoint.reserve = true
	}
	p.isTrimming = !p.start.Settled() || p.below(p.first)
	return !p.isTrimming
}

// below reports whether seg can never be needed again.
func (p *Partition) below(seg *segfile) bool {
	return seg != nil && seg.next != nil && seg.next.base <= p.start.At()
}

// removable reports whether nobody uses seg, the first segment, and all of it is written.
func (p *Partition) removable(seg *segfile) bool {
	return seg.sealed && !seg.inUse() && !p.mem.Pinned(&seg.Segment)
}

// forgetFirst takes the first segment out of memory.
func (s *Store) forgetFirst(p *Partition) {
	seg := p.first
	for c := p.mem.Oldest(); c != nil && c.Seg == &seg.Segment; c = p.mem.Oldest() {
		p.mem.DropOldest()
	}
	s.files.Close(&seg.file)
	s.indexes.Drop(&seg.index)
	seg.index.Tail.Release()
	p.first, p.bases = seg.next, append(p.bases[:0], p.bases[1:]...)
	if p.unwritten == seg {
		p.unwritten = p.first
	}
	if p.visSeg == seg {
		p.visSeg, p.visPos = p.first, 0
	}
	s.stats.RemovedSegments++
}

// logStart is what the checkpoint says of where p begins, when segments have it up to
// next. What is not flushed cannot be passed over yet.
func (c *checkpointer) logStart(p *Partition, next int64) int64 {
	at := p.start.Record(next)
	if p.isTrimming {
		c.trims = append(c.trims, p)
	}
	if at < p.start.Wanted() {
		c.reserve, c.pressed, c.s.memoryDue = true, true, c.s.memory.Len() > 0
	}
	return at
}

// trimmed puts the log starts of a checkpoint in force, both generations of which are durable.
func (c *checkpointer) trimmed() {
	for _, p := range c.trims {
		p.start.Recorded()
		p.epochs.TrimTo(p.start.At())
	}
}
