package engine

import "errors"

// JournalProgress is called by the journal: rounds up to written have been
// written, rounds up to flushed are durable. Acks leave here, in the order of
// rounds.
func (s *Store) JournalProgress(written, flushed uint64) {
	for s.flushing.upTo(flushed) {
		r := s.flushing.take()
		s.acknowledge(&r, ClassFlushed)
	}
	for s.written.upTo(written) {
		r := s.written.take()
		s.roundWritten(&r, flushed)
	}
	s.unflushed.flushedUpTo(flushed)
	s.wakeAll()
	s.progressed(flushed)
}

// roundWritten handles an append whose round is in the journal.
func (s *Store) roundWritten(r *pending, flushed uint64) {
	r.seg.safe, r.seg.safeOffset = r.endPos, r.endOffset
	s.consider(r.part)
	switch {
	case r.class == ClassMemory: // acknowledged when it came
	case r.class == ClassWritten:
		s.acknowledge(r, ClassWritten)
	case r.lsn <= flushed:
		s.acknowledge(r, ClassFlushed)
	default:
		s.flushing.push(*r)
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
	if r.endOffset > r.part.visible {
		r.part.setVisible(r.endOffset, r.seg, r.endPos)
	}
	if r.req != nil {
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
	for _, q := range []*pendingQueue{&s.flushing, &s.written} {
		for q.len() > 0 {
			r := q.take()
			s.refuse(&r)
		}
	}
	s.opts.Events.StoreFailed(s.opts.Shard, s.failed)
	s.progressed(0) // writers that wait for the journal give up
	s.roomMade()
}

// pendingQueue is a FIFO of pending appends in a ring that doubles when full.
type pendingQueue struct {
	ring []pending
	head uint64
	tail uint64
}

func (q *pendingQueue) len() int { return int(q.tail - q.head) }

func (q *pendingQueue) push(r pending) {
	if q.len() == len(q.ring) {
		q.grow()
	}
	q.ring[q.tail&uint64(len(q.ring)-1)] = r
	q.tail++
}

// upTo reports whether the oldest is of round lsn or before it.
func (q *pendingQueue) upTo(lsn uint64) bool {
	return q.head != q.tail && q.ring[q.head&uint64(len(q.ring)-1)].lsn <= lsn
}

// take removes the oldest. It is out of the queue before anybody hears of it, so
// that whoever hears may push, or fail the store.
func (q *pendingQueue) take() pending {
	at := &q.ring[q.head&uint64(len(q.ring)-1)]
	r := *at
	*at = pending{}
	q.head++
	return r
}

func (q *pendingQueue) grow() {
	bigger := make([]pending, max(256, 2*len(q.ring)))
	n := q.len()
	for i := 0; i < n; i++ {
		bigger[i] = q.ring[(q.head+uint64(i))&uint64(len(q.ring)-1)]
	}
	q.ring, q.head, q.tail = bigger, 0, uint64(n)
}
