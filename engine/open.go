package engine

import (
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/engine/recovery"
	"github.com/mqd-broker/mqd/engine/segment"
)

// Open returns partition k, making it if the store does not have it. It does no
// I/O: directory and files are made when the first bytes are written back.
func (s *Store) Open(k Key, topic string, cfg PartitionConfig) *Partition {
	if p := s.parts[k]; p != nil {
		return p
	}
	p := &Partition{
		key: k, slot: SlotOf(k, len(s.opts.Slots)), store: s, cfg: cfg, class: cfg.Class,
		dir: layout.PartitionDir(s.opts.Dir, topic, k),
	}
	s.parts[k] = p
	s.list = append(s.list, p)
	if p.class != ClassFlushed {
		s.wantReservation(p)
	}
	return p
}

// Restore opens a partition with the state that recovery has found.
func (s *Store) Restore(st *recovery.PartitionState, topic string, cfg PartitionConfig) *Partition {
	p := s.Open(st.Key, topic, cfg)
	p.epochs = st.Epochs
	p.logStart, p.next, p.visible = st.LogStart, st.NextOffset, st.NextOffset
	for i, seg := range st.Segments {
		f := &segfile{base: seg.Base, file: aio.NoFile, created: true, entry: true}
		f.size, f.safe, f.written, f.flushed, f.tailFrom = seg.Size, seg.Size, seg.Size, seg.Size, seg.Size
		f.allocated = seg.Allocated
		end := st.NextOffset
		if i+1 < len(st.Segments) {
			end = st.Segments[i+1].Base
			f.sealed = true
		}
		f.endOffset, f.safeOffset, f.writtenOffset, f.flushedOffset = end, end, end, end
		f.tail = segment.NewTailIndex(p.segmentID(seg.Base), int(cfg.IndexInterval), s.entries, f.size, end)
		f.appendTime, f.maxTimestamp = st.AppendTime, st.MaxTimestamp
		p.linkSegment(f)
		p.dirMade = true
	}
	if p.active != nil {
		p.unwritten = p.active
		p.visSeg, p.visPos = p.active, p.active.size
		// The next batch may lie above the end: behind a gap.
		if p.next > p.active.base {
			p.active.endOffset = p.next
		}
	}
	return p
}

func (p *Partition) segmentID(base int64) segment.ID {
	return segment.ID{Topic: p.key.Topic, Partition: p.key.Partition, Base: base}
}

// Partitions calls f for every partition of the store.
func (s *Store) Partitions(f func(p *Partition)) {
	for _, p := range s.list {
		f(p)
	}
}

// ConfigDone hears that a configuration is in force.
type ConfigDone interface {
	Configured(p *Partition, err error)
}

// classChange is a change to a stronger class that waits until everything before
// it is flushed.
type classChange struct {
	class Class
	lsn   uint64
	done  ConfigDone

	checkpoints uint64 // the number of checkpoints that must have been made
}

// Configure changes a partition's configuration. A stronger class is in force,
// and done is told, when everything that the partition holds has been flushed;
// until then appends are acknowledged under the old class. Everything else is in
// force at once.
func (s *Store) Configure(p *Partition, cfg PartitionConfig, done ConfigDone) {
	p.cfg = cfg
	if cfg.Class <= p.class || p.next == p.logStart {
		if cfg.Class != p.class {
			p.class = cfg.Class
			s.wantReservation(p)
		}
		done.Configured(p, s.failed)
		return
	}
	p.stronger = &classChange{class: cfg.Class, done: done}
	s.changing = append(s.changing, p)
	s.changeClasses()
}

// changeClasses goes on with class changes that wait for their barrier.
func (s *Store) changeClasses() {
	kept := s.changing[:0]
	for _, p := range s.changing {
		if !s.changeClass(p) {
			kept = append(kept, p)
		}
	}
	clear(s.changing[len(kept):])
	s.changing = kept
}

// changeClass reports whether the change of p is over.
func (s *Store) changeClass(p *Partition) bool {
	ch := p.stronger
	if s.failed != nil || p.dropped {
		p.stronger = nil
		ch.done.Configured(p, ErrStorage)
		return true
	}
	if ch.lsn == 0 {
		if p.memory > 0 {
			s.memoryDue = true
			return false
		}
		// From here on appends go under the new class: their acks wait for
		// rounds that are flushed after everything before them.
		ch.lsn = max(s.journal.FillingLSN(), 1)
		p.class = ch.class
		s.flushDue = true
	}
	if !s.durableUpTo(ch) || !s.reservationGone(ch) {
		return false
	}
	p.stronger = nil
	ch.done.Configured(p, nil)
	return true
}

// reservationGone reports whether a checkpoint has been made since the barrier of a
// change to class flushed: until then a crash would record a gap for offsets that
// the old class had reserved.
func (s *Store) reservationGone(ch *classChange) bool {
	if ch.class != ClassFlushed {
		return true
	}
	if ch.checkpoints == 0 {
		ch.checkpoints = s.stats.Checkpoints + 1
		if s.checkpoint.stage != checkpointIdle {
			ch.checkpoints++
		}
	}
	if s.stats.Checkpoints >= ch.checkpoints {
		return true
	}
	s.checkpoint.reserve = true
	return false
}

// durableUpTo reports whether the barrier of a class change has been passed.
func (s *Store) durableUpTo(ch *classChange) bool {
	if ch.class == ClassWritten {
		return s.journal.WrittenLSN() >= ch.lsn-1
	}
	return s.journal.FlushedLSN() >= ch.lsn-1
}

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
	s.dropping = append(s.dropping, p)
	s.finishDrops()
}

// finishDrops ends the drops of partitions of which nothing is in flight.
func (s *Store) finishDrops() {
	kept := s.dropping[:0]
	for _, p := range s.dropping {
		if !s.finishDrop(p) {
			kept = append(kept, p)
		}
	}
	clear(s.dropping[len(kept):])
	s.dropping = kept
}

func (s *Store) finishDrop(p *Partition) bool {
	if p.writer != nil || p.memory > 0 || p.stronger != nil || s.checkpoint.recording() {
		return false
	}
	for seg := p.first; seg != nil; seg = seg.next {
		if seg.reads > 0 || seg.opening || seg.writing || seg.safe < seg.size || seg.indexing {
			return false
		}
	}
	for c := p.oldest; c != nil; c = c.next {
		if c.pins > 0 {
			return false
		}
	}
	for p.oldest != nil {
		p.dropOldest(s.chunks)
	}
	for seg := p.first; seg != nil; seg = seg.next {
		if seg.file != aio.NoFile {
			s.closeFile(seg)
		}
		seg.tail.Release()
	}
	s.markClean(p)
	delete(s.parts, p.key)
	for i, q := range s.list {
		if q == p {
			s.list = append(s.list[:i], s.list[i+1:]...)
			break
		}
	}
	p.dropDone.Dropped(p.key)
	return true
}
