package interop

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/compress"
)

// kafkaGo runs kafka-go. It has no idempotent producer.
func kafkaGo(b *broker) (driver, error) {
	k := &kafkaGoDriver{address: b.kafka}
	l := &library{ops: map[string]func(context.Context, request) (reply, error){
		"hello": hello("github.com/segmentio/kafka-go"), "produce": k.produce, "open": k.open, "read": k.read, "close": k.shut,
		"create": k.create, "grow": k.grow, "delete": k.remove, "topics": k.topics, "config": k.config, "alter": k.alter,
		"groups": k.groups, "drop": k.drop,
		"start": func(context.Context, request) (reply, error) {
			return reply{}, unsupported("it has no idempotent producer")
		},
	}}
	k.work = k.member
	k.serve(l)
	return l, nil
}

type kafkaGoDriver struct {
	members
	address string
	reader  *kafka.Reader
}

// client makes one for a request. One that is kept tries a connection that has ended, and
// does not try again.
func (k *kafkaGoDriver) client() *kafka.Client {
	return &kafka.Client{Addr: kafka.TCP(k.address), Transport: &kafka.Transport{IdleTimeout: time.Second}}
}

// first is the balancer that takes the first partition.
func first(kafka.Message, ...int) int { return 0 }

func (k *kafkaGoDriver) produce(ctx context.Context, q request) (reply, error) {
	w := &kafka.Writer{
		Addr: kafka.TCP(k.address), Topic: q.Topic, BatchBytes: 10 << 20, BatchSize: 1000, BatchTimeout: 10 * time.Millisecond,
		Balancer: kafka.BalancerFunc(first), AllowAutoTopicCreation: true, MaxAttempts: 50,
		RequiredAcks: map[string]kafka.RequiredAcks{"0": kafka.RequireNone, "1": kafka.RequireOne, "all": kafka.RequireAll, "": kafka.RequireAll}[q.Acks],
		Compression:  map[string]compress.Compression{"gzip": compress.Gzip, "snappy": compress.Snappy, "lz4": compress.Lz4, "zstd": compress.Zstd}[q.Codec],
	}
	var ms []kafka.Message
	for i := q.First; i < q.First+q.N; i++ {
		r := record(q.Topic, i)
		ms = append(ms, kafka.Message{
			Key: r.Key, Value: sized(q.Topic, q, i), Time: r.Timestamp, Headers: []kafka.Header{{Key: r.Headers[0].Key, Value: r.Headers[0].Value}},
		})
	}
	return reply{}, errors.Join(w.WriteMessages(ctx, ms...), w.Close())
}

func (k *kafkaGoDriver) open(ctx context.Context, q request) (reply, error) {
	at := map[string]kafka.OffsetRequest{"start": kafka.FirstOffsetOf(0), "end": kafka.LastOffsetOf(0), "time": kafka.TimeOffsetOf(0, time.UnixMilli(q.Time))}[q.From]
	a, err := k.client().ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{q.Topic: {at}}})
	if err != nil {
		return reply{}, err
	}
	found := a.Topics[q.Topic][0]
	if found.Error != nil {
		return reply{}, found.Error
	}
	position := int64(-1)
	switch q.From {
	case "start":
		position = found.FirstOffset
	case "end":
		position = found.LastOffset
	default:
		for offset := range found.Offsets {
			position = offset
		}
	}
	c := kafka.ReaderConfig{Brokers: []string{k.address}, Topic: q.Topic, MaxWait: 100 * time.Millisecond, MaxBytes: 10 << 20}
	if q.Small {
		c.MinBytes, c.MaxBytes = 1, 1
	}
	if q.Committed {
		c.IsolationLevel = kafka.ReadCommitted
	}
	k.reader = kafka.NewReader(c)
	from := position
	if from < 0 {
		from = kafka.LastOffset
	}
	return reply{Position: position}, k.reader.SetOffset(from)
}

func (k *kafkaGoDriver) read(ctx context.Context, q request) (reply, error) {
	var a reply
	for len(a.Records) < q.N {
		m, err := k.reader.ReadMessage(ctx)
		if err != nil {
			return a, err
		}
		h := ""
		for _, x := range m.Headers {
			if x.Key == "n" {
				h = string(x.Value)
			}
		}
		a.Records = append(a.Records, got{m.Offset, string(m.Key), string(m.Value), m.Time.UnixMilli(), h})
	}
	return a, nil
}

func (k *kafkaGoDriver) shut(context.Context, request) (reply, error) {
	return reply{}, k.reader.Close()
}

