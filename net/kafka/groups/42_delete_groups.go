package groups

import (
	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/broker/group"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DeleteGroups, key 42, versions 0 to 2.
//
// A group goes with what it has committed, unless it has members, of either protocol.

// deletion is one group of a request.
type deletion struct {
	b        broker.Group
	answered func()
}

func (d *Door) deleteGroups(q *Request) error {
	var r kmsg.DeleteGroupsRequest
	if err := q.decode(&r); err != nil {
		return err
	}
	if len(r.Groups) > maxGroups {
		return ErrTooMany
	}
	all := make([]deletion, len(r.Groups))
	for i := range all {
		all[i].b.Owner, all[i].b.Kind, all[i].b.Name = &all[i], broker.GroupDelete, []byte(r.Groups[i])
	}
	q.Peer.Each(len(all), func(i int, answered func()) {
		all[i].answered = answered
		d.Broker.Group(&all[i].b)
	}, func() {
		a := kmsg.NewPtrDeleteGroupsResponse()
		a.SetVersion(q.Version)
		size, failures := estimate, 0
		for i := range all {
			g := kmsg.NewDeleteGroupsResponseGroup()
			g.Group, g.ErrorCode = r.Groups[i], adminOutcome(&all[i].b)
			if g.ErrorCode != codeNone {
				failures++
			}
			size += estimate + len(g.Group)
			a.Groups = append(a.Groups, g)
		}
		q.Peer.Answer(size, failures, func() kmsg.Response { return a })
	})
	return nil
}

// GroupDone implements broker.GroupOwner.
func (g *deletion) GroupDone(*broker.Group) { g.answered() }

// adminOutcome is the code of a change of a group that has to be there.
func adminOutcome(r *broker.Group) int16 {
	switch {
	case r.Code != broker.OK:
	case r.Outcome == group.Unknown && !group.CheckName(r.Name):
		return codeInvalidGroup
	case r.Outcome == group.Unknown:
		return codeGroupNotFound
	case r.Outcome == group.Active:
		return codeNonEmptyGroup
	}
	return outcome(r)
}
