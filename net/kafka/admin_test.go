package kafka_test

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/broker/classic"
)

// newTopic is a topic of a CreateTopics request, with configurations as name=value.
func newTopic(name string, partitions int32, replicas int16, configs ...string) kmsg.CreateTopicsRequestTopic {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, replicas
	for _, pair := range configs {
		name, value, _ := strings.Cut(pair, "=")
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = name, &value
		t.Configs = append(t.Configs, c)
	}
	return t
}

func (c *client) createTopics(version int16, validate bool, topics ...kmsg.CreateTopicsRequestTopic) []kmsg.CreateTopicsResponseTopic {
	c.r.t.Helper()
	q := kmsg.NewPtrCreateTopicsRequest()
	q.Topics, q.ValidateOnly = topics, validate
	var a kmsg.CreateTopicsResponse
	c.take(version, c.ask(version, q), &a)
	return a.Topics
}

func TestTopicsAreCreatedInEveryVersion(t *testing.T) {
	r := newRig(t, rigOptions{seed: 50, shards: 2, broker: broker.Options{Partitions: 3}})
	c := r.dial()
	for v := int16(0); v <= 7; v++ {
		name := "topic-" + string(rune('0'+v))
		a := c.createTopics(v, false, newTopic(name, 2, 1, "retention.ms=60000", "cleanup.policy=delete", "mqd.durability=memory"))[0]
		topic := r.shards[0].broker.Image().ByName(name)
		if a.ErrorCode != 0 || topic == nil || topic.Partitions != 2 || topic.Config.Durability().String() != "memory" || topic.Config.RetentionTime().Seconds() != 60 {
			t.Fatalf("version %d: %+v, %+v", v, a, topic)
		}
		if v >= 5 && (a.NumPartitions != 2 || a.ReplicationFactor != 1 || len(a.Configs) < 20) || v >= 7 && a.TopicID != topic.ID {
			t.Errorf("version %d: %+v", v, a)
		}
		if v >= 1 {
			a = c.createTopics(v, true, newTopic("never", 1, 1))[0]
			if a.ErrorCode != 0 || r.shards[0].broker.Image().ByName("never") != nil {
				t.Errorf("version %d, validate only: %+v", v, a)
			}
		}
	}
	if a := c.createTopics(7, false, newTopic("default", -1, -1))[0]; a.ErrorCode != 0 || a.NumPartitions != 3 {
		t.Errorf("by default: %+v", a)
	}
	by := newTopic("assigned", -1, -1)
	by.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 1, Replicas: []int32{1}}, {Partition: 0, Replicas: []int32{1}}}
	if a := c.createTopics(7, false, by)[0]; a.ErrorCode != 0 || a.NumPartitions != 2 {
		t.Errorf("by hand: %+v", a)
	}
	r.home()
}

// As Kafka does: none of them can be told from the others.
func TestATopicThatIsNamedTwiceInARequestIsNotMade(t *testing.T) {
	r := newRig(t, rigOptions{seed: 52})
	c := r.dial()
	for i, a := range c.createTopics(7, false, newTopic("twice", 1, 1), newTopic("once", 1, 1), newTopic("twice", 2, 1)) {
		if want := []int16{42, 0, 42}[i]; a.ErrorCode != want {
			t.Errorf("%s: %+v, want %d", a.Topic, a, want)
		}
	}
	if r.shards[0].broker.Image().ByName("twice") != nil || r.shards[0].broker.Image().ByName("once") == nil {
		t.Error("a topic that was named twice is there, or one that was named once is not")
	}
	r.home()
}

