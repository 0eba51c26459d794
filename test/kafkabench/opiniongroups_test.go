package main

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func (a *asker) heartbeat(group, member string, generation int32) string {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = group, member, generation
	resp, ok := send[*kmsg.HeartbeatResponse](a, req)
	if !ok {
		return noAnswer
	}
	return code(resp.ErrorCode)
}

// newJoin is a request of a member that is new and right.
func newJoin(group string) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.ProtocolType = group, 30_000, 10_000, "consumer"
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}}
	return req
}

// joining asks to join with something changed.
func joining(change func(*kmsg.JoinGroupRequest)) func(*asker) string {
	return func(a *asker) string {
		req := newJoin(a.group())
		change(req)
		resp, ok := send[*kmsg.JoinGroupResponse](a, req)
		if !ok {
			return noAnswer
		}
		return fmt.Sprintf("%s, generation %d", code(resp.ErrorCode), resp.Generation)
	}
}

func (a *asker) sync(group, member string, generation int32, protocol string) string {
	req := kmsg.NewPtrSyncGroupRequest()
	kind := "consumer"
	req.Group, req.MemberID, req.Generation, req.ProtocolType, req.Protocol = group, member, generation, &kind, &protocol
	req.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: member, MemberAssignment: []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}}
	resp, ok := send[*kmsg.SyncGroupResponse](a, req)
	if !ok {
		return noAnswer
	}
	return code(resp.ErrorCode)
}

func (a *asker) leave(group, member string) string {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.MemberID = group, member
	req.Members = []kmsg.LeaveGroupRequestMember{{MemberID: member}}
	resp, ok := send[*kmsg.LeaveGroupResponse](a, req)
	if !ok {
		return noAnswer
	}
	text := code(resp.ErrorCode)
	for _, m := range resp.Members {
		text += ", member " + code(m.ErrorCode)
	}
	return text
}

func (a *asker) commit(group, member string, generation int32, topic string, partition int32, offset int64, metadata string) string {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = group, member, generation
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = topic
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.Metadata = partition, offset, &metadata
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	resp, ok := send[*kmsg.OffsetCommitResponse](a, req)
	if !ok || len(resp.Topics) != 1 {
		return noAnswer
	}
	return code(resp.Topics[0].Partitions[0].ErrorCode)
}

func (a *asker) committed(group, topic string, partition int32) string {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = group
	req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: topic, Partitions: []int32{partition}}}
	req.Groups = []kmsg.OffsetFetchRequestGroup{{Group: group, Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: topic, Partitions: []int32{partition}}}}}
	resp, ok := send[*kmsg.OffsetFetchResponse](a, req)
	if !ok || len(resp.Groups) != 1 {
		return noAnswer
	}
	text := code(resp.Groups[0].ErrorCode)
	for _, t := range resp.Groups[0].Topics {
		for _, p := range t.Partitions {
			text += fmt.Sprintf(", %s %d", code(p.ErrorCode), p.Offset)
		}
	}
	return text
}

func (a *asker) describeGroup(group string) string {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{group}
	resp, ok := send[*kmsg.DescribeGroupsResponse](a, req)
	if !ok || len(resp.Groups) != 1 {
		return noAnswer
	}
	g := resp.Groups[0]
	return fmt.Sprintf("%s, state %q, type %q, protocol %q, %d members", code(g.ErrorCode), g.State, g.ProtocolType, g.Protocol, len(g.Members))
}

func (a *asker) deleteGroups(groups ...string) string {
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Groups = groups
	resp, ok := send[*kmsg.DeleteGroupsResponse](a, req)
	if !ok {
		return noAnswer
	}
	var codes []string
	for _, g := range resp.Groups {
		codes = append(codes, code(g.ErrorCode))
	}
	return strings.Join(codes, ", ")
}

func (a *asker) deleteOffset(group, topic string, partition int32) string {
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = group
	req.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: partition}}}}
	resp, ok := send[*kmsg.OffsetDeleteResponse](a, req)
	if !ok {
		return noAnswer
	}
	text := code(resp.ErrorCode)
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			text += ", " + code(p.ErrorCode)
		}
	}
	return text
}

func (a *asker) coordinator(kind int8, key string) string {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorType, req.CoordinatorKey, req.CoordinatorKeys = kind, key, []string{key}
	resp, ok := send[*kmsg.FindCoordinatorResponse](a, req)
	if !ok {
		return noAnswer
	}
	if len(resp.Coordinators) != 1 {
		return code(resp.ErrorCode) + " for everything"
	}
	return code(resp.Coordinators[0].ErrorCode)
}

