package interop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mqd-broker/mqd/client"
)

// codecs are all that a batch can be compressed with.
var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

// record is number i of a topic's, which compresses well.
func record(topic string, i int) *kgo.Record {
	return &kgo.Record{
		Topic: topic, Key: []byte("pump-" + strconv.Itoa(i%7)), Value: []byte(fmt.Sprintf("%06d too hot too hot too hot", i)),
		Timestamp: time.UnixMilli(int64(1_700_000_000_000 + i)),
		Headers:   []kgo.RecordHeader{{Key: "n", Value: []byte(strconv.Itoa(i))}},
	}
}

// poll reads until it has n records.
func poll(t *testing.T, ctx context.Context, c *kgo.Client, n int) []*kgo.Record {
	t.Helper()
	var got []*kgo.Record
	for len(got) < n {
		fs := c.PollFetches(ctx)
		if err := fs.Err0(); err != nil {
			t.Fatalf("%d of %d records came: %v", len(got), n, err)
		}
		fs.EachError(func(topic string, partition int32, err error) { t.Fatalf("%s/%d: %v", topic, partition, err) })
		got = append(got, fs.Records()...)
	}
	return got
}

func TestFranzGoReadsWhatItHasSentWithEveryCodec(t *testing.T) {
	b := start(t)
	ctx := within(t)
	for name, codec := range codecs {
		t.Run(name, func(t *testing.T) {
			const n = 2000
			topic := "codec-" + name
			p := b.kgo(kgo.ProducerBatchCompression(codec))
			var rs []*kgo.Record
			for i := range n {
				rs = append(rs, record(topic, i))
			}
			if err := p.ProduceSync(ctx, rs...).FirstErr(); err != nil {
				t.Fatal(err)
			}
			c := b.kgo(kgo.ConsumeTopics(topic))
			for i, r := range poll(t, ctx, c, n) {
				want := record(topic, i)
				if !bytes.Equal(r.Value, want.Value) || !bytes.Equal(r.Key, want.Key) || !r.Timestamp.Equal(want.Timestamp) || r.Offset != int64(i) ||
					len(r.Headers) != 1 || !bytes.Equal(r.Headers[0].Value, want.Headers[0].Value) {
					t.Fatalf("record %d came as %+v", i, r)
				}
			}
		})
	}
}

