package groups

import (
	"bytes"
	"testing"

	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/broker/classic"
	"github.com/mqd-broker/mqd/broker/group"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// oracle is a broker that answers at once, as it is told.
type oracle struct {
	image   *catalog.Image
	code    broker.Code
	outcome group.Code
}

func (o *oracle) Image() *catalog.Image { return o.image }

func (o *oracle) Group(r *broker.Group) {
	r.Code, r.Outcome = o.code, o.outcome
	r.Call.Code = classic.Code(o.outcome)
	r.Call.Members, r.Call.Data = []classic.Said{{Member: "a", Instance: "b", Data: []byte("c")}}, []byte("d")
	r.Classic = classic.Description{Stage: classic.Stable, Type: "consumer", Members: []classic.MemberInfo{{ID: "a", Instance: "b", Client: "c", Host: "d", Said: []byte("e"), Assigned: []byte("f")}}}
	r.Listed = []group.Summary{{Name: "crew", Members: 1}, {Name: "night", Mode: group.ModeClassic, Members: 2}}
	r.ListedClassic = []classic.Summary{{Name: "night", Type: "consumer", Stage: classic.Stable}}
	for i := range r.Call.Leaving {
		r.Call.Leaving[i].Code = r.Call.Code
	}
	for i := range r.Entries {
		r.Entries[i].Code, r.Entries[i].Committed = o.outcome, int64(i)
	}
	r.Owner.GroupDone(r)
}

// asker is the peer of a request.
type asker struct {
	t       *testing.T
	answers []kmsg.Response
	size    int
}

func (a *asker) Answer(size, _ int, build func() kmsg.Response) {
	a.size = size
	a.answers = append(a.answers, build())
}

func (a *asker) Each(n int, ask func(int, func()), done func()) {
	open := n
	for i := range n {
		ask(i, func() { open-- })
	}
	if open != 0 {
		a.t.Fatalf("%d of %d are not answered", open, n)
	}
	done()
}

// served are the highest versions of what is served.
var served = map[int16]int16{keyOffsetCommit: 8, keyOffsetFetch: 8, keyFindCoordinator: 4, keyJoinGroup: 9, keyHeartbeat: 4, keyLeaveGroup: 5, keySyncGroup: 5,
	keyDescribeGroups: 5, keyListGroups: 4, keyDeleteGroups: 2, keyOffsetDelete: 0}

// sample fills what an empty request leaves out.
func sample(key int16) kmsg.Request {
	q := kmsg.RequestForKey(key)
	switch q := q.(type) {
	case *kmsg.OffsetCommitRequest:
		q.Group, q.Generation = "crew", -1
		t := kmsg.NewOffsetCommitRequestTopic()
		t.Topic, t.Partitions = "events", []kmsg.OffsetCommitRequestTopicPartition{{Metadata: kmsg.StringPtr("m")}, {Partition: -1, Offset: -1}}
		q.Topics = append(q.Topics, t)
	case *kmsg.OffsetFetchRequest:
		q.Group, q.Topics = "crew", []kmsg.OffsetFetchRequestTopic{{Topic: "events", Partitions: []int32{0, 1}}}
		q.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "crew"}, {Group: "night", Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "x", Partitions: []int32{-1}}}}}
	case *kmsg.JoinGroupRequest:
		q.Group, q.SessionTimeoutMillis, q.ProtocolType, q.InstanceID = "crew", 9000, "consumer", kmsg.StringPtr("one")
		q.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte("m")}}
	case *kmsg.SyncGroupRequest:
		q.Group, q.MemberID, q.GroupAssignment = "crew", "a", []kmsg.SyncGroupRequestGroupAssignment{{MemberID: "a", MemberAssignment: []byte("m")}}
		q.ProtocolType, q.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
	case *kmsg.HeartbeatRequest:
		q.Group, q.MemberID = "crew", "a"
	case *kmsg.DescribeGroupsRequest:
		q.Groups = []string{"crew", "night"}
	case *kmsg.ListGroupsRequest:
		q.StatesFilter = []string{"stable"}
	case *kmsg.DeleteGroupsRequest:
		q.Groups = []string{"crew", "night"}
	case *kmsg.OffsetDeleteRequest:
		q.Group, q.Topics = "crew", []kmsg.OffsetDeleteRequestTopic{{Topic: "events", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{}}}}
	case *kmsg.LeaveGroupRequest:
		q.Group, q.MemberID, q.Members = "crew", "a", []kmsg.LeaveGroupRequestMember{{MemberID: "a"}, {InstanceID: kmsg.StringPtr("one")}}
	case *kmsg.FindCoordinatorRequest:
		q.CoordinatorKey, q.CoordinatorKeys = "crew", []string{"crew", "night"}
	}
	return q
}