var groupQuestions = []question{
	{"FindCoordinator: no group", func(a *asker) string { return a.coordinator(0, "") }},
	{"FindCoordinator: an unknown kind", func(a *asker) string { return a.coordinator(7, "x") }},
	{"JoinGroup: without a member id", joining(func(*kmsg.JoinGroupRequest) {})},
	{"JoinGroup: no group", joining(func(r *kmsg.JoinGroupRequest) { r.Group = "" })},
	{"JoinGroup: an unknown member", joining(func(r *kmsg.JoinGroupRequest) { r.MemberID = "nobody" })},
	{"JoinGroup: a session of 1 ms", joining(func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 1 })},
	{"JoinGroup: a session of a day", joining(func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 86_400_000 })},
	{"JoinGroup: no protocols", joining(func(r *kmsg.JoinGroupRequest) { r.Protocols = nil })},
	{"JoinGroup: no type of protocol", joining(func(r *kmsg.JoinGroupRequest) { r.ProtocolType = "" })},
	{"SyncGroup: unknown group", func(a *asker) string { return a.sync("nosuch", "m", 1, "range") }},
	{"SyncGroup: no group", func(a *asker) string { return a.sync("", "m", 1, "range") }},
	{"Heartbeat: unknown group", func(a *asker) string { return a.heartbeat("nosuch", "m", 1) }},
	{"Heartbeat: no group", func(a *asker) string { return a.heartbeat("", "m", 1) }},
	{"LeaveGroup: unknown group", func(a *asker) string { return a.leave("nosuch", "m") }},
	{"LeaveGroup: no group", func(a *asker) string { return a.leave("", "m") }},
	{"OffsetCommit: without members", func(a *asker) string { return a.commit(a.group(), "", -1, a.create(), 0, 5, "") }},
	{"OffsetCommit: no group", func(a *asker) string { return a.commit("", "", -1, a.create(), 0, 5, "") }},
	{"OffsetCommit: unknown topic", func(a *asker) string { return a.commit(a.group(), "", -1, "nosuch", 0, 5, "") }},
	{"OffsetCommit: unknown partition", func(a *asker) string { return a.commit(a.group(), "", -1, a.create(), 2, 5, "") }},
	{"OffsetCommit: offset -1", func(a *asker) string { return a.commit(a.group(), "", -1, a.create(), 0, -1, "") }},
	{"OffsetCommit: a member of no group", func(a *asker) string { return a.commit(a.group(), "m", 1, a.create(), 0, 5, "") }},
	{"OffsetCommit: a generation without a member", func(a *asker) string { return a.commit(a.group(), "", 1, a.create(), 0, 5, "") }},
	{"OffsetCommit: metadata of 4096 bytes", func(a *asker) string { return a.commit(a.group(), "", -1, a.create(), 0, 5, strings.Repeat("x", 4096)) }},
	{"OffsetCommit: metadata of 4097 bytes", func(a *asker) string { return a.commit(a.group(), "", -1, a.create(), 0, 5, strings.Repeat("x", 4097)) }},
	{"OffsetFetch: unknown group", func(a *asker) string { return a.committed("nosuch", a.create(), 0) }},
	{"OffsetFetch: no group", func(a *asker) string { return a.committed("", a.create(), 0) }},
	{"OffsetFetch: unknown topic", func(a *asker) string { return a.committed(a.group(), "nosuch", 0) }},
	{"OffsetFetch: what was committed", func(a *asker) string {
		topic := a.create()
		a.commit(a.group(), "", -1, topic, 0, 5, "")
		return a.committed(a.group(), topic, 0) + ", then " + a.committed(a.group(), topic, 1)
	}},
	{"DescribeGroups: unknown", func(a *asker) string { return a.describeGroup("nosuch") }},
	{"DescribeGroups: no group", func(a *asker) string { return a.describeGroup("") }},
	{"DescribeGroups: offsets alone", func(a *asker) string {
		a.commit(a.group(), "", -1, a.create(), 0, 5, "")
		return a.describeGroup(a.group())
	}},
	{"DeleteGroups: unknown", func(a *asker) string { return a.deleteGroups("nosuch") }},
	{"DeleteGroups: no group", func(a *asker) string { return a.deleteGroups("") }},
	{"DeleteGroups: twice", func(a *asker) string {
		a.commit(a.group(), "", -1, a.create(), 0, 5, "")
		return a.deleteGroups(a.group()) + ", then " + a.deleteGroups(a.group())
	}},
	{"OffsetDelete: unknown group", func(a *asker) string { return a.deleteOffset("nosuch", a.create(), 0) }},
	{"OffsetDelete: what was not committed", func(a *asker) string {
		topic := a.create()
		a.commit(a.group(), "", -1, topic, 0, 5, "")
		return a.deleteOffset(a.group(), topic, 1)
	}},
	{"OffsetDelete: unknown topic", func(a *asker) string {
		a.commit(a.group(), "", -1, a.create(), 0, 5, "")
		return a.deleteOffset(a.group(), "nosuch", 0)
	}},
}

