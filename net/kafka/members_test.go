package kafka_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/broker/classic"
	"github.com/mqd-broker/mqd/broker/group"
)

// member is a client that is a member of a group.
type member struct {
	*client
	group, id, instance string
	says                []byte // of itself; "said" if it is nil
	generation          int32
	joined              kmsg.JoinGroupResponse
}

func (r *rig) member(name string) *member { return &member{client: r.dial(), group: name} }

// join sends a join and returns its correlation id.
func (m *member) join(v int16) int32 {
	q := kmsg.NewPtrJoinGroupRequest()
	q.Group, q.MemberID, q.SessionTimeoutMillis, q.RebalanceTimeoutMillis, q.ProtocolType = m.group, m.id, 10_000, 20_000, "consumer"
	q.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte("said")}}
	if m.says != nil {
		q.Protocols[0].Metadata = m.says
	}
	if m.instance != "" {
		q.InstanceID = &m.instance
	}
	return m.ask(v, q)
}

// enter joins, twice where the version has it so, and leaves the last answer to be
// taken.
func (m *member) enter(v int16) int32 {
	corr := m.join(v)
	if v < 4 || m.id != "" {
		return corr
	}
	m.take(v, corr, &m.joined)
	if m.joined.ErrorCode != 79 || m.joined.MemberID == "" {
		m.r.t.Fatalf("version %d: the first join of a member: %+v", v, m.joined)
	}
	m.id = m.joined.MemberID
	return m.join(v)
}

// entered takes the answer to a join.
func (m *member) entered(v int16, corr int32) {
	m.r.t.Helper()
	m.joined = kmsg.JoinGroupResponse{}
	m.take(v, corr, &m.joined)
	if m.joined.ErrorCode != 0 {
		m.r.t.Fatalf("version %d: join: %+v", v, m.joined)
	}
	m.id, m.generation = m.joined.MemberID, m.joined.Generation
}

func (m *member) leads() bool { return m.joined.LeaderID == m.id }

// sync sends a sync, as a leader with what it assigns.
func (m *member) sync(v int16, assigned map[string]string) int32 {
	q := kmsg.NewPtrSyncGroupRequest()
	q.Group, q.MemberID, q.Generation = m.group, m.id, m.generation
	if m.instance != "" && v >= 3 {
		q.InstanceID = &m.instance
	}
	if v >= 5 {
		q.ProtocolType, q.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
	}
	for id, data := range assigned {
		q.GroupAssignment = append(q.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: id, MemberAssignment: []byte(data)})
	}
	return m.ask(v, q)
}

// synced takes the answer to a sync, as its code or what was assigned.
func (m *member) synced(v int16, corr int32) string {
	m.r.t.Helper()
	var a kmsg.SyncGroupResponse
	m.take(v, corr, &a)
	if a.ErrorCode != 0 {
		return fmt.Sprint(a.ErrorCode)
	}
	return string(a.MemberAssignment)
}

func (m *member) beat(v int16) int16 {
	m.r.t.Helper()
	q := kmsg.NewPtrHeartbeatRequest()
	q.Group, q.MemberID, q.Generation = m.group, m.id, m.generation
	var a kmsg.HeartbeatResponse
	m.take(v, m.ask(v, q), &a)
	return a.ErrorCode
}

func (m *member) leave(v int16, ids ...string) (codes []int16) {
	m.r.t.Helper()
	q := kmsg.NewPtrLeaveGroupRequest()
	q.Group, q.MemberID = m.group, ids[0]
	for _, id := range ids {
		q.Members = append(q.Members, kmsg.LeaveGroupRequestMember{MemberID: id})
	}
	var a kmsg.LeaveGroupResponse
	m.take(v, m.ask(v, q), &a)
	if v < 3 || a.ErrorCode != 0 {
		return []int16{a.ErrorCode}
	}
	for _, at := range a.Members {
		codes = append(codes, at.ErrorCode)
	}
	return codes
}

// commits is a member's commit of offset for the first partition of events.
func (m *member) commits(v int16, offset int64) string {
	m.r.t.Helper()
	q := commitOf(m.group, "events", "", offset)
	q.MemberID, q.Generation = m.id, m.generation
	return m.commit(v, q)
}

