package groups

import (
	"github.com/mqd-broker/mqd/broker/classic"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// LeaveGroup, key 13, versions 0 to 5.
//
//	v3  many members, also by their instances, with a code for each
//	v5  reason, which nobody looks at

func (d *Door) leaveGroup(q *Request) error {
	var r kmsg.LeaveGroupRequest
	if err := q.decode(&r); err != nil {
		return err
	}
	if q.Version < 3 {
		r.Members = []kmsg.LeaveGroupRequestMember{{MemberID: r.MemberID}}
	}
	k := classic.Call{Kind: classic.Leave, Leaving: make([]classic.Leaver, len(r.Members))}
	for i := range r.Members {
		k.Leaving[i].Member = r.Members[i].MemberID
		if name := r.Members[i].InstanceID; name != nil {
			k.Leaving[i].Instance = *name // one that nobody can have is nobody's
		}
	}
	d.call(q, r.Group, k, func(k *classic.Call, code int16) (int, kmsg.Response) { return encodeLeave(q, &r, k, code) })
	return nil
}

func encodeLeave(q *Request, r *kmsg.LeaveGroupRequest, k *classic.Call, code int16) (int, kmsg.Response) {
	a := kmsg.NewPtrLeaveGroupResponse()
	a.SetVersion(q.Version)
	a.ErrorCode = code
	size := estimate
	for i := range r.Members {
		m := kmsg.NewLeaveGroupResponseMember()
		m.MemberID, m.InstanceID, m.ErrorCode = r.Members[i].MemberID, r.Members[i].InstanceID, code
		if code == codeNone {
			m.ErrorCode = callCodes[k.Leaving[i].Code]
		}
		size += estimate + len(m.MemberID) + len(k.Leaving[i].Instance)
		a.Members = append(a.Members, m)
	}
	if q.Version < 3 {
		a.ErrorCode, a.Members = a.Members[0].ErrorCode, nil
	}
	return size, a
}
