package native_test

import (
	"fmt"
	"testing"

	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/net/conn"
	"github.com/mqd-broker/mqd/net/native"
	"github.com/mqd-broker/mqd/net/wire"
)

func (c *client) metadata(names ...string) wire.MetadataResponse {
	c.r.t.Helper()
	return must(wire.DecodeMetadataResponse(c.wait(c.beginMetadata(names...)).body))
}

// beginMetadata asks for some topics, or for all.
func (c *client) beginMetadata(names ...string) uint32 {
	return c.do(func(corr uint32) []byte {
		return wire.AppendMetadataRequest(nil, corr, wire.MetadataRequest{All: len(names) == 0, Topics: names})
	})
}

func (c *client) describe(name string) wire.TopicDescribeResponse {
	c.r.t.Helper()
	return must(wire.DecodeTopicDescribeResponse(c.wait(c.do(func(corr uint32) []byte {
		return wire.AppendTopicDescribeRequest(nil, corr, wire.TopicDescribeRequest{Name: name})
	})).body))
}

func (c *client) alter(name string, configs ...wire.Config) wire.TopicResult {
	c.r.t.Helper()
	return must(wire.DecodeTopicResult(c.wait(c.do(func(corr uint32) []byte {
		return wire.AppendTopicAlterRequest(nil, corr, wire.TopicAlterRequest{Name: name, Configs: configs})
	})).body))
}

func TestMetadataTellsWhoOwnsWhat(t *testing.T) {
	r := newRig(t, rigOptions{seed: 60, shards: 3})
	c := r.dial()
	a, b := c.create("alpha", 20), c.create("beta", 1, wire.Config{Key: "durability", Value: "memory"})
	for name, m := range map[string]wire.MetadataResponse{"names": c.metadata("beta", "nobody", "alpha", "bad name"), "all": c.metadata()} {
		if m.Shards != 3 {
			t.Errorf("%s: %d shards", name, m.Shards)
		}
		got := map[string]wire.TopicMetadata{}
		for _, topic := range m.Topics {
			got[topic.Name] = topic
		}
		if x := got["alpha"]; x.ID != a || x.Class != wire.ClassFlushed || len(x.PartitionShards) != 20 {
			t.Errorf("%s: %+v", name, x)
		}
		for p, shard := range got["alpha"].PartitionShards {
			if int(shard) != r.node.ShardOf(broker.TopicID(a), int32(p)) {
				t.Errorf("%s: partition %d is said to be on shard %d", name, p, shard)
			}
		}
		if x := got["beta"]; x.ID != b || x.Class != wire.ClassMemory {
			t.Errorf("%s: %+v", name, x)
		}
		if name == "names" && (got["nobody"].Code != wire.CodeUnknownTopic || got["bad name"].Code != wire.CodeInvalidTopic) {
			t.Errorf("missing topics: %+v", got)
		}
		if name == "all" && (len(m.Topics) != 2 || m.Topics[0].Name != "alpha") {
			t.Errorf("all: %+v", m.Topics)
		}
	}
	if m := must(wire.DecodeMetadataResponse(c.wait(c.do(func(corr uint32) []byte {
		return wire.AppendMetadataRequest(nil, corr, wire.MetadataRequest{})
	})).body)); len(m.Topics) != 0 {
		t.Errorf("no names: %+v", m.Topics)
	}
	r.home()
}

