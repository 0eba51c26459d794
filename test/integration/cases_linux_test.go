package integration

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/net/wire"
)

// steady is a producer of small batches and a consumer of a group that follows it.
type steady struct {
	t    *testing.T
	c    *client.Client
	p    *client.Producer
	co   *client.Consumer
	sent uint64
	next int64 // offset that the consumer gets next
}

// send sends n messages in batches of five.
func (s *steady) send(ctx context.Context, n int) {
	s.t.Helper()
	for i := range n {
		if _, err := s.p.Append(ctx, client.Record{Value: binary.BigEndian.AppendUint64(nil, s.sent)}); err != nil {
			s.t.Fatal(err)
		}
		s.sent++
		if (i+1)%5 == 0 {
			if err := s.p.Flush(ctx); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

// follow reads up to an offset: nothing is passed over, nothing comes twice, and nothing is
// committed that has not been delivered.
func (s *steady) follow(ctx context.Context, end int64) {
	s.t.Helper()
	for s.next < end {
		b, err := s.co.Poll(ctx)
		if err != nil {
			var e *client.Error
			if errors.As(err, &e) && e.Retriable {
				continue
			}
			s.t.Fatal(err)
		}
		for r := range b.Records() {
			if r.Offset != s.next || binary.BigEndian.Uint64(r.Value) != uint64(r.Offset) {
				s.t.Fatalf("offset %d with message %x where %d comes next", r.Offset, r.Value, s.next)
			}
			s.next++
		}
		b.Release()
		offsets, err := s.c.Admin().GroupOffsets(ctx, "g")
		if err == nil && len(offsets) > 0 && offsets[0].Next > s.next {
			s.t.Fatalf("%d is committed, delivered were %d", offsets[0].Next, s.next)
		}
	}
}

// C1 of the catalogue of cases: a producer of batches of five, a consumer with automatic
// commits; then more at once, another start of the broker, and more while it consumes.
func TestC1SmallBatchesAreDeliveredOnceAcrossAStart(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	ph := rise(t)
	s := &steady{t: t, c: ph.dial(ctx)}
	defer s.c.Close(context.WithoutCancel(ctx))
	if _, err := s.c.Admin().CreateTopic(ctx, client.TopicSpec{Name: "t", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	var err error
	// What is on its way when a connection ends is sent again, and is there once.
	if s.p, err = s.c.Producer("t", client.WithIdempotence()); err != nil {
		t.Fatal(err)
	}
	s.co, err = s.c.Consumer(client.Group("g"), client.Topics("t"), client.From(client.Start()), client.WithAutoCommit(50*time.Millisecond, 10))
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		s.send(ctx, 50)
		s.follow(ctx, int64(s.sent))
	}
	s.send(ctx, 1000)
	ph.end(false)
	ph.start()
	for range 20 {
		s.send(ctx, 10)
		s.follow(ctx, min(s.next+60, int64(s.sent)))
	}
	s.follow(ctx, int64(s.sent))
	if s.next != 1700 {
		t.Fatalf("%d of 1700 were delivered", s.next)
	}
	if err := s.co.Close(ctx); err != nil {
		t.Fatal(err)
	}
	offsets, err := s.c.Admin().GroupOffsets(ctx, "g")
	if err != nil || len(offsets) != 1 || offsets[0].Next != 1700 {
		t.Fatalf("%+v, %v", offsets, err)
	}
}

// C6 of the catalogue: a batch is returned whole, whatever the limit of the fetch, from
// memory and from its file.
func TestC6TheFirstBatchComesWhole(t *testing.T) {
	const size = 2 << 20
	b := start(t, "--max-message-bytes", "4MiB", "--journal-size", "64MiB", "--cache-size", "32MiB", "--memory-limit", "128MiB")
	id := b.topic("t", 1, wire.Config{Key: "max.message.bytes", Value: "4MiB"})
	c := b.open()
	send := func(value string) {
		t.Helper()
		if r, err := c.Produce(wire.ProduceRequest{Topic: id, Batch: batchOf(value)}); err != nil || r.Code != wire.CodeNone {
			t.Fatalf("%v, %+v", err, r)
		}
	}
	large := strings.Repeat("x", size)
	send(large)
	send("behind it")
	check := func(from string) {
		t.Helper()
		for _, limit := range []uint32{1, 1 << 20} {
			for _, e := range []wire.Encoding{wire.EncodingRecordBatch, wire.EncodingPlain} {
				f, err := c.Fetch(wire.FetchRequest{Topic: id, MaxBytes: limit, Encoding: e})
				if err != nil || f.Code != wire.CodeNone || f.NextOffset != 1 || len(f.Batches) < size || len(f.Batches) > size+1024 {
					t.Fatalf("%s, at most %d bytes, encoding %v: %v, %v, next %d, %d bytes", from, limit, e, err, f.Code, f.NextOffset, len(f.Batches))
				}
				if e == wire.EncodingRecordBatch {
					if h, err := batch.CheckStored(f.Batches); err != nil || h.Count != 1 {
						t.Fatalf("%s: %v, %d records", from, err, h.Count)
					}
				}
			}
		}
	}
	check("memory")
	for range 40 { // more than the cache
		send(large)
	}
	check("the file")
}
