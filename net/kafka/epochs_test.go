package kafka_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ends asks where epochs of partition 0 of a topic end: for each one what is answered.
func (c *client) ends(version int16, topic string, known int32, epochs ...int32) []kmsg.OffsetForLeaderEpochResponseTopicPartition {
	c.r.t.Helper()
	q := kmsg.NewPtrOffsetForLeaderEpochRequest()
	t := kmsg.NewOffsetForLeaderEpochRequestTopic()
	t.Topic = topic
	for _, e := range epochs {
		p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		p.CurrentLeaderEpoch, p.LeaderEpoch = known, e
		t.Partitions = append(t.Partitions, p)
	}
	q.Topics = append(q.Topics, t)
	var a kmsg.OffsetForLeaderEpochResponse
	c.take(version, c.ask(version, q), &a)
	return a.Topics[0].Partitions
}

// Scenario 30: all answers agree about the leader epoch, and it is that of the batches.
func TestScenario30AllAnswersHaveTheSameLeaderEpoch(t *testing.T) {
	r := newRig(t, rigOptions{seed: 27, shards: 2})
	r.create("events", 1)
	c := r.dial()
	c.produced(9, c.ask(9, produceOf("events", 1, records(0, "a", "b"))))
	term := r.node.Term()
	if term < 1 {
		t.Fatalf("life %d", term)
	}
	for v := int16(7); v <= 12; v++ {
		if p := c.metadata(v, false, "events").Topics[0].Partitions[0]; p.LeaderEpoch != term {
			t.Errorf("metadata version %d: epoch %d, expected %d", v, p.LeaderEpoch, term)
		}
	}
	f := c.fetched(12, c.ask(12, fetchOf("events", 0)))
	var b kmsg.RecordBatch
	if err := b.ReadFrom(f[0].RecordBatches); err != nil || b.PartitionLeaderEpoch != term {
		t.Errorf("a batch of epoch %d, %v", b.PartitionLeaderEpoch, err)
	}
	for _, time := range []int64{-1, -2, 0} {
		if l := c.offsetAt(6, time, -1); l.LeaderEpoch != term || l.ErrorCode != 0 {
			t.Errorf("offset at %d: %+v", time, l)
		}
	}
	for v := int16(2); v <= 4; v++ {
		a := c.ends(v, "events", term, term, term+1, term-1, -1)
		for i, want := range []struct {
			epoch int32
			end   int64
		}{{term, 2}, {-1, -1}, {term - 1, 0}, {-1, -1}} {
			if a[i].ErrorCode != 0 || a[i].LeaderEpoch != want.epoch || a[i].EndOffset != want.end {
				t.Errorf("version %d, question %d: %+v, expected %+v", v, i, a[i], want)
			}
		}
	}
	if a := c.ends(4, "none", -1, 0); a[0].ErrorCode != 3 || a[0].EndOffset != -1 {
		t.Errorf("of no topic: %+v", a)
	}
	r.home()
}

// offsetAt looks an offset of partition 0 of events up, with a leader epoch that is known.
func (c *client) offsetAt(version int16, time int64, known int32) kmsg.ListOffsetsResponseTopicPartition {
	c.r.t.Helper()
	q := kmsg.NewPtrListOffsetsRequest()
	t := kmsg.NewListOffsetsRequestTopic()
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Timestamp, p.CurrentLeaderEpoch = time, known
	t.Topic, t.Partitions = "events", append(t.Partitions, p)
	q.Topics = append(q.Topics, t)
	var a kmsg.ListOffsetsResponse
	c.take(version, c.ask(version, q), &a)
	return a.Topics[0].Partitions[0]
}

// A client that knows another epoch than this one has to look at metadata again.
func TestAnotherLeaderEpochIsRefused(t *testing.T) {
	r := newRig(t, rigOptions{seed: 28})
	r.create("events", 1)
	c := r.dial()
	c.produced(9, c.ask(9, produceOf("events", 1, records(0, "a", "b"))))
	term := r.node.Term()
	for known, want := range map[int32]int16{-1: 0, term: 0, term - 1: 74, term + 1: 75} {
		for v := int16(9); v <= 12; v++ {
			q := fetchOf("events", 0)
			q.Topics[0].Partitions[0].CurrentLeaderEpoch = known
			if f := c.fetched(v, c.ask(v, q))[0]; f.ErrorCode != want || (len(f.RecordBatches) > 0) != (want == 0) {
				t.Errorf("fetch version %d with epoch %d: code %d, %d bytes", v, known, f.ErrorCode, len(f.RecordBatches))
			}
		}
		if l := c.offsetAt(6, -1, known); l.ErrorCode != want || (l.Offset == 2) != (want == 0) {
			t.Errorf("offsets with epoch %d: %+v", known, l)
		}
		if a := c.ends(4, "events", known, term); a[0].ErrorCode != want || (a[0].EndOffset == 2) != (want == 0) {
			t.Errorf("end of an epoch with epoch %d: %+v", known, a)
		}
	}
	r.home()
}