func TestBothProtocolsHaveTheSameRecordsAtTheSameOffsets(t *testing.T) {
	b := start(t)
	ctx := within(t)
	native := b.mqd("shared", 3)
	own, err := native.Producer("shared")
	if err != nil {
		t.Fatal(err)
	}
	foreign := b.kgo(kgo.DefaultProduceTopic("shared"))
	const n = 300
	want := map[string]int{}
	for i := range n {
		text := fmt.Sprintf("message %d", i)
		want[text]++
		if i%2 == 0 {
			_, err = own.Send(ctx, client.Record{Key: []byte(strconv.Itoa(i)), Value: []byte(text)})
		} else {
			err = foreign.ProduceSync(ctx, &kgo.Record{Key: []byte(strconv.Itoa(i)), Value: []byte(text)}).FirstErr()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	type place struct {
		partition int
		offset    int64
	}
	kafka, mqd := map[place]string{}, map[place]string{}
	for _, r := range poll(t, ctx, b.kgo(kgo.ConsumeTopics("shared")), n) {
		kafka[place{int(r.Partition), r.Offset}] = string(r.Value)
	}
	in, err := native.Consumer(client.Topics("shared"))
	if err != nil {
		t.Fatal(err)
	}
	for len(mqd) < n {
		batch, err := in.Poll(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for r := range batch.Records() {
			mqd[place{int(batch.Partition), r.Offset}] = string(r.Value)
		}
		batch.Release()
	}
	for at, text := range mqd {
		if kafka[at] != text {
			t.Errorf("%+v is %q for one protocol and %q for the other", at, text, kafka[at])
		}
		want[text]--
	}
	for text, k := range want {
		if k != 0 {
			t.Errorf("%q: %d too few", text, k)
		}
	}
}

func TestProducesInFlightKeepTheirOrder(t *testing.T) {
	b := start(t)
	ctx := within(t)
	const n, partitions = 20_000, 4
	b.mqd("ordered", partitions)
	p := b.kgo(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(5), kgo.ProducerLinger(0), kgo.MaxBufferedRecords(n))
	failed := make(chan error, n)
	for i := range n {
		r := record("ordered", i)
		r.Partition = int32(i % partitions)
		p.Produce(ctx, r, func(_ *kgo.Record, err error) { failed <- err })
	}
	for range n {
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
	}
	next := make([]int, partitions)
	for i := range next {
		next[i] = i
	}
	for _, r := range poll(t, ctx, b.kgo(kgo.ConsumeTopics("ordered")), n) {
		want := record("ordered", next[r.Partition])
		if !bytes.Equal(r.Value, want.Value) {
			t.Fatalf("partition %d at %d has %q, want %q", r.Partition, r.Offset, r.Value, want.Value)
		}
		next[r.Partition] += partitions
	}
}

func TestAConsumerIsWokenByAMessageThatComes(t *testing.T) {
	b := start(t)
	ctx := within(t)
	b.mqd("late", 8)
	c := b.kgo(kgo.ConsumeTopics("late"), kgo.FetchMaxWait(50*time.Second))
	got := make(chan *kgo.Record, 1)
	go func() {
		for ctx.Err() == nil {
			for _, r := range c.PollFetches(ctx).Records() {
				got <- r
			}
		}
	}()
	p := b.kgo()
	for i := range 20 {
		want := record("late", i)
		if err := p.ProduceSync(ctx, want).FirstErr(); err != nil {
			t.Fatal(err)
		}
		select {
		case r := <-got:
			if !bytes.Equal(r.Value, want.Value) {
				t.Fatalf("%q came, want %q", r.Value, want.Value)
			}
		case <-ctx.Done():
			t.Fatal("the message never came")
		}
	}
}

// offsetAt looks an offset up by time.
func offsetAt(t *testing.T, ctx context.Context, c *kgo.Client, topic string, ts int64) (offset, found int64) {
	t.Helper()
	q := kmsg.NewPtrListOffsetsRequest()
	q.ReplicaID = -1
	tp := kmsg.NewListOffsetsRequestTopic()
	tp.Topic = topic
	at := kmsg.NewListOffsetsRequestTopicPartition()
	at.Timestamp = ts
	tp.Partitions = append(tp.Partitions, at)
	q.Topics = append(q.Topics, tp)
	a, err := q.RequestWith(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	r := a.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
		t.Fatalf("offset of %d: %v", ts, err)
	}
	return r.Offset, r.Timestamp
}

// Four batches of one record each, as in redpanda#4308.
func TestOffsetsByTimeAreThoseOfRecords(t *testing.T) {
	b := start(t)
	ctx := within(t)
	b.mqd("times", 1)
	c := b.kgo()
	for _, ts := range []int64{2, 4, 6, 8} {
		if err := c.ProduceSync(ctx, &kgo.Record{Topic: "times", Value: []byte("x"), Timestamp: time.UnixMilli(ts)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for ts, want := range map[int64][2]int64{
		1: {0, 2}, 2: {0, 2}, 3: {1, 4}, 4: {1, 4}, 5: {2, 6}, 6: {2, 6}, 7: {3, 8}, 8: {3, 8}, 9: {-1, -1}, -1: {4, -1}, -2: {0, -1},
	} {
		if offset, at := offsetAt(t, ctx, c, "times", ts); offset != want[0] || at != want[1] {
			t.Errorf("time %d: offset %d of time %d, want %v", ts, offset, at, want)
		}
	}
}

// One batch of twelve records in each codec, as in redpanda#25769.
func TestOffsetsByTimeLookIntoBatches(t *testing.T) {
	b := start(t)
	ctx := within(t)
	for name, codec := range codecs {
		topic := "within-" + name
		b.mqd(topic, 1)
		c := b.kgo(kgo.ProducerBatchCompression(codec), kgo.ProducerLinger(time.Second))
		var rs []*kgo.Record
		for i := range 12 {
			rs = append(rs, &kgo.Record{Topic: topic, Value: bytes.Repeat([]byte("x"), 100), Timestamp: time.UnixMilli(int64(i + 1))})
		}
		if err := c.ProduceSync(ctx, rs...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if offset, at := offsetAt(t, ctx, c, topic, 5); offset != 4 || at != 5 {
			t.Errorf("%s: time 5 is at offset %d of time %d, want 4", name, offset, at)
		}
	}
}

// A broker that dies takes nothing away and writes nothing twice: franz-go's producer
// is idempotent unless told otherwise.
func TestAnIdempotentProducerLivesThroughAKill(t *testing.T) {
	b := start(t)
	ctx := within(t)
	b.mqd("lives", 2)
	p := b.kgo(kgo.ProducerLinger(0))
	const n = 3000
	failed := make(chan error, n)
	// franz-go takes a connection that ends before it has its producer id for a wrong
	// configuration.
	failed <- p.ProduceSync(ctx, record("lives", 0)).FirstErr()
	for i := 1; i < n; i++ {
		p.Produce(ctx, record("lives", i), func(_ *kgo.Record, err error) { failed <- err })
		if i == n/3 || i == 2*n/3 {
			if err := b.proc.Kill(); err != nil {
				t.Fatal(err)
			}
			b.launch()
		}
	}
	for range n {
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]int{}
	for _, r := range poll(t, ctx, b.kgo(kgo.ConsumeTopics("lives")), n) {
		seen[string(r.Value)]++
	}
	for i := range n {
		if k := seen[string(record("lives", i).Value)]; k != 1 {
			t.Errorf("record %d is there %d times", i, k)
		}
	}
}

func TestErrorsAreThoseThatKafkaHas(t *testing.T) {
	b := start(t)
	ctx := within(t)
	native := b.mqd("strict", 1)
	if err := native.Admin().AlterTopic(ctx, "strict", map[string]string{"max.message.bytes": "32768"}); err != nil {
		t.Fatal(err)
	}
	c := b.kgo(kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerBatchMaxBytes(1<<20))
	big := &kgo.Record{Topic: "strict", Value: make([]byte, 40_000)}
	if err := c.ProduceSync(ctx, big).FirstErr(); !errors.Is(err, kerr.MessageTooLarge) {
		t.Errorf("a batch above the topic's limit: %v", err)
	}
	if err := c.ProduceSync(ctx, record("strict", 1)).FirstErr(); err != nil {
		t.Errorf("a small one after it: %v", err)
	}
	lost := b.kgo(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"strict": {0: kgo.NewOffset().At(500)}}), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	for {
		fs := lost.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			if !errors.Is(err, kerr.OffsetOutOfRange) {
				t.Errorf("a fetch behind the log: %v", err)
			}
			return
		}
	}
}

func TestTopicsAreManagedByKafkaClients(t *testing.T) {
	b := start(t)
	ctx := within(t)
	native := b.mqd("older", 1)
	c := b.kgo()
	q := kmsg.NewPtrCreateTopicsRequest()
	made := kmsg.NewCreateTopicsRequestTopic()
	made.Topic, made.NumPartitions, made.ReplicationFactor = "made", 3, 1
	made.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "retention.ms", Value: kmsg.StringPtr("3600000")}, {Name: "mqd.durability", Value: kmsg.StringPtr("written")}}
	q.Topics = append(q.Topics, made)
	if a, err := q.RequestWith(ctx, c); err != nil || a.Topics[0].ErrorCode != 0 {
		t.Fatalf("create: %+v, %v", a, err)
	}
	d, err := native.Admin().DescribeTopic(ctx, "made")
	if err != nil || len(d.Partitions) != 3 || d.Class != client.ClassWritten {
		t.Fatalf("the other protocol sees %+v, %v", d, err)
	}
	if err := c.ProduceSync(ctx, record("made", 1)).FirstErr(); err != nil {
		t.Fatal(err)
	}
	poll(t, ctx, b.kgo(kgo.ConsumeTopics("made")), 1)
	del := kmsg.NewPtrDeleteTopicsRequest()
	gone := kmsg.NewDeleteTopicsRequestTopic()
	gone.Topic = kmsg.StringPtr("made")
	del.Topics, del.TopicNames = append(del.Topics, gone), []string{"made"}
	if a, err := del.RequestWith(ctx, c); err != nil || a.Topics[0].ErrorCode != 0 {
		t.Fatalf("delete: %+v, %v", a, err)
	}
	if _, err := native.Admin().DescribeTopic(ctx, "made"); err == nil {
		t.Error("the other protocol still sees it")
	}
}
