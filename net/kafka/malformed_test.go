package kafka_test

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/net/kafka"
)

// idempotent makes a batch one of a producer's.
func idempotent(b []byte, id int64, epoch int16, sequence int32) []byte {
	binary.BigEndian.PutUint64(b[batch.AtProducerID:], uint64(id))
	binary.BigEndian.PutUint16(b[batch.AtProducerEpoch:], uint16(epoch))
	binary.BigEndian.PutUint32(b[batch.AtBaseSequence:], uint32(sequence))
	binary.BigEndian.PutUint32(b[batch.AtCRC:], checksum(b))
	return b
}

// samples are requests of all that is served, in the lowest and the highest version.
func samples() map[string][]byte {
	all := map[string][]byte{}
	for _, api := range kafka.APIs() {
		for _, v := range []int16{api.Min, api.Max} {
			q := kmsg.RequestForKey(api.Key)
			switch q := q.(type) {
			case *kmsg.ProduceRequest:
				*q = *produceOf("events", 1, records(0, "a"), records(0, "b"))
			case *kmsg.FetchRequest:
				*q = *fetchOf("events", 0, 0)
				q.Rack = "r1"
			case *kmsg.ListOffsetsRequest:
				t := kmsg.NewListOffsetsRequestTopic()
				t.Topic, t.Partitions = "events", []kmsg.ListOffsetsRequestTopicPartition{{Timestamp: -1}}
				q.Topics = append(q.Topics, t)
			case *kmsg.MetadataRequest:
				q.Topics = []kmsg.MetadataRequestTopic{{Topic: kmsg.StringPtr("events")}}
			case *kmsg.CreateTopicsRequest:
				q.Topics = []kmsg.CreateTopicsRequestTopic{newTopic("t", 1, 1, "retention.ms=5000")}
			case *kmsg.OffsetForLeaderEpochRequest:
				q.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: "events", Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{{CurrentLeaderEpoch: -1}}}}
			case *kmsg.CreatePartitionsRequest:
				q.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "none", Count: 2, Assignment: []kmsg.CreatePartitionsRequestTopicAssignment{{Replicas: []int32{1}}}}}
			case *kmsg.DeleteTopicsRequest:
				q.TopicNames, q.Topics = []string{"none"}, []kmsg.DeleteTopicsRequestTopic{{Topic: kmsg.StringPtr("none")}}
			case *kmsg.DeleteRecordsRequest:
				q.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: "events", Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{}}}}
			case *kmsg.DescribeConfigsRequest:
				q.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: 2, ResourceName: "events", ConfigNames: []string{"a"}}}
			case *kmsg.AlterConfigsRequest:
				q.Resources = []kmsg.AlterConfigsRequestResource{{ResourceType: 2, ResourceName: "none"}}
			case *kmsg.IncrementalAlterConfigsRequest:
				q.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: 2, ResourceName: "none"}}
			case *kmsg.OffsetCommitRequest:
				t := kmsg.NewOffsetCommitRequestTopic()
				t.Topic, t.Partitions = "events", []kmsg.OffsetCommitRequestTopicPartition{{Metadata: kmsg.StringPtr("m")}}
				q.Group, q.Generation, q.Topics = "crew", -1, append(q.Topics, t)
			case *kmsg.JoinGroupRequest:
				q.Group, q.MemberID, q.SessionTimeoutMillis, q.ProtocolType = "crew", "nobody", 9000, "consumer"
				q.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte("m")}}
			case *kmsg.SyncGroupRequest:
				q.Group, q.MemberID, q.GroupAssignment = "crew", "nobody", []kmsg.SyncGroupRequestGroupAssignment{{MemberID: "a", MemberAssignment: []byte("m")}}
			case *kmsg.HeartbeatRequest:
				q.Group, q.MemberID = "crew", "nobody"
			case *kmsg.LeaveGroupRequest:
				q.Group, q.MemberID, q.Members = "crew", "nobody", []kmsg.LeaveGroupRequestMember{{MemberID: "a"}}
			case *kmsg.DescribeGroupsRequest:
				q.Groups = []string{"crew", "night"}
			case *kmsg.ListGroupsRequest:
				q.StatesFilter = []string{"Stable"}
			case *kmsg.DeleteGroupsRequest:
				q.Groups = []string{"night"}
			case *kmsg.OffsetDeleteRequest:
				q.Group, q.Topics = "night", []kmsg.OffsetDeleteRequestTopic{{Topic: "events", Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{}}}}
			case *kmsg.OffsetFetchRequest:
				q.Group, q.Topics = "crew", []kmsg.OffsetFetchRequestTopic{{Topic: "events", Partitions: []int32{0, 1}}}
				q.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "crew"}, {Group: "night"}}
			case *kmsg.ApiVersionsRequest:
				q.ClientSoftwareName, q.ClientSoftwareVersion = "a", "1"
			}
			all[api.Name+"/"+string(rune('0'+v%10))] = frame(v, 1, q)
		}
	}
	return all
}

