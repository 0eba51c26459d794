package kafka_test

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mqd-broker/mqd/broker"
)

// more asks for more partitions of topics.
func (c *client) more(version int16, validate bool, topics ...kmsg.CreatePartitionsRequestTopic) []kmsg.CreatePartitionsResponseTopic {
	c.r.t.Helper()
	q := kmsg.NewPtrCreatePartitionsRequest()
	q.Topics, q.ValidateOnly = topics, validate
	var a kmsg.CreatePartitionsResponse
	c.take(version, c.ask(version, q), &a)
	return a.Topics
}

// moreOf asks for n partitions of a topic, with the replicas of each new one if any are given.
func moreOf(name string, n int32, replicas ...[]int32) kmsg.CreatePartitionsRequestTopic {
	t := kmsg.NewCreatePartitionsRequestTopic()
	t.Topic, t.Count = name, n
	for _, r := range replicas {
		t.Assignment = append(t.Assignment, kmsg.CreatePartitionsRequestTopicAssignment{Replicas: r})
	}
	return t
}

func TestTopicsGetMorePartitionsInEveryVersion(t *testing.T) {
	r := newRig(t, rigOptions{seed: 54, shards: 2})
	r.create("events", 1)
	r.create("others", 1)
	c := r.dial()
	c.produced(9, c.ask(9, produceOf("events", 1, records(0, "a"))))
	n := int32(1)
	for v := int16(0); v <= 3; v++ {
		if a := c.more(v, true, moreOf("events", n+2)); a[0].ErrorCode != 0 || a[0].Topic != "events" {
			t.Errorf("version %d, validate only: %+v", v, a)
		}
		if m := c.metadata(12, false, "events"); len(m.Topics[0].Partitions) != int(n) {
			t.Fatalf("version %d: to validate has made %d partitions", v, len(m.Topics[0].Partitions))
		}
		a := c.more(v, false, moreOf("events", n+1), moreOf("others", 2*n+1, []int32{1}, []int32{1}))
		if n++; a[0].ErrorCode != 0 || a[1].ErrorCode != 0 {
			t.Fatalf("version %d: %+v", v, a)
		}
		if m := c.metadata(12, false, "events", "others"); len(m.Topics[0].Partitions) != int(n) || len(m.Topics[1].Partitions) != int(2*n-1) {
			t.Errorf("version %d: %+v", v, m.Topics)
		}
		q := produceOf("events", 1, records(0, "a"))
		q.Topics[0].Partitions[0].Partition = n - 1
		if p := c.produced(9, c.ask(9, q)); p[0].ErrorCode != 0 || p[0].BaseOffset != 0 {
			t.Errorf("version %d: produce to partition %d: %+v", v, n-1, p[0])
		}
	}
	r.home()
}

func TestPartitionsThatCannotBeAreRefusedWithTheirReason(t *testing.T) {
	r := newRig(t, rigOptions{seed: 55, broker: broker.Options{MaxTopicPartitions: 8, MaxPartitions: 12}})
	r.create("four", 4)
	r.create("five", 5)
	c := r.dial()
	for i, x := range []struct {
		topics []kmsg.CreatePartitionsRequestTopic
		code   int16
		text   string
	}{
		{[]kmsg.CreatePartitionsRequestTopic{moreOf("none", 2)}, 3, "no topic"},
		{[]kmsg.CreatePartitionsRequestTopic{moreOf("four", 4)}, 37, "has 4"},
		{[]kmsg.CreatePartitionsRequestTopic{moreOf("four", 3)}, 37, "only be more"},
		{[]kmsg.CreatePartitionsRequestTopic{moreOf("four", 0)}, 37, "only be more"},
		{[]kmsg.CreatePartitionsRequestTopic{moreOf("four", -1)}, 37, "only be more"},
		{[]kmsg.CreatePartitionsRequestTopic{moreOf("four", 9)}, 37, "1 to 8"},
		{[]kmsg.CreatePartitionsRequestTopic{moreOf("four", 2147483647)}, 37, "1 to 8"},
		{[]kmsg.CreatePartitionsRequestTopic{moreOf("four", 8)}, 37, "limit is 12"},
		{[]kmsg.CreatePartitionsRequestTopic{moreOf("four", 6, []int32{1})}, 39, "expected 2"},
		{[]kmsg.CreatePartitionsRequestTopic{moreOf("four", 5, []int32{2})}, 39, "broker 1"},
		{[]kmsg.CreatePartitionsRequestTopic{moreOf("four", 5, []int32{1, 1})}, 39, "broker 1"},
		{[]kmsg.CreatePartitionsRequestTopic{moreOf("four", 5), moreOf("four", 5)}, 42, "2 times"},
	} {
		for _, validate := range []bool{true, false} {
			for _, a := range c.more(3, validate, x.topics...) {
				if a.ErrorCode != x.code || a.ErrorMessage == nil || !strings.Contains(*a.ErrorMessage, x.text) {
					t.Errorf("case %d: %+v, expected %d and %q", i, a, x.code, x.text)
				}
			}
		}
	}
	if n := r.shards[0].broker.Image().Partitions(); n != 9 {
		t.Errorf("%d partitions", n)
	}
	r.home()
}
