package groups

import (
	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/broker/group"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// OffsetDelete, key 47, version 0.
//
// Of a group with members that are consumers, no topic is deleted that one of them
// subscribes to; of one with other Kafka clients, or whose members do not say in a known way
// what they read, none; of one with members of mqd's own protocol, no partition that one of
// them reads. Each is answered with GROUP_SUBSCRIBED_TO_TOPIC.

// forgetRequest is a request in flight.
type forgetRequest struct {
	b  broker.Group
	q  *Request
	a  *kmsg.OffsetDeleteResponse
	at []*kmsg.OffsetDeleteResponseTopicPartition // of the entries
}

func (d *Door) offsetDelete(q *Request) error {
	var r kmsg.OffsetDeleteRequest
	if err := q.decode(&r); err != nil {
		return err
	}
	f := &forgetRequest{q: q, a: kmsg.NewPtrOffsetDeleteResponse()}
	f.a.SetVersion(q.Version)
	f.b.Owner, f.b.Kind, f.b.Name = f, broker.GroupForget, []byte(r.Group)
	image := d.Broker.Image()
	for i := range r.Topics {
		t := kmsg.NewOffsetDeleteResponseTopic()
		t.Topic, t.Partitions = r.Topics[i].Topic, make([]kmsg.OffsetDeleteResponseTopicPartition, len(r.Topics[i].Partitions))
		known := image.ByName(t.Topic)
		for k := range t.Partitions {
			at := &t.Partitions[k]
			at.Default()
			at.Partition = r.Topics[i].Partitions[k].Partition
			if known == nil || known.Internal() || at.Partition < 0 || uint32(at.Partition) >= known.Partitions {
				at.ErrorCode = codeUnknownTopic
				continue
			}
			f.b.Entries = append(f.b.Entries, group.Entry{Partition: group.Partition{Topic: known.ID, Number: at.Partition}})
			f.at = append(f.at, at)
		}
		f.a.Topics = append(f.a.Topics, t)
	}
	d.Broker.Group(&f.b)
	return nil
}

// GroupDone answers the request.
func (f *forgetRequest) GroupDone(r *broker.Group) {
	failures := 0
	if f.a.ErrorCode = adminOutcome(r); f.a.ErrorCode != codeNone {
		f.a.Topics, failures = nil, 1
	}
	size := estimate
	for i := range f.a.Topics {
		size += estimate + len(f.a.Topics[i].Topic) + 8*len(f.a.Topics[i].Partitions)
	}
	for i, at := range f.at {
		if r.Entries[i].Code == group.Active {
			at.ErrorCode = codeSubscribed
			failures++
		}
	}
	f.q.Peer.Answer(size, failures, func() kmsg.Response { return f.a })
}