// alive fails the test unless the broker serves others.
func (r *rig) alive() {
	r.t.Helper()
	c := r.dial()
	if a := c.metadata(12, false, "events"); a.Topics[0].ErrorCode != 0 {
		r.t.Fatalf("%+v", a)
	}
	c.close()
}

// refusals are the connections that were closed because of what they sent.
func (r *rig) refusals() (sum uint64) {
	for _, s := range r.shards {
		sum += s.server.Counters().Get(kafka.Refusals)
	}
	return sum
}

// try sends bytes on a connection of their own, and reports whether they were
// answered: else the connection is being closed.
func (r *rig) try(b []byte) bool {
	r.t.Helper()
	c, before := r.dial(), r.refusals()
	c.write(b)
	r.until("an answer or a refusal", func() bool { return r.refusals() > before || len(c.frames) > 0 })
	answered := len(c.frames) > 0
	c.close()
	return answered
}

func TestK7ARequestCutAnywhereEndsItsConnectionOnly(t *testing.T) {
	r := newRig(t, rigOptions{seed: 30, shards: 2})
	r.create("events", 2)
	for name, f := range samples() {
		for n := 4; n < len(f); n++ {
			cut := append([]byte(nil), f[:n]...)
			binary.BigEndian.PutUint32(cut, uint32(n-4))
			if r.try(cut) && n < 14 {
				t.Fatalf("%s cut after %d bytes was answered", name, n)
			}
		}
	}
	r.alive()
	r.home()
}

func TestK7WrongLengthsEndTheirConnectionsOnly(t *testing.T) {
	r := newRig(t, rigOptions{seed: 31, shards: 2})
	r.create("events", 2)
	for _, f := range samples() {
		for at := 12; at+4 <= len(f); at++ {
			for _, v := range []uint32{0xffffffff, 0x7fffffff, 0} {
				bad := append([]byte(nil), f...)
				binary.BigEndian.PutUint32(bad[at:], v)
				c := r.dial()
				c.write(bad)
				r.until("it is sent", func() bool { return len(c.out) == 0 && !c.send.InFlight() })
				for range 20 {
					r.turn()
				}
				c.close()
			}
		}
	}
	r.alive()
	r.home()
}

func TestK7OtherProtocolsAreToldApart(t *testing.T) {
	r := newRig(t, rigOptions{seed: 32})
	r.create("events", 1)
	for text, want := range map[string]string{
		"GET / HTTP/1.1\r\n\r\n":             "does not speak",
		"PUB x 1\r\n":                        "does not speak",
		"\x16\x03\x01\x02\x00\x01\x00":       "TLS",
		"\xff\xff\xff\xff":                   "length",
		"\x00\x00\x00\x00":                   "length",
		"\x7f\xff\xff\xff":                   "too large",
		"\x00\x00\x00\x0a\x7f\x00" + pad:     "not served",
		"\x00\x00\x00\x0a\x00\x01" + pad:     "Fetch version 0",
		"\x00\x00\x00\x0a\x00\x12\xff" + pad: "not served",
	} {
		r.refused = nil
		c := r.dial()
		c.write([]byte(text))
		c.gone()
		r.advance(2e9) // the next refusal is told of, too
		if len(c.frames) != 0 || len(r.refused) != 1 || !strings.Contains(r.refused[0].Error(), want) {
			t.Errorf("%q: %d answers, refused %v", text, len(c.frames), r.refused)
		}
		c.close()
	}
	r.alive()
	r.home()
}

const pad = "\x00\x00\x00\x00\x00\x00\xff\xff"

// What kmsg makes of a request may be many times as large as its bytes.
func TestOnlyProducesMayBeLarge(t *testing.T) {
	r := newRig(t, rigOptions{seed: 33})
	c := r.dial()
	f := make([]byte, 600<<10)
	copy(f, frame(12, 1, kmsg.NewPtrMetadataRequest()))
	binary.BigEndian.PutUint32(f, uint32(len(f)-4))
	c.write(f)
	c.gone()
	if len(r.refused) != 1 || !strings.Contains(r.refused[0].Error(), "at most") {
		t.Errorf("refused %v", r.refused)
	}
	r.home()
}

