package engine

import "github.com/mqd-broker/mqd/engine/aio"

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
	for r := p.waiters; r != nil; r = p.waiters {
		s.finishRead(r, ErrDropped)
	}
	s.markClean(p)
	s.discard(p)
	s.dropping = append(s.dropping, p)
	s.finishDrops()
}

// finishDrops ends the drops of partitions of which nothing is in flight. Whoever
// hears of one may drop another.
func (s *Store) finishDrops() {
	if s.inDrops {
		return
	}
	s.inDrops = true
	for i := 0; i < len(s.dropping); {
		p := s.dropping[i]
		if s.inUse(p) {
			i++
			continue
		}
		last := len(s.dropping) - 1
		s.dropping[i], s.dropping[last] = s.dropping[last], nil
		s.dropping = s.dropping[:last]
		s.forget(p)
		p.dropDone.Dropped(p.key)
	}
	s.inDrops = false
}

// inUse reports whether anything of p is in flight. After the log has failed the
// journal gets nothing more, so that nothing waits for it.
func (s *Store) inUse(p *Partition) bool {
	if p.writer != nil || p.inChanging || s.checkpoint.recording() || s.failed == nil && p.memory > 0 {
		return true
	}
	for seg := p.first; seg != nil; seg = seg.next {
		if seg.reads > 0 || seg.opening != nil || seg.writing || seg.index.Busy() || s.failed == nil && seg.safe < seg.size-seg.discarded {
			return true
		}
	}
	for c := p.oldest; c != nil; c = c.next {
		if c.pins > 0 {
			return true
		}
	}
	return false
}

// forget gives back everything that p holds.
func (s *Store) forget(p *Partition) {
	for p.oldest != nil {
		p.dropOldest(s.chunks)
	}
	for seg := p.first; seg != nil; seg = seg.next {
		if seg.file != aio.NoFile {
			s.closeFile(seg)
		}
		seg.index.Tail.Release()
	}
	s.markClean(p)
	s.producers.Drop(&p.producers)
	delete(s.parts, p.key)
	for i, q := range s.list {
		if q == p {
			s.list = append(s.list[:i], s.list[i+1:]...)
			break
		}
	}
}