func TestATopicThatCannotBeIsRefusedWithItsReason(t *testing.T) {
	r := newRig(t, rigOptions{seed: 51})
	r.create("there", 1)
	c := r.dial()
	away := newTopic("away", -1, -1)
	away.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 0, Replicas: []int32{2}}}
	for i, x := range []struct {
		topic kmsg.CreateTopicsRequestTopic
		code  int16
		text  string
	}{
		{newTopic("there", 1, 1), 36, "exists"},
		{newTopic("", 1, 1), 17, "name"},
		{newTopic("__own", 1, 1), 17, "own topics"},
		{newTopic("none", 0, 1), 37, "expected 1"},
		{newTopic("none", -7, 1), 37, "expected 1"},
		{newTopic("copies", 1, 3), 38, "1 broker"},
		{away, 39, "broker 1"},
		{newTopic("compact", 1, 1, "cleanup.policy=compress"), 40, "compact"},
		{newTopic("gzip", 1, 1, "compression.type=gzip"), 40, "producer"},
		{newTopic("what", 1, 1, "what=ever"), 40, "what"},
		{newTopic("short", 1, 1, "retention.ms=1"), 40, "retention.ms"},
		{newTopic("text", 1, 1, "segment.bytes=many"), 40, "many"},
	} {
		for _, validate := range []bool{true, false} {
			a := c.createTopics(7, validate, x.topic)[0]
			if a.ErrorCode != x.code || a.ErrorMessage == nil || !strings.Contains(*a.ErrorMessage, x.text) {
				t.Errorf("case %d: %+v, expected %d and %q", i, a, x.code, x.text)
			}
		}
	}
	if n := len(r.shards[0].broker.Image().Topics()); n != 1 {
		t.Errorf("%d topics", n)
	}
	r.home()
}

func TestTopicsAreDeletedByNameAndByID(t *testing.T) {
	r := newRig(t, rigOptions{seed: 52, shards: 2})
	c := r.dial()
	for v := int16(0); v <= 6; v++ {
		r.create("one", 2)
		r.create("two", 1)
		q := kmsg.NewPtrDeleteTopicsRequest()
		q.TopicNames = []string{"one", "two", "none"}
		byName, byID, none := kmsg.NewDeleteTopicsRequestTopic(), kmsg.NewDeleteTopicsRequestTopic(), kmsg.NewDeleteTopicsRequestTopic()
		byName.Topic, byID.TopicID, none.TopicID = kmsg.StringPtr("one"), r.shards[0].broker.Image().ByName("two").ID, [16]byte{9}
		q.Topics = append(q.Topics, byName, byID, none)
		var a kmsg.DeleteTopicsResponse
		c.take(v, c.ask(v, q), &a)
		want := int16(3)
		if v == 6 {
			want = 100
		}
		if a.Topics[0].ErrorCode != 0 || a.Topics[1].ErrorCode != 0 || *a.Topics[1].Topic != "two" || a.Topics[2].ErrorCode != want {
			t.Errorf("version %d: %+v", v, a.Topics)
		}
		if n := len(r.shards[0].broker.Image().Topics()); n != 0 {
			t.Fatalf("version %d: %d topics", v, n)
		}
	}
	r.home()
}

// described are the configurations of a resource.
func (c *client) described(version int16, kind kmsg.ConfigResourceType, name string, names ...string) (int16, map[string]kmsg.DescribeConfigsResponseResourceConfig) {
	c.r.t.Helper()
	q := kmsg.NewPtrDescribeConfigsRequest()
	q.IncludeSynonyms, q.IncludeDocumentation = true, true
	res := kmsg.NewDescribeConfigsRequestResource()
	res.ResourceType, res.ResourceName, res.ConfigNames = kind, name, names
	q.Resources = append(q.Resources, res)
	var a kmsg.DescribeConfigsResponse
	c.take(version, c.ask(version, q), &a)
	all := map[string]kmsg.DescribeConfigsResponseResourceConfig{}
	for _, d := range a.Resources[0].Configs {
		all[d.Name] = d
	}
	return a.Resources[0].ErrorCode, all
}

