package kafka_test

import (
	"hash/crc32"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/net/kafka"
)

func checksum(b []byte) uint32 {
	return crc32.Checksum(b[batch.AtAttributes:], crc32.MakeTable(crc32.Castagnoli))
}

// fetchOf is a request for partitions of a topic, from offsets.
func fetchOf(topic string, offsets ...int64) *kmsg.FetchRequest {
	q := kmsg.NewPtrFetchRequest()
	q.MaxBytes, q.MinBytes = 10<<20, 1
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	for i, at := range offsets {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes = int32(i), at, 1<<20
		t.Partitions = append(t.Partitions, p)
	}
	q.Topics = append(q.Topics, t)
	return q
}

func (c *client) fetched(version int16, corr int32) []kmsg.FetchResponseTopicPartition {
	c.r.t.Helper()
	var a kmsg.FetchResponse
	c.take(version, corr, &a)
	if len(a.Topics) != 1 || a.SessionID != 0 || a.ErrorCode != 0 {
		c.r.t.Fatalf("an answer about %d topics, session %d, code %d", len(a.Topics), a.SessionID, a.ErrorCode)
	}
	return a.Topics[0].Partitions
}

// values are those of the records in some batches.
func values(t testing.TB, b []byte) (vs []string) {
	t.Helper()
	var d batch.Decoder
	for len(b) > 0 {
		first, rest, err := batch.Split(b)
		if err != nil {
			t.Fatal(err)
		}
		_, it, err := d.Open(first)
		if err != nil {
			t.Fatal(err)
		}
		for it.Next() {
			vs = append(vs, string(it.Record().Value))
		}
		b = rest
	}
	return vs
}

func TestEveryVersionOfFetchIsAnswered(t *testing.T) {
	r := newRig(t, rigOptions{seed: 10, shards: 2})
	r.create("events", 3)
	c := r.dial()
	c.produced(9, c.ask(9, produceOf("events", -1, records(0, "a", "b"), records(batch.CodecLz4, "c"))))
	for v := int16(4); v <= 12; v++ {
		for _, isolation := range []int8{0, 1} {
			q := fetchOf("events", 0, 0, 0)
			q.IsolationLevel = isolation
			parts := c.fetched(v, c.ask(v, q))
			if len(parts) != 3 {
				t.Fatalf("version %d: %d partitions", v, len(parts))
			}
			if got := strings.Join(append(values(t, parts[0].RecordBatches), values(t, parts[1].RecordBatches)...), ""); got != "abc" {
				t.Errorf("version %d: %q", v, got)
			}
			for i, end := range []int64{2, 1, 0} {
				p := &parts[i]
				if p.ErrorCode != 0 || p.HighWatermark != end || p.LastStableOffset != end || v >= 5 && p.LogStartOffset != 0 || (isolation == 0) != (p.AbortedTransactions == nil) {
					t.Errorf("version %d, partition %d: %+v", v, i, p)
				}
			}
		}
	}
	r.home()
}

func TestALongPollIsAnsweredWhenAllPartitionsTogetherHaveEnough(t *testing.T) {
	r := newRig(t, rigOptions{seed: 11, shards: 2})
	const partitions = 8
	r.create("events", partitions)
	c, p := r.dial(), r.dial()
	one := records(0, strings.Repeat("x", 100))
	q := fetchOf("events", make([]int64, partitions)...)
	q.MinBytes, q.MaxWaitMillis = int32(len(one)*10), 9000
	corr := c.ask(12, q)
	for i := range 10 {
		r.advance(20 * time.Millisecond)
		if len(c.frames) != 0 {
			t.Fatalf("an answer with %d of 10 batches", i)
		}
		w := produceOf("events", 1, one)
		w.Topics[0].Partitions[0].Partition = int32(i * 3 % partitions)
		p.produced(9, p.ask(9, w))
	}
	began, n := r.w.Now(), 0
	for _, at := range c.fetched(12, corr) {
		n += len(at.RecordBatches)
	}
	if n != 10*len(one) {
		t.Errorf("%d bytes, expected %d", n, 10*len(one))
	}
	if took := time.Duration(r.w.Now() - began); took > time.Second {
		t.Errorf("it was answered %v of the simulated time after there was enough", took)
	}
	// Each partition is asked again when one has grown by its share, and not all the time.
	if n := r.shards[0].tap.fetched + r.shards[1].tap.fetched; n > 100 {
		t.Errorf("the broker was asked %d times", n)
	}
	r.home()
}

func TestALongPollEndsInTimeWithWhatThereIs(t *testing.T) {
	r := newRig(t, rigOptions{seed: 12, shards: 2})
	r.create("events", 4)
	c := r.dial()
	c.produced(9, c.ask(9, produceOf("events", 1, records(0, "only"))))
	q := fetchOf("events", 0, 0, 0, 0)
	q.MinBytes, q.MaxWaitMillis = 1<<20, 500
	began := r.w.Now()
	parts := c.fetched(12, c.ask(12, q))
	if took := time.Duration(r.w.Now() - began); took < 500*time.Millisecond || took > 600*time.Millisecond {
		t.Errorf("it took %v of the simulated time", took)
	}
	if got := values(t, parts[0].RecordBatches); len(got) != 1 || got[0] != "only" {
		t.Errorf("%q", got)
	}
	r.home()
}

