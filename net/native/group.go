package native

import (
	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/broker/group"
	"github.com/mqd-broker/mqd/net/wire"
)

// groupRequest is a request about a group in flight.
type groupRequest struct {
	b       broker.Group
	peer    *peer
	h       wire.Header
	mem     []byte // the body: names and metadata lie in it
	commit  wire.GroupCommitRequest
	entries []wire.CommittedEntry // of an answer
	next    *groupRequest         // in the pool
}

// maxGroupMem is how much memory for a body, and for lists, a pooled request keeps, in
// bytes.
const maxGroupMem = 64 << 10

func (s *Server) newGroup() *groupRequest {
	q := s.groups
	if q == nil {
		q = new(groupRequest)
		q.b.Owner = q
		return q
	}
	s.groups, q.next = q.next, nil
	return q
}

// group takes a request about a group.
func (p *peer) group(h wire.Header, body []byte) {
	s := p.srv
	q := s.newGroup()
	q.peer, q.h = p, h
	q.mem = append(q.mem[:0], body...)
	if err := q.decode(q.mem); err != nil {
		q.free()
		p.malformed(h, err)
		return
	}
	p.began(len(body))
	s.b.Group(&q.b)
}

// free puts the request back.
func (q *groupRequest) free() {
	s := q.peer.srv
	q.peer = nil
	if cap(q.mem) > maxGroupMem || q.lists() > maxGroupMem {
		*q = groupRequest{}
		q.b.Owner = q
	}
	q.b.Description, q.b.Listed = group.Description{}, nil
	q.next, s.groups = s.groups, q
}

// lists is about how much memory a request's lists keep, in bytes.
func (q *groupRequest) lists() int {
	n := cap(q.b.Grants)*grantEstimate + cap(q.b.Entries)*offsetEstimate + cap(q.entries)*committedEstimate
	for _, e := range q.b.Entries {
		n += cap(e.Metadata)
	}
	return n
}

// decode fills the broker's request.
func (q *groupRequest) decode(body []byte) error {
	b := &q.b
	b.Entries = b.Entries[:0]
	var err error
	switch q.h.Op {
	case wire.OpGroupCommit:
		err = wire.DecodeGroupCommitRequest(body, &q.commit)
		r := &q.commit
		b.Kind, b.Name, b.Member, b.Generation = broker.GroupCommit, r.Group, group.MemberID(r.Member), r.Generation
		if r.Reset {
			b.Kind = broker.GroupReset
		}
		for i := range r.Entries {
			e := &r.Entries[i]
			b.Entries = append(b.Entries, group.Entry{Partition: partitionOf(e.PartitionRef), Next: e.Next, Epoch: e.Epoch, Metadata: e.Metadata})
		}
	case wire.OpGroupOffsets:
		var r wire.GroupOffsetsRequest
		r, err = wire.DecodeGroupOffsetsRequest(body)
		b.Kind, b.Name = broker.GroupOffsets, r.Group
		q.partitions(r.Partitions)
	case wire.OpGroupJoin:
		var r wire.GroupJoinRequest
		r, err = wire.DecodeGroupJoinRequest(body)
		b.Kind, b.Name = broker.GroupJoin, r.Group
		b.Join = group.Join{Mode: group.Mode(r.Mode), Instance: r.Instance, Client: r.Client, Session: int64(r.Session) * 1e6, Topics: r.Topics}
		for _, ref := range r.Claims {
			b.Join.Claims = append(b.Join.Claims, partitionOf(ref))
		}
	case wire.OpGroupHeartbeat:
		var r wire.GroupHeartbeatRequest
		r, err = wire.DecodeGroupHeartbeatRequest(body)
		b.Kind, b.Name, b.Member, b.Generation, b.Wait = broker.GroupHeartbeat, r.Group, group.MemberID(r.Member), r.Generation, int64(r.Wait)*1e6
	default:
		return q.decodeRest(body)
	}
	return err
}

