package integration

import (
	"bytes"
	"context"
	"testing"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/net/wire"
)

// The first batch is answered whole, however little was asked for: else a consumer would
// stand before it for ever. It is so for what is in memory and for what is read from a
// file, and the client passes it on.
func TestC6ABatchIsAnsweredWholeHoweverLittleIsAskedFor(t *testing.T) {
	const size = 2 << 20
	b := start(t, "--max-message-bytes", "3MiB", "--journal-size", "32MiB", "--cache-size", "16MiB")
	id := b.topic("large", 1, wire.Config{Key: "max.message.bytes", Value: "3145728"})
	c := b.open()
	value := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	// So much that the first ones leave the cache.
	const batches = 12
	for range batches {
		r, err := c.Produce(wire.ProduceRequest{Topic: id, Batch: batchOf(string(value))})
		if err != nil || r.Code != wire.CodeNone {
			t.Fatalf("produce: %v, %v", r.Code, err)
		}
	}
	for _, offset := range []int64{0, batches - 1} {
		for _, most := range []uint32{1, 1 << 20} {
			f, err := c.Fetch(wire.FetchRequest{Topic: id, Offset: offset, MaxBytes: most, MinBytes: 1})
			if err != nil || f.Code != wire.CodeNone {
				t.Fatalf("fetch of at most %d bytes at %d: %v, code %v", most, offset, err, f.Code)
			}
			h, err := batch.CheckStored(f.Batches)
			if err != nil || h.BaseOffset != offset || len(f.Batches) < size {
				t.Errorf("fetch of at most %d bytes at %d: %d bytes at %d, %v", most, offset, len(f.Batches), h.BaseOffset, err)
			}
		}
	}
	cl, err := client.Dial(t.Context(), []string{b.addr})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cl.Close(context.Background()) }()
	in, err := cl.Consumer(client.Topics("large"), client.WithFetchBytes(1, 1))
	if err != nil {
		t.Fatal(err)
	}
	for n := range int64(batches) {
		got, err := in.Poll(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for r := range got.Records() {
			if r.Offset != n || !bytes.Equal(r.Value, value) {
				t.Fatalf("offset %d has %d bytes, expected %d at %d", r.Offset, len(r.Value), len(value), n)
			}
		}
		got.Release()
	}
}
