package groups

import (
	"github.com/mqd-broker/mqd/broker/classic"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Heartbeat, key 12, versions 0 to 4.
//
// REBALANCE_IN_PROGRESS has the member join again.
//
//	v3  instance

func (d *Door) heartbeat(q *Request) error {
	var r kmsg.HeartbeatRequest
	if err := q.decode(&r); err != nil {
		return err
	}
	name, ok := instance(r.InstanceID)
	beaten := func(_ *classic.Call, code int16) (int, kmsg.Response) {
		a := kmsg.NewPtrHeartbeatResponse()
		a.SetVersion(q.Version)
		a.ErrorCode = code
		return estimate, a
	}
	if !ok {
		q.refuse(beaten(nil, codeInvalidRequest))
		return nil
	}
	d.call(q, r.Group, classic.Call{Kind: classic.Heartbeat, Member: r.MemberID, Instance: name, Generation: r.Generation}, beaten)
	return nil
}
