package kafka

import (
	"bytes"
	"testing"

	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// nobody is a broker that knows no topic.
type nobody struct {
	Broker
	node  *broker.Node
	image *catalog.Image
}

func (b nobody) Node() *broker.Node { return b.node }

func (b nobody) Image() *catalog.Image { return b.image }

func newNobody() *peer {
	s := NewServer(nobody{node: new(broker.Node), image: new(catalog.Image)}, nil, Options{MaxPartitions: 1000})
	return &peer{srv: s}
}

// seeds gives a fuzz target requests of every version.
func seeds(f *testing.F, lowest, highest int16, make func() kmsg.Request) {
	for v := lowest; v <= highest; v++ {
		q := make()
		q.SetVersion(v)
		b := q.AppendTo(nil)
		f.Add(v, b)
		f.Add(v, b[:len(b)/2])
		f.Add(v, bytes.Repeat([]byte{0xff}, len(b)))
	}
}

// What our decoder takes kmsg takes as well, and finds the same in it. What kmsg takes
// and ours does not is too many partitions, or names that are null.
func FuzzProduceAgainstKmsg(f *testing.F) {
	seeds(f, minProduce, 9, func() kmsg.Request {
		q := kmsg.NewPtrProduceRequest()
		q.Acks = -1
		for _, name := range []string{"events", "x"} {
			t := kmsg.NewProduceRequestTopic()
			t.Topic = name
			t.Partitions = []kmsg.ProduceRequestTopicPartition{{Partition: 3, Records: []byte("records")}, {Partition: -1}}
			q.Topics = append(q.Topics, t)
		}
		return q
	})
	p := newNobody()
	f.Fuzz(func(t *testing.T, version int16, body []byte) {
		if version < minProduce || version > 9 {
			return
		}
		q := p.srv.newProduce()
		defer q.free()
		q.p, q.version, q.flexible = p, version, version >= 9
		_, err := q.decode(body)
		var k kmsg.ProduceRequest
		k.SetVersion(version)
		if kerr := k.ReadFrom(body); err == nil && kerr != nil {
			t.Fatalf("taken, and kmsg says %v", kerr)
		}
		if err != nil {
			return
		}
		at := 0
		for i := range k.Topics {
			for j := range k.Topics[i].Partitions {
				want, got := &k.Topics[i].Partitions[j], q.parts[at]
				if got.b.Partition != want.Partition || !bytes.Equal(got.b.Batch, want.Records) || (j == 0) != (got.topic != nil) ||
					j == 0 && (string(got.topic) != k.Topics[i].Topic || got.same != len(k.Topics[i].Partitions)) || got.code != codeUnknownTopic {
					t.Fatalf("partition %d of topic %d: %+v, kmsg has %+v", j, i, got, want)
				}
				at++
			}
		}
		if at != len(q.parts) || q.acks != k.Acks {
			t.Fatalf("%d partitions, acks %d; kmsg has %d and %d", len(q.parts), q.acks, at, k.Acks)
		}
	})
}

func FuzzFetchAgainstKmsg(f *testing.F) {
	seeds(f, 4, 12, func() kmsg.Request {
		q := kmsg.NewPtrFetchRequest()
		q.MaxBytes, q.MinBytes, q.MaxWaitMillis, q.Rack = 1<<20, 1, 500, "r"
		for _, name := range []string{"events", "x"} {
			t := kmsg.NewFetchRequestTopic()
			t.Topic = name
			t.Partitions = []kmsg.FetchRequestTopicPartition{{Partition: 3, FetchOffset: 99, PartitionMaxBytes: 7}, {Partition: -1}}
			q.Topics = append(q.Topics, t)
		}
		q.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: "gone", Partitions: []int32{1, 2}}}
		return q
	})
	p := newNobody()
	f.Fuzz(func(t *testing.T, version int16, body []byte) {
		if version < 4 || version > 12 {
			return
		}
		q := p.srv.newFetch()
		defer q.free()
		q.p, q.version, q.flexible = p, version, version >= 12
		err := q.decode(body)
		var k kmsg.FetchRequest
		k.SetVersion(version)
		kerr := k.ReadFrom(body)
		if err == nil && kerr != nil && version < 12 { // then kmsg reads a tagged field, which we pass over
			t.Fatalf("taken, and kmsg says %v", kerr)
		}
		if err != nil || kerr != nil {
			return
		}
		at := 0
		for i := range k.Topics {
			for j := range k.Topics[i].Partitions {
				want, got := &k.Topics[i].Partitions[j], q.parts[at]
				if got.f.Partition != want.Partition || got.offset != want.FetchOffset || got.limit != int(max(1, want.PartitionMaxBytes)) ||
					j == 0 && (string(got.name) != k.Topics[i].Topic || got.same != len(k.Topics[i].Partitions)) {
					t.Fatalf("partition %d of topic %d: %+v, kmsg has %+v", j, i, got, want)
				}
				at++
			}
		}
		if at != len(q.parts) || q.session != (k.SessionEpoch > 0) || q.committed != (k.IsolationLevel == 1) {
			t.Fatalf("%d partitions, kmsg has %d", len(q.parts), at)
		}
	})
}

