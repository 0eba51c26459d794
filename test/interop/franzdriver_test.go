package interop

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// franz runs franz-go.
func franz(b *broker) (driver, error) {
	f := &franzDriver{address: b.kafka}
	l := &library{ops: map[string]func(context.Context, request) (reply, error){
		"hello":   hello("github.com/twmb/franz-go"),
		"produce": f.produce, "open": f.open, "read": f.read, "close": f.shut,
		"create": f.create, "grow": f.grow, "delete": f.remove, "topics": f.topics, "config": f.config, "alter": f.alter,
		"groups": f.groups, "drop": f.drop,
	}}
	f.work = f.member
	f.serve(l)
	sending(l, f.flow)
	return l, nil
}

type franzDriver struct {
	members
	address string
	reader  *kgo.Client
}

func (f *franzDriver) client(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(f.address), kgo.AllowAutoTopicCreation()}, opts...)...)
}

func (f *franzDriver) produce(ctx context.Context, q request) (reply, error) {
	acks := map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks(), "": kgo.AllISRAcks()}[q.Acks]
	opts := []kgo.Opt{kgo.RequiredAcks(acks), kgo.ProducerBatchMaxBytes(10 << 20), kgo.ProducerLinger(50 * time.Millisecond)}
	if q.Acks != "all" && q.Acks != "" {
		opts = append(opts, kgo.DisableIdempotentWrite())
	}
	if codec, ok := codecs[q.Codec]; ok {
		opts = append(opts, kgo.ProducerBatchCompression(codec))
	} else {
		opts = append(opts, kgo.ProducerBatchCompression(kgo.NoCompression()))
	}
	c, err := f.client(opts...)
	if err != nil {
		return reply{}, err
	}
	defer c.Close()
	var rs []*kgo.Record
	for i := q.First; i < q.First+q.N; i++ {
		r := record(q.Topic, i)
		r.Value = sized(q.Topic, q, i)
		rs = append(rs, r)
	}
	return reply{}, c.ProduceSync(ctx, rs...).FirstErr()
}

func (f *franzDriver) flow(over context.Context, topic string) (int, error) {
	c, err := f.client(kgo.ProducerLinger(0), kgo.MaxBufferedRecords(500))
	if err != nil {
		return 0, err
	}
	defer c.Close()
	var mu sync.Mutex
	var failed error
	n := 0
	for ; over.Err() == nil; n++ {
		c.Produce(context.Background(), record(topic, n), func(_ *kgo.Record, err error) {
			mu.Lock()
			defer mu.Unlock()
			if failed == nil {
				failed = err
			}
		})
	}
	if err := c.Flush(context.Background()); err != nil {
		return n, err
	}
	mu.Lock()
	defer mu.Unlock()
	return n, failed
}

func (f *franzDriver) open(ctx context.Context, q request) (reply, error) {
	finder, err := f.client()
	if err != nil {
		return reply{}, err
	}
	defer finder.Close()
	list := kmsg.NewPtrListOffsetsRequest()
	list.ReplicaID = -1
	t, p := kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
	t.Topic = q.Topic
	p.Timestamp = map[string]int64{"start": -2, "end": -1, "time": q.Time}[q.From]
	t.Partitions = append(t.Partitions, p)
	list.Topics = append(list.Topics, t)
	a, err := list.RequestWith(ctx, finder)
	if err != nil {
		return reply{}, err
	}
	found := a.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(found.ErrorCode); err != nil {
		return reply{}, err
	}
	at := kgo.NewOffset().AtEnd()
	if found.Offset >= 0 {
		at = kgo.NewOffset().At(found.Offset)
	}
	opts := []kgo.Opt{kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{q.Topic: {0: at}}), kgo.FetchMaxWait(100 * time.Millisecond)}
	if q.Small {
		opts = append(opts, kgo.FetchMaxPartitionBytes(1), kgo.FetchMaxBytes(1))
	}
	if q.Committed {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	f.reader, err = f.client(opts...)
	return reply{Position: found.Offset}, err
}

func (f *franzDriver) read(ctx context.Context, q request) (reply, error) {
	var a reply
	for len(a.Records) < q.N {
		fs := f.reader.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			return a, err
		}
		fs.EachRecord(func(r *kgo.Record) {
			h := ""
			for _, x := range r.Headers {
				if x.Key == "n" {
					h = string(x.Value)
				}
			}
			a.Records = append(a.Records, got{r.Offset, string(r.Key), string(r.Value), r.Timestamp.UnixMilli(), h})
		})
	}
	return a, nil
}

func (f *franzDriver) shut(context.Context, request) (reply, error) {
	f.reader.Close()
	return reply{}, nil
}