func TestConfigurationsAreDescribedInEveryVersion(t *testing.T) {
	r := newRig(t, rigOptions{seed: 53})
	c := r.dial()
	c.createTopics(7, false, newTopic("events", 1, 1, "retention.ms=60000", "mqd.durability=written", "flush.ms=250"))
	for v := int16(0); v <= 4; v++ {
		code, all := c.described(v, 2, "events")
		for name, want := range map[string]string{
			"retention.ms": "60000", "mqd.durability": "written", "flush.ms": "250", "cleanup.policy": "delete", "segment.bytes": "536870912",
			"retention.bytes": "-1", "max.message.bytes": "1048576", "compression.type": "producer",
		} {
			if d := all[name]; code != 0 || d.Value == nil || *d.Value != want {
				t.Errorf("version %d: %s is %+v, expected %s", v, name, d, want)
			}
		}
		if v >= 1 && (all["retention.ms"].Source != 1 || all["segment.bytes"].Source != 5 || all["compression.type"].ReadOnly != true) {
			t.Errorf("version %d: %+v", v, all["retention.ms"])
		}
		if code, all = c.described(v, 4, "1", "num.partitions", "broker.id"); code != 0 || len(all) != 2 || *all["num.partitions"].Value != "1" {
			t.Errorf("version %d: code %d, %+v", v, code, all)
		}
		if code, _ = c.described(v, 2, "unknown"); code != 3 {
			t.Errorf("version %d: code %d of an unknown topic", v, code)
		}
		if code, _ = c.described(v, 4, "2"); code != 42 {
			t.Errorf("version %d: code %d of an unknown broker", v, code)
		}
	}
	r.home()
}

// What a tool has read it may write back, changed or not.
func TestWhatWasDescribedCanBeWrittenBack(t *testing.T) {
	r := newRig(t, rigOptions{seed: 54})
	c := r.dial()
	for i, created := range [][]string{nil, {"mqd.durability=memory", "flush.ms=20", "mqd.flush.bytes=65536"}, {"flush.ms=20", "message.timestamp.type=LogAppendTime"}} {
		name := "topic-" + string(rune('0'+i))
		c.createTopics(7, false, newTopic(name, 1, 1, created...))
		before := r.shards[0].broker.Image().ByName(name).Config
		for v := int16(0); v <= 2; v++ {
			_, all := c.described(4, 2, name)
			q := kmsg.NewPtrAlterConfigsRequest()
			res := kmsg.NewAlterConfigsRequestResource()
			res.ResourceType, res.ResourceName = 2, name
			for _, d := range all {
				res.Configs = append(res.Configs, kmsg.AlterConfigsRequestResourceConfig{Name: d.Name, Value: d.Value})
			}
			q.Resources = append(q.Resources, res)
			var a kmsg.AlterConfigsResponse
			c.take(v, c.ask(v, q), &a)
			if a.Resources[0].ErrorCode != 0 || r.shards[0].broker.Image().ByName(name).Config != before {
				t.Errorf("%s, version %d: %+v, %+v", name, v, a.Resources[0], a.Resources[0].ErrorMessage)
			}
		}
	}
	r.home()
}

func TestAlterConfigsResetsWhatIsNotNamed(t *testing.T) {
	r := newRig(t, rigOptions{seed: 55})
	c := r.dial()
	c.createTopics(7, false, newTopic("events", 1, 1, "retention.ms=60000", "segment.ms=5000"))
	q := kmsg.NewPtrAlterConfigsRequest()
	res := kmsg.NewAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = 2, "events"
	res.Configs = []kmsg.AlterConfigsRequestResourceConfig{{Name: "retention.ms", Value: kmsg.StringPtr("70000")}}
	q.Resources = append(q.Resources, res)
	q.ValidateOnly = true
	var a kmsg.AlterConfigsResponse
	for _, want := range []float64{60, 70} {
		c.take(2, c.ask(2, q), &a)
		if got := r.shards[0].broker.Image().ByName("events").Config; a.Resources[0].ErrorCode != 0 || got.RetentionTime().Seconds() != want || (got.SegmentTime().Seconds() == 5) != (want == 60) {
			t.Errorf("%+v: retention %v, segments %v", a.Resources[0], got.RetentionTime(), got.SegmentTime())
		}
		q.ValidateOnly = false
	}
	q.Resources[0].ResourceType = 4
	if c.take(2, c.ask(2, q), &a); a.Resources[0].ErrorCode != 42 {
		t.Errorf("a broker: %+v", a.Resources[0])
	}
	r.home()
}