// Two members share the work in every version, on connections to either shard.
func TestMembersShareTheWork(t *testing.T) {
	r := newRig(t, rigOptions{seed: 63, shards: 2, broker: broker.Options{Classic: classic.Limits{Delay: -1}}})
	r.create("events", 2)
	for v := int16(0); v <= 9; v++ {
		s, h, l := min(v, 5), min(v, 4), min(v, 5)
		name := fmt.Sprintf("crew-%d", v)
		a, b := r.member(name), r.member(name)
		a.entered(v, a.enter(v))
		if !a.leads() || a.generation != 1 || len(a.joined.Members) != 1 || string(a.joined.Members[0].ProtocolMetadata) != "said" || *a.joined.Protocol != "range" {
			t.Fatalf("version %d: %+v", v, a.joined)
		}
		want(t, "sync", a.synced(s, a.sync(s, map[string]string{a.id: "all"})), "all")
		corr := b.enter(v)
		r.until("a rebalance", func() bool { return a.beat(h) == 27 })
		want(t, "a commit while others join", a.commits(8, 5), "0")
		a.entered(v, a.enter(v))
		b.entered(v, corr)
		if !a.leads() || b.leads() || a.generation != 2 || b.generation != 2 || len(a.joined.Members) != 2 || len(b.joined.Members) != 0 {
			t.Fatalf("version %d: %+v, %+v", v, a.joined, b.joined)
		}
		want(t, "a commit before anything is assigned", b.commits(8, 5), "27")
		corr = b.sync(s, nil)
		want(t, "the leader's sync", a.synced(s, a.sync(s, map[string]string{a.id: "one", b.id: "two"})), "one")
		want(t, "the other's", b.synced(s, corr), "two")
		want(t, "a commit", b.commits(8, 9), "0")
		want(t, "a commit of nobody", b.commit(8, commitOf(name, "events", "", 1)), "25")
		b.generation--
		want(t, "a commit of an older generation", b.commits(8, 1), "22")
		if codes := b.leave(l, b.id); len(codes) != 1 || codes[0] != 0 {
			t.Errorf("version %d: leave: %v", l, codes)
		}
		want(t, "a commit of one that has left", b.commits(8, 1), "25")
		if code := a.beat(h); code != 27 {
			t.Errorf("version %d: a heartbeat after the other has left: %d", h, code)
		}
		if codes := a.leave(5, a.id, "nobody"); len(codes) != 2 || codes[0] != 0 || codes[1] != 25 {
			t.Errorf("leave of two: %v", codes)
		}
		want(t, "what is committed", a.committed(8, name, map[string][]int32{"events": {0}}), "events/0=9@7:")
		a.close()
		b.close()
	}
	r.home()
}

// Sessions end by time alone, also of members that nobody asks about.
func TestASilentMemberIsReplaced(t *testing.T) {
	r := newRig(t, rigOptions{seed: 64, shards: 2})
	r.create("events", 1)
	a, b := r.member("crew"), r.member("crew")
	a.entered(9, a.enter(9))
	want(t, "sync", a.synced(5, a.sync(5, nil)), "")
	corr := b.enter(9)
	a.close() // and its session ends
	r.advance(11 * time.Second)
	b.entered(9, corr)
	if !b.leads() || len(b.joined.Members) != 1 {
		t.Fatalf("%+v", b.joined)
	}
	r.home()
}

