package kafka_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/broker/classic"
)

// Scenario 22: limits that no batch fits into never make an answer empty: the first
// partition of the request that has something yields a whole batch, behind others that have
// nothing.
func TestScenario22TheFirstPartitionThatHasSomethingYieldsABatch(t *testing.T) {
	r := newRig(t, rigOptions{seed: 122, shards: 2})
	r.create("events", 6)
	c := r.dial()
	q := produceOf("events", 1, records(0, strings.Repeat("a", 5000)), records(0, strings.Repeat("b", 5000)))
	q.Topics[0].Partitions[0].Partition, q.Topics[0].Partitions[1].Partition = 2, 4
	c.produced(9, c.ask(9, q))
	for _, most := range []int32{-1, 0, 1, 4000} {
		for _, order := range [][]int32{{0, 1, 2, 3, 4, 5}, {5, 4, 3, 2, 1, 0}, {3, 2, 4}, {0, 4, 2}} {
			f := fetchOf("events", make([]int64, len(order))...)
			f.MaxBytes, f.MaxWaitMillis = most, 9000
			first := int32(-1)
			for i, at := range order {
				p := &f.Topics[0].Partitions[i]
				p.Partition, p.PartitionMaxBytes = at, most
				if first < 0 && (at == 2 || at == 4) {
					first = at
				}
			}
			for _, p := range c.fetched(12, c.ask(12, f)) {
				if (len(p.RecordBatches) > 5000) != (p.Partition == first) || p.Partition != first && len(p.RecordBatches) > 0 || p.ErrorCode != 0 {
					t.Errorf("at most %d bytes, order %v: partition %d has %d bytes, code %d", most, order, p.Partition, len(p.RecordBatches), p.ErrorCode)
				}
			}
		}
	}
	r.home()
}

// Scenarios 23 and 41: the places of a log are real ones, also of one that is empty: nothing
// but records takes offsets, and where there are none the start is the end.
func TestScenario23AnEmptyLogEndsWhereItStarts(t *testing.T) {
	r := newRig(t, rigOptions{seed: 123, shards: 2})
	r.create("events", 1)
	end := int64(0)
	for round := range 3 {
		c := r.dial()
		for _, start := range []int64{end, end + 3} {
			for v := int16(4); v <= 12; v++ {
				for _, isolation := range []int8{0, 1} {
					q := fetchOf("events", start)
					q.IsolationLevel = isolation
					p := c.fetched(v, c.ask(v, q))[0]
					if p.ErrorCode != 0 || p.HighWatermark != start || p.LastStableOffset != start || v >= 5 && p.LogStartOffset != start || len(p.RecordBatches) > 0 {
						t.Errorf("round %d, version %d, expected all at %d: %+v", round, v, start, p)
					}
				}
			}
			if got := c.lookups(7, -2, -1); got[0] != [2]int64{start, -1} || got[1] != [2]int64{start, -1} {
				t.Errorf("round %d: %v, expected %d", round, got, start)
			}
			if start == end {
				if p := c.produced(9, c.ask(9, produceOf("events", -1, records(0, "a", "b", "c"))))[0]; p.BaseOffset != end {
					t.Errorf("round %d: the first record is at %d, expected %d", round, p.BaseOffset, end)
				}
				want(t, "a commit", c.commit(8, commitOf("crew", "events", "", end+3)), "0")
				c.deleteTo(-1)
			}
		}
		end += 3
		c.close()
		r.restart()
	}
	r.home()
}

// Scenario 24: whatever keeps the broker from reading, a consumer hears what it knows what to
// do about; a time-out or an overload would end some of them.
func TestScenario24ConsumersHearOnlyCodesThatTheyKnow(t *testing.T) {
	r := newRig(t, rigOptions{seed: 124})
	r.create("events", 1)
	tap, c := r.shards[0].tap, r.dial()
	for code, want := range map[broker.Code]int16{
		broker.Busy: 6, broker.NotReady: 6, broker.ShuttingDown: 6, broker.Storage: 56, broker.Corrupt: 2,
		broker.UnknownTopic: 3, broker.UnknownPartition: 3, broker.OffsetOutOfRange: 1, broker.Internal: -1,
	} {
		tap.fail = code
		q := fetchOf("events", 0)
		q.MaxWaitMillis = 60_000
		began := r.w.Now()
		for v := int16(4); v <= 12; v++ {
			if p := c.fetched(v, c.ask(v, q))[0]; p.ErrorCode != want || len(p.RecordBatches) > 0 {
				t.Errorf("%v, fetch version %d: code %d, expected %d", code, v, p.ErrorCode, want)
			}
		}
		if took := time.Duration(r.w.Now() - began); took > time.Second {
			t.Errorf("%v: nine answers took %v", code, took)
		}
		for _, at := range []int64{-1, -2, 5} {
			if l := c.offsetAt(6, at, -1); l.ErrorCode != want || l.Offset != -1 {
				t.Errorf("%v, offset at %d: %+v, expected %d", code, at, l, want)
			}
		}
	}
	tap.fail = broker.OK
	q := fetchOf("events", 0)
	q.MaxWaitMillis = 300
	if p := c.fetched(12, c.ask(12, q))[0]; p.ErrorCode != 0 || len(p.RecordBatches) != 0 || p.HighWatermark != 0 {
		t.Errorf("when the wait is over: %+v", p)
	}
	r.home()
}

