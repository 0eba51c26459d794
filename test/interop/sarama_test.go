package interop

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

// saramaClient runs sarama.
func saramaClient(b *broker) (driver, error) {
	s := &saramaDriver{address: []string{b.kafka}}
	l := &library{ops: map[string]func(context.Context, request) (reply, error){
		"hello": hello("github.com/IBM/sarama"), "produce": s.produce, "open": s.open, "read": s.read, "close": s.shut,
		"create": s.create, "grow": s.grow, "delete": s.remove, "topics": s.topics, "config": s.config, "alter": s.alter,
		"groups": s.groups, "drop": s.drop,
	}}
	s.work = s.member
	s.serve(l)
	sending(l, s.flow)
	return l, nil
}

type saramaDriver struct {
	members
	address []string
	reader  sarama.PartitionConsumer
	stop    func()
}

func (s *saramaDriver) settings() *sarama.Config {
	c := sarama.NewConfig()
	c.Producer.Return.Successes, c.Producer.Return.Errors = true, true
	c.Producer.Partitioner = sarama.NewManualPartitioner
	c.Producer.Retry.Max, c.Producer.Retry.Backoff = 200, 100*time.Millisecond
	c.Metadata.Retry.Max, c.Metadata.Retry.Backoff = 200, 100*time.Millisecond
	c.Metadata.RefreshFrequency = time.Second
	c.Consumer.MaxWaitTime = 100 * time.Millisecond
	return c
}

func saramaRecord(topic string, q request, i int) *sarama.ProducerMessage {
	r := record(topic, i)
	return &sarama.ProducerMessage{
		Topic: topic, Key: sarama.ByteEncoder(r.Key), Value: sarama.ByteEncoder(sized(topic, q, i)), Timestamp: r.Timestamp,
		Headers: []sarama.RecordHeader{{Key: []byte(r.Headers[0].Key), Value: r.Headers[0].Value}},
	}
}

func (s *saramaDriver) produce(_ context.Context, q request) (reply, error) {
	c := s.settings()
	c.Producer.RequiredAcks = map[string]sarama.RequiredAcks{"0": sarama.NoResponse, "1": sarama.WaitForLocal, "all": sarama.WaitForAll, "": sarama.WaitForAll}[q.Acks]
	c.Producer.MaxMessageBytes = 10 << 20
	if q.Codec != "" {
		if err := c.Producer.Compression.UnmarshalText([]byte(q.Codec)); err != nil {
			return reply{}, err
		}
	}
	p, err := sarama.NewSyncProducer(s.address, c)
	if err != nil {
		return reply{}, err
	}
	var ms []*sarama.ProducerMessage
	for i := q.First; i < q.First+q.N; i++ {
		ms = append(ms, saramaRecord(q.Topic, q, i))
	}
	err = p.SendMessages(ms)
	if all := (sarama.ProducerErrors)(nil); errors.As(err, &all) {
		err = all[0].Err // it says only how many
	}
	return reply{}, errors.Join(err, p.Close())
}

func (s *saramaDriver) flow(over context.Context, topic string) (int, error) {
	c := s.settings()
	c.Producer.Idempotent, c.Producer.RequiredAcks, c.Net.MaxOpenRequests = true, sarama.WaitForAll, 1
	p, err := sarama.NewAsyncProducer(s.address, c)
	if err != nil {
		return 0, err
	}
	room := make(chan struct{}, 500)
	var failed error
	var wait sync.WaitGroup
	wait.Go(func() {
		for range p.Successes() {
			<-room
		}
	})
	wait.Go(func() {
		for e := range p.Errors() {
			failed = e
			<-room
		}
	})
	n := 0
	for ; over.Err() == nil; n++ {
		room <- struct{}{}
		p.Input() <- saramaRecord(topic, request{}, n)
	}
	p.AsyncClose()
	wait.Wait()
	return n, failed
}

