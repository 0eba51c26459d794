package images

import (
	"fmt"

	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/net/wire"
	"github.com/mqd-broker/mqd/test/history"
)

// ledger is all that has happened to the clients of a node, in order. What was known
// at a moment is the events up to a number.
type ledger struct {
	topics []*topic
	events []event
}

// topic is what does not change of a topic.
type topic struct {
	name  string
	id    wire.TopicID
	class history.Class // in the beginning
	keyed bool          // it is compacted
	parts []*part
}

// part is a partition: number n of its topic, with what its messages carry.
type part struct {
	topic  *topic
	n      int32
	stream uint32
	sent   uint32
}

// meaning gives the messages of a compacted topic few keys, and some none.
func (t *topic) meaning(m history.Message) history.Meaning {
	if !t.keyed {
		return history.Meaning{}
	}
	return history.Meaning{Key: m.Seq * 7 % 11 % 6}
}

func (p *part) String() string { return fmt.Sprintf("%s/%d", p.topic.name, p.n) }

func (p *part) key() layout.Key {
	return layout.Key{Topic: layout.TopicID(p.topic.id), Partition: uint32(p.n)}
}

type eventKind uint8

const (
	evCreating eventKind = iota // a topic was asked for; it has no id yet
	evCreated
	evSent
	evAcked
	evRefused
	evUnknown
	evAltering // another class was asked for
	evAltered
	evDeleting
	evDeleted
	evEnded // a life
	evRead  // a partition was read whole
)

type event struct {
	kind   eventKind
	topic  *topic
	part   *part
	m      history.Message
	offset int64
	class  history.Class
	end    func(*history.Partition)
	read   *reading
}

func (l *ledger) add(e event) { l.events = append(l.events, e) }

// facts are what was known at a moment.
type facts struct {
	asked  map[string]bool // names of topics that may come into being
	topics map[wire.TopicID]*topicFacts
}

type topicFacts struct {
	*topic
	class   history.Class
	certain bool // that it has this class
	going   bool // deletion was asked for
	gone    bool // and is done
	parts   []*history.Partition
}

// at are the facts after the first n events.
func (l *ledger) at(n int) *facts {
	f := &facts{asked: map[string]bool{}, topics: map[wire.TopicID]*topicFacts{}}
	for i := range l.events[:n] {
		f.apply(&l.events[i])
	}
	return f
}

func (f *facts) apply(e *event) {
	var tp *topicFacts
	if e.topic != nil {
		tp = f.topics[e.topic.id]
	}
	switch e.kind {
	case evCreating:
		f.asked[e.topic.name] = true
	case evCreated:
		delete(f.asked, e.topic.name)
		tp = &topicFacts{topic: e.topic, class: e.class, certain: true}
		for _, p := range e.topic.parts {
			h := history.New(p.stream, e.class)
			if e.topic.keyed {
				h.Keyed(e.topic.meaning)
				h.MayCompact(0, 0)
			}
			tp.parts = append(tp.parts, h)
		}
		f.topics[e.topic.id] = tp
	case evAltering:
		tp.certain = false
		tp.setClass(min(tp.class, e.class))
	case evAltered:
		tp.certain = true
		tp.setClass(e.class)
	case evDeleting:
		tp.going = true
	case evDeleted:
		tp.gone = true
	case evEnded:
		f.each(e.end)
	default:
		f.message(f.topics[e.part.topic.id].parts[e.part.n], e)
	}
}

func (f *facts) message(p *history.Partition, e *event) {
	switch e.kind {
	case evSent:
		p.Sent(e.m)
	case evAcked:
		p.AckedAs(e.m, e.offset, e.class)
	case evRefused:
		p.Refused(e.m)
	case evUnknown:
		p.Unknown(e.m)
	case evRead:
		e.read.into(p)
	}
}

func (t *topicFacts) setClass(c history.Class) {
	t.class = c
	for _, p := range t.parts {
		p.SetClass(c)
	}
}

func (f *facts) each(do func(*history.Partition)) {
	for _, tp := range f.topics {
		for _, p := range tp.parts {
			do(p)
		}
	}
}