// Scenario 26: without sessions every answer is about all partitions that have been named,
// and one that comes first does not keep those behind it out for ever: whoever names it last
// has the others.
func TestScenario26WithoutSessionsNobodyStarves(t *testing.T) {
	r := newRig(t, rigOptions{seed: 126, shards: 2})
	const partitions = 4
	r.create("events", partitions)
	c := r.dial()
	var batches [][]byte
	for i := range partitions {
		batches = append(batches, records(0, strings.Repeat(fmt.Sprint(i), 1000)))
	}
	next := make([]int64, partitions)
	for range 2 * partitions { // more comes all the time
		c.produced(9, c.ask(9, produceOf("events", 1, batches...)))
	}
	order := []int32{0, 1, 2, 3}
	for round := range 2 * partitions {
		q := fetchOf("events", make([]int64, partitions)...)
		q.MaxBytes = 1
		for i, at := range order {
			q.Topics[0].Partitions[i].Partition, q.Topics[0].Partitions[i].FetchOffset = at, next[at]
		}
		parts := c.fetched(12, c.ask(12, q))
		if len(parts) != partitions {
			t.Fatalf("round %d: an answer about %d partitions", round, len(parts))
		}
		for _, p := range parts {
			if p.HighWatermark != 2*partitions || p.ErrorCode != 0 {
				t.Errorf("round %d: %+v", round, p)
			}
			if len(p.RecordBatches) > 0 {
				next[p.Partition]++
			}
		}
		order = append(order[1:], order[0])
	}
	if !slices.Equal(next, []int64{2, 2, 2, 2}) {
		t.Errorf("after eight answers of one batch each the partitions are read up to %v", next)
	}
	r.home()
}

// Scenario 29: what is looked up by time is the first record at or above it, whatever the
// order of times within batches and between them, and never one that has been deleted.
func TestScenario29TimesNeedNotBeInOrderAndDeletedRecordsAreNotFound(t *testing.T) {
	for _, codec := range []batch.Codec{batch.CodecNone, batch.CodecLz4} {
		r := newRig(t, rigOptions{seed: 129})
		r.create("events", 1)
		c := r.dial()
		var times []int64 // by offset
		for _, b := range [][]int64{{50, 10, 40}, {30, 90, 20}, {60}, {5, 6, 7, 8}, {120, 100, 110}, {95, 130}} {
			c.produced(9, c.ask(9, produceOf("events", 1, timed(codec, b...))))
			times = append(times, b...)
		}
		for start := range len(times) {
			c.deleteTo(int64(start))
			for _, at := range []int64{1, 6, 8, 10, 11, 50, 51, 90, 95, 96, 120, 121, 130, 131} {
				want := [2]int64{-1, -1}
				if i := slices.IndexFunc(times[start:], func(x int64) bool { return x >= at }); i >= 0 {
					want = [2]int64{int64(start + i), times[start+i]}
				}
				if got := c.lookups(6, at)[0]; got != want {
					t.Fatalf("%v, the log starts at %d, time %d: %v, expected %v", codec, start, at, got, want)
				}
			}
		}
		r.home()
	}
}

// isolated looks up an offset with an isolation level.
func (c *client) isolated(level int8, time int64) kmsg.ListOffsetsResponseTopicPartition {
	c.r.t.Helper()
	q := kmsg.NewPtrListOffsetsRequest()
	q.IsolationLevel = level
	t := kmsg.NewListOffsetsRequestTopic()
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Timestamp, p.CurrentLeaderEpoch = time, -1
	t.Topic, t.Partitions = "events", append(t.Partitions, p)
	q.Topics = append(q.Topics, t)
	var a kmsg.ListOffsetsResponse
	c.take(7, c.ask(7, q), &a)
	return a.Topics[0].Partitions[0]
}

