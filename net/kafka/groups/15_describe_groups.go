package groups

import (
	"encoding/hex"

	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/broker/classic"
	"github.com/mqd-broker/mqd/broker/group"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeGroups, key 15, versions 0 to 5.
//
// A group that is not there is Dead, without an error. One with members of mqd's own
// protocol has the protocol type mqd, and tells nothing of what they read.
//
//	v3  operations that the client may do, which are not known
//	v4  instances

// ownType is the kind of a group with members of mqd's own protocol.
const ownType = "mqd"

// States of groups, as Kafka calls them.
const (
	stateEmpty = "Empty"
	stateDead  = "Dead"
)

// stages maps the stages of a group to Kafka's names, by number.
var stages = [...]string{
	classic.Empty:      stateEmpty,
	classic.Preparing:  "PreparingRebalance",
	classic.Completing: "CompletingRebalance",
	classic.Stable:     "Stable",
}

// describeRequest is a request in flight.
type describeRequest struct {
	q      *Request
	d      *Door
	groups []described
}

// described is one group of it.
type described struct {
	b        broker.Group
	answered func()
}

func (d *Door) describeGroups(q *Request) error {
	var r kmsg.DescribeGroupsRequest
	if err := q.decode(&r); err != nil {
		return err
	}
	if len(r.Groups) > maxGroups {
		return ErrTooMany
	}
	w := &describeRequest{q: q, d: d, groups: make([]described, len(r.Groups))}
	for i := range w.groups {
		g := &w.groups[i]
		g.b.Owner, g.b.Kind, g.b.Name = g, broker.GroupDescribe, []byte(r.Groups[i])
	}
	q.Peer.Each(len(w.groups), func(i int, answered func()) {
		w.groups[i].answered = answered
		d.Broker.Group(&w.groups[i].b)
	}, w.answer)
	return nil
}

// GroupDone implements broker.GroupOwner. Offsets are not asked for here.
func (g *described) GroupDone(r *broker.Group) {
	r.Description.Offsets = nil
	g.answered()
}

func (w *describeRequest) answer() {
	size, failures := estimate, 0
	for i := range w.groups {
		r := &w.groups[i].b
		size += 3*estimate + len(r.Name)
		if outcome(r) != codeNone {
			failures++
		}
		for _, m := range r.Description.Members {
			size += 3*estimate + len(m.Client) + len(m.Instance)
		}
		for _, m := range r.Classic.Members {
			size += 3*estimate + len(m.ID) + len(m.Client) + len(m.Host) + len(m.Instance) + len(m.Said) + len(m.Assigned)
		}
		size += len(r.Classic.Type) + len(r.Classic.Protocol)
	}
	w.q.Peer.Answer(size, failures, w.encode)
}

func (w *describeRequest) encode() kmsg.Response {
	a := kmsg.NewPtrDescribeGroupsResponse()
	a.SetVersion(w.q.Version)
	for i := range w.groups {
		r := &w.groups[i].b
		g := kmsg.NewDescribeGroupsResponseGroup()
		g.Group, g.ErrorCode, g.State = string(r.Name), outcome(r), stateDead
		if g.ErrorCode == codeNone && r.Outcome != group.Unknown {
			describe(&g, r)
		}
		a.Groups = append(a.Groups, g)
	}
	return a
}

// describe fills in a group that is there.
func describe(g *kmsg.DescribeGroupsResponseGroup, r *broker.Group) {
	g.State = stateEmpty
	switch {
	case len(r.Classic.Members) > 0:
		g.State, g.ProtocolType, g.Protocol = stages[r.Classic.Stage], r.Classic.Type, r.Classic.Protocol
		if r.Classic.Stage != classic.Stable {
			g.Protocol = ""
		}
		for _, m := range r.Classic.Members {
			g.Members = append(g.Members, describedMember(m.ID, m.Instance, m.Client, m.Host, m.Said, m.Assigned))
		}
	case len(r.Description.Members) > 0:
		g.State, g.ProtocolType = stages[classic.Stable], ownType
		for _, m := range r.Description.Members {
			g.Members = append(g.Members, describedMember(hex.EncodeToString(m.ID[:]), m.Instance, m.Client, "", nil, nil))
		}
	}
}

func describedMember(id, instance, client, host string, said, assigned []byte) kmsg.DescribeGroupsResponseGroupMember {
	m := kmsg.NewDescribeGroupsResponseGroupMember()
	m.MemberID, m.ClientID, m.ClientHost, m.ProtocolMetadata, m.MemberAssignment = id, client, host, said, assigned
	if instance != "" {
		m.InstanceID = &instance
	}
	return m
}
