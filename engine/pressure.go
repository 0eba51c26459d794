package engine

import (
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/journal"
	"github.com/mqd-broker/mqd/engine/shard"
	"github.com/mqd-broker/mqd/engine/tally"
)

// Pressure on producers. Nothing grows: what does not fit is refused with ErrBusy,
// and whoever was refused waits for Starved to end.
//
// As the ring fills, package throttle slows producers down before they have to stop.
//
// A part of the ring is kept for tail entries, without which a checkpoint could not
// go on: a partition with a partial block in its file needs one before that block is
// written again. What those could take that are dirty now is tailDebt, and twice
// that stays free: once for the checkpoint under way, and once for the next, because
// the first one frees nothing of what it writes itself.

// Another part of the ring, and a little of the memory, is kept for urgent appends:
// a disk that is full lets ring and memory fill up, and what is to free it, the
// deletion of a topic, has to be recorded all the same.
const (
	keptShare = 64        // part of the ring, one in so many
	keptMost  = 256 << 10 // of the ring, bytes
)

// tailCost is the largest part of the ring that one tail entry takes: a round of its
// own of a block and what does not fit beside the header.
const tailCost = 2 * aio.BlockSize

func (s *Store) busy(cause tally.Cause) error {
	s.stats.Refused(cause)
	switch cause {
	case tally.Memory:
		// What fills the memory may be partial blocks, which nothing but a
		// checkpoint brings to the files.
		s.memoryDue = s.memoryDue || s.memory.Len() > 0
		if s.memory.Len() == 0 && s.dirty.Len() > 0 {
			s.checkpoint.pressed = true
		}
	case tally.Journal:
		s.checkpoint.pressed = s.checkpoint.pressed || s.tailsPress()
	}
	if cause.OfSpace() && s.DiskFull() {
		return ErrDiskFull // nobody waits for that
	}
	s.starved = true
	return ErrBusy
}

// journalRefused turns a refusal of the journal into one of the store.
func (s *Store) journalRefused(err error) error {
	if err == journal.ErrFull {
		return s.busy(tally.Journal)
	}
	if s.failed != nil {
		return s.failed
	}
	s.fail(err)
	return s.failed
}

// roomMade notes that appends may be accepted again.
func (s *Store) roomMade() { s.starved = false }

// Starved reports whether appends are being refused for lack of room. It is
// false again after progress that may have made room.
func (s *Store) Starved() bool { return s.starved }

// ringHasRoom reports whether the ring can take a batch of n bytes beside what is
// kept for tail entries and for urgent appends.
func (s *Store) ringHasRoom(n int) bool {
	return s.journal.Free() >= 2*s.tailDebt+int64(n)+min(keptMost, s.journal.Capacity()/keptShare)
}

// tailsPress reports whether what is kept for tail entries leaves no room for a
// batch.
func (s *Store) tailsPress() bool { return !s.ringHasRoom(s.opts.MaxBatch) }

// owe brings up to date what p could take of the ring for a tail entry.
func (s *Store) owe(p *Partition) {
	var cost int64
	if seg := p.unwritten; p.dirtyLSN != 0 && seg != nil && (p.writer != nil || seg.InFile%aio.BlockSize != 0) {
		cost = tailCost
	}
	s.tailDebt += cost - p.tailCost
	p.tailCost = cost
}

// slow reports whether the next batch has to wait because the ring is filling.
func (s *Store) slow() bool { return s.throttle.Waits(s.loop.Now()) }

// slowDown makes the next batch wait behind one of n bytes.
func (s *Store) slowDown(n int) {
	if until := s.throttle.Charge(s.loop.Now(), n, s.fillPercent()); until > 0 {
		s.loop.Arm(&s.slowTimer, until)
	}
}

type slowTimer Store

// Fire lets producers try again.
func (t *slowTimer) Fire(*shard.Timer, int64) { (*Store)(t).roomMade() }
