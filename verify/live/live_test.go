package live

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/net/wire"
	"github.com/mqd-broker/mqd/verify"
)

// stored is a batch of messages at an offset.
func stored(t *testing.T, offset int64, messages ...string) []byte {
	t.Helper()
	b := batch.NewBuilder(nil, 1<<20)
	for _, m := range messages {
		if err := b.Append(&batch.Record{Value: []byte(m)}); err != nil {
			t.Fatal(err)
		}
	}
	out := b.Finish(batch.CodecNone)
	batch.Stamp(out, offset, 1)
	return out
}

// fake answers fetches by their offset; the topic has one partition with offsets to end.
type fake struct {
	end     int64
	bounds  wire.Code // instead of where the partition begins and ends
	answers map[int64]wire.FetchResponse
}

// serve answers one connection. It ends with it.
func (f *fake) serve(c net.Conn) {
	defer c.Close()
	head := make([]byte, wire.HeaderSize)
	for {
		if _, err := io.ReadFull(c, head); err != nil {
			return
		}
		h, err := wire.ParseHeader(head, 1<<20)
		if err != nil {
			return
		}
		body := make([]byte, h.BodySize())
		if _, err := io.ReadFull(c, body); err != nil {
			return
		}
		if _, err := c.Write(f.answer(&h, body)); err != nil {
			return
		}
	}
}

func (f *fake) answer(h *wire.Header, body []byte) []byte {
	corr := h.Correlation
	switch h.Op {
	case wire.OpHello:
		return wire.AppendHelloResponse(nil, corr, wire.HelloResponse{Protocol: 1, Shards: 1, MaxFrame: 1 << 20, MaxBatch: 1 << 18, IdleTimeout: 1000})
	case wire.OpMetadata:
		r, _ := wire.DecodeMetadataRequest(body)
		t := wire.TopicMetadata{Name: "t", ID: wire.TopicID{1}, Class: wire.ClassFlushed, PartitionShards: []uint16{0}}
		if !r.All && r.Topics[0] != "t" {
			t = wire.TopicMetadata{Name: r.Topics[0], Code: wire.CodeUnknownTopic}
		}
		return wire.AppendMetadataResponse(nil, corr, wire.MetadataResponse{Shards: 1, Topics: []wire.TopicMetadata{t}})
	case wire.OpListOffsets:
		r, _ := wire.DecodeListOffsetsRequest(body)
		offset := int64(0)
		if r.Time == wire.TimeEnd {
			offset = f.end
		}
		return wire.AppendListOffsetsResponse(nil, corr, wire.ListOffsetsResponse{Code: f.bounds, Offset: offset, Timestamp: -1})
	case wire.OpFetch:
		r, _ := wire.DecodeFetchRequest(body)
		a, ok := f.answers[r.Offset]
		if !ok {
			a = wire.FetchResponse{Code: wire.CodeInternal}
		}
		a.Class, a.Durable, a.End, a.NewestAppendTime = wire.ClassFlushed, f.end, f.end, -1
		return wire.AppendFetchResponse(nil, corr, &a)
	}
	return wire.AppendErrorResponse(nil, h.Op, corr, wire.CodeUnsupportedOp, "not here")
}

// check verifies what a fake broker serves.
func check(t *testing.T, f *fake, topic string) (verify.Summary, string, error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			f.serve(c)
		}
	}()
	var found strings.Builder
	sum, err := Run(context.Background(), Options{
		Server: l.Addr().String(), Timeout: time.Minute, Topic: topic,
		Report: func(f *verify.Finding) { found.WriteString(f.String() + "\n") },
	})
	return sum, found.String(), err
}

func join(batches ...[]byte) (all []byte) {
	for _, b := range batches {
		all = append(all, b...)
	}
	return all
}

