package groups

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/broker/classic"
	"github.com/mqd-broker/mqd/broker/group"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ListGroups, key 16, versions 0 to 4.
//
// Groups of both protocols, in order of name; one with members of mqd's own has the
// protocol type mqd, one without members none.
//
//	v4  state of each group, and only those in the states that are asked for

// listRequest is a request in flight.
type listRequest struct {
	b      broker.Group
	q      *Request
	states []string
}

func (d *Door) listGroups(q *Request) error {
	var r kmsg.ListGroupsRequest
	if err := q.decode(&r); err != nil {
		return err
	}
	l := &listRequest{q: q, states: r.StatesFilter}
	l.b.Owner, l.b.Kind = l, broker.GroupList
	d.Broker.Group(&l.b)
	return nil
}

// GroupDone answers the request.
func (l *listRequest) GroupDone(r *broker.Group) {
	size, failures := estimate, 0
	if outcome(r) != codeNone {
		failures++
	}
	for i := range r.Listed {
		size += 2*estimate + len(r.Listed[i].Name)
	}
	for i := range r.ListedClassic {
		size += len(r.ListedClassic[i].Type)
	}
	l.q.Peer.Answer(size, failures, l.encode)
}

func (l *listRequest) encode() kmsg.Response {
	a := kmsg.NewPtrListGroupsResponse()
	a.SetVersion(l.q.Version)
	if a.ErrorCode = outcome(&l.b); a.ErrorCode != codeNone {
		return a
	}
	members := map[string]*classic.Summary{}
	for i := range l.b.ListedClassic {
		members[l.b.ListedClassic[i].Name] = &l.b.ListedClassic[i]
	}
	for i := range l.b.Listed {
		known := &l.b.Listed[i]
		g := kmsg.NewListGroupsResponseGroup()
		g.Group, g.GroupState = known.Name, stateEmpty
		switch m := members[known.Name]; {
		case m != nil:
			g.ProtocolType, g.GroupState = m.Type, stages[m.Stage]
		case known.Members > 0 && known.Mode != group.ModeClassic:
			g.ProtocolType, g.GroupState = ownType, stages[classic.Stable]
		}
		if l.wants(g.GroupState) {
			a.Groups = append(a.Groups, g)
		}
	}
	slices.SortFunc(a.Groups, func(x, y kmsg.ListGroupsResponseGroup) int { return cmp.Compare(x.Group, y.Group) })
	return a
}

// wants reports whether groups in a state are asked for. Kafka takes the names of states
// in any case.
func (l *listRequest) wants(state string) bool {
	return len(l.states) == 0 || slices.ContainsFunc(l.states, func(s string) bool { return strings.EqualFold(s, state) })
}
