package engine

import (
	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine/checkpoint"
	"github.com/mqd-broker/mqd/engine/journal"
	"github.com/mqd-broker/mqd/engine/stage"
	"github.com/mqd-broker/mqd/engine/tally"
)

// Append is one batch on its way into a partition. The caller owns it and keeps
// Batch untouched until Append returns; results are valid when Owner hears of it.
type Append struct {
	// Request. Batch is exactly one record batch that batch.Check has
	// accepted, in memory that may be written: offset and epoch are stamped
	// in place. Header is what Check returned.
	Part     *Partition
	Batch    []byte
	Header   batch.Header
	MinClass Class // refuse a topic with a weaker class; ClassNone: any
	// Urgent appends may take what is kept of ring and memory for those that make
	// room, and are not slowed. There must not be many.
	Urgent bool
	// Arrived is the time of a loop's clock when the batch came in, 0 if nobody asks
	// how long it took to come here.
	Arrived int64
	Owner   AppendOwner

	// Result.
	Base       int64 // offset of the first record
	AppendTime int64 // broker's time, Unix nanoseconds
	Class      Class // the class reached
	Err        error
}

// AppendOwner is told when an append has reached the topic's class or has failed,
// on the loop. For class memory, and for a batch that is there already, that may
// happen inside Store.Append.
type AppendOwner interface {
	Appended(a *Append)
}

// pending is an append in a journal round that has not completed.
type pending struct {
	lsn       uint64
	part      *Partition
	seg       *segfile // nil for a batch that was there already
	endPos    int64
	endOffset int64
	req       *Append // nil when nobody waits
	class     Class   // in force when it was appended
	at        int64   // loop time of the append
}

// Append adds a batch to its partition. With a nil error the owner is told of the
// outcome; otherwise nothing has happened. ErrBusy means that memory or journal
// are full at the moment: the caller keeps the batch and tries again after
// Store.OnRoom. A batch of an idempotent producer that is there already is not
// appended again: see repeated.
func (s *Store) Append(a *Append) error {
	p := a.Part
	if err := s.refuses(p, a); err != nil {
		return err
	}
	if a.Header.ProducerID != batch.NoProducer {
		if done, err := s.known(p, a); done {
			return err
		}
	}
	if err := s.admit(p, a); err != nil {
		return err
	}
	n := len(a.Batch)
	a.Header.BaseOffset = p.next
	if p.active == nil || p.cfg.MustRoll(p.active.base, p.active.Size, int64(n), &a.Header) {
		p.addSegment(p.next)
	}
	last, ok := p.room(n, a.Urgent)
	if !ok {
		return s.busy(tally.Memory)
	}
	a.Base, a.AppendTime = p.next, s.Time()
	batch.Stamp(a.Batch, a.Base, int32(s.opts.Term))
	maxTimestamp := a.Header.MaxTimestamp
	if p.cfg.AppendTimestamps {
		maxTimestamp = a.AppendTime / 1e6
		batch.StampAppendTime(a.Batch, maxTimestamp)
	}
	if p.class == ClassMemory {
		s.appendMemory(p, a, maxTimestamp)
		return nil
	}
	s.pieces[0] = a.Batch
	lsn, err := s.journalBatch(p, a.Base, s.pieces[:1], needs[p.class], a.Urgent)
	if err != nil {
		p.mem.DropAfter(last)
		return s.journalRefused(err)
	}
	s.slowDown(n)
	s.copyIn(p, a, maxTimestamp)
	s.markDirty(p, lsn)
	s.written.Push(pending{lsn: lsn, part: p, seg: p.active, endPos: p.active.Size, endOffset: p.next, req: a, class: p.class, at: s.appendedAt(a)})
	if p.class == ClassWritten {
		s.noteUnflushed(p, lsn, int64(n))
	}
	return nil
}

// needs is what the journal must do before a batch of a class is acknowledged.
var needs = [...]journal.Need{ClassMemory: journal.NeedWritten, ClassWritten: journal.NeedWritten, ClassFlushed: journal.NeedFlushed}

