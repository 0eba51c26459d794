package kafka

import "github.com/twmb/franz-go/pkg/kmsg"

// FindCoordinator, key 10, versions 0 to 4.
//
// The one broker that there is coordinates every group. A key of another kind, as of a
// transaction or of a share group, is answered with INVALID_REQUEST.
//
//	v1  kind of the key, message
//	v4  many keys in one request

// coordinatorOfGroup is the kind of a key that names a group.
const coordinatorOfGroup = 0

// coordinatorEstimate is the size, in bytes, by which one in an answer is estimated,
// without its key.
const coordinatorEstimate = 64

func (p *peer) findCoordinator(h *header) {
	var q kmsg.FindCoordinatorRequest
	if !p.decode(h, &q) {
		return
	}
	a := kmsg.NewPtrFindCoordinatorResponse()
	a.SetVersion(h.version)
	code, message, id, host, port := int16(codeNone), "", nodeID, p.srv.host, p.srv.port
	if q.CoordinatorType != coordinatorOfGroup {
		p.srv.count.add(Failures)
		code, message, id, host, port = codeInvalidRequest, "this broker coordinates consumer groups only", -1, "", -1
	}
	a.ErrorCode, a.NodeID, a.Host, a.Port = code, id, host, port
	if message != "" {
		a.ErrorMessage = &message
	}
	for _, key := range q.CoordinatorKeys {
		c := kmsg.NewFindCoordinatorResponseCoordinator()
		c.Key, c.ErrorCode, c.ErrorMessage, c.NodeID, c.Host, c.Port = key, code, a.ErrorMessage, id, host, port
		a.Coordinators = append(a.Coordinators, c)
	}
	p.began(0, 0)
	p.alone = true
	p.answer(h.correlation, len(q.CoordinatorKeys)*coordinatorEstimate+len(h.body), func() kmsg.Response { return a })
}
