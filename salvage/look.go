package salvage

import (
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/engine/segment"
)

// look finds out of every partition what is lost, and enters it in the epoch tables, in
// memory.
func (r *run) look() error {
	dirs, err := r.topicDirs()
	if err != nil {
		return err
	}
	matched := r.o.Topic == ""
	for _, s := range r.shards {
		for _, p := range s.parts {
			dir, ok := dirs[keyOf(p.rec.Topic)]
			if !ok {
				continue // a topic that has been deleted, of which the journals may still speak
			}
			p.name, _, _ = segment.ParseTopicDir(dir)
			p.dir = r.path(layout.TopicsDir, dir, segment.PartitionDir(p.rec.Partition))
			if r.o.Topic != "" && segment.TopicDir(r.o.Topic, p.rec.Topic) != dir {
				continue
			}
			if r.o.Partition != AllPartitions && r.o.Partition != int64(p.rec.Partition) {
				continue
			}
			matched = true
			if err := r.lookAt(s, p); err != nil {
				return err
			}
			if err := r.goesOn(s, p); err != nil {
				return err
			}
		}
	}
	others, err := r.unnamed(dirs)
	if err != nil {
		return err
	}
	others = r.homeless() || others
	switch {
	case matched || others:
	case r.hasTopic(dirs):
		return fmt.Errorf("%w: %d of %q", ErrUnknownPartition, r.o.Partition, r.o.Topic)
	default:
		return fmt.Errorf("%w: %q", ErrUnknownTopic, r.o.Topic)
	}
	return nil
}

// hasTopic reports whether one of the directories of topics is that of the topic asked for.
func (r *run) hasTopic(dirs map[string]string) bool {
	for _, dir := range dirs {
		_, short, _ := segment.ParseTopicDir(dir)
		var id layout.TopicID
		copy(id[:], short[:])
		if segment.TopicDir(r.o.Topic, id) == dir {
			return true
		}
	}
	return false
}