// decodeRest decodes what is asked for rarely.
func (q *groupRequest) decodeRest(body []byte) error {
	b := &q.b
	switch q.h.Op {
	case wire.OpGroupLeave:
		r, err := wire.DecodeGroupLeaveRequest(body)
		b.Kind, b.Name, b.Member = broker.GroupLeave, r.Group, group.MemberID(r.Member)
		return err
	case wire.OpGroupAssign:
		r, err := wire.DecodeGroupAssignRequest(body)
		b.Kind, b.Name, b.Instance = broker.GroupAssign, r.Group, r.Instance
		q.partitions(r.Partitions)
		return err
	case wire.OpGroupForget:
		r, err := wire.DecodeGroupForgetRequest(body)
		b.Kind, b.Name = broker.GroupForget, r.Group
		q.partitions(r.Partitions)
		return err
	case wire.OpGroupDelete:
		r, err := wire.DecodeGroupDeleteRequest(body)
		b.Kind, b.Name = broker.GroupDelete, r.Group
		return err
	case wire.OpGroupDescribe:
		r, err := wire.DecodeGroupDescribeRequest(body)
		b.Kind, b.Name = broker.GroupDescribe, r.Group
		return err
	case wire.OpGroupList:
		b.Kind, b.Name = broker.GroupList, nil
		return wire.DecodeGroupListRequest(body)
	}
	return wire.ErrUnsupportedOp
}

func (q *groupRequest) partitions(refs []wire.PartitionRef) {
	for _, ref := range refs {
		q.b.Entries = append(q.b.Entries, group.Entry{Partition: partitionOf(ref)})
	}
}

func partitionOf(r wire.PartitionRef) group.Partition {
	return group.Partition{Topic: group.TopicID(r.Topic), Number: r.Partition}
}

func refOf(p group.Partition) wire.PartitionRef {
	return wire.PartitionRef{Topic: wire.TopicID(p.Topic), Partition: p.Number}
}

// GroupDone answers the request.
func (q *groupRequest) GroupDone(r *broker.Group) {
	p := q.peer
	if r.Code != broker.OK || r.Outcome != group.OK {
		p.srv.count.add(Failures)
	}
	switch q.h.Op {
	case wire.OpGroupDescribe:
		q.describe()
		return
	case wire.OpGroupList:
		q.list()
		return
	}
	n, size := len(q.mem), q.size()
	switch {
	case p.c.Over():
	case size <= maxQuick:
		p.write(q.encode(p.srv.scratch[:0]))
	case p.reserve(q.h, size):
		p.inFlightBytes -= n
		p.busy++
		p.c.Pause()
		p.srv.conns.Offload(&slowGroup{slowAnswer: slowAnswer{p: p, size: size, build: func() []byte {
			return q.encode(make([]byte, 0, size))
		}}, q: q})
		return
	}
	q.free()
	p.done(n)
}

// slowGroup is a long answer about a group. It is encoded from the request.
type slowGroup struct {
	slowAnswer
	q *groupRequest
}

// Finished sends it.
func (a *slowGroup) Finished() {
	a.q.free()
	a.slowAnswer.Finished()
}

const (
	// By so many bytes a row of an answer is estimated, metadata apart.
	offsetEstimate    = 48
	committedEstimate = 10
	// answerEstimate is for the rest.
	answerEstimate = 64
)

// size estimates the answer from above, in bytes.
func (q *groupRequest) size() int {
	r := &q.b
	n := answerEstimate + len(r.Message) + len(r.Grants)*grantEstimate
	if q.h.Op != wire.OpGroupOffsets {
		return n + len(r.Entries)*committedEstimate
	}
	n += (len(r.Entries) + len(r.Description.Offsets)) * offsetEstimate
	for i := range r.Entries {
		n += len(r.Entries[i].Metadata)
	}
	for i := range r.Description.Offsets {
		n += len(r.Description.Offsets[i].Metadata)
	}
	return n
}

