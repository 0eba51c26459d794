package dialect

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/net/wire"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// records is a batch that begins at an offset.
func records(t *testing.T, base int64, values ...string) []byte {
	t.Helper()
	b := batch.NewBuilder(nil, 1<<16)
	for _, v := range values {
		if err := b.Append(&batch.Record{Value: []byte(v)}); err != nil {
			t.Fatal(err)
		}
	}
	out := bytes.Clone(b.Finish(batch.CodecNone))
	binary.BigEndian.PutUint64(out, uint64(base))
	return out
}

// request takes the head of a request off and checks it.
func request(t *testing.T, frame []byte, key, version int16, corr uint32) []byte {
	t.Helper()
	head := []byte{0, byte(key), 0, byte(version), byte(corr >> 24), byte(corr >> 16), byte(corr >> 8), byte(corr), 0, 9}
	head = append(head, "mqd bench"...)
	if n := binary.BigEndian.Uint32(frame); int(n) != len(frame)-4 || !bytes.HasPrefix(frame[4:], head) {
		t.Fatalf("length %d of a frame of %d bytes, head %x", n, len(frame), frame[4:4+len(head)])
	}
	return frame[4+len(head):]
}

func TestProducesAreThoseOfKafka(t *testing.T) {
	k, b := Kafka{Topic: "a topic"}, records(t, 0, "one", "two")
	r := wire.ProduceRequest{Partition: 7}
	out := k.AppendProduce(nil, 0xfeed0001, &r, 0)
	if n := len(k.AppendProduce(nil, 0xfeed0001, &r, len(b))); n != len(out) || n > Overhead {
		t.Fatalf("%d bytes before a batch, %d before none, bound %d", n, len(out), Overhead)
	}
	out = append(k.AppendProduce(nil, 0xfeed0001, &r, len(b)), b...)
	m := kmsg.NewPtrProduceRequest()
	m.Version = produceVersion
	if err := m.ReadFrom(request(t, out, keyProduce, produceVersion, 0xfeed0001)); err != nil {
		t.Fatal(err)
	}
	if m.TransactionID != nil || m.Acks != -1 || len(m.Topics) != 1 || m.Topics[0].Topic != k.Topic || len(m.Topics[0].Partitions) != 1 {
		t.Fatalf("%+v", m)
	}
	if p := m.Topics[0].Partitions[0]; p.Partition != 7 || !bytes.Equal(p.Records, b) {
		t.Fatalf("%+v", p)
	}
}

// answer puts the head of an answer before its body, and reads it with k.
func answer(t *testing.T, k Kafka, corr uint32, body []byte) []byte {
	t.Helper()
	frame := binary.BigEndian.AppendUint32(nil, uint32(4+len(body)))
	frame = append(binary.BigEndian.AppendUint32(frame, corr), body...)
	h, err := k.Head(frame, uint32(len(frame)))
	if err != nil || h.Correlation != corr || h.FrameSize() != len(frame) || h.IsError() {
		t.Fatalf("%+v, error %v", h, err)
	}
	if _, err := k.Head(frame, uint32(len(frame)-1)); !errors.Is(err, ErrAnswer) {
		t.Fatalf("an answer above the limit: error %v", err)
	}
	return frame[k.HeadSize():]
}

func TestAnswersToProducesAreRead(t *testing.T) {
	k := Kafka{Topic: "a topic"}
	m := kmsg.NewPtrProduceResponse()
	m.Version = produceVersion
	p := kmsg.NewProduceResponseTopicPartition()
	p.BaseOffset = 1 << 40
	m.Topics = []kmsg.ProduceResponseTopic{{Topic: k.Topic, Partitions: []kmsg.ProduceResponseTopicPartition{p}}}
	body := m.AppendTo(nil)
	r, err := k.Produced(answer(t, k, 9, body))
	if err != nil || r.Code != wire.CodeNone || r.BaseOffset != 1<<40 {
		t.Fatalf("%+v, error %v", r, err)
	}
	for n := range body {
		if _, err := k.Produced(body[:n]); !errors.Is(err, ErrAnswer) {
			t.Fatalf("%d bytes of %d: error %v", n, len(body), err)
		}
	}
	if _, err := (Kafka{Topic: "another"}).Produced(body); !errors.Is(err, ErrAnswer) {
		t.Errorf("an answer about another topic: error %v", err)
	}
	m.Topics[0].Partitions[0].ErrorCode, m.Topics[0].Partitions[0].ErrorMessage = 87, new("bad")
	if r, err := k.Produced(m.AppendTo(nil)); err != nil || r.Code == wire.CodeNone || r.Message != "Kafka's error 87 bad" {
		t.Errorf("%+v, error %v", r, err)
	}
}

func TestFetchesAreThoseOfKafka(t *testing.T) {
	k := Kafka{Topic: "a topic"}
	out := k.AppendFetch(nil, 5, &wire.FetchRequest{Partition: 3, Offset: 1 << 33, MaxWait: 500, MinBytes: 1, MaxBytes: 1 << 20})
	if len(out) > Overhead {
		t.Fatalf("%d bytes, bound %d", len(out), Overhead)
	}
	m := kmsg.NewPtrFetchRequest()
	m.Version = fetchVersion
	if err := m.ReadFrom(request(t, out, keyFetch, fetchVersion, 5)); err != nil {
		t.Fatal(err)
	}
	if m.ReplicaID != -1 || m.MaxWaitMillis != 500 || m.MinBytes != 1 || m.MaxBytes != 1<<20 || m.SessionID != 0 || m.SessionEpoch != -1 || len(m.Topics) != 1 {
		t.Fatalf("%+v", m)
	}
	if p := m.Topics[0].Partitions[0]; m.Topics[0].Topic != k.Topic || p.Partition != 3 || p.FetchOffset != 1<<33 || p.CurrentLeaderEpoch != -1 || p.PartitionMaxBytes != 1<<20 {
		t.Fatalf("%+v", p)
	}
}

func TestAnswersToFetchesAreRead(t *testing.T) {
	k := Kafka{Topic: "a topic"}
	m := kmsg.NewPtrFetchResponse()
	m.Version = fetchVersion
	p := kmsg.NewFetchResponseTopicPartition()
	p.HighWatermark, p.LogStartOffset = 105, 90
	p.RecordBatches = append(records(t, 100, "a", "b"), records(t, 102, "c")...)
	m.Topics = []kmsg.FetchResponseTopic{{Topic: k.Topic, Partitions: []kmsg.FetchResponseTopicPartition{p}}}
	body := m.AppendTo(nil)
	r, err := k.Fetched(answer(t, k, 9, body))
	if err != nil || r.NextOffset != 103 || r.Durable != 105 || r.LogStart != 90 || !bytes.Equal(r.Batches, p.RecordBatches) {
		t.Fatalf("%+v, error %v", r, err)
	}
	for n := range body {
		if _, err := k.Fetched(body[:n]); !errors.Is(err, ErrAnswer) {
			t.Fatalf("%d bytes of %d: error %v", n, len(body), err)
		}
	}
	m.Topics[0].Partitions[0].RecordBatches = nil
	if r, err := k.Fetched(m.AppendTo(nil)); err != nil || r.NextOffset != -1 || len(r.Batches) != 0 {
		t.Errorf("without batches: %+v, error %v", r, err)
	}
	m.Topics[0].Partitions[0].ErrorCode = 1
	if _, err := k.Fetched(m.AppendTo(nil)); !errors.Is(err, ErrAnswer) {
		t.Errorf("with an error's code: error %v", err)
	}
}