// unnamed notes the partitions that no checkpoint names. The journals may, so that nothing
// can be said of them. any: there are some.
func (r *run) unnamed(dirs map[string]string) (any bool, err error) {
	named := map[string]bool{}
	for _, s := range r.shards {
		for _, p := range s.parts {
			named[p.dir] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(dirs)) {
		topic := r.path(layout.TopicsDir, dirs[key])
		entries, err := r.fs.ReadDir(topic)
		if err != nil {
			return any, err
		}
		name, short, _ := segment.ParseTopicDir(dirs[key])
		var id segment.ID
		copy(id.Topic[:], short[:])
		for _, e := range entries {
			if number, ok := segment.ParsePartitionDir(e.Name); ok {
				delete(r.unknown, placeOf(key, number)) // it is told of below, if it is asked for
			}
		}
		if r.o.Topic != "" && segment.TopicDir(r.o.Topic, id.Topic) != dirs[key] {
			continue
		}
		for _, e := range entries {
			number, ok := segment.ParsePartitionDir(e.Name)
			dir := filepath.Join(topic, e.Name)
			if !ok || named[dir] || r.o.Partition != AllPartitions && r.o.Partition != int64(number) {
				continue
			}
			any = true
			r.sum.Partitions++
			r.note(&Note{
				Kind: Left, File: r.rel(dir), Topic: name, Partition: int64(number), Offset: -1, EndOffset: -1, Bytes: -1, Cut: -1,
				Reason: "only the journals may know of it: " + startFirst,
			})
		}
	}
	return any, nil
}

// keyOf is what the name of a topic's directory shows of its id. The ids of the internal
// topics begin alike, so that for them it is their name.
func keyOf(topic layout.TopicID) string {
	switch topic {
	case layout.CatalogTopic:
		return layout.CatalogName
	case broker.GroupsTopic:
		return broker.GroupsName
	}
	return hex.EncodeToString(topic[:4])
}

// topicDirs are the directories of topics by their keys, see keyOf.
func (r *run) topicDirs() (map[string]string, error) {
	entries, err := r.fs.ReadDir(r.path(layout.TopicsDir))
	if err != nil {
		return nil, err
	}
	dirs := map[string]string{}
	for _, e := range entries {
		name, id, ok := segment.ParseTopicDir(e.Name)
		if !ok || !e.Dir {
			continue
		}
		key := hex.EncodeToString(id[:])
		if id == ([4]byte{}) {
			key = name
		}
		if other, twice := dirs[key]; twice {
			return nil, fmt.Errorf("%w: %s and %s show the same part of a topic's id", ErrNotWhole, other, e.Name)
		}
		dirs[key] = e.Name
	}
	return dirs, nil
}

// lookAt finds out what of a partition is lost.
func (r *run) lookAt(s *shardState, p *part) error {
	list, err := segment.List(r.fs, p.dir)
	if err != nil && !aio.IsNotExist(err) {
		return err
	}
	if rec := p.rec; err == nil || rec.NextOffset > rec.LogStart && !rec.Epochs.AllowsGap(rec.LogStart, rec.NextOffset) {
		r.sum.Partitions++ // as mqd verify counts them
	}
	l := &survey{run: r, p: p, next: p.rec.LogStart}
	for i, f := range list.Segments {
		if f.Base > p.rec.SegmentBase || f.Base == p.rec.SegmentBase && p.rec.End == 0 {
			break // what the journals stand in for
		}
		l.lost(f.Base, "no segment has these offsets")
		if err := l.segment(list.Segments, i); err != nil {
			return err
		}
	}
	if p.rec.End > 0 && !l.newest {
		l.lost(p.rec.SegmentBase, "no segment has these offsets")
		l.lost(p.rec.NextOffset, "the newest segment is missing")
		p.fresh = true
	} else if p.rec.End == 0 {
		l.lost(p.rec.SegmentBase, "no segment has these offsets")
	}
	for _, f := range list.Lost {
		if f.IndexBytes > 0 && (f.Base < p.rec.SegmentBase || p.fresh && f.Base < p.rec.NextOffset) {
			p.stray = append(p.stray, segment.IndexName(f.Base))
		}
	}
	return l.enter(s)
}

// survey goes through the segments of a partition.
type survey struct {
	*run
	p      *part
	next   int64 // where the next segment should begin
	newest bool  // the newest segment is there
	ranges []Note
}

// lost notes that the offsets up to end, exclusive, are gone.
func (l *survey) lost(end int64, reason string) {
	l.give(l.p.dir, l.next, end, reason)
	l.next = max(l.next, end)
}

// give notes a lost range, as far as it is not in gaps that are recorded.
func (l *survey) give(file string, from, to int64, reason string) {
	t := &l.p.rec.Epochs
	if from < 0 || to <= from || t.AllowsGap(from, to) {
		return
	}
	for from = t.SkipGap(from); from < to; from = t.SkipGap(from) {
		n := l.about(Lost, l.p)
		n.File, n.Offset, n.EndOffset, n.Reason = l.rel(file), from, l.untilGap(from, to), reason
		l.ranges = append(l.ranges, *n)
		from = n.EndOffset
	}
}

// untilGap is where the next gap behind at begins, or to.
func (l *survey) untilGap(at, to int64) int64 {
	t := &l.p.rec.Epochs
	for i := range t.Len() {
		if e := t.At(i); e.Gap() > 0 && e.GapFrom >= at {
			return min(e.GapFrom, to)
		}
	}
	return to
}

// segment verifies a segment.
func (l *survey) segment(list []segment.File, i int) error {
	rec, f := l.p.rec, &list[i]
	id := segment.ID{Topic: rec.Topic, Partition: rec.Partition, Base: f.Base}
	j := &segment.VerifyJob{Log: segment.Log{Dir: l.p.dir, ID: id, Chain: rec.Epochs.Clone()}}
	sealed := f.Base < rec.SegmentBase
	switch end, ok := segment.SealedEnd(l.fs, l.p.dir, id, f.LogBytes); {
	case !sealed:
		j.LogBytes, j.EndOffset = rec.End, rec.NextOffset
		l.newest = true
	case ok:
		j.EndOffset = end // a hole behind it is not this segment's
	case i+1 < len(list) && list[i+1].Base <= rec.SegmentBase:
		j.EndOffset = list[i+1].Base
	default:
		j.EndOffset = rec.SegmentBase
	}
	path := filepath.Join(l.p.dir, id.LogName())
	if err := j.Run(l.fs); err != nil {
		n := l.about(Left, l.p)
		n.File, n.Reason = l.rel(path), "cannot be read: "+err.Error()
		l.note(n)
		l.next = max(l.next, j.EndOffset)
		return nil
	}
	l.sum.Segments++
	l.next = max(l.next, j.EndOffset)
	if len(j.Damage) == 0 {
		if sealed && errors.Is(j.IndexFault, segment.ErrIndexStale) {
			// An earlier salvage has replaced the log and has not come to the index.
			l.p.stale = append(l.p.stale, damagedLog{id: id, endOffset: j.EndOffset})
		}
		return nil
	}
	if !sealed && l.mendable(j.Damage, f.LogBytes) {
		n := l.about(Left, l.p)
		n.File, n.Reason = l.rel(path), "the journals may mend the end of the newest segment: "+startFirst
		l.note(n)
		return nil
	}
	for _, d := range j.Damage {
		l.give(path, d.FromOffset, d.ToOffset, d.Check.String())
	}
	l.p.fresh = l.p.fresh || !sealed
	l.p.logs = append(l.p.logs, damagedLog{id: id, size: f.LogBytes, end: j.End, endOffset: j.EndOffset, damage: j.Damage, unread: j.Unreadable})
	return nil
}

// mendable reports whether damage in the newest segment may be what a crash left of its
// last block, which the journal has.
func (l *survey) mendable(damage []segment.Range, size int64) bool {
	end := l.p.rec.End
	last := damage[len(damage)-1]
	return !l.clean && size >= end && last.ToPos > end&^(aio.BlockSize-1)
}

// enter tells what is lost, and enters it in the partition's record.
func (l *survey) enter(s *shardState) error {
	p := l.p
	if len(l.ranges)+len(p.logs)+len(p.stray)+len(p.stale) == 0 {
		return nil
	}
	if p.rec.Topic == layout.CatalogTopic {
		n := l.about(Left, p)
		n.Reason = "the catalog's log is damaged: a gap in it would be lost topics"
		l.note(n)
		p.logs, p.stray, p.stale, p.fresh = nil, nil, nil, false
		return nil
	}
	epochs := p.rec.Epochs.Clone()
	for _, n := range l.ranges {
		if err := epochs.GiveUp(n.Offset, n.EndOffset); err != nil {
			n := l.about(Left, p)
			n.Reason = err.Error()
			l.note(n)
			p.logs, p.stray, p.stale, p.fresh = nil, nil, nil, false
			return nil
		}
	}
	for i := range l.ranges {
		l.note(&l.ranges[i])
	}
	p.rec.Epochs = *epochs
	s.changed = s.changed || len(l.ranges) > 0 || p.fresh
	for i := range p.logs {
		n := l.about(Rewrite, p)
		log := &p.logs[i]
		n.File, n.Bytes, n.Cut = l.rel(filepath.Join(p.dir, log.id.LogName())), log.end, log.end
		for _, piece := range log.pieces() {
			n.Cut -= piece.to - piece.from
		}
		if log.unread > 0 {
			n.Reason = fmt.Sprintf("the device does not read %d blocks of it", log.unread)
		}
		l.note(n)
	}
	return nil
}