func TestMembersAreRefusedByTheirCodes(t *testing.T) {
	r := newRig(t, rigOptions{seed: 65, shards: 2, broker: broker.Options{Classic: classic.Limits{Delay: -1}}})
	r.create("events", 1)
	c := r.dial()
	joins := func(change func(q *kmsg.JoinGroupRequest)) int16 {
		q := kmsg.NewPtrJoinGroupRequest()
		q.Group, q.SessionTimeoutMillis, q.RebalanceTimeoutMillis, q.ProtocolType = "crew", 10_000, 20_000, "consumer"
		q.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
		change(q)
		var a kmsg.JoinGroupResponse
		c.take(9, c.ask(9, q), &a)
		if a.ErrorCode != 0 && (a.Generation != -1 || a.Protocol != nil || a.LeaderID != "" || a.ErrorCode != 79 && a.MemberID != q.MemberID) {
			t.Errorf("a join that is refused: %+v", a)
		}
		return a.ErrorCode
	}
	name := func(s string) func(q *kmsg.JoinGroupRequest) { return func(q *kmsg.JoinGroupRequest) { q.Group = s } }
	for _, row := range []struct {
		what   string
		code   int16
		change func(q *kmsg.JoinGroupRequest)
	}{
		{"no name", 24, name("")},
		{"a name with a line end", 24, name("a\nb")},
		{"a session of 10 ms", 26, func(q *kmsg.JoinGroupRequest) { q.SessionTimeoutMillis = 10 }},
		{"a session of an hour", 26, func(q *kmsg.JoinGroupRequest) { q.SessionTimeoutMillis = 3600_000 }},
		{"no kind", 23, func(q *kmsg.JoinGroupRequest) { q.ProtocolType = "" }},
		{"no protocol", 23, func(q *kmsg.JoinGroupRequest) { q.Protocols = nil }},
		{"an id that nobody was given", 25, func(q *kmsg.JoinGroupRequest) { q.MemberID = "x" }},
		{"an instance with a line end", 42, func(q *kmsg.JoinGroupRequest) { q.InstanceID = kmsg.StringPtr("a\nb") }},
		{"a first join", 79, func(*kmsg.JoinGroupRequest) {}},
	} {
		if code := joins(row.change); code != row.code {
			t.Errorf("%s: code %d, expected %d", row.what, code, row.code)
		}
	}
	m := r.member("")
	m.id = "x"
	if code := m.beat(4); code != 24 {
		t.Errorf("a heartbeat to a group without a name: %d", code)
	}
	want(t, "a sync of a group without a name", m.synced(5, m.sync(5, nil)), "24")
	leave := kmsg.NewPtrLeaveGroupRequest()
	leave.Members = []kmsg.LeaveGroupRequestMember{{MemberID: "x"}}
	var left kmsg.LeaveGroupResponse
	if c.take(4, c.ask(4, leave), &left); left.ErrorCode != 24 {
		t.Errorf("a leave of a group without a name: %+v", left)
	}
	m = r.member("none")
	m.id = "x"
	if code := m.beat(4); code != 25 {
		t.Errorf("a heartbeat to a group that is not there: %d", code)
	}
	want(t, "a sync", m.synced(5, m.sync(5, nil)), "25")
	m.generation = 4
	want(t, "a commit", m.commits(8, 1), "22")
	r.home()
}

// A group has members of one protocol at a time, and whoever comes with the other hears
// so. Its offsets are for both, one after the other.
func TestMembersOfBothProtocolsDoNotMix(t *testing.T) {
	r := newRig(t, rigOptions{seed: 66, shards: 2, broker: broker.Options{Classic: classic.Limits{Delay: -1}}})
	r.create("events", 1)
	ours := func(kind broker.GroupKind, id group.MemberID) *native {
		n := &native{Group: broker.Group{Kind: kind, Name: []byte("crew"), Member: id, Join: group.Join{Mode: group.ModeAuto, Session: 30e9, Topics: []string{"events"}}}}
		r.native(n)
		return n
	}
	m := r.member("crew")
	m.entered(9, m.enter(9))
	want(t, "sync", m.synced(5, m.sync(5, nil)), "")
	want(t, "commit", m.commits(8, 7), "0")
	if n := ours(broker.GroupJoin, group.MemberID{}); n.Outcome != group.WrongMode {
		t.Errorf("a native join to a group of Kafka's: %v", n.Outcome)
	}
	if n := ours(broker.GroupDelete, group.MemberID{}); n.Outcome != group.Active {
		t.Errorf("the deletion of a group with members: %v", n.Outcome)
	}
	d := ours(broker.GroupDescribe, group.MemberID{})
	if x := d.Description; x.Mode != group.ModeClassic || len(x.Members) != 1 || x.Members[0].Client != "test" || x.Members[0].ID == (group.MemberID{}) || len(x.Offsets) != 1 {
		t.Errorf("the description of a group of Kafka's: %+v", x)
	}
	m.leave(5, m.id)
	n := ours(broker.GroupJoin, group.MemberID{})
	if n.Outcome != group.OK || len(n.Grants) != 1 {
		t.Fatalf("a native join to a group that Kafka's members have left: %v", n.Outcome)
	}
	if d := ours(broker.GroupDescribe, group.MemberID{}); d.Description.Mode != group.ModeAuto || d.Description.Offsets[0].Next != 7 {
		t.Errorf("the description: %+v", d.Description)
	}
	m.id = ""
	m.take(9, m.join(9), &m.joined)
	if m.joined.ErrorCode != 23 {
		t.Errorf("a Kafka join to a native group: %+v", m.joined)
	}
	ours(broker.GroupLeave, n.Member)
	m.entered(9, m.enter(9))
	r.home()
}

