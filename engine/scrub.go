package engine

import (
	"sort"

	"github.com/mqd-broker/mqd/engine/scrub"
	"github.com/mqd-broker/mqd/engine/segment"
)

// Count is the number of partitions, and Sealed, Has and MakeIndex go with it: a store
// is what a scrubber goes through; see scrub.Source.
func (s *Store) Count() int { return len(s.list) }

// At is partition i of the store, as Count has them.
func (s *Store) At(i int) *Partition { return s.list[i] }

// Sealed implements scrub.Source.
func (s *Store) Sealed(i int, base int64) (log segment.Log, size int64, ok bool) {
	p := s.list[i]
	first := sort.Search(len(p.bases), func(i int) bool { return p.bases[i].base >= base })
	for _, seg := range p.bases[first:] {
		if s.settled(p, seg) {
			return seg.Log(), seg.Size, true
		}
	}
	return segment.Log{}, 0, false
}

// settled reports whether a segment is complete, its index included.
func (s *Store) settled(p *Partition, seg *segfile) bool {
	return !p.dropped && seg.sealed && !seg.gated && !seg.index.Busy()
}

// sealedSegment is a segment that is complete, nil if there is none.
func (s *Store) sealedSegment(id segment.ID) *segfile {
	p := s.parts[Key{Topic: id.Topic, Partition: id.Partition}]
	if p == nil || p.dropped {
		return nil
	}
	if seg := p.segmentOf(id.Base); seg != nil && seg.base == id.Base && seg.sealed && !seg.gated && !seg.index.Sealing() {
		return seg
	}
	return nil
}

// Has implements scrub.Source.
func (s *Store) Has(log *segment.Log) bool {
	seg := s.sealedSegment(log.ID)
	return seg != nil && seg.rewrites == log.Rewrites
}

// MakeIndex implements scrub.Source.
func (s *Store) MakeIndex(id segment.ID, done scrub.IndexOwner) bool {
	seg := s.sealedSegment(id)
	if seg == nil {
		return false
	}
	s.indexes.Make(seg, done)
	return true
}
