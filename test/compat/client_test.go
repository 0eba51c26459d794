package compat

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mqd-broker/mqd/batch"
)

const topic = "alerts"

// broker starts kfake on a loopback port and returns a client of it.
func broker(t *testing.T, opts ...kgo.Opt) (*kfake.Cluster, *kgo.Client, context.Context) {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(cluster.ListenAddrs()...),
		kgo.DefaultProduceTopic(topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return cluster, client, ctx
}

// What a real producer sends, our broker would append, and our client would read.
func TestWeTakeWhatAKgoProducerSends(t *testing.T) {
	for i, c := range codecs {
		t.Run(c.String(), func(t *testing.T) {
			cluster, client, ctx := broker(t, kgo.ProducerBatchCompression(kgoCodecs[i]))
			var mu sync.Mutex
			var sent [][]byte
			cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
				mu.Lock()
				defer mu.Unlock()
				for _, rt := range req.(*kmsg.ProduceRequest).Topics {
					for _, rp := range rt.Partitions {
						sent = append(sent, slices.Clone(rp.Records))
					}
				}
				cluster.KeepControl()
				return nil, nil, false
			})
			want := records(uint64(i), 500)
			var rs []*kgo.Record
			for _, r := range want {
				k := &kgo.Record{Key: r.Key, Value: r.Value, Timestamp: time.UnixMilli(r.Timestamp)}
				for _, h := range r.Headers {
					k.Headers = append(k.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
				}
				rs = append(rs, k)
			}
			if err := client.ProduceSync(ctx, rs...).FirstErr(); err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			defer mu.Unlock()
			var got []batch.Record
			compressed := false
			for _, b := range sent {
				h, err := batch.Check(b, 1<<20)
				if err != nil {
					t.Fatalf("we refuse a producer's batch: %v", err)
				}
				if h.ProducerID < 0 || h.BaseSequence < 0 {
					t.Errorf("kgo is idempotent by default, but the header is %+v", h)
				}
				compressed = compressed || h.Attributes.Codec() == c
				part, err := read(b)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, part...)
			}
			if !compressed {
				t.Errorf("none of %d batches was %v", len(sent), c)
			}
			same(t, got, want)
		})
	}
}

// What our builder makes, a broker takes from us, and a real consumer reads.
func TestAKgoConsumerReadsWhatWeProduce(t *testing.T) {
	_, client, ctx := broker(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	var want []batch.Record
	for i, c := range codecs {
		rs := records(uint64(i), 100)
		want = append(want, rs...)
		produce(t, ctx, client, ours(t, rs, c))
	}
	plain := batch.NewPlainBuilder(nil, 1<<20)
	for _, body := range []string{"plain one", "", "plain three"} {
		want = append(want, batch.Record{Timestamp: 1_700_000_000_000, Value: []byte(body)})
		if err := plain.Append([]byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	converted, err := batch.PlainToBatch(nil, plain.Finish(), 1_700_000_000_000)
	if err != nil {
		t.Fatal(err)
	}
	produce(t, ctx, client, converted)

	var got []batch.Record
	for len(got) < len(want) {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("after %d of %d records: %v", len(got), len(want), err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if int(r.Offset) != len(got) {
				t.Fatalf("offset %d, want %d", r.Offset, len(got))
			}
			got = append(got, fromKgo(r))
		})
	}
	same(t, got, want)
}

// produce sends one batch as it is.
func produce(t *testing.T, ctx context.Context, client *kgo.Client, b []byte) {
	t.Helper()
	partition := kmsg.NewProduceRequestTopicPartition()
	partition.Records = b
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic = topic
	rt.Partitions = append(rt.Partitions, partition)
	req := kmsg.NewPtrProduceRequest()
	req.Acks = -1
	req.TimeoutMillis = 10_000
	req.Topics = append(req.Topics, rt)
	if id, err := topicID(ctx, client); err != nil {
		t.Fatal(err)
	} else {
		req.Topics[0].TopicID = id
	}
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		t.Fatal(err)
	}
	if err := kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode); err != nil {
		t.Fatalf("the broker refuses our batch: %v", err)
	}
}

func topicID(ctx context.Context, client *kgo.Client) ([16]byte, error) {
	rt := kmsg.NewMetadataRequestTopic()
	rt.Topic = kmsg.StringPtr(topic)
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return [16]byte{}, err
	}
	return resp.Topics[0].TopicID, nil
}
