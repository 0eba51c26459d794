package broker

import (
	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/engine"
)

// stepKind says what a step does with the partitions of a topic.
type stepKind uint8

const (
	// stepDescribe fills infos.
	stepDescribe stepKind = iota + 1
	// stepConfigure puts the topic's settings in force. It is done when that
	// has happened for every partition.
	stepConfigure
	// stepDrop ends every partition. It is seen when nothing of the topic is
	// taken or served any more, and done when nothing of it is in memory.
	stepDrop
)

// step is one shard's part of an administrative request: something to be done with
// each of its partitions of a topic, a bounded number a turn. Its owner hears of
// it on the shard that asked.
type step struct {
	kind  stepKind
	topic *catalog.Topic
	to    int // shard that works
	from  int // shard that asked
	owner stepOwner
	infos []PartitionInfo // by number; each shard writes its own

	// The working shard's.
	at     *Shard
	number uint32 // the next partition to look at
	left   int    // partitions that have been begun and are not done
	ended  bool   // all have been begun
	next   *step

	err        error // of a partition
	wait, seen waiter
}

// stepOwner hears of a step.
type stepOwner interface {
	stepSeen(s *step)
	stepDone(s *step)
}

// stepList is a FIFO of steps at work.
type stepList struct{ first, last *step }

func (b *Shard) addStep(s *step) {
	s.at = b
	if b.steps.last != nil {
		b.steps.last.next = s
	} else {
		b.steps.first = s
	}
	b.steps.last = s
}

// work does a bounded number of partitions of the oldest step, and returns how
// many it looked at.
func (b *Shard) work() int {
	s := b.steps.first
	if s == nil {
		return 0
	}
	n := 0
	for n < stepBudget && s.number < s.topic.Partitions {
		if b.node.ShardOf(s.topic.ID, int32(s.number)) == b.id {
			b.stepOn(s, s.number)
		}
		s.number++
		n++
	}
	if s.number == s.topic.Partitions {
		b.steps.first = s.next
		if b.steps.first == nil {
			b.steps.last = nil
		}
		s.next, s.ended = nil, true
		if s.kind == stepDrop {
			b.post(s.from, Message{kind: msgStepSeen, body: s}, &s.seen)
		}
		s.maybeDone()
	}
	return n + 1
}

// stepOn does a step for one partition.
func (b *Shard) stepOn(s *step, number uint32) {
	if s.kind == stepDescribe {
		s.infos[number] = b.Info(s.topic, number)
		return
	}
	k := engine.Key{Topic: s.topic.ID, Partition: number}
	p := b.store.Partition(k)
	if s.kind == stepDrop {
		b.dropWaiting(k)
	}
	if p == nil {
		return
	}
	s.left++
	if s.kind == stepConfigure {
		b.store.Configure(p, b.node.config(s.topic), s)
	} else {
		b.store.Drop(p, s)
	}
}

// dropWaiting forgets a partition and refuses the produces that wait for room in
// it.
func (b *Shard) dropWaiting(k engine.Key) {
	p := b.parts[k]
	if p == nil {
		return
	}
	delete(b.parts, k)
	b.busy.remove(p)
	for !p.waiting.empty() {
		r := p.waiting.pop().msg.body.(*Produce)
		r.Code = UnknownTopic
		b.settle(r)
	}
}

// Configured hears from the engine that a partition works by its new settings.
func (s *step) Configured(_ *engine.Partition, err error) {
	if err != nil {
		s.err = err
	}
	s.left--
	s.maybeDone()
}

// Dropped hears from the engine that nothing of a partition is in memory.
func (s *step) Dropped(engine.Key) {
	s.left--
	s.maybeDone()
}

// maybeDone tells the owner when the last partition is done.
func (s *step) maybeDone() {
	if s.ended && s.left == 0 {
		s.at.post(s.from, Message{kind: msgStepDone, body: s}, &s.wait)
	}
}