// What we answer kmsg reads, and finds in it what was meant.
func FuzzAnswersAgainstKmsg(f *testing.F) {
	f.Add(int16(9), int16(2), int64(7), "message", []byte{2, 1, 3})
	f.Add(int16(3), int16(0), int64(-1), "", []byte{})
	f.Add(int16(12), int16(1), int64(1)<<60, "x", []byte{1, 1, 1, 200})
	p := newNobody()
	f.Fuzz(func(t *testing.T, version, code int16, n int64, text string, shape []byte) {
		version = 4 + (version&15)%9
		w, r := p.srv.newProduce(), p.srv.newFetch()
		defer w.free()
		defer r.free()
		w.p, w.version, w.flexible = p, min(version, 9), version >= 9
		r.p, r.version, r.flexible = p, version, version >= 12
		for _, parts := range shape {
			for i := range int(parts % 8) {
				pw, pr := w.newPart(), r.newPart()
				pw.b.Partition, pw.b.Base, pw.code, pw.b.Message, pw.topic, pw.same = int32(i), n, code, text, nil, 0
				pr.f.Partition, pr.f.Durable, pr.f.LogStart, pr.code, pr.bytes, pr.name, pr.same = int32(i), n, n, 0, int(parts), nil, 0
				pr.f.Code = broker.OK
				if i == 0 {
					pw.topic, pr.name = []byte("topic"), []byte("topic")
					pw.same, pr.same = int(parts%8), int(parts%8)
					w.topics++
					r.topics++
				}
			}
		}
		w.compare(t, code, n)
		r.compare(t, n)
	})
}

// compare reads the answer through kmsg.
func (w *produceRequest) compare(t *testing.T, code int16, n int64) {
	produced := kmsg.ProduceResponse{Version: w.version}
	skip := 8
	if w.flexible {
		skip++
	}
	if err := produced.ReadFrom(w.encode(nil)[skip:]); err != nil || len(produced.Topics) != w.topics {
		t.Fatalf("produce version %d: %d topics of %d, %v", w.version, len(produced.Topics), w.topics, err)
	}
	at := 0
	for _, tp := range produced.Topics {
		for _, part := range tp.Partitions {
			if want := w.parts[at]; part.Partition != want.b.Partition || part.ErrorCode != code || code == 0 && part.BaseOffset != n {
				t.Fatalf("produce version %d: %+v", w.version, part)
			}
			at++
		}
	}
	if at != len(w.parts) {
		t.Fatalf("produce version %d: %d partitions of %d", w.version, at, len(w.parts))
	}
}

// compare reads the answer with its batches through kmsg.
func (r *fetchRequest) compare(t *testing.T, n int64) {
	head := r.encode(nil)
	var whole []byte
	from := 0
	for _, part := range r.parts {
		whole = append(append(whole, head[from:part.headEnd]...), make([]byte, part.bytes)...)
		from = part.headEnd
	}
	whole = append(whole, head[from:]...)
	fetched := kmsg.FetchResponse{Version: r.version}
	skip := 8
	if r.flexible {
		skip++
	}
	c := cursor{b: whole}
	if size := c.i32(); int(size) != len(whole)-lengthSize {
		t.Fatalf("fetch version %d: length %d, there are %d", r.version, size, len(whole)-lengthSize)
	}
	if err := fetched.ReadFrom(whole[skip:]); err != nil || len(fetched.Topics) != r.topics {
		t.Fatalf("fetch version %d: %d topics of %d, %v", r.version, len(fetched.Topics), r.topics, err)
	}
	at := 0
	for _, tp := range fetched.Topics {
		for _, part := range tp.Partitions {
			if want := r.parts[at]; part.Partition != want.f.Partition || part.HighWatermark != n || len(part.RecordBatches) != want.bytes {
				t.Fatalf("fetch version %d: %+v", r.version, part)
			}
			at++
		}
	}
}
