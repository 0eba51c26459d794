package engine

import (
	"github.com/mqd-broker/mqd/engine/journal"
	"github.com/mqd-broker/mqd/internal/invariant"
)

// unjournaled is a batch of class memory whose journal entry has still to be
// written. Its bytes are in the partition's chunks, which are not evicted before
// they are in the file, and the file gets only what the journal has.
type unjournaled struct {
	part      *Partition
	seg       *segfile
	pos       int64
	size      int
	base      int64
	endOffset int64
	at        int64 // loop time of the append, nanoseconds
}

// appendMemory acknowledges a batch at once and queues its journal entry.
func (s *Store) appendMemory(p *Partition, a *Append, maxTimestamp int64) {
	s.copyIn(p, a, maxTimestamp)
	seg, n := p.active, len(a.Batch)
	s.memory.Push(unjournaled{
		part: p, seg: seg, pos: seg.Size - int64(n), size: n,
		base: a.Base, endOffset: p.next, at: s.loop.Now(),
	})
	p.memory++
	s.memoryBytes += int64(n)
	if s.memoryBytes >= p.cfg.FlushBytes {
		s.memoryDue = true
	}
	s.loop.ArmBy(&s.memoryTimer, s.loop.Now()+int64(p.cfg.FlushInterval))
	p.setVisible(p.next, seg, seg.Size)
	a.Class, a.Err = ClassMemory, nil
	a.Owner.Appended(a)
}

// memoryLimit and memoryBacklog are the number of class memory batches that can
// wait for the journal, and of bytes in them. A device that does not keep up must
// not make the window large in which a kill takes what has been acknowledged.
const (
	memoryLimit   = 1 << 16
	memoryBacklog = 16 << 20
)

// memoryFull reports whether no more batches of class memory can wait.
func (s *Store) memoryFull() bool {
	return s.memory.Len() >= memoryLimit || s.memoryBytes >= memoryBacklog
}

// memoryPiece is how much of the queue may be in the round that fills, in bytes: a
// round that others wait for is not longer than that for the sake of a batch that
// has been acknowledged, nor is a turn.
const memoryPiece = 512 << 10

// flushMemory moves queued batches into the round that fills, as many as may be. It
// reports whether the queue is empty.
func (s *Store) flushMemory() bool {
	for s.memory.Len() > 0 {
		if !s.mayFlushMemory() || !s.journalOldest(journal.NeedWritten) {
			return false
		}
	}
	s.memoryDue = false
	return true
}

// mayFlushMemory reports whether it is the turn of a queued batch. In a ring that is
// filling each has to wait behind the one before it, as appends have; else their
// waits would add up, and producers stand still long after the ring has room again.
func (s *Store) mayFlushMemory() bool {
	return s.journal.Backlog() == 0 && s.journal.FillingBytes() < memoryPiece && !s.slow()
}

// fillSpare lets queued batches ride in the padding of the round that is about to
// go, where they cost nothing.
func (s *Store) fillSpare() {
	for s.memory.Len() > 0 && s.memory.Front().size <= s.journal.RoomToSpare() {
		if !s.journalOldest(journal.NeedNone) {
			return
		}
	}
}

// journalOldest writes the journal entry of the oldest queued batch.
func (s *Store) journalOldest(need journal.Need) bool {
	u := s.memory.Front()
	p := u.part
	lsn, err := s.journalBatch(p, u.base, s.gather(u), need, false)
	if err != nil {
		if err != journal.ErrFull {
			_ = s.journalRefused(err)
		} else if s.tailsPress() {
			s.checkpoint.pressed = true
		}
		return false // nobody was refused: it is tried again in every turn
	}
	s.slowDown(u.size)
	s.markDirty(p, lsn)
	s.written.Push(pending{lsn: lsn, part: p, seg: u.seg, endPos: u.pos + int64(u.size), endOffset: u.endOffset, class: ClassMemory})
	s.noteUnflushed(p, lsn, int64(u.size))
	s.memoryBytes -= int64(u.size)
	p.memory--
	s.memory.Take()
	return true
}

// discard forgets what of a dropped partition waits for the journal, which may have no
// room for it.
func (s *Store) discard(p *Partition) {
	if p.memory == 0 {
		return
	}
	for n := s.memory.Len(); n > 0; n-- { // all, so that the others stay in order
		u := s.memory.Take()
		if u.part != p {
			s.memory.Push(u)
			continue
		}
		u.seg.discarded += int64(u.size)
		s.memoryBytes -= int64(u.size)
		p.memory--
	}
}

// gather returns the pieces of memory in which a queued batch lies.
func (s *Store) gather(u *unjournaled) [][]byte {
	c := u.part.mem.UnsavedHolding(&u.seg.Segment, u.pos)
	at, left := 0, u.size
	if c != nil {
		at = int(u.pos - c.Pos)
	}
	pieces := s.pieces[:0]
	for left > 0 {
		if c == nil {
			invariant.Violated("engine: a batch that waits for the journal is in memory")
		}
		n := min(left, c.To-at)
		pieces = append(pieces, c.Mem[at:at+n])
		left -= n
		c, at = c.Next(), 0
	}
	return pieces
}