// member is one of a group. The Reader does not tell what it has, so this uses what it is
// made of.
func (k *kafkaGoDriver) member(ctx context.Context, q request, m *member) error {
	g, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: q.Group, Brokers: []string{k.address}, Topics: []string{q.Topic}, StartOffset: kafka.FirstOffset,
		SessionTimeout: 10 * time.Second, HeartbeatInterval: 500 * time.Millisecond, RebalanceTimeout: 20 * time.Second, JoinGroupBackoff: 100 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		gen, err := g.Next(ctx)
		if err != nil { // that of the broker's death; it is tried again
			continue
		}
		m.set(len(gen.Assignments[q.Topic]))
		for _, p := range gen.Assignments[q.Topic] {
			gen.Start(func(ctx context.Context) { k.partition(ctx, q.Topic, p, gen) })
		}
	}
	return g.Close()
}

// partition reads a partition as long as a generation lasts.
func (k *kafkaGoDriver) partition(ctx context.Context, topic string, p kafka.PartitionAssignment, gen *kafka.Generation) {
	r := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{k.address}, Topic: topic, Partition: p.ID, MaxWait: 100 * time.Millisecond, MaxBytes: 10 << 20})
	defer func() { _ = r.Close() }()
	if err := r.SetOffset(p.Offset); err != nil {
		return
	}
	for {
		m, err := r.ReadMessage(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			continue
		}
		if k.note(m.Value) != nil {
			return
		}
		// One that fails has its record read again, by whoever has the partition then.
		_ = gen.CommitOffsets(map[string]map[int]int64{topic: {p.ID: m.Offset + 1}})
	}
}

func (k *kafkaGoDriver) create(ctx context.Context, q request) (reply, error) {
	t := kafka.TopicConfig{Topic: q.Topic, NumPartitions: q.Partitions, ReplicationFactor: 1}
	for name, value := range q.Config {
		t.ConfigEntries = append(t.ConfigEntries, kafka.ConfigEntry{ConfigName: name, ConfigValue: value})
	}
	a, err := k.client().CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{t}})
	if err != nil {
		return reply{}, err
	}
	return reply{}, a.Errors[q.Topic]
}

func (k *kafkaGoDriver) grow(ctx context.Context, q request) (reply, error) {
	a, err := k.client().CreatePartitions(ctx, &kafka.CreatePartitionsRequest{Topics: []kafka.TopicPartitionsConfig{{Name: q.Topic, Count: int32(q.Partitions)}}})
	if err != nil {
		return reply{}, err
	}
	return reply{}, a.Errors[q.Topic]
}

func (k *kafkaGoDriver) remove(ctx context.Context, q request) (reply, error) {
	a, err := k.client().DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{q.Topic}})
	if err != nil {
		return reply{}, err
	}
	return reply{}, a.Errors[q.Topic]
}

func (k *kafkaGoDriver) topics(ctx context.Context, _ request) (reply, error) {
	a, err := k.client().Metadata(ctx, &kafka.MetadataRequest{})
	if err != nil {
		return reply{}, err
	}
	var r reply
	for _, t := range a.Topics {
		r.Names = append(r.Names, t.Name)
	}
	return r, nil
}

func (k *kafkaGoDriver) config(ctx context.Context, q request) (reply, error) {
	a, err := k.client().DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{
		Resources: []kafka.DescribeConfigRequestResource{{ResourceType: kafka.ResourceTypeTopic, ResourceName: q.Topic, ConfigNames: []string{q.Name}}},
	})
	if err != nil {
		return reply{}, err
	}
	r := a.Resources[0]
	if r.Error != nil || len(r.ConfigEntries) != 1 {
		return reply{}, errors.Join(r.Error, errors.New(strconv.Itoa(len(r.ConfigEntries))+" entries"))
	}
	return reply{Value: r.ConfigEntries[0].ConfigValue}, nil
}

func (k *kafkaGoDriver) alter(ctx context.Context, q request) (reply, error) {
	a, err := k.client().IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{
		Resources: []kafka.IncrementalAlterConfigsRequestResource{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: q.Topic,
			Configs: []kafka.IncrementalAlterConfigsRequestConfig{{Name: q.Name, Value: q.Value, ConfigOperation: kafka.ConfigOperationSet}},
		}},
	})
	if err != nil {
		return reply{}, err
	}
	return reply{}, a.Resources[0].Error
}

func (k *kafkaGoDriver) groups(ctx context.Context, _ request) (reply, error) {
	a, err := k.client().ListGroups(ctx, &kafka.ListGroupsRequest{})
	if err != nil {
		return reply{}, err
	}
	var r reply
	for _, g := range a.Groups {
		r.Names = append(r.Names, g.GroupID)
	}
	return r, a.Error
}

func (k *kafkaGoDriver) drop(ctx context.Context, q request) (reply, error) {
	a, err := k.client().DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{q.Group}})
	if err != nil {
		return reply{}, err
	}
	return reply{}, a.Errors[q.Group]
}
