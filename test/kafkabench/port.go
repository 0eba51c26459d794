package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// port is a bench.Port over franz-go: one client that produces, another that reads.
type port struct {
	brokers []string
	acks    kgo.Acks
	codec   kgo.CompressionCodec
	depth   int

	topic   string
	produce *kgo.Client
}

// Open implements bench.Port.
func (p *port) Open(ctx context.Context, topic string, partitions int) error {
	options := []kgo.Opt{
		kgo.SeedBrokers(p.brokers...), kgo.RequiredAcks(p.acks), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(0), kgo.ProducerBatchCompression(p.codec), kgo.MaxBufferedRecords(p.depth + 1),
	}
	if p.acks != kgo.AllISRAcks() {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	c, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	p.topic, p.produce = topic, c
	req := kmsg.NewPtrCreateTopicsRequest()
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, int32(partitions), -1
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
	return nil
}

// Send implements bench.Port.
func (p *port) Send(partition int32, key, value []byte, done func(offset int64, err error)) {
	r := &kgo.Record{Topic: p.topic, Partition: partition, Key: key, Value: value}
	p.produce.TryProduce(context.Background(), r, func(r *kgo.Record, err error) { done(r.Offset, err) })
}

// Read implements bench.Port.
func (p *port) Read(ctx context.Context, each func(partition int32, offset int64, value []byte)) error {
	c, err := kgo.NewClient(kgo.SeedBrokers(p.brokers...), kgo.ConsumeTopics(p.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
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
