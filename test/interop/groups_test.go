package interop

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// commit commits offsets of a topic, partition by partition, for a consumer that is no
// member of the group.
func commit(t *testing.T, ctx context.Context, c *kgo.Client, group, topic string, offsets ...int64) {
	t.Helper()
	q := kmsg.NewPtrOffsetCommitRequest()
	q.Group, q.Generation = group, -1
	at := kmsg.NewOffsetCommitRequestTopic()
	at.Topic = topic
	for i, o := range offsets {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset = int32(i), o
		at.Partitions = append(at.Partitions, p)
	}
	q.Topics = append(q.Topics, at)
	a, err := q.RequestWith(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range a.Topics[0].Partitions {
		if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
			t.Fatalf("partition %d: %v", p.Partition, err)
		}
	}
}

// committed is what a group has committed for the partitions of a topic.
func committed(t *testing.T, ctx context.Context, c *kgo.Client, group, topic string) map[int32]int64 {
	t.Helper()
	q := kmsg.NewPtrOffsetFetchRequest()
	g := kmsg.NewOffsetFetchRequestGroup()
	q.Group, g.Group = group, group
	q.Groups = append(q.Groups, g)
	a, err := q.RequestWith(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	got := map[int32]int64{}
	for _, g := range a.Groups {
		if err := kerr.ErrorForCode(g.ErrorCode); err != nil {
			t.Fatal(err)
		}
		for _, at := range g.Topics {
			for _, p := range at.Partitions {
				if at.Topic == topic {
					got[p.Partition] = p.Offset
				}
			}
		}
	}
	return got
}

func TestOffsetsOfASimpleConsumerSurviveAKill(t *testing.T) {
	b := start(t)
	ctx := within(t)
	b.mqd("places", 2)
	c := b.kgo()
	commit(t, ctx, c, "simple", "places", 20, 30)
	commit(t, ctx, c, "simple", "places", 10) // back, as Kafka allows
	b.kill()
	b.launch()
	if got := committed(t, ctx, c, "simple", "places"); len(got) != 2 || got[0] != 10 || got[1] != 30 {
		t.Errorf("committed are %v, expected 10 and 30", got)
	}
	d, err := b.dial().Admin().DescribeGroup(ctx, "simple")
	if err != nil || len(d.Partitions) != 2 || d.Partitions[1].Committed != 30 {
		t.Errorf("the batch protocol describes %+v, %v", d, err)
	}
}
