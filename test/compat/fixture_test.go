package compat

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mqd-broker/mqd/batch"
)

var codecs = []batch.Codec{batch.CodecNone, batch.CodecGzip, batch.CodecSnappy, batch.CodecLz4, batch.CodecZstd}

// kgoCodecs are the same codecs in kgo's terms, in the same order.
var kgoCodecs = []kgo.CompressionCodec{
	kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
}

var words = []string{"alert ", "disk ", "is slow ", "node-17 ", "0x0badcafe ", "π ", "\x00\xff"}

// records returns n records that use everything the format has: missing and
// empty keys, values and headers, timestamps that go back, sizes around the
// varints' steps. The first bytes of a value say which it is.
func records(seed uint64, n int) []batch.Record {
	rnd := rand.New(rand.NewPCG(seed, 7))
	blob := func(max int) []byte {
		b := []byte{}
		for n := rnd.IntN(max + 1); len(b) < n; {
			b = append(b, words[rnd.IntN(len(words))]...)
		}
		return b
	}
	rs := make([]batch.Record, n)
	for i := range rs {
		r := batch.Record{Timestamp: 1_700_000_000_000 + rnd.Int64N(1_000_000) - 500_000}
		switch rnd.IntN(4) {
		case 0:
			r.Value = nil
		case 1:
			r.Value = []byte{}
		default:
			r.Value = append(fmt.Appendf(nil, "record %d ", i), blob(400)...)
		}
		if rnd.IntN(3) > 0 {
			r.Key = blob(100)
		}
		for range rnd.IntN(3) {
			h := batch.RecordHeader{Key: strings.ToValidUTF8(string(blob(20)), "?")}
			if rnd.IntN(3) > 0 {
				h.Value = blob(100)
			}
			r.Headers = append(r.Headers, h)
		}
		rs[i] = r
	}
	return rs
}

// ours builds a batch with package batch.
func ours(t testing.TB, rs []batch.Record, c batch.Codec) []byte {
	t.Helper()
	b := batch.NewBuilder(nil, batch.MaxSize)
	for i := range rs {
		if err := b.Append(&rs[i]); err != nil {
			t.Fatal(err)
		}
	}
	return b.Finish(c)
}

// theirs builds a batch with kmsg, its records compressed by kgo.
func theirs(t testing.TB, rs []batch.Record, c batch.Codec) []byte {
	t.Helper()
	v := kmsg.NewRecordBatch()
	v.Magic = 2
	v.PartitionLeaderEpoch = -1
	v.Attributes = int16(c)
	v.LastOffsetDelta = int32(len(rs) - 1)
	v.FirstTimestamp = rs[0].Timestamp
	v.ProducerID, v.ProducerEpoch, v.FirstSequence = -1, -1, -1
	v.NumRecords = int32(len(rs))
	v.MaxTimestamp = rs[0].Timestamp
	var body []byte
	for i, r := range rs {
		v.MaxTimestamp = max(v.MaxTimestamp, r.Timestamp)
		body = appendKmsgRecord(body, r, i, rs[0].Timestamp)
	}
	v.Records = compress(t, c, body)
	v.Length = int32(len(v.AppendTo(nil)) - 12)
	v.CRC = int32(crc32.Checksum(v.AppendTo(nil)[21:], crc32.MakeTable(crc32.Castagnoli)))
	return v.AppendTo(nil)
}

func appendKmsgRecord(dst []byte, r batch.Record, i int, base int64) []byte {
	k := kmsg.Record{
		TimestampDelta64: r.Timestamp - base,
		OffsetDelta:      int32(i),
		Key:              r.Key,
		Value:            r.Value,
	}
	for _, h := range r.Headers {
		k.Headers = append(k.Headers, kmsg.Header{Key: h.Key, Value: h.Value})
	}
	// The length counts what follows it; encoded as 0 it takes one byte.
	k.Length = int32(len(k.AppendTo(nil)) - 1)
	return k.AppendTo(dst)
}

// compress compresses with kgo.
func compress(t testing.TB, c batch.Codec, body []byte) []byte {
	t.Helper()
	if c == batch.CodecNone {
		return body
	}
	z, err := kgo.DefaultCompressor(kgoCodecs[c])
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	out, used := z.Compress(&buf, body)
	if int(used) != int(c) {
		t.Fatalf("kgo used codec %d, wanted %v", used, c)
	}
	return slices.Clone(out)
}

// read decodes a batch with package batch; the records are copies.
func read(b []byte) ([]batch.Record, error) {
	var d batch.Decoder
	_, it, err := d.Open(b)
	if err != nil {
		return nil, err
	}
	var rs []batch.Record
	for it.Next() {
		v := it.Record()
		r := batch.Record{Timestamp: v.Timestamp, Key: slices.Clone(v.Key), Value: slices.Clone(v.Value)}
		for hs := v.Headers(); hs.Next(); {
			r.Headers = append(r.Headers, batch.RecordHeader{Key: string(hs.Key()), Value: slices.Clone(hs.Value())})
		}
		rs = append(rs, r)
	}
	return rs, it.Err()
}

func same(t testing.TB, got, want []batch.Record) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
	equal := func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }
	for i, w := range want {
		g := got[i]
		if g.Timestamp != w.Timestamp || !equal(g.Key, w.Key) || !equal(g.Value, w.Value) || len(g.Headers) != len(w.Headers) {
			t.Fatalf("record %d: got %+v, want %+v", i, g, w)
		}
		for j, wh := range w.Headers {
			if gh := g.Headers[j]; gh.Key != wh.Key || !equal(gh.Value, wh.Value) {
				t.Fatalf("record %d: header %d: got %+v, want %+v", i, j, gh, wh)
			}
		}
	}
}

// fromKgo turns a kgo record into ours.
func fromKgo(r *kgo.Record) batch.Record {
	out := batch.Record{Timestamp: r.Timestamp.UnixMilli(), Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, batch.RecordHeader{Key: h.Key, Value: h.Value})
	}
	return out
}
