package opinion

import "github.com/twmb/franz-go/pkg/kmsg"

// groupSteps are about groups and their offsets.
func groupSteps() []step {
	fresh := func(*known) string { return "" }
	mine := func(k *known) string { return k.member }
	stranger := func(*known) string { return "somebody" }
	return []step{
		{"join without an id", 5, join("crew", fresh), func(k *known, a kmsg.Response) { k.member = a.(*kmsg.JoinGroupResponse).MemberID }},
		{"describe while an id is promised", 5, describeGroup("crew"), nil},
		{"join", 5, join("crew", mine), func(k *known, a kmsg.Response) { k.generation = a.(*kmsg.JoinGroupResponse).Generation }},
		{"join by an unknown member", 5, join("crew", stranger), nil},
		{"commit before the sync", 7, commit("crew", "t", 0, 1, mine, 0), nil},
		{"sync", 5, sync("crew"), nil},
		{"heartbeat", 4, beat("crew", mine, 0), nil},
		{"heartbeat of another generation", 4, beat("crew", mine, 5), nil},
		{"heartbeat of an unknown member", 4, beat("crew", stranger, 0), nil},
		{"heartbeat in an unknown group", 4, beat("nobody", stranger, 0), nil},
		{"commit", 7, commit("crew", "t", 0, 1, mine, 0), nil},
		{"commit by an unknown member", 7, commit("crew", "t", 0, 1, stranger, 0), nil},
		{"commit in another generation", 7, commit("crew", "t", 0, 1, mine, 3), nil},
		{"commit for an unknown topic", 7, commit("crew", "nowhere", 0, 1, mine, 0), nil},
		{"commit for an unknown partition", 7, commit("crew", "t", 99, 1, mine, 0), nil},
		{"commit by nobody beside members", 7, commit("crew", "t", 0, 1, nil, 0), nil},
		{"look up an offset", 7, offsetOf("crew", "t", 0), nil},
		{"look up an offset that there is not", 7, offsetOf("crew", "t", 1), nil},
		{"look up an offset of an unknown topic", 7, offsetOf("crew", "nowhere", 0), nil},
		{"look up an offset of an unknown group", 7, offsetOf("nobody", "t", 0), nil},
		{"describe", 5, describeGroup("crew"), nil},
		{"describe an unknown group", 5, describeGroup("nobody"), nil},
		{"delete a group with members", 2, deleteGroup("crew"), nil},
		{"delete an offset that is read", 0, deleteOffset("crew", "t"), nil},
		{"leave by an unknown member", 4, leave("crew", stranger), nil},
		{"leave", 4, leave("crew", mine), nil},
		{"describe without members", 5, describeGroup("crew"), nil},
		{"commit by nobody", 7, commit("crew", "t", 1, 2, nil, 0), nil},
		{"delete an offset", 0, deleteOffset("crew", "t"), nil},
		{"delete an offset of an unknown group", 0, deleteOffset("nobody", "t"), nil},
		{"delete", 2, deleteGroup("crew"), nil},
		{"delete again", 2, deleteGroup("crew"), nil},
		{"describe when it is deleted", 5, describeGroup("crew"), nil},
		{"delete an unknown group", 2, deleteGroup("nobody"), nil},
		{"commit by nobody to a new group", 7, commit("lone", "t", 0, 1, nil, 0), nil},
		{"list", 4, func(*known) kmsg.Request { return kmsg.NewPtrListGroupsRequest() }, nil},
		{"delete the new group", 2, deleteGroup("lone"), nil},
		{"join a group that commits nothing", 3, join("idle", fresh), func(k *known, a kmsg.Response) {
			k.member, k.generation = a.(*kmsg.JoinGroupResponse).MemberID, a.(*kmsg.JoinGroupResponse).Generation
		}},
		{"sync in it", 5, sync("idle"), nil},
		{"leave it", 4, leave("idle", mine), nil},
		{"describe it", 5, describeGroup("idle"), nil},
		{"delete it", 2, deleteGroup("idle"), nil},
		{"join with a short session", 5, shortSession, nil},
		{"find a coordinator", 4, coordinator(0), nil},
	}
}

func join(group string, id func(*known) string) func(*known) kmsg.Request {
	return func(k *known) kmsg.Request {
		q := kmsg.NewPtrJoinGroupRequest()
		q.Group, q.MemberID, q.ProtocolType, q.SessionTimeoutMillis, q.RebalanceTimeoutMillis = group, id(k), "consumer", 30_000, 30_000
		said := kmsg.NewConsumerMemberMetadata()
		said.Topics = []string{"t"}
		q.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: said.AppendTo(nil)}}
		return q
	}
}

func shortSession(k *known) kmsg.Request {
	q := join("crew", func(*known) string { return "" })(k).(*kmsg.JoinGroupRequest)
	q.SessionTimeoutMillis = 1
	return q
}

func sync(group string) func(*known) kmsg.Request {
	return func(k *known) kmsg.Request {
		q := kmsg.NewPtrSyncGroupRequest()
		q.Group, q.MemberID, q.Generation = group, k.member, k.generation
		q.ProtocolType, q.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
		q.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: k.member, MemberAssignment: []byte{0, 0, 0, 0, 0, 0}}}
		return q
	}
}

func beat(group string, id func(*known) string, ahead int32) func(*known) kmsg.Request {
	return func(k *known) kmsg.Request {
		q := kmsg.NewPtrHeartbeatRequest()
		q.Group, q.MemberID, q.Generation = group, id(k), k.generation+ahead
		return q
	}
}

// commit commits for a member, or nobody.
func commit(group, topic string, partition int32, offset int64, id func(*known) string, ahead int32) func(*known) kmsg.Request {
	return func(k *known) kmsg.Request {
		q := kmsg.NewPtrOffsetCommitRequest()
		if q.Group, q.Generation = group, -1; id != nil {
			q.MemberID, q.Generation = id(k), k.generation+ahead
		}
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch = partition, offset, -1
		q.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
		return q
	}
}

func offsetOf(group, topic string, partition int32) func(*known) kmsg.Request {
	return func(*known) kmsg.Request {
		q := kmsg.NewPtrOffsetFetchRequest()
		q.Group = group
		q.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: topic, Partitions: []int32{partition}}}
		return q
	}
}

func describeGroup(group string) func(*known) kmsg.Request {
	return func(*known) kmsg.Request {
		q := kmsg.NewPtrDescribeGroupsRequest()
		q.Groups = []string{group}
		return q
	}
}

func deleteGroup(group string) func(*known) kmsg.Request {
	return func(*known) kmsg.Request {
		q := kmsg.NewPtrDeleteGroupsRequest()
		q.Groups = []string{group}
		return q
	}
}

func deleteOffset(group, topic string) func(*known) kmsg.Request {
	return func(*known) kmsg.Request {
		q := kmsg.NewPtrOffsetDeleteRequest()
		q.Group = group
		q.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}}}
		return q
	}
}

func leave(group string, id func(*known) string) func(*known) kmsg.Request {
	return func(k *known) kmsg.Request {
		q := kmsg.NewPtrLeaveGroupRequest()
		q.Group = group
		m := kmsg.NewLeaveGroupRequestMember()
		m.MemberID = id(k)
		q.Members = append(q.Members, m)
		return q
	}
}

func coordinator(kind int8) func(*known) kmsg.Request {
	return func(*known) kmsg.Request {
		q := kmsg.NewPtrFindCoordinatorRequest()
		q.CoordinatorType, q.CoordinatorKeys = kind, []string{"crew"}
		return q
	}
}
