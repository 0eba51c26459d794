package sim

import (
	"fmt"

	"github.com/mqd-broker/mqd/net/wire"
	"github.com/mqd-broker/mqd/test/history"
)

// fate says whether something that was asked for has happened.
type fate uint8

const (
	certain fate = iota // it is so
	asked               // there is no answer yet, or there never will be
)

// topic is what is known of a topic.
type topic struct {
	name     string
	id       wire.TopicID
	class    history.Class
	altered  fate // of the newest change of class
	keeps    keeping
	compacts compacting
	changes  int  // of class, asked for
	gone     bool // deletion was acknowledged
	going    bool // deletion was asked for: nothing more is expected of it
	parts    []*part
	most     int // partitions that it may have, because more were asked for
}

// part is a partition with its history and the consumer that follows it.
type part struct {
	topic    *topic
	n        int32
	stream   uint32 // what its messages carry
	p        *history.Partition
	shown    int // violations that were reported
	durable  int64
	tail     *history.Tail
	next     int64 // offset that the consumer asks for next
	fetching bool
}

func (p *part) String() string { return fmt.Sprintf("%s/%d", p.topic.name, p.n) }

// newTopic notes a topic that the broker has created.
func (r *run) newTopic(name string, id wire.TopicID, class history.Class, partitions int, keeps keeping, compacts compacting) *topic {
	tp := &topic{name: name, id: id, class: class, keeps: keeps, compacts: compacts}
	r.grows(tp, partitions)
	r.topics = append(r.topics, tp)
	return tp
}

// grows notes that a topic has so many partitions.
func (r *run) grows(tp *topic, partitions int) {
	tp.most = max(tp.most, partitions)
	for n := len(tp.parts); n < partitions; n++ {
		r.streams++
		p := &part{topic: tp, n: int32(n), stream: r.streams, p: history.New(r.streams, tp.class)}
		p.tail = p.p.Tail(0)
		tp.keeps.tell(p.p)
		tp.compacts.tell(p.p)
		tp.parts = append(tp.parts, p)
	}
}

// alive are the topics of which everything is expected.
func (r *run) alive() []*topic {
	list := r.scratch[:0]
	for _, tp := range r.topics {
		if !tp.going {
			list = append(list, tp)
		}
	}
	r.scratch = list
	return list
}

// anyPart is a partition of a topic that is alive, or nil.
func (r *run) anyPart() *part {
	list := r.alive()
	if len(list) == 0 {
		return nil
	}
	tp := list[r.rng.IntN(len(list))]
	return tp.parts[r.rng.IntN(len(tp.parts))]
}

// check reports what histories show.
func (r *run) check() {
	for _, tp := range r.alive() {
		for _, p := range tp.parts {
			if v := p.p.Violations(); len(v) > p.shown {
				p.shown = len(v)
				r.failf("%v (%v): %v", p, tp.class, v[p.shown-1])
			}
		}
	}
}

// saw notes what an answer told of a partition, to a request made when its log was known to
// start at least.
func (r *run) saw(p *part, least, logStart, durable, end int64) {
	if logStart > durable || durable > end {
		r.failf("%v: log start %d, durable %d, end %d are not in order", p, logStart, durable, end)
	}
	r.startsAt(p, least, logStart)
}
