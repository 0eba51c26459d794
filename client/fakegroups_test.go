package client

import (
	"encoding/binary"
	"time"

	"github.com/mqd-broker/mqd/broker/group"
	"github.com/mqd-broker/mqd/net/wire"
)

// fakeGroups are the groups of a fake broker: the broker's own state machine, under a
// clock that tests move. All is under the broker's lock.
type fakeGroups struct {
	b       *fakeBroker
	state   *group.State
	now     int64
	joined  uint64
	commits []wire.GroupCommitRequest // that arrived, in order
}

func (b *fakeBroker) groupState() *fakeGroups {
	if b.groups == nil {
		b.groups = &fakeGroups{b: b, now: 1}
		b.groups.state = group.New(group.Limits{}, b.groups)
		b.groups.state.Begin(1)
	}
	return b.groups
}

// ByName implements group.Topics.
func (g *fakeGroups) ByName(name string) (group.TopicID, int32, bool) {
	if t := g.b.topics[name]; t != nil {
		return group.TopicID(t.id), int32(len(t.parts)), true
	}
	return group.TopicID{}, 0, false
}

// Has implements group.Topics.
func (g *fakeGroups) Has(p group.Partition) bool {
	_, _, code := g.b.part(wire.TopicID(p.Topic), p.Number)
	return code == wire.CodeNone
}

// pass lets time pass for groups.
func (b *fakeBroker) pass(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.groupState()
	g.now += int64(d)
	for g.state.Tick(g.now) {
	}
	b.wakeAll()
}

// committed is what a group has committed for a partition, -1 for nothing.
func (b *fakeBroker) committed(name, topic string, partition int) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := group.Partition{Topic: group.TopicID(b.topics[topic].id), Number: int32(partition)}
	if o, ok := b.groupState().state.Committed([]byte(name), p); ok {
		return o.Next
	}
	return -1
}

// commitRequests is how many requests to commit have come.
func (b *fakeBroker) commitRequests() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.groupState().commits)
}

// membership is what the group's state answers, in the codes of the wire.
var fakeGroupCodes = map[group.Code]wire.Code{
	group.OK: wire.CodeNone, group.Invalid: wire.CodeInvalidGroup, group.UnknownMember: wire.CodeUnknownMember,
	group.Fenced: wire.CodeFencedMember, group.Backwards: wire.CodeOffsetBackwards, group.WrongMode: wire.CodeGroupWrongMode,
	group.Beyond: wire.CodeOffsetBeyondEnd,
}

// group carries out a request about a group, but for heartbeats.
func (b *fakeBroker) group(h wire.Header, body []byte) []byte {
	g := b.groupState()
	defer b.wakeAll()
	switch h.Op {
	case wire.OpGroupCommit:
		return g.commit(h, body)
	case wire.OpGroupOffsets:
		r := must(wire.DecodeGroupOffsetsRequest(body))
		var a wire.GroupOffsetsResponse
		for _, p := range r.Partitions {
			o := wire.GroupOffset{CommitEntry: wire.CommitEntry{PartitionRef: p, Next: -1, Epoch: -1}, Time: -1}
			if at, ok := g.state.Committed(r.Group, group.Partition{Topic: group.TopicID(p.Topic), Number: p.Partition}); ok {
				o.Next = at.Next
			}
			a.Offsets = append(a.Offsets, o)
		}
		return wire.AppendGroupOffsetsResponse(nil, h.Correlation, &a)
	case wire.OpGroupJoin:
		r := must(wire.DecodeGroupJoinRequest(body))
		j := group.Join{Group: r.Group, Mode: group.Mode(r.Mode), Instance: r.Instance, Client: r.Client,
			Session: int64(r.Session) * 1e6, Topics: r.Topics}
		g.joined++
		binary.BigEndian.PutUint64(j.ID[:], g.joined)
		for _, p := range r.Claims {
			j.Claims = append(j.Claims, group.Partition{Topic: group.TopicID(p.Topic), Number: p.Partition})
		}
		m, list, code := g.state.Join(g.now, &j)
		a := wire.GroupAssignment{Code: fakeGroupCodes[code]}
		if code == group.OK {
			a = assignmentOf(list)
			a.Member = wire.MemberID(m.ID())
		}
		return wire.AppendGroupAssignment(nil, h.Op, h.Correlation, &a)
	case wire.OpGroupLeave:
		r := must(wire.DecodeGroupLeaveRequest(body))
		a := wire.GroupResult{Code: fakeGroupCodes[g.state.Leave(g.now, r.Group, group.MemberID(r.Member))]}
		return wire.AppendGroupResult(nil, h.Op, h.Correlation, &a)
	}
	return wire.AppendErrorResponse(nil, h.Op, h.Correlation, wire.CodeUnsupportedOp, "")
}

func (g *fakeGroups) commit(h wire.Header, body []byte) []byte {
	var r wire.GroupCommitRequest
	if err := wire.DecodeGroupCommitRequest(body, &r); err != nil {
		panic(err)
	}
	g.commits = append(g.commits, r)
	c := group.Commit{Group: r.Group, Member: group.MemberID(r.Member), Generation: r.Generation}
	for _, e := range r.Entries {
		ge := group.Entry{Partition: group.Partition{Topic: group.TopicID(e.Topic), Number: e.Partition}, Next: e.Next, Epoch: e.Epoch}
		if _, p, code := g.b.part(e.Topic, e.Partition); code == wire.CodeNone && e.Next > p.end {
			ge.Code = group.Beyond
		}
		c.Entries = append(c.Entries, ge)
	}
	a := wire.GroupCommitResponse{Code: fakeGroupCodes[g.state.Commit(g.now, 1, &c)]}
	g.state.Out.Clear()
	if a.Code == wire.CodeNone {
		for _, e := range c.Entries {
			a.Entries = append(a.Entries, wire.CommittedEntry{Code: fakeGroupCodes[e.Code], Committed: e.Committed})
		}
	}
	return wire.AppendGroupCommitResponse(nil, h.Correlation, &a)
}

func assignmentOf(list group.Assignment) wire.GroupAssignment {
	a := wire.GroupAssignment{Generation: list.Generation}
	for _, grant := range list.List {
		a.Grants = append(a.Grants, wire.GroupGrant{PartitionRef: wire.PartitionRef{
			Topic: wire.TopicID(grant.Topic), Partition: grant.Number}, Since: grant.Since})
	}
	return a
}

// heartbeat answers when the member's list has changed or the wait is over.
func (c *fakeConn) heartbeat(h wire.Header, body []byte) {
	r := must(wire.DecodeGroupHeartbeatRequest(body))
	b := c.b
	b.serving.Go(func() {
		wait := time.NewTimer(time.Duration(r.Wait) * time.Millisecond)
		defer wait.Stop()
		for first, over := true, r.Wait == 0; ; first = false {
			b.mu.Lock()
			g := b.groupState()
			_, list, moved, code := g.state.Heartbeat(g.now, r.Group, group.MemberID(r.Member), r.Generation)
			if first {
				b.wakeAll() // it may be the confirmation that another waits for
			}
			changed := b.changed
			_, alive := b.conns[c]
			b.mu.Unlock()
			switch {
			case !alive:
				return
			case moved || over || code != group.OK:
				a := assignmentOf(list)
				a.Code, a.Member = fakeGroupCodes[code], r.Member
				c.send(wire.AppendGroupAssignment(nil, h.Op, h.Correlation, &a))
				return
			}
			select {
			case <-changed:
			case <-wait.C:
				over = true
			}
		}
	})
}
