package main

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func (a *asker) createTopics(validate bool, topics ...kmsg.CreateTopicsRequestTopic) string {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics, req.ValidateOnly, req.TimeoutMillis = topics, validate, 10_000
	resp, ok := send[*kmsg.CreateTopicsResponse](a, req)
	if !ok {
		return noAnswer
	}
	var codes []string
	for _, t := range resp.Topics {
		codes = append(codes, code(t.ErrorCode))
	}
	return strings.Join(codes, ", ")
}

// made asks for a topic with a name, a number of partitions and of copies.
func made(name string, partitions int32, copies int16) func(*asker) string {
	return func(a *asker) string {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, copies
		return a.createTopics(false, t)
	}
}

// configured asks for a topic with a configuration.
func configured(key, value string) func(*asker) string {
	return func(a *asker) string {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = a.topic(""), 1, 1
		t.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: key, Value: &value}}
		return a.createTopics(false, t)
	}
}

// assigned asks for a topic with an assignment of partitions, each to one broker.
func assigned(partitions int32, to ...kmsg.CreateTopicsRequestTopicReplicaAssignment) func(*asker) string {
	return func(a *asker) string {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor, t.ReplicaAssignment = a.topic(""), partitions, -1, to
		return a.createTopics(false, t)
	}
}

func replica(partition int32, brokers ...int32) kmsg.CreateTopicsRequestTopicReplicaAssignment {
	return kmsg.CreateTopicsRequestTopicReplicaAssignment{Partition: partition, Replicas: brokers}
}

func (a *asker) deleteTopics(names ...string) string {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TopicNames, req.TimeoutMillis = names, 10_000
	for i := range names {
		t := kmsg.NewDeleteTopicsRequestTopic()
		t.Topic = &names[i]
		req.Topics = append(req.Topics, t)
	}
	resp, ok := send[*kmsg.DeleteTopicsResponse](a, req)
	if !ok {
		return noAnswer
	}
	var codes []string
	for _, t := range resp.Topics {
		codes = append(codes, code(t.ErrorCode))
	}
	return strings.Join(codes, ", ")
}

func (a *asker) metadata(name string) string {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &name
	req.Topics, req.AllowAutoTopicCreation = append(req.Topics, t), false
	resp, ok := send[*kmsg.MetadataResponse](a, req)
	if !ok || len(resp.Topics) != 1 {
		return noAnswer
	}
	return fmt.Sprintf("%s, %d partitions", code(resp.Topics[0].ErrorCode), len(resp.Topics[0].Partitions))
}

func (a *asker) grow(name string, count int32, to ...int32) string {
	req := kmsg.NewPtrCreatePartitionsRequest()
	t := kmsg.NewCreatePartitionsRequestTopic()
	t.Topic, t.Count = name, count
	for _, b := range to {
		t.Assignment = append(t.Assignment, kmsg.CreatePartitionsRequestTopicAssignment{Replicas: []int32{b}})
	}
	req.Topics, req.TimeoutMillis = append(req.Topics, t), 10_000
	resp, ok := send[*kmsg.CreatePartitionsResponse](a, req)
	if !ok || len(resp.Topics) != 1 {
		return noAnswer
	}
	return code(resp.Topics[0].ErrorCode)
}

