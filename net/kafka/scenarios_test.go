package kafka_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/net/kafka"
)

// What has gone wrong at other brokers, by the numbers that docs/kafka.md has: of
// connections, metadata and topics. Logs and groups are in scenarios_log_test.go.

// raw takes the next answer as it came, without its length.
func (c *client) raw() []byte {
	c.r.t.Helper()
	c.r.until("an answer", func() bool { return len(c.frames) > 0 || c.ended })
	if len(c.frames) == 0 {
		c.r.t.Fatalf("the connection ended without an answer; refused %v", c.r.refused)
	}
	f := c.frames[0]
	c.frames = c.frames[1:]
	return f
}

// Scenarios 1 and 44: the answer has the older header in flexible versions too, its array is
// never null, and nothing follows it: no features are claimed.
func TestScenario1TheAnswerAboutVersionsCanBeReadByWhoeverAsks(t *testing.T) {
	r := newRig(t, rigOptions{seed: 101})
	c := r.dial()
	for v := int16(3); v <= 4; v++ {
		for name, x := range map[string]struct{ code, rows int }{"test": {0, len(kafka.APIs())}, "-no": {42, 0}} {
			q := kmsg.NewPtrApiVersionsRequest()
			q.ClientSoftwareName, q.ClientSoftwareVersion = name, "1"
			corr := c.ask(v, q)
			f := c.raw()
			const head, row, rest = 4 + 2 + 1, 2 + 2 + 2 + 1, 4 + 1 // correlation, code, length; a row; throttle, no tags
			if len(f) != head+x.rows*row+rest || int32(binary.BigEndian.Uint32(f)) != corr || int(binary.BigEndian.Uint16(f[4:])) != x.code ||
				int(f[6]) != x.rows+1 || f[len(f)-1] != 0 {
				t.Errorf("version %d, client %q: %d bytes, %x", v, name, len(f), f[:head])
			}
		}
	}
	r.home()
}

// Scenarios 3, 4, 5 and 20: clients that look for a version switch something off, and say
// nothing, where it is missing.
func TestScenario4EveryVersionIsThereThatClientsLookFor(t *testing.T) {
	served := map[int16]kafka.API{}
	for _, api := range kafka.APIs() {
		served[api.Key] = api
	}
	for key, versions := range map[int16][]int16{
		0:  {0, 3, 7},      // compression at all, record batches, zstd
		1:  {4, 5, 10, 12}, // record batches, fixed versions, zstd, and what some send whatever is advertised
		2:  {1},            // times
		3:  {0, 1, 4, 6},
		8:  {2},
		9:  {1},
		10: {0}, // groups, lz4
		11: {0, 1, 2},
		12: {0},
		13: {0},
		14: {0},
		16: {1},
		18: {0, 1, 2, 3},
		19: {2},
		22: {0}, // idempotence
		32: {1},
	} {
		api, ok := served[key]
		for _, v := range versions {
			if !ok || v < api.Min || v > api.Max {
				t.Errorf("key %d (%s): version %d is not advertised", key, kmsg.NameForKey(key), v)
			}
		}
	}
}

// Scenario 6: a long poll keeps what its connection asks behind it, so that the answers come
// in the order of the requests.
func TestScenario6WhatIsAskedBehindALongPollIsAnsweredBehindIt(t *testing.T) {
	r := newRig(t, rigOptions{seed: 106, shards: 2})
	r.create("events", 1)
	c, other := r.dial(), r.dial()
	q := fetchOf("events", 0)
	q.MaxWaitMillis = 60_000
	poll := c.ask(12, q)
	first := c.ask(9, produceOf("events", 1, records(0, "behind")))
	meta := c.ask(12, kmsg.NewPtrMetadataRequest())
	second := c.ask(9, produceOf("events", 1, records(0, "last")))
	r.advance(time.Second)
	if len(c.frames) != 0 {
		t.Fatalf("%d answers while a long poll is under way", len(c.frames))
	}
	if p := other.produced(9, other.ask(9, produceOf("events", 1, records(0, "woken"))))[0]; p.BaseOffset != 0 {
		t.Errorf("what another connection sends meanwhile: %+v", p)
	}
	if got := values(t, c.fetched(12, poll)[0].RecordBatches); len(got) != 1 || got[0] != "woken" {
		t.Errorf("the poll has %q", got)
	}
	if p := c.produced(9, first)[0]; p.ErrorCode != 0 || p.BaseOffset != 1 {
		t.Errorf("a produce behind the poll: %+v", p)
	}
	c.take(12, meta, kmsg.NewPtrMetadataResponse())
	if p := c.produced(9, second)[0]; p.ErrorCode != 0 || p.BaseOffset != 2 {
		t.Errorf("a produce behind metadata: %+v", p)
	}
	r.home()
}

