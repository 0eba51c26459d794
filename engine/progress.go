package engine

import (
	"errors"

	"github.com/mqd-broker/mqd/engine/fifo"
	"github.com/mqd-broker/mqd/engine/shard"
)

// JournalProgress is called by the journal: rounds up to written have been
// written, rounds up to flushed are durable. Acks leave here, in the order of
// rounds.
func (s *Store) JournalProgress(written, flushed uint64) {
	for upTo(&s.flushing, flushed) {
		r := s.flushing.Take()
		s.acknowledge(&r, ClassFlushed)
	}
	for upTo(&s.written, written) {
		r := s.written.Take()
		s.roundWritten(&r, flushed)
	}
	s.unflushed.Flushed(flushed)
	s.wakeAll()
	s.progressed(flushed)
}

// roundWritten handles an append whose round is in the journal.
func (s *Store) roundWritten(r *pending, flushed uint64) {
	if r.seg != nil {
		r.seg.Safe, r.seg.safeOffset = r.endPos, r.endOffset
		s.consider(r.part)
	}
	switch {
	case r.class == ClassMemory: // acknowledged when it came
	case r.class == ClassWritten && (r.seg != nil || r.endOffset <= r.part.visible):
		s.acknowledge(r, ClassWritten)
	case r.lsn <= flushed:
		s.acknowledge(r, ClassFlushed)
	default:
		s.flushing.Push(*r)
	}
}

// acknowledge makes an append visible and tells its owner, unless that has been
// done when it came (class memory).
func (s *Store) acknowledge(r *pending, class Class) {
	if s.deviceFailed.Load() {
		s.fail(ErrStorage)
	}
	if s.failed != nil {
		s.refuse(r)
		return
	}
	if r.seg != nil && r.endOffset > r.part.visible {
		r.part.setVisible(r.endOffset, r.seg, r.endPos)
	}
	if r.req != nil {
		s.opts.Stages.Durable(r.lsn, r.at, s.loop.Now())
		r.req.Class, r.req.Err = class, nil
		r.req.Owner.Appended(r.req)
	}
}

func (s *Store) refuse(r *pending) {
	if r.req != nil {
		r.req.Class, r.req.Err = ClassNone, s.failed
		r.req.Owner.Appended(r.req)
	}
}

// JournalFailed is called by the journal when a write or flush has failed.
func (s *Store) JournalFailed(err error) { s.fail(err) }

// fail stops the log of this shard: nothing is acknowledged from now on; what
// waits gets the error, reads below the durable offset go on.
func (s *Store) fail(err error) {
	if s.failed != nil {
		return
	}
	s.failed = errors.Join(ErrStorage, err)
	for _, q := range []*fifo.Queue[pending]{&s.flushing, &s.written} {
		for q.Len() > 0 {
			r := q.Take()
			s.refuse(&r)
		}
	}
	s.opts.Events.StoreFailed(s.opts.Shard, s.failed)
	s.progressed(0) // writers that wait for the journal give up
	s.roomMade()
}

// upTo reports whether the oldest append of a queue is of round lsn or before it.
func upTo(q *fifo.Queue[pending], lsn uint64) bool {
	r := q.Front()
	return r != nil && r.lsn <= lsn
}

// noteUnflushed counts n bytes of round lsn that are acknowledged before they are
// flushed and makes sure that the flush comes in time.
func (s *Store) noteUnflushed(p *Partition, lsn uint64, n int64) {
	interval, limit := p.cfg.Window(p.class)
	s.unflushed.Add(lsn, n, limit)
	s.loop.ArmBy(&s.flushTimer, s.loop.Now()+int64(interval))
}

// flushWritten submits the flush of what has been acknowledged without one, if it is
// due.
func (s *Store) flushWritten() {
	if s.unflushed.Due() {
		s.unflushed.Submitted(s.journal.Flush())
	}
}

type flushTimer Store

// Fire begins the flush of what has been acknowledged without one.
func (t *flushTimer) Fire(*shard.Timer, int64) { t.unflushed.Want() }

// exposed is an upper bound of what a power cut would take from a partition.
func (s *Store) exposed(p *Partition) int64 {
	if p.memory == 0 && s.unflushed.Bytes() == 0 {
		return 0
	}
	return s.unflushed.Bytes() + s.memoryBytes
}