// member joins the question's own group alone, is given its part, and hands on.
func member(ask func(a *asker, id string, generation int32) string) func(*asker) string {
	return func(a *asker) string {
		req := newJoin(a.group())
		resp, ok := send[*kmsg.JoinGroupResponse](a, req)
		if !ok || resp.MemberID == "" {
			return "first join: " + noAnswer
		}
		req.MemberID = resp.MemberID
		if resp, ok = send[*kmsg.JoinGroupResponse](a, req); !ok || resp.ErrorCode != 0 {
			return "second join: " + code(resp.ErrorCode)
		}
		if got := a.sync(a.group(), req.MemberID, resp.Generation, "range"); got != "NONE" {
			return "sync: " + got
		}
		answer := ask(a, req.MemberID, resp.Generation)
		a.leave(a.group(), req.MemberID)
		return answer
	}
}

// another asks to join the group of member with something changed.
func another(change func(*kmsg.JoinGroupRequest)) func(*asker) string {
	return member(func(a *asker, _ string, _ int32) string { return joining(change)(a) })
}

var memberQuestions = []question{
	{"a member: its generation", member(func(a *asker, _ string, g int32) string { return fmt.Sprint(g) })},
	{"a member: Heartbeat", member(func(a *asker, id string, g int32) string { return a.heartbeat(a.group(), id, g) })},
	{"a member: Heartbeat of an older generation", member(func(a *asker, id string, g int32) string { return a.heartbeat(a.group(), id, g-1) })},
	{"a member: Heartbeat of a newer generation", member(func(a *asker, id string, g int32) string { return a.heartbeat(a.group(), id, g+1) })},
	{"a member: Heartbeat of another", member(func(a *asker, _ string, g int32) string { return a.heartbeat(a.group(), "x", g) })},
	{"a member: SyncGroup again", member(func(a *asker, id string, g int32) string { return a.sync(a.group(), id, g, "range") })},
	{"a member: SyncGroup of an older generation", member(func(a *asker, id string, g int32) string { return a.sync(a.group(), id, g-1, "range") })},
	{"a member: SyncGroup of another protocol", member(func(a *asker, id string, g int32) string { return a.sync(a.group(), id, g, "sticky") })},
	{"a member: SyncGroup of another", member(func(a *asker, _ string, g int32) string { return a.sync(a.group(), "x", g, "range") })},
	{"a member: OffsetCommit", member(func(a *asker, id string, g int32) string { return a.commit(a.group(), id, g, a.create(), 0, 5, "") })},
	{"a member: OffsetCommit of an older generation", member(func(a *asker, id string, g int32) string { return a.commit(a.group(), id, g-1, a.create(), 0, 5, "") })},
	{"a member: OffsetCommit of another", member(func(a *asker, _ string, g int32) string { return a.commit(a.group(), "x", g, a.create(), 0, 5, "") })},
	{"a member: OffsetCommit of nobody", member(func(a *asker, _ string, _ int32) string { return a.commit(a.group(), "", -1, a.create(), 0, 5, "") })},
	{"a member: LeaveGroup of another", member(func(a *asker, _ string, _ int32) string { return a.leave(a.group(), "x") })},
	{"a member: LeaveGroup twice", member(func(a *asker, id string, _ int32) string {
		return a.leave(a.group(), id) + ", then " + a.leave(a.group(), id)
	})},
	{"a member: Heartbeat behind LeaveGroup", member(func(a *asker, id string, g int32) string {
		a.leave(a.group(), id)
		return a.heartbeat(a.group(), id, g)
	})},
	{"a member: DescribeGroups", member(func(a *asker, _ string, _ int32) string { return a.describeGroup(a.group()) })},
	{"a member: DescribeGroups when it has left", member(func(a *asker, id string, _ int32) string {
		a.leave(a.group(), id)
		return a.describeGroup(a.group())
	})},
	{"a member: DeleteGroups", member(func(a *asker, _ string, _ int32) string { return a.deleteGroups(a.group()) })},
	{"a member: JoinGroup with another type", another(func(r *kmsg.JoinGroupRequest) { r.ProtocolType = "connect" })},
	{"a member: JoinGroup with other protocols", another(func(r *kmsg.JoinGroupRequest) { r.Protocols[0].Name = "sticky" })},
	{"a member: JoinGroup of an unknown member", another(func(r *kmsg.JoinGroupRequest) { r.MemberID = "x" })},
}
