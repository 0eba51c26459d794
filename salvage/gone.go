package salvage

import (
	"fmt"
	"slices"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/checkpoint"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/engine/recovery"
	"github.com/mqd-broker/mqd/engine/segment"
)

// gone notes that the journal of a shard is not there and is needed.
func (r *run) gone(s *shardState) {
	path := layout.JournalPath(r.o.Dir, int(s.shard))
	why := "it is missing, and nobody knows what it had behind the checkpoint"
	switch {
	case r.o.Topic != "":
		r.leave(path, why+"; to go on without it concerns every topic: run this without --topic")
	case slices.ContainsFunc(s.parts, func(p *part) bool { return !recovery.MayJump(max(p.rec.NextOffset, p.rec.Reserved)) }):
		r.leave(path, why+"; a partition of its shard has no offsets left to go on above all that it can have had")
	default:
		s.forsake = true
		reason := fmt.Sprintf("it is missing: what shard %d has acknowledged since its newest checkpoint and has not brought to segments is gone", s.shard)
		if s.ownsCatalog() {
			reason += "; with it changes of the catalog: a topic created since is not served, and its directory stays; one deleted since is back"
		}
		r.note(&Note{Kind: Journal, File: r.rel(path), Partition: -1, Offset: -1, EndOffset: -1, Bytes: -1, Cut: -1, Reason: reason})
	}
}

// ownsCatalog reports whether the catalog is one of the shard's partitions.
func (s *shardState) ownsCatalog() bool {
	return slices.ContainsFunc(s.snap.Slots, func(at checkpoint.Slot) bool { return at.Slot == layout.CatalogSlot }) ||
		slices.ContainsFunc(s.parts, func(p *part) bool { return p.rec.Topic == layout.CatalogTopic })
}

// goesOn tells of a partition whose journal is lost what the next start does with it.
func (r *run) goesOn(s *shardState, p *part) error {
	if !s.forsake {
		return nil
	}
	list, err := segment.List(r.fs, p.dir)
	if err != nil && !aio.IsNotExist(err) {
		return err
	}
	rec := p.rec
	t := recovery.Tail{FS: r.fs, Dir: p.dir, Files: list.Segments, Base: rec.SegmentBase, Pos: rec.End, Next: rec.NextOffset, Term: s.term()}
	if p.fresh || rec.End == 0 && rec.SegmentBase == 0 {
		t.Base, t.Pos = rec.NextOffset, 0
	}
	if err := t.Each(func(*batch.Header, int64, int64) error { return nil }); err != nil {
		return err
	}
	n := r.about(Journal, p)
	n.File = r.rel(layout.JournalPath(r.o.Dir, int(s.shard)))
	if rec.Topic == layout.CatalogTopic {
		n.Offset, n.EndOffset = t.Next, t.Next
		n.Reason = fmt.Sprintf("changes from number %d on are gone, but for those in a snapshot; it goes on behind them", t.Next)
		r.note(n)
		return nil
	}
	n.Offset, n.EndOffset = t.Next, max(t.Next, rec.Reserved)+recovery.JumpBehindLoss
	n.Reason = fmt.Sprintf("below offset %d, the end by the checkpoint, nothing of it is needed; what stands whole in segments up to offset %d stays; what it had from there on is gone, and the partition goes on at %d",
		rec.NextOffset, t.Next, n.EndOffset)
	r.note(n)
	return nil
}

// term is the start that a shard's checkpoint is of.
func (s *shardState) term() (term uint32) {
	for i := range s.snap.Slots {
		term = max(term, s.snap.Slots[i].Term)
	}
	return term
}
