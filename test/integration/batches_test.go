package integration

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/net/wire"
)

// resum makes the checksum of a changed batch right again.
func resum(b []byte) []byte {
	binary.BigEndian.PutUint32(b[batch.AtCRC:], batch.Checksum(b))
	return b
}

func TestBadBatchesWriteNothing(t *testing.T) {
	const limit = 16 << 10
	b := start(t)
	id := b.topic("batches", 2, wire.Config{Key: "max.message.bytes", Value: "16KiB"})
	weak := b.topic("weak", 1, wire.Config{Key: "durability", Value: "memory"})
	good := batchOf("one", "two", "three")
	changed := func(f func(b []byte)) []byte {
		c := slices.Clone(good)
		f(c)
		return c
	}
	plain := batch.NewPlainBuilder(nil, 1<<20)
	if err := plain.Append([]byte("message")); err != nil {
		t.Fatal(err)
	}
	plainGood := plain.Finish()
	plainBad := slices.Clone(plainGood)
	plainBad[len(plainBad)-1] ^= 1
	type produced = wire.ProduceRequest
	for _, c := range []struct {
		name string
		send produced
		code wire.Code
	}{
		{"a bit of a record", produced{Batch: changed(func(b []byte) { b[len(b)-1] ^= 1 })}, wire.CodeCorruptBatch},
		{"a bit of the checksum", produced{Batch: changed(func(b []byte) { b[batch.AtCRC] ^= 1 })}, wire.CodeCorruptBatch},
		{"a bit of the attributes", produced{Batch: changed(func(b []byte) { b[batch.AtAttributes+1] ^= 8 })}, wire.CodeCorruptBatch},
		{"another magic", produced{Batch: changed(func(b []byte) { b[batch.AtMagic] = 1 })}, wire.CodeInvalidBatch},
		{"longer than it is", produced{Batch: changed(func(b []byte) { b[batch.AtLength+3]++ })}, wire.CodeInvalidBatch},
		{"shorter than it is", produced{Batch: changed(func(b []byte) { b[batch.AtLength+3]-- })}, wire.CodeInvalidBatch},
		{"a negative length", produced{Batch: changed(func(b []byte) { b[batch.AtLength] = 0xff })}, wire.CodeInvalidBatch},
		{"a negative count", produced{Batch: resum(changed(func(b []byte) { b[batch.AtCount] = 0xff }))}, wire.CodeInvalidBatch},
		{"another count", produced{Batch: resum(changed(func(b []byte) { b[batch.AtCount+3]++ }))}, wire.CodeInvalidBatch},
		{"half of it", produced{Batch: good[:len(good)/2]}, wire.CodeInvalidBatch},
		{"nothing", produced{}, wire.CodeInvalidBatch},
		{"two batches", produced{Batch: append(slices.Clone(good), good...)}, wire.CodeInvalidBatch},
		{"a plain batch with a changed body", produced{Encoding: wire.EncodingPlain, Batch: plainBad}, wire.CodeCorruptBatch},
		{"a plain batch cut short", produced{Encoding: wire.EncodingPlain, Batch: plainGood[:len(plainGood)-1]}, wire.CodeInvalidBatch},
		{"more than the topic takes", produced{Batch: batchOf(string(make([]byte, limit)))}, wire.CodeBatchTooLarge},
		{"an unknown topic", produced{Topic: wire.TopicID{1}, Batch: good}, wire.CodeUnknownTopic},
		{"an unknown partition", produced{Partition: 2, Batch: good}, wire.CodeUnknownPartition},
		{"a class that is too weak", produced{Topic: weak, MinClass: wire.ClassWritten, Batch: good}, wire.CodeClassTooWeak},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := b.open()
			if c.send.Topic.IsZero() {
				c.send.Topic = id
			}
			r, err := conn.Produce(c.send)
			if err != nil {
				t.Fatal(err)
			}
			if r.Code != c.code || r.BaseOffset != -1 {
				t.Fatalf("code %v %q, offset %d; expected %v", r.Code, r.Message, r.BaseOffset, c.code)
			}
			if c.code == wire.CodeBatchTooLarge && (r.ValidLow != 0 || r.ValidHigh != limit) {
				t.Errorf("valid sizes %d to %d, expected 0 to %d", r.ValidLow, r.ValidHigh, limit)
			}
			if err := conn.Ping(); err != nil {
				t.Errorf("the connection does not live on: %v", err)
			}
		})
	}
	c := b.open()
	for p := range int32(2) {
		if _, end, err := c.Bounds(id, p); err != nil || end != 0 {
			t.Errorf("partition %d ends at %d (%v), expected nothing in it", p, end, err)
		}
	}
	b.mustServe(c, id)
	b.mustServe(c, weak)
}