// When a node ends nobody waits for members that will not come.
func TestAJoinEndsWithTheNode(t *testing.T) {
	r := newRig(t, rigOptions{seed: 67, shards: 2, broker: broker.Options{Classic: classic.Limits{Delay: -1}}})
	a, b := r.member("crew"), r.member("crew")
	a.entered(9, a.enter(9))
	corr := b.enter(9)
	r.advance(time.Second)
	r.node.Quiesce()
	b.take(9, corr, &b.joined)
	if b.joined.ErrorCode != 16 {
		t.Errorf("the answer to a join when the node ends: %+v", b.joined)
	}
	r.home()
}

// describedGroups is what a client hears of groups, each as state/type/protocol[members].
func (c *client) describedGroups(v int16, names ...string) string {
	c.r.t.Helper()
	q := kmsg.NewPtrDescribeGroupsRequest()
	q.Groups = names
	var a kmsg.DescribeGroupsResponse
	c.take(v, c.ask(v, q), &a)
	var got []string
	for _, g := range a.Groups {
		text := fmt.Sprintf("%s=%s/%s/%s", g.Group, g.State, g.ProtocolType, g.Protocol)
		if g.ErrorCode != 0 {
			text = fmt.Sprintf("%s=error %d", g.Group, g.ErrorCode)
		}
		for _, m := range g.Members {
			instance := ""
			if m.InstanceID != nil {
				instance = *m.InstanceID
			}
			text += fmt.Sprintf("[%s %s %s %s %t]", m.ClientID, instance, m.ProtocolMetadata, m.MemberAssignment, m.MemberID != "")
		}
		got = append(got, text)
	}
	return strings.Join(got, " ")
}

// listed are the groups in some states, all for none.
func (c *client) listed(v int16, states ...string) string {
	c.r.t.Helper()
	q := kmsg.NewPtrListGroupsRequest()
	q.StatesFilter = states
	var a kmsg.ListGroupsResponse
	c.take(v, c.ask(v, q), &a)
	got := []string{}
	for _, g := range a.Groups {
		got = append(got, fmt.Sprintf("%s/%s/%s", g.Group, g.ProtocolType, g.GroupState))
	}
	if a.ErrorCode != 0 {
		got = append(got, fmt.Sprintf("error %d", a.ErrorCode))
	}
	return strings.Join(got, " ")
}

// forget deletes offsets and returns the codes, first that of the whole answer.
func (c *client) forget(name, topic string, parts ...int32) string {
	c.r.t.Helper()
	q := kmsg.NewPtrOffsetDeleteRequest()
	q.Group = name
	at := kmsg.NewOffsetDeleteRequestTopic()
	at.Topic = topic
	for _, p := range parts {
		at.Partitions = append(at.Partitions, kmsg.OffsetDeleteRequestTopicPartition{Partition: p})
	}
	q.Topics = append(q.Topics, at)
	var a kmsg.OffsetDeleteResponse
	c.take(0, c.ask(0, q), &a)
	got := fmt.Sprint(a.ErrorCode)
	for _, t := range a.Topics {
		for _, p := range t.Partitions {
			got += fmt.Sprint(" ", p.ErrorCode)
		}
	}
	return got
}

// remove deletes groups and returns their codes.
func (c *client) remove(names ...string) (got string) {
	c.r.t.Helper()
	q := kmsg.NewPtrDeleteGroupsRequest()
	q.Groups = names
	var a kmsg.DeleteGroupsResponse
	c.take(2, c.ask(2, q), &a)
	for _, g := range a.Groups {
		got += fmt.Sprintf("%s=%d ", g.Group, g.ErrorCode)
	}
	return got
}

