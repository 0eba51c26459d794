package groups

import (
	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/broker/classic"
	"github.com/mqd-broker/mqd/broker/group"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// OffsetCommit, key 8, versions 2 to 8.
//
// It is answered when the offsets are durable. A consumer that is no member, generation
// -1, may commit while the group has no members. Members may while others join, and not
// between that and the leader's assignment. How long an offset is kept is the broker's
// setting, whatever versions 2 to 4 ask for.
//
//	v5  no time to keep the offsets for
//	v6  leader epoch of the record read last
//	v7  instance

// commitRequest is a request in flight.
type commitRequest struct {
	b  broker.Group
	q  *Request
	d  *Door
	a  *kmsg.OffsetCommitResponse
	at []*kmsg.OffsetCommitResponseTopicPartition // of the entries
}

func (d *Door) offsetCommit(q *Request) error {
	var r kmsg.OffsetCommitRequest
	if err := q.decode(&r); err != nil {
		return err
	}
	c := &commitRequest{q: q, d: d, a: kmsg.NewPtrOffsetCommitResponse()}
	c.a.SetVersion(q.Version)
	c.b.Owner, c.b.Name = c, []byte(r.Group)
	c.fill(&r)
	name, ok := instance(r.InstanceID)
	switch {
	case !ok:
		c.refuse(codeInvalidRequest)
	case len(c.at) == 0:
		c.answer()
	default:
		c.b.Kind = broker.GroupClassic
		c.b.Call = classic.Call{Kind: classic.Commit, Member: r.MemberID, Instance: name, Generation: r.Generation}
		d.Broker.Group(&c.b)
	}
	return nil
}

// fill makes the answer's partitions, and the entries that fill them.
func (c *commitRequest) fill(r *kmsg.OffsetCommitRequest) {
	image := c.d.Broker.Image()
	for i := range r.Topics {
		asked := &r.Topics[i]
		t := kmsg.NewOffsetCommitResponseTopic()
		t.Topic, t.Partitions = asked.Topic, make([]kmsg.OffsetCommitResponseTopicPartition, len(asked.Partitions))
		known := image.ByName(asked.Topic)
		for k := range t.Partitions {
			p, at := &asked.Partitions[k], &t.Partitions[k]
			at.Default()
			at.Partition = p.Partition
			switch {
			case known == nil || known.Internal() || p.Partition < 0 || uint32(p.Partition) >= known.Partitions:
				at.ErrorCode = codeUnknownTopic
				continue
			case p.Offset < 0:
				at.ErrorCode = codeInvalidRequest
				continue
			}
			e := group.Entry{Partition: group.Partition{Topic: known.ID, Number: p.Partition}, Next: p.Offset, Epoch: max(-1, p.LeaderEpoch)}
			if c.q.Version < 6 {
				e.Epoch = -1
			}
			if p.Metadata != nil {
				e.Metadata = []byte(*p.Metadata)
			}
			c.b.Entries = append(c.b.Entries, e)
			c.at = append(c.at, at)
		}
		c.a.Topics = append(c.a.Topics, t)
	}
}

// refuse answers every partition with a code.
func (c *commitRequest) refuse(code int16) {
	for i := range c.a.Topics {
		for k := range c.a.Topics[i].Partitions {
			c.a.Topics[i].Partitions[k].ErrorCode = code
		}
	}
	c.answer()
}

// GroupDone notes the outcomes.
func (c *commitRequest) GroupDone(r *broker.Group) {
	if code := callCode(r); code != codeNone {
		c.refuse(code)
		return
	}
	image := c.d.Broker.Image()
	for i, at := range c.at {
		e := &r.Entries[i]
		switch e.Code {
		case group.OK, group.Raised:
		case group.Limit:
			at.ErrorCode = codeNotAvailable
		case group.Invalid: // of what can be wrong with it two things have been looked at before
			at.ErrorCode = codeMetadataTooLarge
			if t := image.ByID(e.Topic); t == nil || uint32(e.Number) >= t.Partitions {
				at.ErrorCode = codeUnknownTopic
			}
		default:
			at.ErrorCode = codeUnknown
		}
	}
	c.answer()
}

func (c *commitRequest) answer() {
	size, failures := estimate, 0
	for i := range c.a.Topics {
		t := &c.a.Topics[i]
		size += estimate + len(t.Topic) + len(t.Partitions)*8
		for k := range t.Partitions {
			if t.Partitions[k].ErrorCode != codeNone {
				failures++
			}
		}
	}
	c.q.Peer.Answer(size, failures, func() kmsg.Response { return c.a })
}
