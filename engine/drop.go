package engine

import "slices"

// DropDone hears that a partition is gone from memory.
type DropDone interface {
	Dropped(k Key)
}

// Drop ends a partition whose topic has been deleted: reads are answered with
// ErrDropped, appends are refused, and when nothing of it is in flight its memory
// is free and done is told. Its files are the caller's to remove.
func (s *Store) Drop(p *Partition, done DropDone) {
	if p.dropped {
		return
	}
	p.dropped, p.dropDone = true, done
	for p.waiters.Len() > 0 {
		s.finishRead(p.waiters.First().Owner, ErrDropped)
	}
	s.markClean(p)
	s.discard(p)
	s.dropping.Push(p)
	s.dropping.Pass(s.finishDrop)
}

// finishDrop ends the drop of a partition of which nothing is in flight. Whoever hears
// of one may drop another.
func (s *Store) finishDrop(p *Partition) bool {
	if s.inUse(p) {
		return false
	}
	s.forget(p)
	p.dropDone.Dropped(p.key)
	return true
}

// inUse reports whether anything of p is in flight. After the log has failed the
// journal gets nothing more, so that nothing waits for it.
func (s *Store) inUse(p *Partition) bool {
	if p.writer != nil || p.inChanging || s.checkpoint.recording() || s.failed == nil && p.memory > 0 {
		return true
	}
	for seg := p.first; seg != nil; seg = seg.next {
		if seg.inUse() || s.failed == nil && seg.Safe < seg.Size-seg.discarded {
			return true
		}
	}
	return p.mem.Pinned(nil)
}

// inUse reports whether anybody is at work on seg.
func (seg *segfile) inUse() bool {
	return seg.gated || seg.Busy() || seg.file.Opening() || seg.index.Busy()
}

// forget gives back everything that p holds.
func (s *Store) forget(p *Partition) {
	for p.mem.Oldest() != nil {
		p.mem.DropOldest()
	}
	for seg := p.first; seg != nil; seg = seg.next {
		s.files.Close(&seg.file)
		seg.index.Tail.Release()
	}
	s.markClean(p)
	s.producers.Drop(&p.producers)
	delete(s.parts, p.key)
	s.cleaner.Forget(p.key)
	s.list = slices.DeleteFunc(s.list, func(q *Partition) bool { return q == p })
}