func TestGroupsAreDescribedListedAndDeleted(t *testing.T) {
	r := newRig(t, rigOptions{seed: 68, shards: 2, broker: broker.Options{Classic: classic.Limits{Delay: -1}}})
	r.create("events", 2)
	c := r.dial()
	want(t, "no groups", c.listed(4), "")
	want(t, "a group that is not there", c.describedGroups(5, "crew"), "crew=Dead//")
	a, b := r.member("crew"), r.member("crew")
	a.instance = "one"
	a.entered(9, a.join(9))
	want(t, "before it has synced", c.describedGroups(5, "crew"), "crew=CompletingRebalance/consumer/[test one   true]")
	want(t, "sync", a.synced(5, a.sync(5, map[string]string{a.id: "all"})), "all")
	want(t, "a commit", a.commits(8, 5), "0")
	for v := int16(0); v <= 5; v++ {
		instance := ""
		if v >= 4 {
			instance = "one"
		}
		want(t, fmt.Sprint("described, version ", v), c.describedGroups(v, "crew", "none"), "crew=Stable/consumer/range[test "+instance+" said all true] none=Dead//")
	}
	want(t, "another group", c.commit(8, commitOf("alone", "events", "", 1, 2)), "0 0")
	n := &native{Group: broker.Group{Kind: broker.GroupJoin, Name: []byte("ours"), Join: group.Join{Mode: group.ModeAuto, Client: "own", Session: 30e9, Topics: []string{"events"}}}}
	r.native(n)
	want(t, "a native group", c.describedGroups(5, "ours", "alone"), "ours=Stable/mqd/[own    true] alone=Empty//")
	for v := int16(0); v <= 3; v++ {
		want(t, fmt.Sprint("listed, version ", v), c.listed(v), "alone// crew/consumer/ ours/mqd/")
	}
	want(t, "listed", c.listed(4), "alone//Empty crew/consumer/Stable ours/mqd/Stable")
	want(t, "listed by state", c.listed(4, "empty", "Dead"), "alone//Empty")
	corr := b.enter(9)
	r.until("a rebalance", func() bool { return c.listed(4, "PreparingRebalance") == "crew/consumer/PreparingRebalance" })

	want(t, "offsets of a group with members", c.forget("crew", "events", 0, 1), "0 86 86")
	want(t, "offsets of a native group", c.forget("ours", "events", 0, 1), "0 86 86")
	want(t, "offsets of a group that is not there", c.forget("none", "events", 0), "69")
	want(t, "offsets", c.forget("alone", "events", 0, 9), "0 0 3")
	want(t, "what is left", c.committed(8, "alone", nil), "events/1=2@8:")

	want(t, "deleted", c.remove("crew", "ours", "alone", "none", ""), "crew=68 ours=68 alone=0 none=69 =24 ")
	want(t, "what is left", c.committed(8, "alone", nil), "")
	a.take(9, a.join(9), &a.joined)
	b.entered(9, corr)
	a.leave(5, a.id, b.id)
	want(t, "deleted", c.remove("crew"), "crew=0 ")
	want(t, "listed", c.listed(4), "ours/mqd/Stable")
	r.home()
}

// Of a group of consumers only the topics are kept that one of them subscribes to.
func TestOffsetsOfTopicsThatNobodyReadsAreDeleted(t *testing.T) {
	r := newRig(t, rigOptions{seed: 69, shards: 2, broker: broker.Options{Classic: classic.Limits{Delay: -1}}})
	for _, name := range []string{"events", "others", "third"} {
		r.create(name, 2)
	}
	c := r.dial()
	for _, name := range []string{"events", "others"} {
		want(t, "a commit", c.commit(8, commitOf("crew", name, "", 1, 2)), "0 0")
	}
	a := r.member("crew")
	said := kmsg.NewConsumerMemberMetadata()
	said.Version, said.Topics = 1, []string{"events", "third"}
	a.says = said.AppendTo(nil)
	a.entered(9, a.enter(9))
	want(t, "sync", a.synced(5, a.sync(5, map[string]string{a.id: "all"})), "all")
	want(t, "what is read", c.forget("crew", "events", 0, 1, 9), "0 86 86 3")
	want(t, "what is not", c.forget("crew", "others", 0), "0 0")
	want(t, "what is left", c.committed(8, "crew", nil), "events/0=1@7: events/1=2@8: others/1=2@8:")
	a.leave(5, a.id)
	want(t, "with nobody there", c.forget("crew", "events", 0), "0 0")
	r.home()
}
