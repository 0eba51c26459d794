package groups

import (
	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/broker/classic"
	"github.com/mqd-broker/mqd/broker/group"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// JoinGroup, key 11, versions 0 to 9.
//
// The answer waits until all members have joined, or the rebalance timeout is over. A
// group that has members of mqd's own protocol, or a table of who reads what, answers
// INCONSISTENT_GROUP_PROTOCOL.
//
//	v1  rebalance timeout; before it is the session timeout
//	v4  a new member is told its id by MEMBER_ID_REQUIRED and joins again
//	v5  instance
//	v7  kind of the group in the answer, and no protocol in one that fails
//	v8  reason, which nobody looks at
//	v9  a leader may be told not to assign

// call is a call of a member in flight.
type call struct {
	b    broker.Group
	q    *Request
	done func(k *classic.Call, code int16) (size int, a kmsg.Response)
}

// call begins a call of a member.
func (d *Door) call(q *Request, name string, k classic.Call, done func(k *classic.Call, code int16) (int, kmsg.Response)) {
	if name == "" { // which nobody can be a member of
		q.refuse(done(&k, codeInvalidGroup))
		return
	}
	c := &call{q: q, done: done}
	c.b.Owner, c.b.Kind, c.b.Name, c.b.Call = c, broker.GroupClassic, []byte(name), k
	d.Broker.Group(&c.b)
}

// GroupDone answers the call.
func (c *call) GroupDone(r *broker.Group) {
	code := callCode(r)
	size, a := c.done(&r.Call, code)
	failures := 0
	if code != codeNone && code != codeMemberIDRequired && code != codeRebalancing {
		failures = 1
	}
	c.q.Peer.Answer(size, failures, func() kmsg.Response { return a })
}

// callCodes maps the codes of members' calls to Kafka's, by number.
var callCodes = [...]int16{
	classic.OK:                codeNone,
	classic.InvalidSession:    codeInvalidSession,
	classic.Inconsistent:      codeInconsistentProtocol,
	classic.UnknownMember:     codeUnknownMember,
	classic.IDRequired:        codeMemberIDRequired,
	classic.Fenced:            codeFencedInstance,
	classic.IllegalGeneration: codeIllegalGeneration,
	classic.Rebalancing:       codeRebalancing,
	classic.Full:              codeGroupFull,
	classic.Busy:              codeNotAvailable,
	classic.Closed:            codeNotCoordinator,
}

// callCode is the code of a call.
func callCode(r *broker.Group) int16 {
	switch {
	case r.Code != broker.OK:
		return failed(r.Code)
	case r.Outcome == group.WrongMode:
		return codeInconsistentProtocol
	case r.Outcome == group.Limit:
		return codeGroupFull
	case r.Outcome != group.OK:
		return outcome(r)
	case int(r.Call.Code) < len(callCodes):
		return callCodes[r.Call.Code]
	}
	return codeUnknown
}

// instance is the name of a static member; a name that none can have is not ok.
func instance(s *string) (name string, ok bool) {
	if s == nil || *s == "" {
		return "", true
	}
	return *s, len(*s) <= group.MaxInstance && group.CheckName(*s)
}

// maxClient is how much of the id that a client gives itself is kept, in bytes.
const maxClient = 64

// clientName is the id that a client gives itself, as it is kept.
func clientName(s string) string {
	b := []byte(s[:min(len(s), maxClient)])
	for i := range b {
		if b[i] < ' ' || b[i] >= 0x7f {
			b[i] = '?'
		}
	}
	return string(b)
}

func (d *Door) joinGroup(q *Request) error {
	var r kmsg.JoinGroupRequest
	if err := q.decode(&r); err != nil {
		return err
	}
	if q.Version < 1 {
		r.RebalanceTimeoutMillis = r.SessionTimeoutMillis
	}
	name, ok := instance(r.InstanceID)
	k := classic.Call{
		Kind: classic.Join, Member: r.MemberID, Instance: name, Type: r.ProtocolType,
		Client: clientName(q.Client), Host: q.Host, Twice: q.Version >= 4, Skips: q.Version >= 9,
		Session: int64(r.SessionTimeoutMillis) * 1e6, Rebalance: int64(r.RebalanceTimeoutMillis) * 1e6,
	}
	for i := range r.Protocols {
		k.Protocols = append(k.Protocols, classic.Protocol{Name: r.Protocols[i].Name, Data: r.Protocols[i].Metadata})
	}
	asked := r.MemberID
	joined := func(k *classic.Call, code int16) (int, kmsg.Response) { return encodeJoin(q, asked, k, code) }
	if !ok {
		q.refuse(joined(&k, codeInvalidRequest))
		return nil
	}
	d.call(q, r.Group, k, joined)
	return nil
}

// refuse answers a request that the broker was not asked about.
func (q *Request) refuse(size int, a kmsg.Response) {
	q.Peer.Answer(size, 1, func() kmsg.Response { return a })
}

func encodeJoin(q *Request, asked string, k *classic.Call, code int16) (int, kmsg.Response) {
	a := kmsg.NewPtrJoinGroupResponse()
	a.SetVersion(q.Version)
	a.ErrorCode, a.Generation, a.MemberID = code, -1, asked
	if code == codeMemberIDRequired {
		a.MemberID = k.Member
	}
	if code != codeNone {
		return 2*estimate + len(a.MemberID), a
	}
	a.Generation, a.ProtocolType, a.Protocol, a.LeaderID, a.MemberID, a.SkipAssignment = k.Generation, &k.Type, &k.Protocol, k.Leader, k.Member, k.Skip
	size := 2*estimate + len(k.Type) + len(k.Protocol) + len(k.Leader) + len(k.Member)
	for i := range k.Members {
		m := kmsg.NewJoinGroupResponseMember()
		m.MemberID, m.ProtocolMetadata = k.Members[i].Member, k.Members[i].Data
		if k.Members[i].Instance != "" {
			m.InstanceID = &k.Members[i].Instance
		}
		a.Members = append(a.Members, m)
		size += estimate + len(m.MemberID) + len(m.ProtocolMetadata) + len(k.Members[i].Instance)
	}
	return size, a
}