// What is made of a request of an administrator may be a hundred times as large: such
// requests are not in the works in any number, and nobody else waits for them.
func TestRequestsThatTakeMuchMemoryWaitForEachOther(t *testing.T) {
	r := newRig(t, rigOptions{seed: 34, kafka: kafka.Options{MaxRequests: 50}})
	r.create("events", 1)
	tap, waits := r.shards[0].tap, func() uint64 { return r.shards[0].server.Counters().Get(kafka.ShardWaits) }
	tap.holdAdmin = true
	one, two, three := r.dial(), r.dial(), r.dial()
	create := func(c *client, name string) int32 {
		q := kmsg.NewPtrCreateTopicsRequest()
		q.Topics = append(q.Topics, newTopic(strings.Repeat(name, 240), 1, 1, "retention.ms=60000", "segment.ms=60000"))
		return c.ask(7, q)
	}
	first := create(one, "a")
	r.until("the first is in the works", func() bool { return len(tap.admins) == 1 })
	if n := r.shards[0].server.InFlight(); n < 50 || n > 100 {
		t.Fatalf("a request of about 300 bytes weighs as much as %d partitions", n)
	}
	second := create(two, "b")
	r.until("the second waits", func() bool { return waits() == 1 })
	three.fetched(12, three.ask(12, fetchOf("events", 0))) // does not wait for them
	if len(tap.admins) != 1 || waits() != 1 {
		t.Fatalf("%d requests are in the works, waited %d times", len(tap.admins), waits())
	}
	r.advance(15e9) // longer than a connection may take for its first request
	tap.holdAdmin = false
	tap.Shard.Admin(tap.admins[0])
	var a kmsg.CreateTopicsResponse
	one.take(7, first, &a)
	two.take(7, second, &a)
	r.home()
}

// A name of two bytes takes more than a kilobyte while the group is asked for.
func TestRequestsForManyGroupsWaitForEachOther(t *testing.T) {
	r := newRig(t, rigOptions{seed: 35, kafka: kafka.Options{MaxRequests: 600}})
	r.create("events", 1)
	tap, waits := r.shards[0].tap, func() uint64 { return r.shards[0].server.Counters().Get(kafka.ShardWaits) }
	for version, q := range map[int16]kmsg.Request{5: describeMany(300), 2: deleteMany(300), 8: fetchMany(300)} {
		tap.holdGroups = true
		before := waits()
		one, two := r.dial(), r.dial()
		first := one.ask(version, q)
		r.until("the first is in the works", func() bool { return len(tap.groups) == 64 })
		second := two.ask(version, q)
		r.until("the second waits", func() bool { return waits() == before+1 })
		r.alive() // nobody else does
		tap.holdGroups = false
		held := tap.groups
		tap.groups = nil
		for _, g := range held {
			tap.Shard.Group(g)
		}
		one.take(version, first, q.ResponseKind())
		two.take(version, second, q.ResponseKind())
		if n := r.shards[0].server.InFlight(); n != 0 {
			t.Fatalf("%d are in flight behind the answers", n)
		}
	}
	r.home()
}

func TestARequestNamesABoundedNumberOfGroups(t *testing.T) {
	r := newRig(t, rigOptions{seed: 36})
	r.create("events", 1)
	for version, make := range map[int16]func(n int) kmsg.Request{5: describeMany, 2: deleteMany, 8: fetchMany} {
		r.refused = nil
		c := r.dial()
		q := make(20_000)
		c.take(version, c.ask(version, q), q.ResponseKind())
		c.ask(version, make(20_001))
		c.gone()
		r.advance(2e9) // the next refusal is told of, too
		if len(r.refused) != 1 || !strings.Contains(r.refused[0].Error(), "more than 20000 groups") {
			t.Errorf("version %d: refused %v", version, r.refused)
		}
	}
	r.alive()
	r.home()
}

func describeMany(n int) kmsg.Request {
	q := kmsg.NewPtrDescribeGroupsRequest()
	q.Groups = slices.Repeat([]string{"g"}, n)
	return q
}

func deleteMany(n int) kmsg.Request {
	q := kmsg.NewPtrDeleteGroupsRequest()
	q.Groups = slices.Repeat([]string{"g"}, n)
	return q
}

func fetchMany(n int) kmsg.Request {
	q := kmsg.NewPtrOffsetFetchRequest()
	q.Groups = slices.Repeat([]kmsg.OffsetFetchRequestGroup{{Group: "g"}}, n)
	return q
}