var topicQuestions = []question{
	{"CreateTopics: twice", func(a *asker) string { return made(a.create(), 2, 1)(a) }},
	{"CreateTopics: twice in one request", func(a *asker) string {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = a.topic(""), 1, 1
		return a.createTopics(false, t, t)
	}},
	{"CreateTopics: no name", made("", 1, 1)},
	{"CreateTopics: a dot", made(".", 1, 1)},
	{"CreateTopics: two dots", made("..", 1, 1)},
	{"CreateTopics: a space in the name", made("a b", 1, 1)},
	{"CreateTopics: a slash in the name", made("a/b", 1, 1)},
	{"CreateTopics: a name of 249 bytes", made(strings.Repeat("x", 249), 1, 1)},
	{"CreateTopics: a name of 250 bytes", made(strings.Repeat("x", 250), 1, 1)},
	{"CreateTopics: a name that differs by a dot for an underscore", func(a *asker) string {
		made(a.topic(".x"), 1, 1)(a)
		return made(a.topic("_x"), 1, 1)(a)
	}},
	{"CreateTopics: 0 partitions", made("none", 0, 1)},
	{"CreateTopics: -1 partitions", made("default", -1, 1)},
	{"CreateTopics: -2 partitions", made("negative", -2, 1)},
	{"CreateTopics: 0 copies", made("uncopied", 1, 0)},
	{"CreateTopics: 3 copies", made("copied", 1, 3)},
	{"CreateTopics: -2 copies", made("anticopied", 1, -2)},
	{"CreateTopics: only validated", func(a *asker) string {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = a.topic(""), 1, 1
		return a.createTopics(true, t) + ", then " + a.metadata(a.topic(""))
	}},
	{"CreateTopics: an unknown configuration", configured("no.such", "1")},
	{"CreateTopics: a value that is no number", configured("retention.ms", "soon")},
	{"CreateTopics: a number that is too small", configured("retention.ms", "-5")},
	{"CreateTopics: an unknown policy", configured("cleanup.policy", "burn")},
	{"CreateTopics: both policies", configured("cleanup.policy", "compact,delete")},
	{"CreateTopics: both policies, the other way round", configured("cleanup.policy", "delete, compact")},
	{"CreateTopics: one policy twice", configured("cleanup.policy", "compact,compact")},
	{"CreateTopics: no policy", configured("cleanup.policy", "")},
	{"CreateTopics: an unknown codec", configured("compression.type", "rar")},
	{"CreateTopics: two in-sync copies of one", configured("min.insync.replicas", "2")},
	{"CreateTopics: assigned", assigned(-1, replica(0, 1), replica(1, 1))},
	{"CreateTopics: assigned, with a number of partitions", assigned(1, replica(0, 1))},
	{"CreateTopics: assigned to an unknown broker", assigned(-1, replica(0, 9))},
	{"CreateTopics: assigned to nobody", assigned(-1, replica(0))},
	{"CreateTopics: assigned twice to one broker", assigned(-1, replica(0, 1, 1))},
	{"CreateTopics: assigned with a gap", assigned(-1, replica(0, 1), replica(2, 1))},
	{"CreateTopics: one partition assigned twice", assigned(-1, replica(0, 1), replica(0, 1))},
	{"CreateTopics: nothing", func(a *asker) string { return a.createTopics(false) }},
	{"DeleteTopics: unknown", func(a *asker) string { return a.deleteTopics("nosuch") }},
	{"DeleteTopics: no name", func(a *asker) string { return a.deleteTopics("") }},
	{"DeleteTopics: twice", func(a *asker) string { n := a.create(); return a.deleteTopics(n) + ", then " + a.deleteTopics(n) }},
	{"DeleteTopics: twice in one request", func(a *asker) string { n := a.create(); return a.deleteTopics(n, n) }},
	{"Metadata: unknown", func(a *asker) string { return a.metadata("nosuch") }},
	{"Metadata: a bad name", func(a *asker) string { return a.metadata("a b") }},
	{"Metadata: no name", func(a *asker) string { return a.metadata("") }},
	{"CreatePartitions: unknown topic", func(a *asker) string { return a.grow("nosuch", 3) }},
	{"CreatePartitions: as many", func(a *asker) string { return a.grow(a.create(), 2) }},
	{"CreatePartitions: fewer", func(a *asker) string { return a.grow(a.create(), 1) }},
	{"CreatePartitions: -1", func(a *asker) string { return a.grow(a.create(), -1) }},
	{"CreatePartitions: assigned", func(a *asker) string { return a.grow(a.create(), 3, 1) }},
	{"CreatePartitions: too many assigned", func(a *asker) string { return a.grow(a.create(), 3, 1, 1) }},
	{"CreatePartitions: assigned to an unknown broker", func(a *asker) string { return a.grow(a.create(), 3, 9) }},
}

func (a *asker) alter(topic, key, value string) string {
	req := kmsg.NewPtrAlterConfigsRequest()
	r := kmsg.NewAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	r.Configs = []kmsg.AlterConfigsRequestResourceConfig{{Name: key, Value: &value}}
	req.Resources = append(req.Resources, r)
	resp, ok := send[*kmsg.AlterConfigsResponse](a, req)
	if !ok || len(resp.Resources) != 1 {
		return noAnswer
	}
	return code(resp.Resources[0].ErrorCode)
}

func (a *asker) change(kind kmsg.ConfigResourceType, name, key string, op kmsg.IncrementalAlterConfigOp, values ...*string) string {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kind, name
	for _, v := range values {
		r.Configs = append(r.Configs, kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: key, Op: op, Value: v})
	}
	req.Resources = append(req.Resources, r)
	resp, ok := send[*kmsg.IncrementalAlterConfigsResponse](a, req)
	if !ok || len(resp.Resources) != 1 {
		return noAnswer
	}
	return code(resp.Resources[0].ErrorCode)
}