// Scenarios 9, 10, 11, 43 and 44: there is no authentication and there are no transactions,
// and nothing says so half: the keys are not advertised, and whoever asks nevertheless is
// not left without an end.
func TestScenario9WhatIsNotServedIsNotAdvertisedAndEndsItsConnection(t *testing.T) {
	r := newRig(t, rigOptions{seed: 109})
	r.create("events", 1)
	for _, key := range []int16{17, 36, 24, 25, 26, 28, 65, 66, 68, 69} { // SASL, transactions, newer groups
		for _, api := range kafka.APIs() {
			if api.Key == key {
				t.Errorf("%s is advertised", api.Name)
			}
		}
		for v := int16(0); v <= 1; v++ {
			if r.try(frame(v, 1, kmsg.RequestForKey(key))) {
				t.Errorf("%s version %d is answered", kmsg.NameForKey(key), v)
			}
		}
	}
	if len(r.refused) == 0 || !strings.Contains(r.refused[0].Error(), "not served") {
		t.Errorf("refused %v", r.refused)
	}
	r.alive()
	r.home()
}

// Scenario 14: whoever waits for an answer is not idle, and whoever is idle is told so by
// the end of the connection.
func TestScenario14AConnectionIsIdleOnlyWhenNothingIsAsked(t *testing.T) {
	r := newRig(t, rigOptions{seed: 114, kafka: kafka.Options{IdleTimeout: 3 * time.Second}})
	r.create("events", 1)
	c := r.dial()
	q := fetchOf("events", 0)
	q.MaxWaitMillis = 20_000
	corr := c.ask(12, q)
	r.advance(15 * time.Second)
	if c.ended || len(c.frames) != 0 {
		t.Fatalf("in a long poll: ended %t, %d answers", c.ended, len(c.frames))
	}
	r.advance(6 * time.Second)
	if p := c.fetched(12, corr)[0]; p.ErrorCode != 0 || len(p.RecordBatches) != 0 {
		t.Errorf("the end of a long poll: %+v", p)
	}
	r.advance(6 * time.Second)
	if !c.ended {
		t.Error("an idle connection did not end")
	}
	r.home()
}

// Scenario 15: a topic that metadata have made takes a produce at once, on any connection.
func TestScenario15ATopicThatMetadataMadeIsThereForAllConnections(t *testing.T) {
	r := newRig(t, rigOptions{seed: 115, shards: 3, broker: broker.Options{AutoCreate: broker.AutoCreateOn, Partitions: 4}})
	var all []*client
	for range 8 {
		all = append(all, r.dial())
	}
	for i, v := range []int16{0, 1, 3, 4, 7, 9, 12} {
		name := fmt.Sprint("new-", v)
		if p := all[0].produced(9, all[0].ask(9, produceOf(name, 1, records(0, "early"))))[0]; p.ErrorCode != 3 {
			t.Errorf("a produce to a topic that is not there: %+v", p)
		}
		if a := all[i].metadata(v, true, name); a.Topics[0].ErrorCode != 0 || len(a.Topics[0].Partitions) != 4 {
			t.Fatalf("version %d: %+v", v, a.Topics)
		}
		for k, c := range all {
			for _, p := range c.produced(9, c.ask(9, produceOf(name, 1, records(0, "a"), records(0, "b"), records(0, "c"), records(0, "d")))) {
				if p.ErrorCode != 0 || p.BaseOffset != int64(k) {
					t.Errorf("version %d, connection %d: %+v", v, k, p)
				}
			}
		}
	}
	r.home()
}

// Scenario 16: -1 is the broker's default, of partitions and of replicas.
func TestScenario16TopicsWithDefaultsAreMadeInEveryVersionThatHasThem(t *testing.T) {
	r := newRig(t, rigOptions{seed: 116, broker: broker.Options{Partitions: 3}})
	c := r.dial()
	for v := int16(4); v <= 7; v++ {
		for i, x := range []struct {
			partitions int32
			replicas   int16
			want       uint32
		}{{-1, -1, 3}, {-1, 1, 3}, {5, -1, 5}} {
			name := fmt.Sprint("made-", v, "-", i)
			a := c.createTopics(v, false, newTopic(name, x.partitions, x.replicas))[0]
			if topic := r.shards[0].broker.Image().ByName(name); a.ErrorCode != 0 || topic == nil || topic.Partitions != x.want {
				t.Errorf("version %d, %+v: %+v", v, x, a)
			}
		}
	}
	r.home()
}
