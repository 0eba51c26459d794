package groups

import (
	"cmp"
	"slices"

	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/broker/group"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// OffsetFetch, key 9, versions 1 to 8.
//
// A partition of which nothing is committed, or that there is none of, has offset -1 and
// no error. There are no transactions, so that every offset is stable.
//
//	v2  code of the whole answer; topics of null ask for all
//	v5  leader epoch
//	v7  only stable offsets
//	v8  many groups in one request

// offsetsRequest is a request in flight.
type offsetsRequest struct {
	q      *Request
	d      *Door
	groups []offsetsOf
}

// offsetsOf is one group of it.
type offsetsOf struct {
	b        broker.Group
	of       *offsetsRequest
	all      bool // of its offsets are asked for
	topics   []offsetsTopic
	code     int16
	answered func()
}

// offsetsTopic is a topic of the answer.
type offsetsTopic struct {
	name  string
	parts []offsetsPart
}

// offsetsPart is a partition of the answer.
type offsetsPart struct {
	number   int32
	offset   int64
	epoch    int32
	metadata []byte
	entry    int // of the broker's request, -1 for none
}

func (d *Door) offsetFetch(q *Request) error {
	var r kmsg.OffsetFetchRequest
	if err := q.decode(&r); err != nil {
		return err
	}
	if len(r.Groups) > maxGroups {
		return ErrTooMany
	}
	if q.Version < 8 {
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group = r.Group
		if r.Topics != nil {
			g.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
		}
		for _, t := range r.Topics {
			g.Topics = append(g.Topics, kmsg.OffsetFetchRequestGroupTopic{Topic: t.Topic, Partitions: t.Partitions})
		}
		r.Groups = []kmsg.OffsetFetchRequestGroup{g}
	}
	o := &offsetsRequest{q: q, d: d, groups: make([]offsetsOf, len(r.Groups))}
	for i := range o.groups {
		g := &o.groups[i]
		g.of, g.b.Owner = o, g
		g.b.Kind, g.b.Name = broker.GroupOffsets, []byte(r.Groups[i].Group)
		g.all = r.Groups[i].Topics == nil && q.Version >= 2
		g.fill(&r.Groups[i])
	}
	q.Peer.Each(len(o.groups), o.ask, o.answer)
	return nil
}

// fill makes the answer's partitions, and the entries that fill them.
func (g *offsetsOf) fill(r *kmsg.OffsetFetchRequestGroup) {
	image := g.of.d.Broker.Image()
	for _, asked := range r.Topics {
		t := offsetsTopic{name: asked.Topic, parts: make([]offsetsPart, len(asked.Partitions))}
		known := image.ByName(asked.Topic)
		for k, number := range asked.Partitions {
			t.parts[k] = offsetsPart{number: number, offset: -1, epoch: -1, entry: -1}
			if known == nil || known.Internal() || number < 0 || uint32(number) >= known.Partitions {
				continue
			}
			t.parts[k].entry = len(g.b.Entries)
			g.b.Entries = append(g.b.Entries, group.Entry{Partition: group.Partition{Topic: known.ID, Number: number}})
		}
		g.topics = append(g.topics, t)
	}
}

func (o *offsetsRequest) ask(i int, answered func()) {
	g := &o.groups[i]
	if g.answered = answered; !g.all && len(g.b.Entries) == 0 {
		answered() // without entries the broker would tell of all partitions
		return
	}
	o.d.Broker.Group(&g.b)
}

// GroupDone notes what is committed.
func (g *offsetsOf) GroupDone(r *broker.Group) {
	g.code = outcome(r)
	switch {
	case g.code != codeNone || r.Outcome == group.Unknown:
	case g.all:
		g.list(r.Description.Offsets)
	default:
		for i := range g.topics {
			for k := range g.topics[i].parts {
				p := &g.topics[i].parts[k]
				if p.entry >= 0 && r.Entries[p.entry].Committed >= 0 {
					e := &r.Entries[p.entry]
					p.offset, p.epoch, p.metadata = e.Committed, e.Epoch, e.Metadata
				}
			}
		}
	}
	g.answered()
}

// list makes the answer of all offsets, which are by topic and partition.
func (g *offsetsOf) list(all []group.Offset) {
	image := g.of.d.Broker.Image()
	for len(all) > 0 {
		id := all[0].Topic
		n := slices.IndexFunc(all, func(o group.Offset) bool { return o.Topic != id })
		if n < 0 {
			n = len(all)
		}
		if known := image.ByID(catalog.TopicID(id)); known != nil {
			t := offsetsTopic{name: known.Name, parts: make([]offsetsPart, n)}
			for i := range t.parts {
				o := &all[i]
				t.parts[i] = offsetsPart{number: o.Number, offset: o.Next, epoch: o.Epoch, metadata: o.Metadata}
			}
			g.topics = append(g.topics, t)
		}
		all = all[n:]
	}
	slices.SortFunc(g.topics, func(a, b offsetsTopic) int { return cmp.Compare(a.name, b.name) })
}

func (o *offsetsRequest) answer() {
	size, failures := estimate, 0
	for i := range o.groups {
		g := &o.groups[i]
		size += estimate + len(g.b.Name)
		if g.code != codeNone {
			failures++
		}
		for k := range g.topics {
			size += estimate + len(g.topics[k].name) + len(g.topics[k].parts)*24
			for _, p := range g.topics[k].parts {
				size += len(p.metadata)
			}
		}
	}
	o.q.Peer.Answer(size, failures, o.encode)
}

func (o *offsetsRequest) encode() kmsg.Response {
	a := kmsg.NewPtrOffsetFetchResponse()
	a.SetVersion(o.q.Version)
	for i := range o.groups {
		g := &o.groups[i]
		at := kmsg.NewOffsetFetchResponseGroup()
		at.Group, at.ErrorCode = string(g.b.Name), g.code
		for _, t := range g.topics {
			topic := kmsg.NewOffsetFetchResponseGroupTopic()
			topic.Topic = t.name
			for _, p := range t.parts {
				part := kmsg.NewOffsetFetchResponseGroupTopicPartition()
				part.Partition, part.Offset, part.LeaderEpoch, part.ErrorCode = p.number, p.offset, p.epoch, 0
				metadata := string(p.metadata)
				part.Metadata = &metadata
				topic.Partitions = append(topic.Partitions, part)
			}
			at.Topics = append(at.Topics, topic)
		}
		a.Groups = append(a.Groups, at)
	}
	if o.q.Version < 8 {
		flatten(a)
	}
	return a
}

// flatten moves the one group to where versions before 8 have it. Version 1 has a code in
// each partition alone.
func flatten(a *kmsg.OffsetFetchResponse) {
	g := &a.Groups[0]
	a.ErrorCode = g.ErrorCode
	for _, t := range g.Topics {
		topic := kmsg.NewOffsetFetchResponseTopic()
		topic.Topic = t.Topic
		for _, p := range t.Partitions {
			part := kmsg.NewOffsetFetchResponseTopicPartition()
			part.Partition, part.Offset, part.LeaderEpoch, part.Metadata, part.ErrorCode = p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, g.ErrorCode
			topic.Partitions = append(topic.Partitions, part)
		}
		a.Topics = append(a.Topics, topic)
	}
	a.Groups = nil
}
