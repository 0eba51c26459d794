package engine

import (
	"github.com/mqd-broker/mqd/engine/producers"
	"github.com/mqd-broker/mqd/engine/tally"
)

// known judges a batch of an idempotent producer before anything else is asked of it:
// what is there already needs no room. done means that it is not to be appended.
func (s *Store) known(p *Partition, a *Append) (done bool, err error) {
	verdict, was := s.producers.Check(&p.producers, &a.Header, s.loop.Now())
	switch verdict {
	case producers.Fresh:
		return false, nil
	case producers.Duplicate:
		return true, s.repeated(p, a, &was)
	case producers.Forgotten:
		err = ErrForgotten
	case producers.OutOfOrder:
		err = ErrOutOfOrder
	case producers.Fenced:
		err = ErrFenced
	}
	s.stats.RefusedSequences++
	return true, err
}

// repeated answers a batch that has been appended before with the place that it has.
//
// That must not be sooner than the first one could have been answered: its producer
// believes it, and if the power is cut while the first one is not flushed, it is gone. So
// one whose original is not as durable as the topic promises, or cannot be read yet because
// it waits for what the class before a change has promised, waits in the queue of those who
// wait for the journal, for the newest round with bytes of the partition, and fails with it.
func (s *Store) repeated(p *Partition, a *Append, was *producers.Batch) error {
	if s.deviceFailed.Load() {
		s.fail(ErrStorage)
		return s.failed
	}
	durable := s.isDurable(p, was)
	if !durable && s.pendingFull() {
		return s.busy(tally.Pending)
	}
	s.stats.Duplicates++
	a.Base, a.AppendTime = was.Base, was.AppendTime
	if durable {
		a.Class, a.Err = p.class, nil
		a.Owner.Appended(a)
		return nil
	}
	class := max(p.class, ClassWritten) // with class memory it is here that the class has been a stronger one
	if was.End() > p.reserve {
		class = ClassFlushed // a weaker class may not show the offset
	}
	s.written.Push(pending{lsn: p.newestLSN, part: p, endOffset: was.End(), req: a, class: class, at: s.appendedAt(a)})
	return nil
}

// isDurable reports whether a batch is as durable as the class in force promises. What
// consumers see is, but behind a change to a stronger class not before the barrier has
// been passed.
func (s *Store) isDurable(p *Partition, b *producers.Batch) bool {
	switch {
	case b.End() > p.visible:
		return false
	case p.shown >= p.class:
		return true
	case p.class == ClassWritten:
		return s.journal.WrittenLSN() >= p.newestLSN
	}
	return s.journal.FlushedLSN() >= p.newestLSN
}
