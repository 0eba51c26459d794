package kafka_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What is named twice is refused each time, and left alone.
func TestTopicsThatAreNamedTwiceAreNotDeleted(t *testing.T) {
	r := newRig(t, rigOptions{seed: 61})
	c := r.dial()
	for v := int16(0); v <= 6; v++ {
		r.create("one", 1)
		r.create("two", 1)
		name, id := kmsg.NewDeleteTopicsRequestTopic(), kmsg.NewDeleteTopicsRequestTopic()
		name.Topic, id.TopicID = kmsg.StringPtr("one"), r.shards[0].broker.Image().ByName("two").ID
		q := kmsg.NewPtrDeleteTopicsRequest()
		q.TopicNames = []string{"one", "two", "two", "one"}
		q.Topics = append(q.Topics, name, id, id, name)
		var a kmsg.DeleteTopicsResponse
		c.take(v, c.ask(v, q), &a)
		for i := range a.Topics {
			if x := &a.Topics[i]; x.ErrorCode != 42 || v >= 5 && (x.ErrorMessage == nil || *x.ErrorMessage != "the topic is named 2 times") {
				t.Errorf("version %d: %+v", v, x)
			}
		}
		if n := len(r.shards[0].broker.Image().Topics()); n != 2 || len(a.Topics) != 4 {
			t.Fatalf("version %d: %d topics are left, %d answers", v, n, len(a.Topics))
		}
		q.TopicNames, q.Topics = q.TopicNames[:2], q.Topics[:2]
		if c.take(v, c.ask(v, q), &a); a.Topics[0].ErrorCode != 0 || a.Topics[1].ErrorCode != 0 {
			t.Fatalf("version %d: %+v", v, a.Topics)
		}
	}
	r.home()
}

func TestConfigurationsThatHaveNoFormChangeNothing(t *testing.T) {
	r := newRig(t, rigOptions{seed: 62})
	c := r.dial()
	c.createTopics(7, false, newTopic("events", 1, 1, "retention.ms=60000"))
	value := kmsg.StringPtr("70000")
	for name, given := range map[string][]kmsg.AlterConfigsRequestResourceConfig{
		"one twice":         {{Name: "retention.ms", Value: value}, {Name: "segment.ms", Value: value}, {Name: "retention.ms", Value: value}},
		"an unknown, twice": {{Name: "none", Value: value}, {Name: "none", Value: value}},
		"without a value":   {{Name: "retention.ms"}},
	} {
		whole := kmsg.NewAlterConfigsRequestResource()
		whole.ResourceType, whole.ResourceName, whole.Configs = 2, "events", given
		single := kmsg.NewIncrementalAlterConfigsRequestResource()
		single.ResourceType, single.ResourceName = 2, "events"
		for _, g := range given {
			single.Configs = append(single.Configs, kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: g.Name, Value: g.Value})
		}
		c.altered(t, name, 42, []kmsg.AlterConfigsRequestResource{whole}, []kmsg.IncrementalAlterConfigsRequestResource{single})
	}
	one := []kmsg.AlterConfigsRequestResourceConfig{{Name: "retention.ms", Value: value}}
	twice := kmsg.AlterConfigsRequestResource{ResourceType: 2, ResourceName: "events", Configs: one}
	changed := kmsg.IncrementalAlterConfigsRequestResource{ResourceType: 2, ResourceName: "events",
		Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "retention.ms", Value: value}}}
	c.altered(t, "a topic twice", 42, []kmsg.AlterConfigsRequestResource{twice, twice}, []kmsg.IncrementalAlterConfigsRequestResource{changed, changed})
	if got := r.shards[0].broker.Image().ByName("events").Config.RetentionTime().Seconds(); got != 60 {
		t.Errorf("what was refused has changed the retention to %v s", got)
	}

	// To take a configuration back needs no value.
	changed.Configs[0].Op, changed.Configs[0].Value = 1, nil
	c.altered(t, "taken back", 0, nil, []kmsg.IncrementalAlterConfigsRequestResource{changed})
	if got := r.shards[0].broker.Image().ByName("events").Config.RetentionTime(); got > 0 {
		t.Errorf("the retention is %v still", got)
	}
	r.home()
}

// altered has the code in every row of both requests.
func (c *client) altered(t *testing.T, what string, code int16, all []kmsg.AlterConfigsRequestResource, some []kmsg.IncrementalAlterConfigsRequestResource) {
	t.Helper()
	whole, single := kmsg.NewPtrAlterConfigsRequest(), kmsg.NewPtrIncrementalAlterConfigsRequest()
	whole.Resources, single.Resources = all, some
	var a kmsg.AlterConfigsResponse
	c.take(2, c.ask(2, whole), &a)
	var b kmsg.IncrementalAlterConfigsResponse
	c.take(1, c.ask(1, single), &b)
	for i := range a.Resources {
		if a.Resources[i].ErrorCode != code {
			t.Errorf("%s: %+v", what, a.Resources[i])
		}
	}
	for i := range b.Resources {
		if b.Resources[i].ErrorCode != code {
			t.Errorf("%s: %+v", what, b.Resources[i])
		}
	}
	if len(a.Resources) != len(all) || len(b.Resources) != len(some) {
		t.Errorf("%s: %d and %d answers", what, len(a.Resources), len(b.Resources))
	}
}
