package kafka_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/broker/group"
)

// commitOf is a commit of a consumer that is no member; metadata says which one it is.
func commitOf(name, topic string, metadata string, offsets ...int64) *kmsg.OffsetCommitRequest {
	q := kmsg.NewPtrOffsetCommitRequest()
	q.Group = name
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = topic
	for i, o := range offsets {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = int32(i), o, int32(i)+7, &metadata
		t.Partitions = append(t.Partitions, p)
	}
	q.Topics = append(q.Topics, t)
	return q
}

// commit sends a commit and returns the codes of its partitions.
func (c *client) commit(v int16, q *kmsg.OffsetCommitRequest) string {
	c.r.t.Helper()
	var a kmsg.OffsetCommitResponse
	c.take(v, c.ask(v, q), &a)
	var codes []string
	for _, t := range a.Topics {
		for _, p := range t.Partitions {
			codes = append(codes, fmt.Sprint(p.ErrorCode))
		}
	}
	return strings.Join(codes, " ")
}

// committed asks for partitions, all for nil, and returns what it hears as
// topic/partition=offset@epoch:metadata.
func (c *client) committed(v int16, name string, parts map[string][]int32) string {
	c.r.t.Helper()
	q := kmsg.NewPtrOffsetFetchRequest()
	q.Group = name
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = name
	for t, ps := range parts {
		q.Topics = append(q.Topics, kmsg.OffsetFetchRequestTopic{Topic: t, Partitions: ps})
		g.Topics = append(g.Topics, kmsg.OffsetFetchRequestGroupTopic{Topic: t, Partitions: ps})
	}
	q.Groups = append(q.Groups, g)
	var a kmsg.OffsetFetchResponse
	c.take(v, c.ask(v, q), &a)
	var got []string
	add := func(code int16, topic string, p int32, o int64, e int32, m *string) {
		if code != 0 {
			got = append(got, fmt.Sprintf("%s/%d:error %d", topic, p, code))
			return
		}
		got = append(got, fmt.Sprintf("%s/%d=%d@%d:%s", topic, p, o, e, *m))
	}
	for _, t := range a.Topics {
		for _, p := range t.Partitions {
			add(a.ErrorCode+p.ErrorCode, t.Topic, p.Partition, p.Offset, p.LeaderEpoch, p.Metadata)
		}
	}
	for _, g := range a.Groups {
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				add(g.ErrorCode+p.ErrorCode, t.Topic, p.Partition, p.Offset, p.LeaderEpoch, p.Metadata)
			}
		}
	}
	return strings.Join(got, " ")
}

func want(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, expected %q", what, got, want)
	}
}

// The version decides what of a commit comes back: the leader epoch from 5 on, where it
// was committed from 6 on. The group's coordinator may be on either shard.
func TestOffsetsComeBackAsTheyWereCommitted(t *testing.T) {
	r := newRig(t, rigOptions{seed: 60, shards: 2})
	r.create("events", 3)
	c := r.dial()
	asked := map[string][]int32{"events": {1, 0, 9}}
	want(t, "before any commit", c.committed(7, "crew-2", asked), "events/1=-1@-1: events/0=-1@-1: events/9=-1@-1:")
	for v := int16(2); v <= 8; v++ {
		name := fmt.Sprintf("crew-%d", v)
		want(t, "commit", c.commit(v, commitOf(name, "events", "mark", 5, 1<<40)), "0 0")
		for f := int16(1); f <= 8; f++ {
			e0, e1 := -1, -1
			if v >= 6 && f >= 5 {
				e0, e1 = 7, 8
			}
			p0, p1 := fmt.Sprintf("events/0=5@%d:mark", e0), fmt.Sprintf("events/1=%d@%d:mark", int64(1)<<40, e1)
			want(t, name, c.committed(f, name, asked), p1+" "+p0+" events/9=-1@-1:")
			if f >= 2 {
				want(t, name+", all", c.committed(f, name, nil), p0+" "+p1)
			}
		}
	}
	want(t, "a group that is not there", c.committed(8, "nobody", nil), "")
	r.home()
}

// Kafka's consumers may go back without more ado; mqd's own may not.
func TestAKafkaCommitMayGoBack(t *testing.T) {
	r := newRig(t, rigOptions{seed: 61, shards: 2})
	r.create("events", 1)
	c := r.dial()
	one := map[string][]int32{"events": {0}}
	want(t, "commit", c.commit(8, commitOf("crew", "events", "", 90)), "0")
	want(t, "commit", c.commit(8, commitOf("crew", "events", "", 30)), "0")
	want(t, "offset", c.committed(8, "crew", one), "events/0=30@7:")
	topic := r.node.Image().ByName("events")
	g := &native{Group: broker.Group{Kind: broker.GroupCommit, Name: []byte("crew"), Entries: []group.Entry{
		{Partition: group.Partition{Topic: topic.ID}, Next: 0, Epoch: -1},
	}}}
	r.native(g)
	if g.Entries[0].Code != group.Backwards {
		t.Errorf("a commit of mqd's own protocol that goes back: %v", g.Entries[0].Code)
	}
	r.home()
}

// native is a request of mqd's own protocol.
type native struct {
	broker.Group
	done bool
}

func (n *native) GroupDone(*broker.Group) { n.done = true }

func (r *rig) native(n *native) {
	r.t.Helper()
	n.Owner = n
	r.shards[len(r.shards)-1].broker.Group(&n.Group)
	r.until("an answer about a group", func() bool { return n.done })
}

func TestCommitsAreRefusedByTheirCodes(t *testing.T) {
	r := newRig(t, rigOptions{seed: 62, shards: 2})
	r.create("events", 2)
	c := r.dial()
	member := commitOf("crew", "events", "", 1)
	member.Generation, member.MemberID = 3, "a-1"
	for _, row := range []struct {
		what, codes string
		q           *kmsg.OffsetCommitRequest
	}{
		{"a topic that is not there", "3", commitOf("crew", "none", "", 1)},
		{"an internal topic", "3", commitOf("crew", "__groups", "", 1)},
		{"a partition that is not there", "0 0 3", commitOf("crew", "events", "", 1, 2, 3)},
		{"a negative offset", "42", commitOf("crew", "events", "", -5)},
		{"long metadata", "12", commitOf("crew", "events", strings.Repeat("m", 5000), 1)},
		{"a group without a name", "24", commitOf("", "events", "", 1)},
		{"a group with a line end in its name", "24", commitOf("a\nb", "events", "", 1)},
		{"a member that nobody knows", "25", member},
		{"nothing", "", commitOf("crew", "events", "")},
	} {
		want(t, row.what, c.commit(8, row.q), row.codes)
	}
	n := &native{Group: broker.Group{Kind: broker.GroupJoin, Name: []byte("ours"), Join: group.Join{Mode: group.ModeAuto, Session: 30e9, Topics: []string{"events"}}}}
	r.native(n)
	want(t, "a group with members of mqd's own protocol", c.commit(8, commitOf("ours", "events", "", 1)), "25")
	r.home()
}
