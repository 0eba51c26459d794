package mqdtest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mqd-broker/mqd/client"
)

// look is how long a reading waits for records before it asks again whether any are left.
const look = 50 * time.Millisecond

// Message is a record and its place in the topic.
type Message struct {
	Partition int32
	Offset    int64
	client.Record
}

// CreateTopic makes a topic of the default class, flushed. For other settings take the
// Admin of a [Broker.Client].
func (b *Broker) CreateTopic(name string, partitions int) {
	b.t.Helper()
	c := b.dial()
	defer closeAtOnce(c)
	ctx, cancel := b.context()
	defer cancel()
	if _, err := c.Admin().CreateTopic(ctx, client.TopicSpec{Name: name, Partitions: partitions}); err != nil {
		b.t.Fatalf("mqdtest: %v", err)
	}
}

// Send sends records to a topic and waits until all of them are acknowledged.
func (b *Broker) Send(topic string, records ...client.Record) {
	b.t.Helper()
	c := b.dial()
	defer closeAtOnce(c)
	ctx, cancel := b.context()
	defer cancel()
	p, err := c.Producer(topic)
	if err == nil {
		_, err = p.SendBatch(ctx, records)
	}
	if err != nil {
		b.t.Fatalf("mqdtest: %v", err)
	}
}

// ReadAll returns what a topic holds at the moment, in order of partition and offset, as a
// consumer without a group sees it. It commits nothing.
func (b *Broker) ReadAll(topic string) []Message {
	b.t.Helper()
	c := b.dial()
	defer closeAtOnce(c)
	all, err := b.read(c, topic)
	if err != nil {
		b.t.Fatalf("mqdtest: topic %s: %v", topic, err)
	}
	slices.SortFunc(all, func(x, y Message) int {
		return cmp.Or(cmp.Compare(x.Partition, y.Partition), cmp.Compare(x.Offset, y.Offset))
	})
	return all
}

// read reads until the consumer stands at the end of every partition, which it may reach
// without a record where the end is a gap.
func (b *Broker) read(c *client.Client, topic string) ([]Message, error) {
	ctx, cancel := b.context()
	defer cancel()
	in, err := c.Consumer(client.Topics(topic))
	if err != nil {
		return nil, err
	}
	var all []Message
	for {
		lags, err := in.Lag(ctx)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(lags, func(l client.Lag) bool { return l.Records > 0 }) {
			return all, nil
		}
		if all, err = take(ctx, in, all); err != nil {
			return nil, err
		}
	}
}

// take adds what comes until nothing does for a moment.
func take(ctx context.Context, in *client.Consumer, all []Message) ([]Message, error) {
	for {
		some, cancel := context.WithTimeout(ctx, look)
		batch, err := in.Poll(some)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		for r := range batch.Records() {
			all = append(all, Message{batch.Partition, r.Offset, r.Clone()})
		}
		batch.Release()
	}
}
