package groups

import (
	"github.com/mqd-broker/mqd/broker/classic"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// SyncGroup, key 14, versions 0 to 5.
//
// The answer waits for the leader's request, which brings what each member is assigned.
//
//	v3  instance
//	v5  kind and protocol of the group, which have to be those of the generation

func (d *Door) syncGroup(q *Request) error {
	var r kmsg.SyncGroupRequest
	if err := q.decode(&r); err != nil {
		return err
	}
	name, ok := instance(r.InstanceID)
	k := classic.Call{Kind: classic.Sync, Member: r.MemberID, Instance: name, Generation: r.Generation}
	if r.ProtocolType != nil {
		k.Type = *r.ProtocolType
	}
	if r.Protocol != nil {
		k.Protocol = *r.Protocol
	}
	for i := range r.GroupAssignment {
		k.Assigned = append(k.Assigned, classic.Assigned{Member: r.GroupAssignment[i].MemberID, Data: r.GroupAssignment[i].MemberAssignment})
	}
	synced := func(k *classic.Call, code int16) (int, kmsg.Response) {
		a := kmsg.NewPtrSyncGroupResponse()
		a.SetVersion(q.Version)
		a.ErrorCode = code
		if code == codeNone {
			a.ProtocolType, a.Protocol, a.MemberAssignment = &k.Type, &k.Protocol, k.Data
		}
		return 2*estimate + len(k.Type) + len(k.Protocol) + len(k.Data), a
	}
	if !ok {
		q.refuse(synced(&k, codeInvalidRequest))
		return nil
	}
	d.call(q, r.Group, k, synced)
	return nil
}
