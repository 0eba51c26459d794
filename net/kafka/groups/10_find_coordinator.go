package groups

import "github.com/twmb/franz-go/pkg/kmsg"

// FindCoordinator, key 10, versions 0 to 4.
//
// The one broker that there is coordinates every group. A key of another kind, as of a
// transaction or of a share group, is answered with INVALID_REQUEST.
//
//	v1  kind of the key, message
//	v4  many keys in one request

// The kinds of keys: names of groups, and ids of transactional producers.
const (
	coordinatorOfGroup       = 0
	coordinatorOfTransaction = 1
)

func (d *Door) findCoordinator(q *Request) error {
	var r kmsg.FindCoordinatorRequest
	asked := len(q.Body)
	if err := q.decode(&r); err != nil {
		return err
	}
	a := kmsg.NewPtrFindCoordinatorResponse()
	a.SetVersion(q.Version)
	code, message, id, host, port, failures := int16(codeNone), "", d.Node, d.Host, d.Port, 0
	switch r.CoordinatorType {
	case coordinatorOfGroup:
	case coordinatorOfTransaction:
		code, message, id, host, port, failures = codeInvalidRequest, "this broker has no transactions", -1, "", -1, 1
	default:
		code, message, id, host, port, failures = codeInvalidRequest, "this broker coordinates consumer groups only", -1, "", -1, 1
	}
	a.ErrorCode, a.NodeID, a.Host, a.Port = code, id, host, port
	if message != "" {
		a.ErrorMessage = &message
	}
	for _, key := range r.CoordinatorKeys {
		c := kmsg.NewFindCoordinatorResponseCoordinator()
		c.Key, c.ErrorCode, c.ErrorMessage, c.NodeID, c.Host, c.Port = key, code, a.ErrorMessage, id, host, port
		a.Coordinators = append(a.Coordinators, c)
	}
	q.Peer.Answer((1+len(r.CoordinatorKeys))*(estimate+len(host)+len(message))+asked, failures, func() kmsg.Response { return a })
	return nil
}
