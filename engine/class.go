package engine

// ConfigDone hears that a configuration is in force.
type ConfigDone interface {
	Configured(p *Partition, err error)
}

// classChange is a change of class that has been asked for.
//
// Towards a weaker class it is in force at once, but appends wait for a checkpoint
// that says so and reserves offsets: until then a start after a crash would not
// know that offsets may have been shown that are lost. They also wait until all that
// came under the old class is acknowledged, which they would overtake.
//
// Towards a stronger class there is a barrier. First everything that the journal
// does not have goes to it; then appends go under the new class, behind it. When
// all that was there at that moment is as durable as the new class wants, the
// partition counts as one of the new class in checkpoints too. For class flushed
// one of those must have been made before the change is done: until then a start
// would record a gap for offsets that the old class had reserved.
type classChange struct {
	class Class
	done  ConfigDone

	begun       bool   // appends go under the new class
	lsn         uint64 // newest round that the barrier covers
	passed      bool   // the barrier
	checkpoints uint64 // the number of checkpoints that must have been made
}

// Configure changes a partition's configuration; done hears when it is in force.
// All but the class is so at once. Changes of class are made one after another, in
// the order in which they were asked for; see [Partition.Class].
func (s *Store) Configure(p *Partition, cfg PartitionConfig, done ConfigDone) {
	p.cfg = cfg
	p.changes = append(p.changes, classChange{class: cfg.Class, done: done})
	if !p.inChanging {
		p.inChanging = true
		s.changing.Push(p)
	}
	s.changing.Pass(s.changeClass)
}

// changeClass goes on with the oldest change of p, and reports whether there is none
// any more. Whoever hears of one may ask for another, which waits for its turn.
func (s *Store) changeClass(p *Partition) bool {
	for len(p.changes) > 0 {
		ch := &p.changes[0]
		var err error
		switch {
		case p.dropped:
			err = ErrDropped
		case s.failed != nil:
			err = s.failed
		case !ch.begun && ch.class <= p.class:
			s.weaken(p, ch.class)
		case !s.strengthen(p, ch):
			return false
		}
		done := ch.done
		n := copy(p.changes, p.changes[1:])
		p.changes[n] = classChange{}
		p.changes = p.changes[:n]
		done.Configured(p, err)
	}
	p.inChanging = false
	return true
}

// weaken puts a class in force that is no stronger than the present one. What was
// reserved under that does not count: no checkpoint has named the weaker class.
func (s *Store) weaken(p *Partition, class Class) {
	if class == p.class {
		return
	}
	p.before.Raise(s.journal, p.newestLSN, needs[p.class])
	p.class, p.shown = class, class
	p.reserve, p.renew = 0, false
	s.wantReservation(p)
}

// strengthen goes on with a change to a stronger class and reports whether it is
// done.
func (s *Store) strengthen(p *Partition, ch *classChange) bool {
	if !ch.begun {
		if p.memory > 0 {
			s.memoryDue = true
			return false
		}
		ch.begun, ch.lsn = true, p.newestLSN
		p.class = ch.class
	}
	if !ch.passed {
		if !s.durable(ch) {
			return false
		}
		ch.passed = true
		p.shown = ch.class
		if ch.class == ClassFlushed {
			p.reserve, p.renew = 0, false
		}
		if ch.class == ClassFlushed && p.asked > 0 {
			p.asked, ch.checkpoints = 0, s.checkpoint.next()
		}
	}
	if s.stats.Checkpoints >= ch.checkpoints {
		return true
	}
	if s.checkpoint.stage < checkpointCapture {
		s.checkpoint.reserve = true
	}
	return false
}

// durable reports whether the barrier of a change has been passed. Somebody must ask
// for the flush, because nobody waits for what the old class has acknowledged.
func (s *Store) durable(ch *classChange) bool {
	if s.journal.WrittenLSN() < ch.lsn {
		return false
	}
	if ch.class != ClassFlushed || s.journal.FlushedLSN() >= ch.lsn {
		return true
	}
	s.journal.Flush()
	return false
}
