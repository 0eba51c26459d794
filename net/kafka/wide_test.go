package kafka_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mqd-broker/mqd/net/kafka"
)

// wideOf is a long poll of the end of n partitions of a topic that has none written.
func wideOf(topic string, n int, wait time.Duration) *kmsg.FetchRequest {
	q := fetchOf(topic, make([]int64, n)...)
	q.MaxWaitMillis = int32(wait.Milliseconds())
	return q
}

// quiet fails unless an answer has all partitions, without errors and, but for one, empty.
func (c *client) quiet(corr int32, n, written int) {
	c.r.t.Helper()
	parts := c.fetched(12, corr)
	if len(parts) != n {
		c.r.t.Fatalf("an answer about %d partitions, expected %d", len(parts), n)
	}
	for i := range parts {
		p, end := &parts[i], int64(0)
		if i == written {
			end = 1
		}
		if p.ErrorCode != 0 || p.HighWatermark != end || p.LogStartOffset != 0 || (len(p.RecordBatches) > 0) != (i == written) {
			c.r.t.Fatalf("partition %d: code %d, %d to %d, %d bytes", i, p.ErrorCode, p.LogStartOffset, p.HighWatermark, len(p.RecordBatches))
		}
	}
}

// A shard has room for so many waits, and one request may be for more partitions.
func TestAFetchOfMorePartitionsThanMayWaitWaits(t *testing.T) {
	for _, n := range []int{15_000, 20_000} {
		r := newRig(t, rigOptions{seed: 40})
		r.create("wide", 20_000)
		r.create("other", 1)
		one, two, small, p := r.dial(), r.dial(), r.dial(), r.dial()
		first, second := one.ask(12, wideOf("wide", n, 9*time.Second)), two.ask(12, wideOf("wide", n, 2*time.Second))
		began := r.w.Now()
		r.advance(100 * time.Millisecond)
		third := small.ask(12, wideOf("other", 1, 9*time.Second))
		r.advance(100 * time.Millisecond)
		if len(one.frames)+len(two.frames)+len(small.frames) > 0 {
			t.Fatalf("%d partitions: answered, and there is nothing", n)
		}
		// Others read and write, and hear of messages at once.
		p.produced(9, p.ask(9, produceOf("other", 1, records(0, "x"))))
		wrote := r.w.Now()
		small.quiet(third, 1, 0)
		if took := time.Duration(r.w.Now() - wrote); took > 5*time.Millisecond {
			t.Errorf("%d partitions: another consumer heard of its message after %v", n, took)
		}
		two.quiet(second, n, -1)
		if took := time.Duration(r.w.Now() - began); took < 2*time.Second || took > 3*time.Second {
			t.Errorf("%d partitions: a wait of 2 s ended after %v", n, took)
		}
		// The last partition is one for which there was no room.
		w := produceOf("wide", 1, records(0, "x"))
		w.Topics[0].Partitions[0].Partition = int32(n - 1)
		p.produced(9, p.ask(9, w))
		one.quiet(first, n, n-1)
		if took := time.Duration(r.w.Now() - began); took > 5*time.Second {
			t.Errorf("%d partitions: a message was seen %v after the beginning", n, took)
		}
		if n := r.failures(); n != 0 {
			t.Errorf("%d answers with errors", n)
		}
		r.home()
	}
}

// A request of very many partitions counts apart: only those wait for it.
func TestLongPollsOfManyPartitionsKeepNobodyFromAsking(t *testing.T) {
	r := newRig(t, rigOptions{seed: 41, kafka: kafka.Options{MaxRequests: 320}})
	r.create("wide", 200)
	r.create("other", 1)
	one, two, three, small, p := r.dial(), r.dial(), r.dial(), r.dial(), r.dial()
	first := one.ask(12, wideOf("wide", 200, 2*time.Second))
	two.ask(12, wideOf("wide", 200, 9*time.Second))
	r.until("both wait", func() bool { return r.shards[0].server.InFlight() == 400 })
	third := three.ask(12, wideOf("wide", 200, 0))
	r.advance(50 * time.Millisecond)
	if n := r.shards[0].server.InFlight(); n != 400 || len(three.frames) != 0 {
		t.Errorf("there is no room for more, and %d are in flight", n)
	}
	p.produced(9, p.ask(9, produceOf("other", 1, records(0, "x"))))
	small.quiet(small.ask(12, wideOf("other", 1, 9*time.Second)), 1, 0)
	if len(one.frames)+len(three.frames) > 0 {
		t.Error("others were answered behind a long poll only")
	}
	one.quiet(first, 200, -1)
	three.quiet(third, 200, -1)
	two.close() // in the middle of its long poll
	r.advance(10 * time.Millisecond)
	if n := r.shards[0].server.InFlight(); n != 0 {
		t.Errorf("%d are in flight, and nobody asks", n)
	}
	r.home()
}

// What one answer keeps for a reader is bounded in partitions too, and it is sent although
// the reader would like more.
func TestAnAnswerHasBatchesOfABoundedNumberOfPartitions(t *testing.T) {
	const n, most = 2500, 2000
	r := newRig(t, rigOptions{seed: 42, shards: 2})
	r.create("wide", n)
	c := r.dial()
	batches := make([][]byte, n)
	for i := range batches {
		batches[i] = records(0, "x")
	}
	c.produced(9, c.ask(9, produceOf("wide", 1, batches...)))
	q := wideOf("wide", n, 9*time.Second)
	q.MinBytes = 1 << 20
	began := r.w.Now()
	filled := 0
	for i, p := range c.fetched(12, c.ask(12, q)) {
		if p.ErrorCode != 0 || p.HighWatermark != 1 || p.LogStartOffset != 0 {
			t.Fatalf("partition %d: code %d, %d to %d", i, p.ErrorCode, p.LogStartOffset, p.HighWatermark)
		}
		if len(p.RecordBatches) > 0 {
			filled++
		}
	}
	if took := time.Duration(r.w.Now() - began); filled != most || took > time.Second {
		t.Errorf("batches of %d partitions after %v, expected %d", filled, took, most)
	}
	r.home()
}