// refuses checks what refuses an append for good.
func (s *Store) refuses(p *Partition, a *Append) error {
	switch {
	case s.failed != nil:
		return s.failed
	case p.dropped:
		return ErrDropped
	case s.closing != closeNot:
		return ErrClosing
	case a.MinClass > p.class:
		return ErrClassTooWeak
	case len(a.Batch) > p.cfg.MaxBatch:
		return ErrTooLarge
	}
	return nil
}

// admit checks what can make an append wait, before anything is touched.
func (s *Store) admit(p *Partition, a *Append) error {
	switch {
	case !a.Urgent && (s.opts.Ballast.Missing() || s.noSpace.Is(s.loop.Now()) && s.opts.Ballast.Spent(s.chunks.Unwritten())):
		return s.busy(tally.Disk)
	case s.pendingFull() || p.class == ClassMemory && s.memoryFull():
		return s.busy(tally.Pending)
	case !p.before.Passed(s.journal):
		return s.busy(tally.Reservation)
	case !a.Urgent && s.slow():
		return s.busy(tally.Slow)
	}
	if p.class == ClassFlushed {
		return nil
	}
	if end := p.next + int64(a.Header.Count); end > p.reserve {
		s.wantReservation(p)
		return s.busy(tally.Reservation)
	} else if p.reserve-end < s.opts.ReserveOffsets/2 {
		s.wantReservation(p)
	}
	return nil
}

// copyIn puts a stamped batch into the partition's memory and index.
func (s *Store) copyIn(p *Partition, a *Append, maxTimestamp int64) {
	seg := p.active
	at := p.mem.CopyIn(&seg.Segment, a.Batch, p.next, s.loop.Now())
	s.indexed.Set(at, &a.Header)
	s.indexed.BaseOffset, s.indexed.LastOffset = a.Base, a.Base+int64(a.Header.LastOffsetDelta)
	s.indexed.MaxTimestamp, s.indexed.AppendTime = maxTimestamp, a.AppendTime
	seg.index.Tail.Add(&s.indexed)
	seg.appendTime = a.AppendTime
	seg.maxTimestamp = max(seg.maxTimestamp, maxTimestamp)
	p.next += int64(a.Header.LastOffsetDelta) + 1
	if a.Header.ProducerID != batch.NoProducer {
		s.producers.Add(&p.producers, &a.Header, a.AppendTime, s.loop.Now())
	}
	if p.Epoch() != s.opts.Term {
		p.epochs.Begin(int32(s.opts.Term), a.Base, checkpoint.ReasonStart)
	}
	if a.Arrived != 0 {
		s.opts.Stages.Add(stage.Append, s.appendedAt(a)-a.Arrived)
	}
	s.stats.AppendedBytes += uint64(len(a.Batch))
	s.stats.AppendedBatches++
}

// journalBatch adds a batch to the round that fills.
func (s *Store) journalBatch(p *Partition, base int64, body [][]byte, need journal.Need, urgent bool) (uint64, error) {
	n := 0
	for _, b := range body {
		n += len(b)
	}
	if !urgent && !s.ringHasRoom(n) {
		return 0, journal.ErrFull
	}
	s.beginEntry(p, journal.KindBatch, base)
	return s.journal.AppendVec(&s.entry, body, need)
}

// beginEntry fills in what all entries have. The index of a slot's group of
// entries in a round is the round's LSN, which rises with every round: the
// journal puts it in.
func (s *Store) beginEntry(p *Partition, kind journal.Kind, base int64) {
	s.entry = journal.Entry{
		Kind: kind, Slot: p.slot, Term: s.opts.Term,
		Topic: p.key.Topic, Partition: p.key.Partition, BaseOffset: base,
	}
}

// Time is the broker's time, which never goes back on a shard.
func (s *Store) Time() int64 {
	now := s.wallBase + s.loop.Now()
	s.newestTime = max(s.newestTime, now)
	return s.newestTime
}

// appendedAt is when a is appended: the turn may have begun before its check ended.
func (s *Store) appendedAt(a *Append) int64 { return max(s.loop.Now(), a.Arrived) }

// pendingFull bounds the appends that wait for the journal.
func (s *Store) pendingFull() bool {
	return s.written.Len()+s.flushing.Len() >= s.opts.MaxPending
}
