package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mqd-broker/mqd/bench"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// look is how often a client looks for what a broker has not made yet.
const look = 20 * time.Millisecond

// port is a bench.Port over franz-go: one client that produces, another that reads.
type port struct {
	brokers []string
	acks    kgo.Acks
	codec   kgo.CompressionCodec
	room    int               // messages that may wait for their answers
	configs map[string]string // of the topic

	topic      string
	partitions int32
	produce    *kgo.Client
}

// newPort makes a port for a load, whose topic gets configurations.
func newPort(brokers []string, acks kgo.Acks, load bench.Load, configs map[string]string) *port {
	return &port{
		brokers: brokers, acks: acks, codec: codec(load.Codec), configs: configs,
		room: bench.MaxDepth + max(1, load.Depth)*max(1, load.BatchMessages),
	}
}

// Open implements bench.Port.
func (p *port) Open(ctx context.Context, topic string, partitions int) error {
	options := []kgo.Opt{
		kgo.SeedBrokers(p.brokers...), kgo.RequiredAcks(p.acks), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0), kgo.MetadataMinAge(look), kgo.ProducerBatchCompression(p.codec), kgo.MaxBufferedRecords(p.room),
	}
	if p.acks != kgo.AllISRAcks() {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	c, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	p.topic, p.partitions, p.produce = topic, int32(partitions), c
	req := kmsg.NewPtrCreateTopicsRequest()
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, p.partitions, -1
	for name, value := range p.configs {
		t.Configs = append(t.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: name, Value: &value})
	}
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, c)
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return fmt.Errorf("create topic %s: %w", t.Topic, err)
		}
	}
	return p.await(ctx)
}

// await waits until all partitions of the topic have leaders and answer. Some brokers
// create it after they have said so, and a client that looks too early comes back after
// seconds.
func (p *port) await(ctx context.Context) error {
	look := time.NewTicker(look)
	defer look.Stop()
	for {
		err := p.leaders(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-look.C:
		}
	}
}

// leaders asks the leaders of all partitions for their first offset.
func (p *port) leaders(ctx context.Context) error {
	req := kmsg.NewPtrListOffsetsRequest()
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = p.topic
	for n := range p.partitions {
		of := kmsg.NewListOffsetsRequestTopicPartition()
		of.Partition, of.Timestamp = n, -2
		t.Partitions = append(t.Partitions, of)
	}
	req.Topics = append(req.Topics, t)
	for _, shard := range p.produce.RequestSharded(ctx, req) {
		if shard.Err != nil {
			return shard.Err
		}
		for _, t := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics {
			for _, of := range t.Partitions {
				if err := kerr.ErrorForCode(of.ErrorCode); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Send implements bench.Port.
func (p *port) Send(partition int32, key, value []byte, done func(offset int64, err error)) {
	r := &kgo.Record{Topic: p.topic, Partition: partition, Key: key, Value: value}
	p.produce.TryProduce(context.Background(), r, func(r *kgo.Record, err error) { done(r.Offset, err) })
}

// Read implements bench.Port.
func (p *port) Read(ctx context.Context, each func(partition int32, offset int64, value []byte)) error {
	c, err := kgo.NewClient(kgo.SeedBrokers(p.brokers...), kgo.MetadataMinAge(look), kgo.ConsumeTopics(p.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer c.Close()
	for ctx.Err() == nil {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err0(); err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
		fetches.EachRecord(func(r *kgo.Record) { each(r.Partition, r.Offset, r.Value) })
	}
	return nil
}

// Close implements bench.Port.
func (p *port) Close(ctx context.Context) error {
	defer p.produce.Close()
	req := kmsg.NewPtrDeleteTopicsRequest()
	t := kmsg.NewDeleteTopicsRequestTopic()
	t.Topic = &p.topic
	req.TopicNames, req.Topics = []string{p.topic}, append(req.Topics, t)
	resp, err := req.RequestWith(ctx, p.produce)
	if err != nil {
		return err
	}
	for _, t := range resp.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return fmt.Errorf("delete topic %s: %w", p.topic, err)
		}
	}
	return nil
}