func TestABatchAboveTheBrokersLimitIsTold(t *testing.T) {
	const limit = 256 << 10
	b := start(t, "--max-message-bytes", "256KiB")
	id := b.topic("large", 1)
	c := b.open()
	if c.Hello.MaxBatch != limit {
		t.Errorf("hello says %d bytes, expected %d", c.Hello.MaxBatch, limit)
	}
	r, err := c.Produce(wire.ProduceRequest{Topic: id, Batch: batchOf(string(make([]byte, limit)))})
	if err != nil {
		t.Fatal(err)
	}
	if r.Code != wire.CodeBatchTooLarge || r.ValidHigh != limit {
		t.Errorf("code %v, valid up to %d; expected %v and %d", r.Code, r.ValidHigh, wire.CodeBatchTooLarge, limit)
	}
	fits := batchOf(string(make([]byte, limit-200)))
	if r, err = c.Produce(wire.ProduceRequest{Topic: id, Batch: fits}); err != nil || r.Code != wire.CodeNone {
		t.Fatalf("a batch of %d bytes: %v, %v", len(fits), r.Code, err)
	}
	f, err := c.Fetch(wire.FetchRequest{Topic: id, MaxBytes: 1})
	if err != nil || f.Code != wire.CodeNone || !bytes.Equal(f.Batches[batch.AtAttributes:], fits[batch.AtAttributes:]) {
		t.Fatalf("%d bytes, %v, %v; expected the batch although it is larger than asked for", len(f.Batches), f.Code, err)
	}
}

func TestQuestionsAboutWhatIsNotThereAreAnswered(t *testing.T) {
	b := start(t)
	id := b.topic("questions", 1)
	c := b.open()
	for range 10 {
		b.mustServe(c, id)
	}
	for _, q := range []struct {
		name                string
		ask                 wire.FetchRequest
		code                wire.Code
		start, durable, end int64
	}{
		{"beyond the end", wire.FetchRequest{Topic: id, Offset: 11}, wire.CodeOffsetOutOfRange, 0, 10, 10},
		{"far beyond the end", wire.FetchRequest{Topic: id, Offset: 1<<63 - 1, MaxWait: 60_000}, wire.CodeOffsetOutOfRange, 0, 10, 10},
		{"at the end", wire.FetchRequest{Topic: id, Offset: 10}, wire.CodeNone, 0, 10, 10},
		{"unknown topic", wire.FetchRequest{Topic: wire.TopicID{7}}, wire.CodeUnknownTopic, -1, -1, -1},
		{"unknown partition", wire.FetchRequest{Topic: id, Partition: 1}, wire.CodeUnknownPartition, -1, -1, -1},
		{"last partition there could be", wire.FetchRequest{Topic: id, Partition: 1<<31 - 1}, wire.CodeUnknownPartition, -1, -1, -1},
	} {
		f, err := c.Fetch(q.ask)
		if err != nil {
			t.Fatalf("%s: %v", q.name, err)
		}
		if f.Code != q.code || f.LogStart != q.start || f.Durable != q.durable || f.End != q.end || len(f.Batches) != 0 {
			t.Errorf("%s: code %v, valid %d to %d, end %d, %d bytes; expected %v, %d to %d, %d, none",
				q.name, f.Code, f.LogStart, f.Durable, f.End, len(f.Batches), q.code, q.start, q.durable, q.end)
		}
	}
	if m, err := c.Topic("no such topic"); err != nil || m.Code == wire.CodeNone {
		t.Errorf("metadata of a topic that is not there: %+v, %v", m, err)
	}
	if _, err := c.Describe("missing"); err == nil {
		t.Error("a topic that is not there was described")
	}
	if _, err := c.CreateTopic("no/slashes", 1); err == nil {
		t.Error("a name that no topic can have was taken")
	}
	if _, err := c.CreateTopic("questions", 1); err == nil {
		t.Error("a topic was created twice")
	}
	b.mustServe(c, id)
}