func TestTopicsAreCreatedAlteredDescribedAndDeleted(t *testing.T) {
	r := newRig(t, rigOptions{seed: 61, shards: 2})
	c := r.dial()
	id := c.create("t", 3, wire.Config{Key: "durability", Value: "written"})
	c.mustProduce(id, records(0, values(4, 100, 1)...))

	d := c.describe("t")
	if d.Code != wire.CodeNone || d.ID != id || d.Class != wire.ClassWritten || len(d.Partitions) != 3 {
		t.Fatalf("described: %+v", d)
	}
	if p := d.Partitions[0]; p.LogStart != 0 || p.Durable != 4 || p.End != 4 || int(p.Shard) != r.node.ShardOf(broker.TopicID(id), 0) {
		t.Errorf("partition 0: %+v", p)
	}
	source := map[string]wire.ConfigSource{}
	for _, x := range d.Configs {
		source[x.Key] = x.Source
	}
	if source["durability"] != wire.SourceTopic || source["segment.bytes"] != wire.SourceDefault || len(source) < 5 {
		t.Errorf("settings: %+v", d.Configs)
	}
	if a := c.alter("t", wire.Config{Key: "durability", Value: "flushed"}); a.Code != wire.CodeNone {
		t.Errorf("alter: %+v", a)
	}
	if d := c.describe("t"); d.Class != wire.ClassFlushed {
		t.Errorf("altered: %+v", d)
	}
	if a := c.alter("t", wire.Config{Key: "durability", Value: "sometimes"}); a.Code != wire.CodeInvalidConfig || a.Message == "" {
		t.Errorf("alter: %+v", a)
	}
	if a := must(wire.DecodeTopicCreateResponse(c.wait(c.do(func(corr uint32) []byte {
		return wire.AppendTopicCreateRequest(nil, corr, wire.TopicCreateRequest{Name: "t", Partitions: 1})
	})).body)); a.Code != wire.CodeTopicExists || !a.ID.IsZero() || a.Message == "" {
		t.Errorf("create again: %+v", a)
	}
	deleted := func() wire.TopicResult {
		return must(wire.DecodeTopicResult(c.wait(c.do(func(corr uint32) []byte {
			return wire.AppendTopicDeleteRequest(nil, corr, wire.TopicDeleteRequest{Name: "t"})
		})).body))
	}
	if a := deleted(); a.Code != wire.CodeNone {
		t.Errorf("delete: %+v", a)
	}
	if a := deleted(); a.Code != wire.CodeUnknownTopic {
		t.Errorf("delete again: %+v", a)
	}
	if d := c.describe("t"); d.Code != wire.CodeUnknownTopic || d.Message == "" || !d.ID.IsZero() || len(d.Partitions) != 0 {
		t.Errorf("describe: %+v", d)
	}
	if a := c.produce(id, records(0, values(1, 10, 1)...)); a.Code != wire.CodeUnknownTopic {
		t.Errorf("produce: %+v", a)
	}
	r.home()
}

func TestMetadataCreatesTopicsWhereThatIsWanted(t *testing.T) {
	r := newRig(t, rigOptions{seed: 62, shards: 2, broker: broker.Options{AutoCreate: broker.AutoCreateOn, Partitions: 3},
		native: native.Options{MaxAutoCreate: 3}})
	c := r.dial()
	m := c.metadata("a", "b", "a", "bad name", "c", "d")
	for i, want := range []wire.Code{0, 0, 0, wire.CodeInvalidTopic, 0, wire.CodeUnknownTopic} {
		if x := m.Topics[i]; x.Code != want || want == 0 && len(x.PartitionShards) != 3 {
			t.Errorf("%s: %+v, want %v", x.Name, x, want)
		}
	}
	if m := c.metadata(); len(m.Topics) != 3 {
		t.Errorf("%d topics, want 3", len(m.Topics))
	}
	r.node.Quiesce()
	if m := c.metadata("e", "a"); m.Topics[0].Code != wire.CodeShuttingDown || m.Topics[1].Code != 0 {
		t.Errorf("%+v", m.Topics)
	}
	r.home()
}

func TestALongAnswerIsMadeByAHelperAndTheConnectionGoesOn(t *testing.T) {
	r := newRig(t, rigOptions{seed: 63})
	c := r.dial()
	for i := range 100 {
		c.create(fmt.Sprintf("topic-%03d", i), 500)
	}
	one := c.beginMetadata()
	two := c.beginMetadata()
	ping := c.do(func(corr uint32) []byte { return wire.AppendPingRequest(nil, corr) })
	for _, corr := range []uint32{one, two} {
		m := must(wire.DecodeMetadataResponse(c.wait(corr).body))
		if len(m.Topics) != 100 || m.Topics[99].Name != "topic-099" || len(m.Topics[99].PartitionShards) != 500 {
			t.Errorf("%d topics", len(m.Topics))
		}
	}
	c.wait(ping)
	if d := c.describe("topic-007"); len(d.Partitions) != 500 {
		t.Errorf("%d partitions described", len(d.Partitions))
	}
	r.home()
}

func TestLongAnswersForPeersThatDoNotReadAreRefused(t *testing.T) {
	r := newRig(t, rigOptions{seed: 64, conns: conn.Options{SendBuffers: 16}, native: native.Options{MaxSlowBytes: 1 << 20}})
	c := r.dial()
	for i := range 40 {
		c.create(fmt.Sprintf("topic-%03d", i), 4000)
	}
	var slow []*client
	for range 10 {
		x := r.dial()
		x.stopReading()
		slow = append(slow, x)
		for range 10 {
			x.beginMetadata()
		}
	}
	r.settle()
	if n := r.shards[0].conns.Spilled(); n > 3<<20 {
		t.Errorf("%d bytes wait on the heap", n)
	}
	if e := c.refused(c.beginMetadata()); e.Code != wire.CodeBackpressure {
		t.Errorf("%+v", e)
	}
	for _, x := range slow {
		x.startReading()
	}
	r.settle()
	if m := c.metadata(); len(m.Topics) != 40 {
		t.Errorf("%d topics", len(m.Topics))
	}
	r.home()
}