func (f *franzDriver) member(ctx context.Context, q request, m *member) error {
	var owns atomic.Int64
	lost := func(_ context.Context, _ *kgo.Client, p map[string][]int32) {
		m.set(int(owns.Add(-int64(len(p[q.Topic])))))
	}
	c, err := f.client(
		kgo.ConsumerGroup(q.Group), kgo.ConsumeTopics(q.Topic), kgo.DisableAutoCommit(), kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.SessionTimeout(10*time.Second), kgo.HeartbeatInterval(500*time.Millisecond),
		kgo.FetchMaxWait(100*time.Millisecond), kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, p map[string][]int32) {
			m.set(int(owns.Add(int64(len(p[q.Topic])))))
		}),
		kgo.OnPartitionsRevoked(lost), kgo.OnPartitionsLost(lost))
	if err != nil {
		return err
	}
	defer c.Close()
	for ctx.Err() == nil {
		polled, cancel := context.WithTimeout(ctx, 250*time.Millisecond)
		fs := c.PollFetches(polled)
		cancel()
		var values [][]byte
		fs.EachRecord(func(r *kgo.Record) { values = append(values, r.Value) })
		if err := f.note(values...); err != nil {
			return err
		}
		// What a commit that fails should have told the next one tells, or whoever has the
		// partition then reads the records again.
		_ = c.CommitUncommittedOffsets(context.Background())
		c.AllowRebalance()
	}
	return nil
}

// ask sends a request, and returns the answer.
func ask[A any](ctx context.Context, f *franzDriver, q interface {
	RequestWith(context.Context, kmsg.Requestor) (A, error)
}) (A, error) {
	c, err := f.client()
	if err != nil {
		var none A
		return none, err
	}
	defer c.Close()
	return q.RequestWith(ctx, c)
}

func (f *franzDriver) create(ctx context.Context, q request) (reply, error) {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = q.Topic, int32(q.Partitions), 1
	for name, value := range q.Config {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = name, &value
		t.Configs = append(t.Configs, c)
	}
	r := kmsg.NewPtrCreateTopicsRequest()
	r.Topics = append(r.Topics, t)
	a, err := ask(ctx, f, r)
	if err != nil {
		return reply{}, err
	}
	return reply{}, kerr.ErrorForCode(a.Topics[0].ErrorCode)
}

func (f *franzDriver) grow(ctx context.Context, q request) (reply, error) {
	t := kmsg.NewCreatePartitionsRequestTopic()
	t.Topic, t.Count = q.Topic, int32(q.Partitions)
	r := kmsg.NewPtrCreatePartitionsRequest()
	r.Topics = append(r.Topics, t)
	a, err := ask(ctx, f, r)
	if err != nil {
		return reply{}, err
	}
	return reply{}, kerr.ErrorForCode(a.Topics[0].ErrorCode)
}

func (f *franzDriver) remove(ctx context.Context, q request) (reply, error) {
	t := kmsg.NewDeleteTopicsRequestTopic()
	t.Topic = &q.Topic
	r := kmsg.NewPtrDeleteTopicsRequest()
	r.TopicNames, r.Topics = []string{q.Topic}, append(r.Topics, t)
	a, err := ask(ctx, f, r)
	if err != nil {
		return reply{}, err
	}
	return reply{}, kerr.ErrorForCode(a.Topics[0].ErrorCode)
}

func (f *franzDriver) topics(ctx context.Context, _ request) (reply, error) {
	m, err := ask(ctx, f, kmsg.NewPtrMetadataRequest())
	var a reply
	if err != nil {
		return a, err
	}
	for _, t := range m.Topics {
		a.Names = append(a.Names, *t.Topic)
	}
	return a, nil
}

func (f *franzDriver) config(ctx context.Context, q request) (reply, error) {
	res := kmsg.NewDescribeConfigsRequestResource()
	res.ResourceType, res.ResourceName, res.ConfigNames = kmsg.ConfigResourceTypeTopic, q.Topic, []string{q.Name}
	r := kmsg.NewPtrDescribeConfigsRequest()
	r.Resources = append(r.Resources, res)
	a, err := ask(ctx, f, r)
	if err != nil {
		return reply{}, err
	}
	if err := kerr.ErrorForCode(a.Resources[0].ErrorCode); err != nil {
		return reply{}, err
	}
	return reply{Value: *a.Resources[0].Configs[0].Value}, nil
}

func (f *franzDriver) alter(ctx context.Context, q request) (reply, error) {
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Value = q.Name, &q.Value
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName, res.Configs = kmsg.ConfigResourceTypeTopic, q.Topic, append(res.Configs, c)
	r := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r.Resources = append(r.Resources, res)
	a, err := ask(ctx, f, r)
	if err != nil {
		return reply{}, err
	}
	return reply{}, kerr.ErrorForCode(a.Resources[0].ErrorCode)
}

func (f *franzDriver) groups(ctx context.Context, _ request) (reply, error) {
	l, err := ask(ctx, f, kmsg.NewPtrListGroupsRequest())
	var a reply
	if err != nil {
		return a, err
	}
	for _, g := range l.Groups {
		a.Names = append(a.Names, g.Group)
	}
	return a, kerr.ErrorForCode(l.ErrorCode)
}

func (f *franzDriver) drop(ctx context.Context, q request) (reply, error) {
	r := kmsg.NewPtrDeleteGroupsRequest()
	r.Groups = []string{q.Group}
	a, err := ask(ctx, f, r)
	if err != nil {
		return reply{}, err
	}
	return reply{}, kerr.ErrorForCode(a.Groups[0].ErrorCode)
}