// changed asks for a change of the question's own topic.
func changed(key string, op kmsg.IncrementalAlterConfigOp, values ...string) func(*asker) string {
	return func(a *asker) string {
		var all []*string
		for i := range values {
			all = append(all, &values[i])
		}
		return a.change(kmsg.ConfigResourceTypeTopic, a.create(), key, op, all...)
	}
}

func (a *asker) describe(kind kmsg.ConfigResourceType, name string, keys ...string) string {
	req := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.ConfigNames = kind, name, keys
	req.Resources = append(req.Resources, r)
	resp, ok := send[*kmsg.DescribeConfigsResponse](a, req)
	if !ok || len(resp.Resources) != 1 {
		return noAnswer
	}
	text := code(resp.Resources[0].ErrorCode)
	for _, c := range resp.Resources[0].Configs {
		value := "null"
		if c.Value != nil {
			value = *c.Value
		}
		text += fmt.Sprintf(", %s=%s", c.Name, value)
	}
	return text
}

var configQuestions = []question{
	{"AlterConfigs: unknown topic", func(a *asker) string { return a.alter("nosuch", "retention.ms", "1000") }},
	{"AlterConfigs: an unknown configuration", func(a *asker) string { return a.alter(a.create(), "no.such", "1") }},
	{"AlterConfigs: a bad value", func(a *asker) string { return a.alter(a.create(), "retention.ms", "soon") }},
	{"IncrementalAlterConfigs: unknown topic", func(a *asker) string {
		v := "1000"
		return a.change(kmsg.ConfigResourceTypeTopic, "nosuch", "retention.ms", kmsg.IncrementalAlterConfigOpSet, &v)
	}},
	{"IncrementalAlterConfigs: an unknown configuration", changed("no.such", kmsg.IncrementalAlterConfigOpSet, "1")},
	{"IncrementalAlterConfigs: a bad value", changed("retention.ms", kmsg.IncrementalAlterConfigOpSet, "soon")},
	{"IncrementalAlterConfigs: null", func(a *asker) string {
		return a.change(kmsg.ConfigResourceTypeTopic, a.create(), "retention.ms", kmsg.IncrementalAlterConfigOpSet, nil)
	}},
	{"IncrementalAlterConfigs: one configuration twice", changed("retention.ms", kmsg.IncrementalAlterConfigOpSet, "1000", "2000")},
	{"IncrementalAlterConfigs: appended to a number", changed("retention.ms", kmsg.IncrementalAlterConfigOpAppend, "1")},
	{"IncrementalAlterConfigs: appended to a list", changed("cleanup.policy", kmsg.IncrementalAlterConfigOpAppend, "compact")},
	{"IncrementalAlterConfigs: what is not there appended to a list", changed("cleanup.policy", kmsg.IncrementalAlterConfigOpAppend, "burn")},
	{"IncrementalAlterConfigs: what is not there taken out of a list", changed("cleanup.policy", kmsg.IncrementalAlterConfigOpSubtract, "compact")},
	{"IncrementalAlterConfigs: a list emptied", changed("cleanup.policy", kmsg.IncrementalAlterConfigOpSubtract, "delete")},
	{"IncrementalAlterConfigs: deleted without being set", changed("retention.ms", kmsg.IncrementalAlterConfigOpDelete, "")},
	{"IncrementalAlterConfigs: an unknown operation", changed("retention.ms", 9, "1")},
	{"IncrementalAlterConfigs: of an unknown broker", func(a *asker) string {
		v := "1"
		return a.change(kmsg.ConfigResourceTypeBroker, "9", "log.retention.ms", kmsg.IncrementalAlterConfigOpSet, &v)
	}},
	{"DescribeConfigs: unknown topic", func(a *asker) string { return a.describe(kmsg.ConfigResourceTypeTopic, "nosuch") }},
	{"DescribeConfigs: a bad name", func(a *asker) string { return a.describe(kmsg.ConfigResourceTypeTopic, "a b") }},
	{"DescribeConfigs: an unknown configuration", func(a *asker) string { return a.describe(kmsg.ConfigResourceTypeTopic, a.create(), "no.such") }},
	{"DescribeConfigs: a configuration", func(a *asker) string {
		return a.describe(kmsg.ConfigResourceTypeTopic, a.create("retention.ms", "86400000"), "retention.ms")
	}},
	{"DescribeConfigs: of an unknown broker", func(a *asker) string { return a.describe(kmsg.ConfigResourceTypeBroker, "9") }},
	{"DescribeConfigs: of a broker that is no number", func(a *asker) string { return a.describe(kmsg.ConfigResourceTypeBroker, "x") }},
	{"DescribeConfigs: of what does not exist", func(a *asker) string { return a.describe(77, "x") }},
}