// Whatever arrives has one answer, or none and an error; the answer has the form of its
// version, its estimate is near, and the request was understood as kmsg understands it.
func FuzzEveryRequestHasOneAnswer(f *testing.F) {
	for key, max := range served {
		for v := range max + 1 {
			q := sample(key)
			q.SetVersion(v)
			b := q.AppendTo(nil)
			f.Add(key, v, uint8(0), uint8(0), b)
			f.Add(key, v, uint8(broker.Busy), uint8(0), b)
			f.Add(key, v, uint8(0), uint8(group.Limit), b)
			f.Add(key, v, uint8(0), uint8(group.Unknown), b[:len(b)/2])
			f.Add(key, v, uint8(0), uint8(0), bytes.Repeat([]byte{0xff}, len(b)))
		}
	}
	f.Fuzz(func(t *testing.T, key, version int16, code, outcome uint8, body []byte) {
		if max, ok := served[key]; !ok || version < 0 || version > max {
			return
		}
		b := &oracle{image: new(catalog.Image), code: broker.Code(code % uint8(len(broker.Codes()))), outcome: group.Code(outcome % uint8(group.Raised+1))}
		d, a := Door{Broker: b, Node: 1, Host: "h", Port: 9}, &asker{t: t}
		err := d.Take(&Request{Key: key, Version: version, Body: body, Client: "c", Host: "/1.2.3.4", Peer: a})
		q := kmsg.RequestForKey(key)
		q.SetVersion(version)
		if kerr := q.ReadFrom(body); (err == nil) != (kerr == nil) {
			t.Fatalf("key %d version %d: error %v, kmsg says %v", key, version, err, kerr)
		}
		if err != nil {
			if len(a.answers) != 0 {
				t.Fatalf("key %d version %d: an error and an answer", key, version)
			}
			return
		}
		if len(a.answers) != 1 || a.answers[0].GetVersion() != version {
			t.Fatalf("key %d version %d: answers %+v", key, version, a.answers)
		}
		out := a.answers[0].AppendTo(nil)
		if len(out) > a.size {
			t.Errorf("key %d version %d: %d bytes, estimated were %d", key, version, len(out), a.size)
		}
		again := q.ResponseKind()
		again.SetVersion(version)
		if err := again.ReadFrom(out); err != nil {
			t.Fatalf("key %d version %d: the answer: %v", key, version, err)
		}
		compare(t, q, again)
	})
}

// compare holds an answer against its request.
func compare(t *testing.T, q kmsg.Request, a kmsg.Response) {
	switch q := q.(type) {
	case *kmsg.OffsetCommitRequest:
		got := a.(*kmsg.OffsetCommitResponse)
		for i := range q.Topics {
			if len(got.Topics) != len(q.Topics) || got.Topics[i].Topic != q.Topics[i].Topic || len(got.Topics[i].Partitions) != len(q.Topics[i].Partitions) {
				t.Fatalf("asked %+v, answered %+v", q, got)
			}
			for k := range q.Topics[i].Partitions {
				if got.Topics[i].Partitions[k].Partition != q.Topics[i].Partitions[k].Partition || got.Topics[i].Partitions[k].ErrorCode == 0 {
					t.Fatalf("asked %+v, answered %+v", q, got) // there are no topics
				}
			}
		}
	case *kmsg.OffsetFetchRequest:
		if got := a.(*kmsg.OffsetFetchResponse); len(got.Topics) != len(q.Topics) && got.ErrorCode == 0 || len(got.Groups) != len(q.Groups) {
			t.Fatalf("asked %+v, answered %+v", q, got)
		}
	case *kmsg.DescribeGroupsRequest:
		if got := a.(*kmsg.DescribeGroupsResponse); len(got.Groups) != len(q.Groups) {
			t.Fatalf("asked %+v, answered %+v", q, got)
		}
	case *kmsg.DeleteGroupsRequest:
		if got := a.(*kmsg.DeleteGroupsResponse); len(got.Groups) != len(q.Groups) {
			t.Fatalf("asked %+v, answered %+v", q, got)
		}
	case *kmsg.LeaveGroupRequest:
		if got := a.(*kmsg.LeaveGroupResponse); len(got.Members) != len(q.Members) {
			t.Fatalf("asked %+v, answered %+v", q, got)
		}
	case *kmsg.FindCoordinatorRequest:
		if got := a.(*kmsg.FindCoordinatorResponse); len(got.Coordinators) != len(q.CoordinatorKeys) {
			t.Fatalf("asked %+v, answered %+v", q, got)
		}
	}
}