func TestIncrementalChangesLeaveTheRest(t *testing.T) {
	r := newRig(t, rigOptions{seed: 56})
	c := r.dial()
	c.createTopics(7, false, newTopic("events", 1, 1, "retention.ms=60000", "segment.ms=5000"))
	for i, x := range []struct {
		name  string
		op    kmsg.IncrementalAlterConfigOp
		value string
		code  int16
		after string
	}{
		{"retention.ms", 0, "70000", 0, "70000"},
		{"retention.ms", 1, "", 0, "-1"},
		{"segment.ms", 1, "", 0, "604800000"},
		{"flush.ms", 0, "30", 0, "0"},
		{"mqd.durability", 0, "memory", 0, "memory"},
		{"flush.ms", 0, "30", 0, "30"},
		{"cleanup.policy", 2, "compact", 0, "compact,delete"},
		{"cleanup.policy", 3, "delete", 0, "compact"},
		{"cleanup.policy", 2, " delete", 0, "compact,delete"},
		{"cleanup.policy", 3, "burn", 0, "compact,delete"},
		{"cleanup.policy", 0, "delete", 0, "delete"},
		{"cleanup.policy", 0, "delete, compact", 0, "compact,delete"},
		{"cleanup.policy", 0, "compact,compact", 0, "compact"},
		{"cleanup.policy", 2, "delete", 0, "compact,delete"},
		{"cleanup.policy", 2, "burn", 40, "compact,delete"},
		{"cleanup.policy", 3, "delete,compact", 40, "compact,delete"},
		{"cleanup.policy", 1, "", 0, "delete"},
		{"cleanup.policy", 2, "delete", 0, "delete"},
		{"cleanup.policy", 3, "compact", 0, "delete"},
		{"cleanup.policy", 3, "delete", 40, "delete"},
		{"retention.ms", 2, "5", 40, "-1"},
		{"retention.ms", 9, "5", 40, "-1"},
		{"nothing", 0, "5", 40, ""},
	} {
		for v := int16(0); v <= 1; v++ {
			q := kmsg.NewPtrIncrementalAlterConfigsRequest()
			res := kmsg.NewIncrementalAlterConfigsRequestResource()
			res.ResourceType, res.ResourceName = 2, "events"
			res.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: x.name, Op: x.op, Value: &x.value}}
			q.Resources = append(q.Resources, res)
			var a kmsg.IncrementalAlterConfigsResponse
			c.take(v, c.ask(v, q), &a)
			_, all := c.described(4, 2, "events", x.name)
			after := ""
			if d, ok := all[x.name]; ok {
				after = *d.Value
			}
			if a.Resources[0].ErrorCode != x.code || after != x.after {
				t.Errorf("case %d, version %d: code %d, then %q; expected %d and %q", i, v, a.Resources[0].ErrorCode, after, x.code, x.after)
			}
		}
	}
	r.home()
}