func TestWhatIsServedIsChecked(t *testing.T) {
	bad := stored(t, 2, "c", "d")
	bad[len(bad)-1] ^= 1
	for _, c := range []struct {
		name    string
		answers map[int64]wire.FetchResponse
		found   string // "" for nothing
		records uint64
	}{
		{"whole", map[int64]wire.FetchResponse{
			0: {NextOffset: 2, Batches: stored(t, 0, "a", "b")},
			2: {NextOffset: 5, Batches: join(stored(t, 2, "c"), stored(t, 3, "d", "e"))},
		}, "", 5},
		{"a batch with a wrong checksum", map[int64]wire.FetchResponse{
			0: {NextOffset: 5, Batches: join(stored(t, 0, "a", "b"), bad, stored(t, 4, "e"))},
		}, "DAMAGED: topic t partition 0: offsets 2 to 3: ", 3},
		{"an answer that ends within a batch", map[int64]wire.FetchResponse{
			0: {NextOffset: 5, Batches: join(stored(t, 0, "a", "b"), bad[:40])},
		}, "DAMAGED: topic t partition 0: offsets 2 to 4: ", 2},
		{"offsets twice", map[int64]wire.FetchResponse{
			0: {NextOffset: 5, Batches: join(stored(t, 0, "a", "b", "c"), stored(t, 2, "c", "d", "e"))},
		}, "DAMAGED: topic t partition 0: offsets 2 to 4: expected offset 3", 6},
		{"damage that the broker tells", map[int64]wire.FetchResponse{
			0: {Code: wire.CodeCorrupt, NextOffset: 3},
			3: {NextOffset: 5, Batches: stored(t, 3, "d", "e")},
		}, "DAMAGED: topic t partition 0: offsets 0 to 2: the broker finds it damaged", 2},
		{"a gap", map[int64]wire.FetchResponse{
			0: {NextOffset: 1, Batches: stored(t, 0, "a")},
			1: {NextOffset: 5, Batches: stored(t, 4, "e")},
		}, "note: topic t partition 0: offsets 1 to 3: there is nothing", 2},
		{"a broker that does not get on", map[int64]wire.FetchResponse{
			0: {NextOffset: 1, Batches: stored(t, 0, "a")},
		}, "NOT CHECKED: topic t partition 0: offsets 1 to 4: the broker answers Internal", 1},
		{"a topic that is deleted", map[int64]wire.FetchResponse{
			0: {NextOffset: 1, Batches: stored(t, 0, "a")},
			1: {Code: wire.CodeUnknownTopic},
		}, "note: topic t partition 0: offsets 1 to 4: the topic was deleted", 1},
	} {
		sum, found, err := check(t, &fake{end: 5, answers: c.answers}, "")
		if err != nil || sum.Records != c.records || (c.found == "") != (found == "") || !strings.HasPrefix(found, c.found) || strings.Count(found, "\n") > 1 {
			t.Errorf("%s: %v, %d records, found %q", c.name, err, sum.Records, found)
		}
		damaged, missed := strings.HasPrefix(c.found, "DAMAGED"), strings.HasPrefix(c.found, "NOT")
		if (sum.Damages == 1) != damaged || (sum.Unchecked == 1) != missed {
			t.Errorf("%s: %+v", c.name, sum)
		}
	}
}

func TestATopicThatIsNotThereIsNamed(t *testing.T) {
	if _, _, err := check(t, &fake{}, "u"); !errors.Is(err, verify.ErrUnknownTopic) {
		t.Errorf("found %v", err)
	}
}

func TestAPartitionWithoutBoundsIsNotRead(t *testing.T) {
	if sum, found, err := check(t, &fake{bounds: wire.CodeUnknownTopic}, ""); err != nil || found != "" || sum.Partitions != 0 {
		t.Errorf("deleted meanwhile: %v, %+v, %s", err, sum, found)
	}
	if sum, found, err := check(t, &fake{bounds: wire.CodeStorageError}, ""); err != nil || sum.Unchecked != 1 || !strings.HasPrefix(found, "NOT CHECKED: topic t partition 0: ") {
		t.Errorf("not told: %v, %+v, %s", err, sum, found)
	}
}