// encode appends the answer.
func (q *groupRequest) encode(dst []byte) []byte {
	r, op, corr := &q.b, q.h.Op, q.h.Correlation
	code, text := q.outcome()
	switch op {
	case wire.OpGroupCommit:
		q.entries = q.entries[:0]
		if code == wire.CodeNone {
			for i := range r.Entries {
				q.entries = append(q.entries, wire.CommittedEntry{Code: groupCode(r.Entries[i].Code), Committed: r.Entries[i].Committed})
			}
		}
		a := wire.GroupCommitResponse{Code: code, Message: text, Entries: q.entries}
		return wire.AppendGroupCommitResponse(dst, corr, &a)
	case wire.OpGroupOffsets:
		a := q.offsets()
		return wire.AppendGroupOffsetsResponse(dst, corr, &a)
	case wire.OpGroupJoin, wire.OpGroupHeartbeat:
		a := wire.GroupAssignment{Code: code, Message: text, Member: wire.MemberID(r.Member), Generation: r.Generation}
		for _, g := range r.Grants {
			a.Grants = append(a.Grants, wire.GroupGrant{PartitionRef: refOf(g.Partition), Since: g.Since})
		}
		return wire.AppendGroupAssignment(dst, op, corr, &a)
	}
	a := wire.GroupResult{Code: code, Message: text}
	if op == wire.OpGroupAssign || op == wire.OpGroupForget {
		for i := range r.Entries {
			a.Codes = append(a.Codes, groupCode(r.Entries[i].Code))
		}
	}
	return wire.AppendGroupResult(dst, op, corr, &a)
}

// outcome is the code of the whole request, and the text that comes with it.
func (q *groupRequest) outcome() (wire.Code, string) {
	r := &q.b
	if r.Code != broker.OK {
		return codeOf(r.Code), messageOf(r.Code, r.Message)
	}
	code := groupCode(r.Outcome)
	if code == wire.CodeNone {
		return code, ""
	}
	return code, code.Help()
}

// offsets is the answer of what is committed, with a copy of everything.
func (q *groupRequest) offsets() wire.GroupOffsetsResponse {
	r := &q.b
	var a wire.GroupOffsetsResponse
	a.Code, a.Message = q.outcome()
	if a.Code != wire.CodeNone {
		return a
	}
	for i := range r.Entries {
		e := &r.Entries[i]
		a.Offsets = append(a.Offsets, wire.GroupOffset{
			CommitEntry: wire.CommitEntry{PartitionRef: refOf(e.Partition), Next: e.Committed, Epoch: e.Epoch, Metadata: e.Metadata}, Time: -1,
		})
	}
	for i := range r.Description.Offsets {
		o := &r.Description.Offsets[i]
		a.Offsets = append(a.Offsets, wire.GroupOffset{
			CommitEntry: wire.CommitEntry{PartitionRef: refOf(o.Partition), Next: o.Next, Epoch: o.Epoch, Metadata: o.Metadata}, Time: o.Time,
		})
	}
	return a
}

// groupCodes maps the codes of groups to the protocol's, by number.
var groupCodes = [...]wire.Code{
	group.OK:            wire.CodeNone,
	group.Invalid:       wire.CodeInvalidGroup,
	group.Unknown:       wire.CodeUnknownGroup,
	group.UnknownMember: wire.CodeUnknownMember,
	group.Fenced:        wire.CodeFencedMember,
	group.Backwards:     wire.CodeOffsetBackwards,
	group.Active:        wire.CodeGroupActive,
	group.WrongMode:     wire.CodeGroupWrongMode,
	group.Limit:         wire.CodeGroupLimit,
	group.Beyond:        wire.CodeOffsetBeyondEnd,
	group.Raised:        wire.CodeOffsetRaised,
}

func groupCode(c group.Code) wire.Code {
	if int(c) < len(groupCodes) {
		return groupCodes[c]
	}
	return wire.CodeInternal
}