// Scenario 29: both isolation levels end where a fetch of that level does.
func TestScenario29TheEndIsThatOfTheIsolationLevel(t *testing.T) {
	r := newRig(t, rigOptions{seed: 130})
	r.create("events", 1)
	c := r.dial()
	for n := range int64(3) {
		for level := range int8(2) {
			q := fetchOf("events", n)
			q.IsolationLevel = level
			f := c.fetched(12, c.ask(12, q))[0]
			readable := []int64{f.HighWatermark, f.LastStableOffset}[level]
			if l := c.isolated(level, -1); l.ErrorCode != 0 || l.Offset != readable || l.Offset != n {
				t.Errorf("%d records, level %d: the end is %+v, a fetch reads up to %d", n, level, l, readable)
			}
		}
		c.produced(9, c.ask(9, produceOf("events", 1, records(0, "x"))))
	}
	r.home()
}

// Scenario 33: what clients have as session timeouts is taken, both bounds included.
func TestScenario33SessionsWithinTheBoundsAreTaken(t *testing.T) {
	r := newRig(t, rigOptions{seed: 133, broker: broker.Options{Classic: classic.Limits{Delay: -1}}})
	for session, want := range map[int32]int16{999: 26, 1000: 0, 6000: 0, 10_000: 0, 45_000: 0, 1800_000: 0, 1800_001: 26, 0: 26, -1: 26} {
		c := r.dial()
		q := kmsg.NewPtrJoinGroupRequest()
		q.Group, q.SessionTimeoutMillis, q.RebalanceTimeoutMillis, q.ProtocolType = fmt.Sprint("crew", session), session, 20_000, "consumer"
		q.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
		var a kmsg.JoinGroupResponse
		if c.take(3, c.ask(3, q), &a); a.ErrorCode != want {
			t.Errorf("a session of %d ms: code %d, expected %d", session, a.ErrorCode, want)
		}
	}
	r.home()
}

// Scenario 33: a leader that assigns nothing ends nobody's wait with an error that a member
// does not know: the others rebalance without it.
func TestScenario33ALeaderThatNeverAssignsIsReplaced(t *testing.T) {
	r := newRig(t, rigOptions{seed: 134, shards: 2, broker: broker.Options{Classic: classic.Limits{Delay: -1}}})
	a, b := r.member("crew"), r.member("crew")
	a.entered(9, a.enter(9))
	want(t, "sync", a.synced(5, a.sync(5, nil)), "")
	corr := b.enter(9)
	a.entered(9, a.join(9))
	b.entered(9, corr)
	if !a.leads() || a.generation != 2 {
		t.Fatalf("%+v", a.joined)
	}
	corr = b.sync(5, nil)
	for range 8 { // the rebalance timeout is 20 s, and the leader lives
		r.advance(3 * time.Second)
		a.beat(4)
	}
	want(t, "a sync for which nobody has assigned", b.synced(5, corr), "27")
	corr = b.join(9)
	b.entered(9, corr)
	if !b.leads() || len(b.joined.Members) != 1 {
		t.Fatalf("%+v", b.joined)
	}
	want(t, "the next sync", b.synced(5, b.sync(5, map[string]string{b.id: "all"})), "all")
	want(t, "the leader that was", a.synced(5, a.sync(5, nil)), "25")
	r.home()
}

// grouped asks all requests about a group that clients come back with, and returns the
// codes of the answers.
func (c *client) grouped(id string) map[string]int16 {
	c.r.t.Helper()
	m := &member{client: c, group: "crew", id: id}
	codes := map[string]int16{}
	m.take(9, m.join(9), &m.joined)
	codes["join"] = m.joined.ErrorCode
	var s kmsg.SyncGroupResponse
	m.take(5, m.sync(5, nil), &s)
	codes["sync"], codes["heartbeat"], codes["leave"] = s.ErrorCode, m.beat(4), m.leave(5, "nobody")[0]
	var commit kmsg.OffsetCommitResponse
	c.take(8, c.ask(8, commitOf("crew", "events", "", 1)), &commit)
	codes["commit"] = commit.Topics[0].Partitions[0].ErrorCode
	q := kmsg.NewPtrOffsetFetchRequest()
	q.Group, q.Topics = "crew", []kmsg.OffsetFetchRequestTopic{{Topic: "events", Partitions: []int32{0}}}
	var o kmsg.OffsetFetchResponse
	c.take(7, c.ask(7, q), &o)
	codes["offsets"] = o.ErrorCode
	return codes
}

