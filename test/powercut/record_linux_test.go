package powercut

import (
	"fmt"
	"sync"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/test/history"
)

var classes = map[history.Class]client.Class{
	history.Memory: client.ClassMemory, history.Written: client.ClassWritten, history.Flushed: client.ClassFlushed,
}

// topic is a topic of a load.
type topic struct {
	name    string
	class   history.Class
	streams []uint32 // by partition
	keyed   bool     // it is compacted
}

// meaning gives the messages of a compacted topic few keys, and some none.
func (tp *topic) meaning(m history.Message) history.Meaning {
	if !tp.keyed {
		return history.Meaning{}
	}
	return history.Meaning{Key: (m.Seq*2654435761 ^ m.Producer) >> 8 % 50}
}

// key is that of a message, nil for none.
func (tp *topic) key(m history.Message) []byte {
	if k := tp.meaning(m).Key; k > 0 {
		return []byte{byte(k)}
	}
	return nil
}

// happening is what a client did or heard.
type happening uint8

const (
	creating happening = iota // asked for
	created
	deleting
	deleted
	sent
	acked
	refused
	unknown
)

// event is one happening.
type event struct {
	what      happening
	topic     int
	partition int32
	m         history.Message
	offset    int64
}

// record is what all clients of a load did and heard, in one order. Whoever sends
// tells before, whoever hears tells after; so at any moment it has everything that
// can be on the disk, and nothing as acknowledged that was not.
type record struct {
	mu        sync.Mutex
	topics    []*topic
	events    []event
	streams   uint32
	producers uint32
	problems  []string
}

// note adds an event.
func (r *record) note(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// problem notes what no run explains.
func (r *record) problem(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	const most = 20
	if len(r.problems) < most {
		r.problems = append(r.problems, fmt.Sprintf(format, args...))
	}
}

// mark is the number of events so far.
func (r *record) mark() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.events)
}

// newTopic notes that a topic is asked for.
func (r *record) newTopic(name string, class history.Class, partitions int, keyed bool) (int, *topic) {
	r.mu.Lock()
	defer r.mu.Unlock()
	tp := &topic{name: name, class: class, keyed: keyed}
	for range partitions {
		r.streams++
		tp.streams = append(tp.streams, r.streams)
	}
	r.topics = append(r.topics, tp)
	r.events = append(r.events, event{what: creating, topic: len(r.topics) - 1})
	return len(r.topics) - 1, tp
}

// newProducer is a number of its own.
func (r *record) newProducer() uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.producers++
	return r.producers
}

// presence is whether a topic has to be there.
type presence uint8

const (
	perhaps presence = iota
	present
	absent
)

// expected is a topic as an image may have it.
type expected struct {
	*topic
	presence presence
	parts    []*part
}

// part is a partition's history, and the messages in it without an outcome.
type part struct {
	*history.Partition
	open map[history.Message]bool
	next map[uint32]uint32 // sequence by producer
}

func (p *part) sent(m history.Message) {
	p.Sent(m)
	p.open[m] = true
}

func (p *part) settled(m history.Message, tell func()) {
	delete(p.open, m)
	tell()
}

// crashed ends a life in which nobody will hear any more.
func (p *part) crashed() {
	for m := range p.open {
		p.Unknown(m)
	}
	clear(p.open)
	p.Crashed()
}

// expect says what an image must and may have that was cut between two marks: what
// was heard before the first one is certain, what was done before the second
// possible. The life has not ended yet.
func (r *record) expect(before, after int) []*expected {
	r.mu.Lock()
	defer r.mu.Unlock()
	topics := make([]*expected, len(r.topics))
	for i, e := range r.events[:after] {
		if e.what == creating {
			topics[e.topic] = newExpected(r.topics[e.topic])
			continue
		}
		topics[e.topic].happened(e, i < before)
	}
	var all []*expected
	for _, x := range topics {
		if x != nil {
			all = append(all, x)
		}
	}
	return all
}

func newExpected(tp *topic) *expected {
	// A power cut may take of written what a killed process may take of memory.
	class := tp.class
	if class == history.Written {
		class = history.Memory
	}
	x := &expected{topic: tp}
	for _, s := range tp.streams {
		h := history.New(s, class)
		if tp.keyed {
			h.Keyed(tp.meaning)
			h.MayCompact(0, 0)
		}
		x.parts = append(x.parts, &part{
			Partition: h, open: map[history.Message]bool{}, next: map[uint32]uint32{},
		})
	}
	return x
}

// happened tells of an event after the creation.
func (x *expected) happened(e event, certain bool) {
	p := x.parts[e.partition]
	switch e.what {
	case deleting:
		x.presence = perhaps
		return
	case sent:
		p.sent(e.m)
		return
	}
	if !certain {
		return
	}
	switch e.what {
	case created:
		x.presence = present
	case deleted:
		x.presence = absent
	case acked:
		p.settled(e.m, func() { p.Acked(e.m, e.offset) })
	case refused:
		p.settled(e.m, func() { p.Refused(e.m) })
	case unknown:
		p.settled(e.m, func() { p.Unknown(e.m) })
	}
}

// crashed ends a life of all topics.
func crashed(topics []*expected) {
	for _, x := range topics {
		for _, p := range x.parts {
			p.crashed()
		}
	}
}
