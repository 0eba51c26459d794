package admin

import (
	"context"
	"slices"
	"time"

	"github.com/mqd-broker/mqd/net/wire"
)

// GroupInfo is a group in a list.
type GroupInfo = wire.ListedGroup

// GroupDescription is everything about a group.
type GroupDescription struct {
	Name       string
	Mode       wire.GroupMode
	Generation int32
	// Idle is how long the group has been without members.
	Idle    time.Duration
	Members []GroupMember
	// Table is that of manual assignment, by topic and partition.
	Table []GroupTableRow
	// Partitions are those with an offset, an owner or a row of the table.
	Partitions []GroupPartition
}

// GroupMember is a member of a group.
type GroupMember struct {
	ID               wire.MemberID
	Instance, Client string
	// Session is how long it may be silent, Remaining how much longer from now on.
	Session, Remaining time.Duration
	Generation         int32
	// Topics are those that it has subscribed to.
	Topics []string
	// Grants is the number of partitions that it reads, Leaving of those that it has to
	// stop reading and has not yet.
	Grants, Leaving int
}

// GroupTableRow says which instance reads a partition.
type GroupTableRow struct {
	Topic     string
	Partition int32
	Instance  string
	// Away: the instance is not connected, so that the partition waits until it comes
	// back or somebody moves the partition.
	Away bool
}

// GroupPartition is how far a group is with a partition.
type GroupPartition struct {
	// Topic is "" for one that has been deleted.
	Topic     string
	Partition int32
	// Committed is the offset of the next record to read, -1 where nothing is committed.
	Committed int64
	// Epoch is the leader epoch of the record before Committed, -1 if it was not told.
	Epoch    int32
	Metadata []byte
	// Time of the commit; zero where nothing is committed.
	Time time.Time
	// Start and End are the first offset of the log and the end of what can be read, -1
	// for a partition that is not there any more.
	Start, End int64
	// Lag is the number of offsets from the one committed, or from Start if that is
	// higher, to End; -1 where nothing is committed.
	Lag int64
	// LagTime is how much older the first unread record is than the newest append; -1
	// where it is not known.
	LagTime time.Duration
	// Owner is the member that reads it, Instance its instance; zero for nobody.
	Owner    wire.MemberID
	Instance string
}

// GroupOffset is what a group has committed for a partition.
type GroupOffset struct {
	Topic     string
	Partition int32
	Next      int64
	Epoch     int32 // of the record before Next, -1 if it was not told
	Metadata  []byte
	Time      time.Time
}

// ListGroups returns all groups in order of name.
func (g Admin) ListGroups(ctx context.Context) ([]GroupInfo, error) {
	r, err := call(ctx, g, wire.OpGroupList, "", false, wire.AppendGroupListRequest, wire.DecodeGroupListResponse)
	if err != nil {
		return nil, err
	}
	return r.Groups, g.refused(wire.OpGroupList, "", r.Code, r.Message)
}

// DescribeGroup returns everything about a group, with its lag.
func (g Admin) DescribeGroup(ctx context.Context, name string) (GroupDescription, error) {
	if err := g.checkName(name); err != nil {
		return GroupDescription{}, err
	}
	r, err := call(ctx, g, wire.OpGroupDescribe, "", false, func(dst []byte, corr uint32) []byte {
		return wire.AppendGroupDescribeRequest(dst, corr, wire.GroupDescribeRequest{Group: []byte(name)})
	}, wire.DecodeGroupDescribeResponse)
	if err == nil {
		err = g.refused(wire.OpGroupDescribe, "", r.Code, r.Message)
	}
	if err != nil {
		return GroupDescription{}, err
	}
	topics, err := g.topics(ctx)
	if err != nil {
		return GroupDescription{}, err
	}
	return describe(name, &r, topics), nil
}

// describe puts a description into the words of the client.
func describe(name string, r *wire.GroupDescribeResponse, topics []wire.TopicMetadata) GroupDescription {
	names, instances := map[wire.TopicID]string{}, map[wire.MemberID]string{}
	for i := range topics {
		names[topics[i].ID] = topics[i].Name
	}
	d := GroupDescription{Name: name, Mode: r.Mode, Generation: r.Generation, Idle: time.Duration(r.Idle)}
	for i := range r.Members {
		m := &r.Members[i]
		instances[m.ID] = m.Instance
		d.Members = append(d.Members, GroupMember{
			ID: m.ID, Instance: m.Instance, Client: m.Client, Session: time.Duration(m.Session) * time.Millisecond,
			Remaining: time.Duration(m.Remaining) * time.Millisecond, Generation: m.Generation, Topics: m.Topics,
			Grants: len(m.Grants), Leaving: len(m.Leaving),
		})
	}
	for _, t := range r.Table {
		d.Table = append(d.Table, GroupTableRow{Topic: names[t.Topic], Partition: t.Partition, Instance: t.Instance, Away: t.Away})
	}
	for i := range r.Partitions {
		p := &r.Partitions[i]
		d.Partitions = append(d.Partitions, GroupPartition{
			Topic: names[p.Topic], Partition: p.PartitionRef.Partition, Committed: p.Next, Epoch: p.Epoch, Metadata: p.Metadata,
			Time: timeOf(p.Time), Start: p.Start, End: p.End, Lag: p.Lag, LagTime: time.Duration(p.LagTime),
			Owner: p.Owner, Instance: instances[p.Owner],
		})
	}
	slices.SortStableFunc(d.Table, func(a, b GroupTableRow) int { return order(a.Topic, b.Topic) })
	slices.SortStableFunc(d.Partitions, func(a, b GroupPartition) int { return order(a.Topic, b.Topic) })
	return d
}

