package engine

import (
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/throttle"
)

// Writeback is paced by how full the journal's ring and the memory are.
const (
	// idleFill and fullFill are the fills, in percent, up to which one writer
	// brings full chunks to files, so that rounds have the device nearly for
	// themselves, and from which on as many do as may.
	idleFill, fullFill = 25, 75
	// lazyShare is the part of the writers, one in so many, that may. The others
	// are for checkpoints, whose many small writes and flushes the kernel puts
	// together when they come at the same time.
	lazyShare = 4
	// writeRetry is how long writing waits after a write that found no space.
	writeRetry = 200 * time.Millisecond
)

// oldestDirty is the dirty partition with the oldest round that still counts, or nil.
func (s *Store) oldestDirty() *Partition {
	for n := s.dirty.First(); n != nil; n = n.Next() {
		if !n.Owner.dropped {
			return n.Owner
		}
	}
	return nil
}

// markDirty notes that the journal's round lsn holds bytes of p that are not
// flushed to its segment.
func (s *Store) markDirty(p *Partition, lsn uint64) {
	p.newestLSN = lsn
	if p.dirtyLSN == 0 {
		p.dirtyLSN = lsn
		s.dirty.Add(&p.dirty, p.dirtyLSN)
	}
	s.owe(p)
}

// markClean takes p off the list of dirty partitions.
func (s *Store) markClean(p *Partition) {
	if p.dirtyLSN != 0 {
		s.dirty.Remove(&p.dirty)
		p.dirtyLSN = 0
	}
	s.owe(p)
}

// flushedBelow notes that everything of p in rounds before lsn is flushed.
func (s *Store) flushedBelow(p *Partition, lsn uint64) {
	if p.dirtyLSN != 0 && p.dirtyLSN < lsn {
		s.dirty.Remove(&p.dirty)
		p.dirtyLSN = lsn
		s.dirty.Add(&p.dirty, p.dirtyLSN)
	}
}

// consider enters a partition for writing if it has something to write.
func (s *Store) consider(p *Partition) {
	if !p.isReady && p.writer == nil && p.worthWriting() {
		p.isReady = true
		s.ready.Push(p)
	}
}

// worthWriting reports whether the journal has all of a chunk that the file has
// not, or of a segment that can be sealed. What is less waits for more, or for a
// checkpoint: then as much as possible goes with one write.
func (p *Partition) worthWriting() bool {
	if c := p.mem.Unsaved(); c != nil && c.Full() {
		return true
	}
	seg := p.unwritten
	return seg != nil && seg.closed && !seg.sealed && seg.Safe == seg.Size
}

// writeback gives work to idle writers: what a checkpoint waits for comes first.
func (s *Store) writeback(now int64) {
	if s.noSpace.Over(now) {
		s.opts.Events.DiskFull(s.opts.Shard, false, nil)
	}
	if s.failed != nil || now < s.writeAfter || s.closing >= closeJournal {
		return
	}
	for s.writersFree != nil {
		p, mode := s.nextFlush(), writeAll
		if p == nil && s.ready.Len() > 0 && s.writing < s.lazyWriters() {
			p, mode = s.nextReady(), writeChunks
		}
		if p == nil {
			return
		}
		w := s.writersFree
		s.writersFree, w.next = w.next, nil
		s.writing++
		w.start(p, mode)
	}
}

// DiskFull reports whether the disk has lately had no space for segments: what is
// refused for lack of room is refused for that.
func (s *Store) DiskFull() bool { return s.opts.Ballast.Missing() || s.noSpace.Is(s.loop.Now()) }

// ReleaseBallast has room made for what makes more.
func (s *Store) ReleaseBallast() { s.opts.Ballast.Release() }

// foundFull notes that there was no space for a segment.
func (s *Store) foundFull(err error) {
	if s.noSpace.Found(s.loop.Now()) {
		s.opts.Events.DiskFull(s.opts.Shard, true, err)
		s.roomMade() // those who wait for room need not
	}
}

// writingBack reports whether writers are at work or have work.
func (s *Store) writingBack() bool { return s.writing > 0 || s.ready.Len() > 0 }

// lazyWriters is the number of writers that may be at work when no checkpoint
// waits for them.
func (s *Store) lazyWriters() int {
	most := max(1, s.opts.Writers/lazyShare)
	if s.closing != closeNot {
		return most
	}
	fill := max(s.fillPercent(), 100*s.chunks.Unwritten()/s.chunks.Size())
	return throttle.Workers(fill, idleFill, fullFill, most)
}

// nextFlush picks a partition that a checkpoint waits for, or nil.
func (s *Store) nextFlush() *Partition {
	for n := s.dirty.First(); n != nil && n.Key() <= s.checkpoint.target; n = n.Next() {
		p := n.Owner
		if p.writer == nil && !p.dropped {
			return p
		}
	}
	return nil
}

// nextReady takes a partition with something to write, or nil.
func (s *Store) nextReady() *Partition {
	for s.ready.Len() > 0 {
		p := s.ready.Take()
		p.isReady = false
		if p.writer == nil && !p.dropped && p.worthWriting() {
			return p
		}
	}
	return nil
}

// cleanChunks marks the chunks of p whose bytes are all in files.
func (s *Store) cleanChunks(p *Partition) {
	p.mem.Saved()
	if s.starved {
		s.roomMade()
	}
}

// parkWriter lets a writer wait for the journal.
func (s *Store) parkWriter(w *writer) {
	w.next = s.writersParked
	s.writersParked = w
}

// progressed continues writers that waited for the journal.
func (s *Store) progressed(flushed uint64) {
	parked := s.writersParked
	s.writersParked = nil
	for w := parked; w != nil; {
		next := w.next
		w.next = nil
		if !w.progressed(flushed) {
			s.parkWriter(w)
		}
		w = next
	}
	s.roomMade()
}

// writerDone takes a writer back and updates what the partition owes.
func (s *Store) writerDone(w *writer, p *Partition, err error) {
	mode, captured := w.mode, w.captured
	w.next, s.writersFree = s.writersFree, w
	s.writing--
	s.owe(p)
	if p.dropped {
		return
	}
	s.consider(p)
	s.fullDisk = err != nil && aio.IsNoSpace(err)
	if s.fullDisk {
		s.foundFull(err)
	}
	if err != nil {
		s.writeAfter = s.loop.Now() + int64(writeRetry)
		s.loop.Arm(&s.retryTimer, s.writeAfter)
		s.stats.WriteErrors++
		return
	}
	if mode != writeAll {
		return
	}
	if p.active.flushed == p.active.Size && p.unwritten == p.active && p.memory == 0 {
		s.markClean(p)
	} else {
		s.flushedBelow(p, captured+1)
	}
	s.checkpoint.flushedOne()
}