func TestRecordsAreDeletedUpToAnOffset(t *testing.T) {
	r := newRig(t, rigOptions{seed: 57, shards: 2})
	r.create("events", 2)
	c := r.dial()
	for range 6 {
		c.produced(9, c.ask(9, produceOf("events", 1, records(0, "x"))))
	}
	for v := int16(0); v <= 2; v++ {
		q := kmsg.NewPtrDeleteRecordsRequest()
		tp := kmsg.NewDeleteRecordsRequestTopic()
		tp.Topic = "events"
		for _, x := range [][2]int64{{0, int64(v) + 1}, {0, 99}, {7, 0}, {1, -1}, {1, -5}} {
			tp.Partitions = append(tp.Partitions, kmsg.DeleteRecordsRequestTopicPartition{Partition: int32(x[0]), Offset: x[1]})
		}
		q.Topics = append(q.Topics, tp)
		var a kmsg.DeleteRecordsResponse
		before := r.failures()
		c.take(v, c.ask(v, q), &a)
		if n := r.failures() - before; n != 3 {
			t.Errorf("version %d: %d failures are counted, expected 3", v, n)
		}
		p := a.Topics[0].Partitions
		if p[0].ErrorCode != 0 || p[0].LowWatermark != int64(v)+1 || p[1].ErrorCode != 1 || p[2].ErrorCode != 3 || p[3].ErrorCode != 0 || p[3].LowWatermark != 0 || p[4].ErrorCode != 1 {
			t.Errorf("version %d: %+v", v, p)
		}
	}
	if p := c.fetched(12, c.ask(12, fetchOf("events", 3)))[0]; p.LogStartOffset != 3 || len(p.RecordBatches) == 0 {
		t.Errorf("after it: %+v", p)
	}
	r.home()
}

func TestTheClusterIsOneBroker(t *testing.T) {
	r := newRig(t, rigOptions{seed: 58})
	c := r.dial()
	for v := int16(0); v <= 1; v++ {
		q := kmsg.NewPtrDescribeClusterRequest()
		q.EndpointType = 1
		var a kmsg.DescribeClusterResponse
		c.take(v, c.ask(v, q), &a)
		if a.ErrorCode != 0 || len(a.Brokers) != 1 || a.Brokers[0].Host != "broker.test" || a.ControllerID != 1 || len(a.ClusterID) != 22 {
			t.Errorf("version %d: %+v", v, a)
		}
	}
	r.home()
}

// Tools that read, change and write back a topic know these names, of whatever release.
func TestEveryConfigurationThatKafkaHasIsDescribed(t *testing.T) {
	r := newRig(t, rigOptions{seed: 59, broker: broker.Options{Partitions: 3, Classic: classic.Limits{Delay: 40e6, Members: 77, MinSession: 2e9}}})
	r.create("events", 1)
	c := r.dial()
	_, all := c.described(4, 2, "events")
	for _, name := range strings.Fields(`cleanup.policy compression.gzip.level compression.lz4.level compression.type
		compression.zstd.level delete.retention.ms file.delete.delay.ms flush.messages flush.ms
		follower.replication.throttled.replicas index.interval.bytes leader.replication.throttled.replicas
		local.retention.bytes local.retention.ms max.compaction.lag.ms max.message.bytes message.downconversion.enable
		message.timestamp.after.max.ms message.timestamp.before.max.ms message.timestamp.difference.max.ms
		message.timestamp.type min.cleanable.dirty.ratio min.compaction.lag.ms min.insync.replicas preallocate
		remote.storage.enable retention.bytes retention.ms segment.bytes segment.index.bytes segment.jitter.ms segment.ms
		unclean.leader.election.enable mqd.durability mqd.flush.bytes`) {
		if d, ok := all[name]; !ok || d.Value == nil || d.ConfigType == 0 || d.Documentation == nil || *d.Documentation == "" {
			t.Errorf("%s: %+v", name, d)
		}
	}
	_, all = c.described(4, 4, "1")
	for name, want := range map[string]string{
		"num.partitions": "3", "default.replication.factor": "1", "min.insync.replicas": "1", "auto.create.topics.enable": "false",
		"group.initial.rebalance.delay.ms": "40", "group.max.size": "77", "group.min.session.timeout.ms": "2000",
		"group.max.session.timeout.ms": "1800000", "offsets.retention.minutes": "10080", "offset.metadata.max.bytes": "4096",
		"message.max.bytes": "262144", "connections.max.idle.ms": "600000", "log.retention.ms": "-1", "log.segment.bytes": "536870912",
	} {
		if d := all[name]; d.Value == nil || *d.Value != want || !d.ReadOnly || d.ConfigType == 0 {
			t.Errorf("%s: %+v, expected %s", name, text(d.Value), want)
		}
	}
	r.home()
}