func order(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func timeOf(ns int64) time.Time {
	if ns < 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

// GroupOffsets returns everything that a group has committed, by topic and partition.
func (g Admin) GroupOffsets(ctx context.Context, name string) ([]GroupOffset, error) {
	if err := g.checkName(name); err != nil {
		return nil, err
	}
	r, err := call(ctx, g, wire.OpGroupOffsets, "", false, func(dst []byte, corr uint32) []byte {
		return wire.AppendGroupOffsetsRequest(dst, corr, wire.GroupOffsetsRequest{Group: []byte(name)})
	}, wire.DecodeGroupOffsetsResponse)
	if err == nil {
		err = g.refused(wire.OpGroupOffsets, "", r.Code, r.Message)
	}
	if err != nil {
		return nil, err
	}
	topics, err := g.topics(ctx)
	if err != nil {
		return nil, err
	}
	names := map[wire.TopicID]string{}
	for i := range topics {
		names[topics[i].ID] = topics[i].Name
	}
	var list []GroupOffset
	for i := range r.Offsets {
		o := &r.Offsets[i]
		list = append(list, GroupOffset{Topic: names[o.Topic], Partition: o.Partition, Next: o.Next, Epoch: o.Epoch, Metadata: o.Metadata, Time: timeOf(o.Time)})
	}
	slices.SortStableFunc(list, func(a, b GroupOffset) int { return order(a.Topic, b.Topic) })
	return list, nil
}

// AssignPartitions gives partitions of a topic to an instance of a group with manual
// assignment, or to nobody if instance is "". Whoever had them stops reading them
// first. A group that does not exist is made.
func (g Admin) AssignPartitions(ctx context.Context, name, instance, topic string, partitions ...int32) error {
	return g.change(ctx, wire.OpGroupAssign, name, topic, partitions, func(refs []wire.PartitionRef) func([]byte, uint32) []byte {
		return func(dst []byte, corr uint32) []byte {
			return wire.AppendGroupAssignRequest(dst, corr, wire.GroupAssignRequest{Group: []byte(name), Instance: instance, Partitions: refs})
		}
	})
}

// ForgetOffsets takes away what a group has committed for partitions of a topic that
// nobody owns.
func (g Admin) ForgetOffsets(ctx context.Context, name, topic string, partitions ...int32) error {
	return g.change(ctx, wire.OpGroupForget, name, topic, partitions, func(refs []wire.PartitionRef) func([]byte, uint32) []byte {
		return func(dst []byte, corr uint32) []byte {
			return wire.AppendGroupForgetRequest(dst, corr, wire.GroupForgetRequest{Group: []byte(name), Partitions: refs})
		}
	})
}

// DeleteGroup deletes a group without members, with everything that it has committed.
func (g Admin) DeleteGroup(ctx context.Context, name string) error {
	if err := g.checkName(name); err != nil {
		return err
	}
	r, err := call(ctx, g, wire.OpGroupDelete, "", true, func(dst []byte, corr uint32) []byte {
		return wire.AppendGroupDeleteRequest(dst, corr, wire.GroupDeleteRequest{Group: []byte(name)})
	}, wire.DecodeGroupResult)
	if err != nil {
		return err
	}
	return g.refused(wire.OpGroupDelete, "", r.Code, r.Message)
}

// change changes something about partitions of a topic.
func (g Admin) change(ctx context.Context, op wire.Op, name, topic string, partitions []int32, build func([]wire.PartitionRef) func([]byte, uint32) []byte) error {
	if err := g.checkName(name); err != nil {
		return err
	}
	t, err := g.topic(ctx, topic)
	if err != nil {
		return err
	}
	refs := make([]wire.PartitionRef, len(partitions))
	for i, p := range partitions {
		if p < 0 || int(p) >= len(t.PartitionShards) {
			return g.caller.Fail(op, topic, p, wire.CodeUnknownPartition, nil)
		}
		refs[i] = wire.PartitionRef{Topic: t.ID, Partition: p}
	}
	r, err := call(ctx, g, op, "", true, build(refs), wire.DecodeGroupResult)
	if err != nil {
		return err
	}
	if err := g.refused(op, "", r.Code, r.Message); err != nil {
		return err
	}
	for i, code := range r.Codes {
		if code != wire.CodeNone && i < len(refs) {
			return g.caller.Fail(op, topic, refs[i].Partition, code, nil)
		}
	}
	return nil
}

// maxName is the length of the longest name of a group in bytes.
const maxName = 249

func (g Admin) checkName(name string) error {
	if name == "" || len(name) > maxName {
		return g.invalid("the name of a group has 1 to %d bytes, not %d", maxName, len(name))
	}
	return nil
}