// Scenario 35: a coordinator that has not read its groups yet, or that ends, says so at once
// by the codes with which clients come back.
func TestScenario35ACoordinatorThatCannotAnswerSaysSo(t *testing.T) {
	r := newRig(t, rigOptions{seed: 135})
	r.create("events", 1)
	c := r.dial()
	for code, want := range map[broker.Code]int16{broker.NotReady: 14, broker.Busy: 15, broker.ShuttingDown: 16, broker.Storage: 16} {
		r.shards[0].tap.fail = code
		began := r.w.Now()
		for what, got := range c.grouped("nobody") {
			if got != want {
				t.Errorf("%v, %s: code %d, expected %d", code, what, got, want)
			}
		}
		if took := time.Duration(r.w.Now() - began); took > time.Second {
			t.Errorf("%v: the answers took %v", code, took)
		}
	}
	r.home()
}

// Scenario 35: behind a start nothing hangs, and nothing of a group is told wrongly while it
// is being read. A key of a transaction makes no group.
func TestScenario35GroupsAreThereBehindAStart(t *testing.T) {
	r := newRig(t, rigOptions{seed: 136, shards: 2})
	r.create("events", 1)
	for next := int64(1); next <= 5; next++ {
		c := r.dial()
		want(t, "a commit", c.commit(8, commitOf("crew", "events", "mark", next)), "0")
		for v := int16(1); v <= 4; v++ {
			q := kmsg.NewPtrFindCoordinatorRequest()
			q.CoordinatorKey, q.CoordinatorKeys, q.CoordinatorType = "payments", []string{"payments"}, 1
			c.take(v, c.ask(v, q), kmsg.NewPtrFindCoordinatorResponse())
		}
		want(t, "all groups", c.listed(4), "crew//Empty")
		c.close()
		r.restart()
		c = r.dial()
		got, loading := "", "events/0:error 14"
		for range 1000 {
			if got = c.committed(8, "crew", map[string][]int32{"events": {0}}); got != loading {
				break
			}
			r.advance(10 * time.Millisecond)
		}
		want(t, "behind a start", got, fmt.Sprintf("events/0=%d@7:mark", next))
		c.close()
	}
	r.home()
}

// Scenarios 37 and 39: the numbers of a producer's records go on at 0 behind the largest one,
// within a batch too, and count records, not batches.
func TestScenario37TheNumbersOfRecordsWrap(t *testing.T) {
	const largest = 1<<31 - 1
	r := newRig(t, rigOptions{seed: 137})
	r.create("events", 1)
	c := r.dial()
	end := int64(0)
	send := func(sequence int32, n int) kmsg.ProduceResponseTopicPartition {
		vs := make([]string, n)
		return c.produced(9, c.ask(9, produceOf("events", -1, idempotent(records(0, vs...), 77, 0, sequence))))[0]
	}
	for i, x := range []struct {
		sequence int32
		n        int
	}{{largest - 6, 3}, {largest - 3, 3}, {largest, 1}, {0, 2}, {2, 1}} {
		if p := send(x.sequence, x.n); p.ErrorCode != 0 || p.BaseOffset != end {
			t.Fatalf("batch %d, from %d on: %+v, expected offset %d", i, x.sequence, p, end)
		}
		if p := send(x.sequence, x.n); p.ErrorCode != 0 || p.BaseOffset != end {
			t.Errorf("batch %d again: %+v, expected offset %d", i, p, end)
		}
		end += int64(x.n)
	}
	if p := send(4, 1); p.ErrorCode != 45 {
		t.Errorf("one record is missing: %+v", p)
	}
	const id = 78 // a batch that has the largest number in its middle
	for i, sequence := range []int32{largest - 1, 2, 6} {
		for range 2 {
			b := idempotent(records(0, "a", "b", "c", "d"), id, 0, sequence)
			if p := c.produced(9, c.ask(9, produceOf("events", -1, b)))[0]; p.ErrorCode != 0 || p.BaseOffset != end+int64(4*i) {
				t.Errorf("a batch from %d on: %+v, expected offset %d", sequence, p, end+int64(4*i))
			}
		}
	}
	r.home()
}