func (s *saramaDriver) open(_ context.Context, q request) (reply, error) {
	c := s.settings()
	if q.Small {
		c.Consumer.Fetch.Default = 1
	}
	if q.Committed {
		c.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	client, err := sarama.NewClient(s.address, c)
	if err != nil {
		return reply{}, err
	}
	at := map[string]int64{"start": sarama.OffsetOldest, "end": sarama.OffsetNewest, "time": q.Time}[q.From]
	position, err := client.GetOffset(q.Topic, 0, at)
	if err != nil {
		return reply{}, err
	}
	from := position
	if from < 0 {
		from = sarama.OffsetNewest
	}
	consumer, err := sarama.NewConsumerFromClient(client)
	if err != nil {
		return reply{}, err
	}
	s.reader, err = consumer.ConsumePartition(q.Topic, 0, from)
	s.stop = func() { _, _ = consumer.Close(), client.Close() }
	return reply{Position: position}, err
}

func (s *saramaDriver) read(ctx context.Context, q request) (reply, error) {
	var a reply
	for len(a.Records) < q.N {
		select {
		case m := <-s.reader.Messages():
			h := ""
			for _, x := range m.Headers {
				if string(x.Key) == "n" {
					h = string(x.Value)
				}
			}
			a.Records = append(a.Records, got{m.Offset, string(m.Key), string(m.Value), m.Timestamp.UnixMilli(), h})
		case <-ctx.Done():
			return a, ctx.Err()
		}
	}
	return a, nil
}

func (s *saramaDriver) shut(context.Context, request) (reply, error) {
	err := s.reader.Close()
	s.stop()
	return reply{}, err
}

// saramaSession is a member, between two rebalances.
type saramaSession struct {
	s *saramaDriver
	m *member
	q request
}

func (h saramaSession) Setup(s sarama.ConsumerGroupSession) error {
	h.m.set(len(s.Claims()[h.q.Topic]))
	return nil
}

func (h saramaSession) Cleanup(sarama.ConsumerGroupSession) error {
	h.m.set(0)
	return nil
}

func (h saramaSession) ConsumeClaim(s sarama.ConsumerGroupSession, c sarama.ConsumerGroupClaim) error {
	for {
		select {
		case m, ok := <-c.Messages():
			if !ok {
				return nil
			}
			if err := h.s.note(m.Value); err != nil {
				return err
			}
			s.MarkMessage(m, "")
			s.Commit()
		case <-s.Context().Done():
			return nil
		}
	}
}

func (s *saramaDriver) member(ctx context.Context, q request, m *member) error {
	c := s.settings()
	c.Consumer.Offsets.Initial, c.Consumer.Offsets.AutoCommit.Enable = sarama.OffsetOldest, false
	c.Consumer.Group.Session.Timeout, c.Consumer.Group.Heartbeat.Interval = 10*time.Second, 500*time.Millisecond
	c.Consumer.Group.Rebalance.Timeout = 20 * time.Second
	g, err := sarama.NewConsumerGroup(s.address, q.Group, c)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		// It ends with each rebalance, and with the connection.
		if err := g.Consume(ctx, []string{q.Topic}, saramaSession{s, m, q}); errors.Is(err, sarama.ErrClosedConsumerGroup) {
			return err
		}
	}
	return g.Close()
}

// admin has f called with an administrator.
func (s *saramaDriver) admin(f func(sarama.ClusterAdmin) (reply, error)) (reply, error) {
	a, err := sarama.NewClusterAdmin(s.address, s.settings())
	if err != nil {
		return reply{}, err
	}
	r, err := f(a)
	return r, errors.Join(err, a.Close())
}

func (s *saramaDriver) create(_ context.Context, q request) (reply, error) {
	return s.admin(func(a sarama.ClusterAdmin) (reply, error) {
		d := &sarama.TopicDetail{NumPartitions: int32(q.Partitions), ReplicationFactor: 1, ConfigEntries: map[string]*string{}}
		for name, value := range q.Config {
			d.ConfigEntries[name] = &value
		}
		return reply{}, a.CreateTopic(q.Topic, d, false)
	})
}

func (s *saramaDriver) grow(_ context.Context, q request) (reply, error) {
	return s.admin(func(a sarama.ClusterAdmin) (reply, error) {
		return reply{}, a.CreatePartitions(q.Topic, int32(q.Partitions), nil, false)
	})
}

func (s *saramaDriver) remove(_ context.Context, q request) (reply, error) {
	return s.admin(func(a sarama.ClusterAdmin) (reply, error) { return reply{}, a.DeleteTopic(q.Topic) })
}

func (s *saramaDriver) topics(context.Context, request) (reply, error) {
	return s.admin(func(a sarama.ClusterAdmin) (reply, error) {
		all, err := a.ListTopics()
		var r reply
		for name := range all {
			r.Names = append(r.Names, name)
		}
		return r, err
	})
}

func (s *saramaDriver) config(_ context.Context, q request) (reply, error) {
	return s.admin(func(a sarama.ClusterAdmin) (reply, error) {
		es, err := a.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: q.Topic, ConfigNames: []string{q.Name}})
		if err != nil || len(es) != 1 {
			return reply{}, fmt.Errorf("%d entries, %w", len(es), err)
		}
		return reply{Value: es[0].Value}, nil
	})
}

func (s *saramaDriver) alter(_ context.Context, q request) (reply, error) {
	return s.admin(func(a sarama.ClusterAdmin) (reply, error) {
		e := sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &q.Value}
		return reply{}, a.IncrementalAlterConfig(sarama.TopicResource, q.Topic, map[string]sarama.IncrementalAlterConfigsEntry{q.Name: e}, false)
	})
}

func (s *saramaDriver) groups(context.Context, request) (reply, error) {
	return s.admin(func(a sarama.ClusterAdmin) (reply, error) {
		all, err := a.ListConsumerGroups()
		var r reply
		for name := range all {
			r.Names = append(r.Names, name)
		}
		return r, err
	})
}

func (s *saramaDriver) drop(_ context.Context, q request) (reply, error) {
	return s.admin(func(a sarama.ClusterAdmin) (reply, error) { return reply{}, a.DeleteConsumerGroup(q.Group) })
}