// Nobody waits for more than the answer may have.
func TestMoreThanAnAnswerMayHaveIsNotWaitedFor(t *testing.T) {
	r := newRig(t, rigOptions{seed: 19})
	r.create("events", 2)
	c := r.dial()
	c.produced(9, c.ask(9, produceOf("events", 1, records(0, "only"))))
	q := fetchOf("events", 0, 0)
	q.MaxBytes, q.MinBytes, q.MaxWaitMillis = 1, 1<<20, 9000
	began := r.w.Now()
	parts := c.fetched(12, c.ask(12, q))
	if got := values(t, parts[0].RecordBatches); len(got) != 1 || r.w.Now()-began > int64(time.Second) {
		t.Errorf("%q after %v of the simulated time", got, time.Duration(r.w.Now()-began))
	}
	r.home()
}

// As in redpanda#28501: a limit that is reached ends the wait for more.
func TestAFullPartitionIsNotWaitedFor(t *testing.T) {
	r := newRig(t, rigOptions{seed: 13})
	r.create("events", 1)
	c := r.dial()
	for range 20 {
		c.produced(9, c.ask(9, produceOf("events", 1, records(0, strings.Repeat("x", 10<<10)))))
	}
	q := fetchOf("events", 0)
	q.MinBytes, q.MaxWaitMillis = 1<<20, 9000
	q.Topics[0].Partitions[0].PartitionMaxBytes = 64 << 10
	began := r.w.Now()
	p := c.fetched(12, c.ask(12, q))[0]
	if n := len(p.RecordBatches); n < 50<<10 || n > 64<<10 || r.w.Now()-began > int64(time.Second) {
		t.Errorf("%d bytes after %v", n, time.Duration(r.w.Now()-began))
	}
	r.home()
}

func TestTheFirstBatchIsSentHoweverLargeAndTheAnswerIsBounded(t *testing.T) {
	r := newRig(t, rigOptions{seed: 14, shards: 2, kafka: kafka.Options{MaxPinned: 300 << 10}})
	r.create("events", 12)
	c := r.dial()
	var batches [][]byte
	for range 11 {
		batches = append(batches, records(0, strings.Repeat("x", 100<<10)))
	}
	c.produced(9, c.ask(9, produceOf("events", 1, batches...)))
	for _, most := range []int32{0, 1, 150 << 10, 1 << 30} {
		q := fetchOf("events", make([]int64, 12)...)
		q.MaxBytes = most
		for i := range q.Topics[0].Partitions {
			q.Topics[0].Partitions[i].PartitionMaxBytes = 1
		}
		n := 0
		for i, p := range c.fetched(12, c.ask(12, q)) {
			n += len(p.RecordBatches)
			if end := min(int64(11-i), 1); p.ErrorCode != 0 || p.HighWatermark != max(0, end) || p.LogStartOffset != 0 {
				t.Errorf("at most %d bytes, partition %d: %+v", most, i, p.HighWatermark)
			}
		}
		want := len(batches[0])
		if most == 1<<30 {
			want *= 2
		}
		if n != want {
			t.Errorf("at most %d bytes: %d came, expected %d", most, n, want)
		}
	}
	r.home()
}

func TestAFetchTellsWhatIsWrong(t *testing.T) {
	r := newRig(t, rigOptions{seed: 15})
	r.create("events", 1)
	c := r.dial()
	q := fetchOf("events", 5)
	q.MaxWaitMillis = 9000
	if p := c.fetched(12, c.ask(12, q))[0]; p.ErrorCode != 1 || p.HighWatermark != 0 {
		t.Errorf("behind the end: %+v", p)
	}
	q = fetchOf("unknown", 0)
	q.MaxWaitMillis = 9000
	if p := c.fetched(12, c.ask(12, q))[0]; p.ErrorCode != 3 || p.HighWatermark != -1 {
		t.Errorf("an unknown topic: %+v", p)
	}
	q = fetchOf("events", 0)
	q.SessionID, q.SessionEpoch = 7, 1
	var a kmsg.FetchResponse
	c.take(12, c.ask(12, q), &a)
	if a.ErrorCode != 70 || len(a.Topics) != 0 {
		t.Errorf("a session that there is not: %+v", a)
	}
	r.home()
}

// The epoch says whether a session is meant: kafka-go sends the id -1 with the epoch -1.
func TestARequestOutsideOfSessionsIsAnsweredWhateverItsSessionID(t *testing.T) {
	r := newRig(t, rigOptions{seed: 18, shards: 1})
	r.create("events", 1)
	c := r.dial()
	for _, epoch := range []int32{-1, 0} {
		for _, id := range []int32{-1, 0, 7} {
			q := fetchOf("events", 0)
			q.SessionID, q.SessionEpoch = id, epoch
			var a kmsg.FetchResponse
			c.take(12, c.ask(12, q), &a)
			if a.ErrorCode != 0 || a.SessionID != 0 || len(a.Topics) != 1 {
				t.Errorf("session %d, epoch %d: %+v", id, epoch, a)
			}
		}
	}
	r.home()
}

// A consumer that goes away in the middle of a long poll leaves nothing behind.
func TestAConnectionThatEndsInALongPollLeavesNothing(t *testing.T) {
	r := newRig(t, rigOptions{seed: 16, shards: 2})
	r.create("events", 6)
	for range 10 {
		c := r.dial()
		q := fetchOf("events", make([]int64, 6)...)
		q.MaxWaitMillis = 60_000
		c.ask(12, q)
		r.advance(20 * time.Millisecond)
		c.close()
	}
	r.home()
}
