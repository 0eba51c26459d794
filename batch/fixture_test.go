package batch

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// goldenRecords are the records of the golden batches: every combination that
// the format tells apart, and lengths around the varints' steps.
func goldenRecords() []Record {
	const t0 = 1_700_000_000_000
	rs := []Record{
		{Timestamp: t0, Key: []byte("key"), Value: []byte("value")},
		{Timestamp: t0 + 1, Key: nil, Value: []byte("no key")},
		{Timestamp: t0 - 5, Key: []byte("tombstone"), Value: nil},
		{Timestamp: t0 + 70_000, Key: []byte{}, Value: []byte{}},
		{Timestamp: t0, Value: []byte("headers"), Headers: []RecordHeader{
			{Key: "a", Value: []byte("1")},
			{Key: "a", Value: nil},
			{Key: "", Value: []byte{}},
		}},
		{Timestamp: NoTimestamp, Key: nil, Value: nil},
	}
	for _, n := range []int{50, 63, 64, 127, 180, 512, 8191, 8192} {
		rs = append(rs, Record{
			Timestamp: t0 + int64(n),
			Key:       fmt.Appendf(nil, "size-%d", n),
			Value:     bytes.Repeat([]byte("0123456789abcdef"), n/16+1)[:n],
		})
	}
	return rs
}

// build returns the batch of rs, compressed with c. It does not test the error,
// because the limit is the format's.
func build(t testing.TB, rs []Record, c Codec) []byte {
	t.Helper()
	b := NewBuilder(nil, MaxSize)
	for i := range rs {
		if err := b.Append(&rs[i]); err != nil {
			t.Fatalf("append record %d: %v", i, err)
		}
	}
	return b.Finish(c)
}

// alerts returns n records like the ones mqd is made for: 180 bytes on average,
// no key, hardly compressible.
func alerts(n int) []Record {
	rnd := rand.New(rand.NewPCG(1, 2))
	rs := make([]Record, n)
	for i := range rs {
		v := make([]byte, 150+rnd.IntN(61))
		for j := range v {
			v[j] = byte(rnd.Uint32())
		}
		rs[i] = Record{Timestamp: 1_700_000_000_000 + int64(i), Value: v}
	}
	return rs
}

// decode returns copies of the records of batch b.
func decode(t testing.TB, b []byte) []Record {
	t.Helper()
	rs, err := tryDecode(b)
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	return rs
}

func tryDecode(b []byte) ([]Record, error) {
	var d Decoder
	h, it, err := d.Open(b)
	if err != nil {
		return nil, err
	}
	var rs []Record
	for it.Next() {
		v := it.Record()
		r := Record{Timestamp: v.Timestamp, Key: slices.Clone(v.Key), Value: slices.Clone(v.Value)}
		for hs := v.Headers(); hs.Next(); {
			r.Headers = append(r.Headers, RecordHeader{Key: string(hs.Key()), Value: slices.Clone(hs.Value())})
		}
		if len(r.Headers) != v.HeaderCount() {
			return nil, fmt.Errorf("record %d: %d headers, but HeaderCount is %d", len(rs), len(r.Headers), v.HeaderCount())
		}
		rs = append(rs, r)
	}
	if err := it.Err(); err != nil {
		return nil, err
	}
	if len(rs) != int(h.Count) {
		return nil, fmt.Errorf("%d records, but the header says %d", len(rs), h.Count)
	}
	return rs, nil
}

// sameRecords compares two lists of records and keeps nil and empty apart.
func sameRecords(t testing.TB, got, want []Record) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d records, want %d", len(got), len(want))
	}
	for i := range want {
		g, w := got[i], want[i]
		if g.Timestamp != w.Timestamp {
			t.Errorf("record %d: timestamp %d, want %d", i, g.Timestamp, w.Timestamp)
		}
		sameBytes(t, fmt.Sprintf("record %d: key", i), g.Key, w.Key)
		sameBytes(t, fmt.Sprintf("record %d: value", i), g.Value, w.Value)
		if len(g.Headers) != len(w.Headers) {
			t.Fatalf("record %d: %d headers, want %d", i, len(g.Headers), len(w.Headers))
		}
		for j := range w.Headers {
			if g.Headers[j].Key != w.Headers[j].Key {
				t.Errorf("record %d: header %d: key %q, want %q", i, j, g.Headers[j].Key, w.Headers[j].Key)
			}
			sameBytes(t, fmt.Sprintf("record %d: header %d", i, j), g.Headers[j].Value, w.Headers[j].Value)
		}
	}
}

func sameBytes(t testing.TB, what string, got, want []byte) {
	t.Helper()
	if (got == nil) != (want == nil) || !bytes.Equal(got, want) {
		t.Errorf("%s: %.60q (nil: %v), want %.60q (nil: %v)", what, got, got == nil, want, want == nil)
	}
}

var allCodecs = []Codec{CodecNone, CodecGzip, CodecSnappy, CodecLz4, CodecZstd}

// rawBatch returns a batch whose records are body, with a valid CRC: h is filled
// in where a test does not care.
func rawBatch(h Header, body []byte) []byte {
	b := make([]byte, HeaderSize, HeaderSize+len(body))
	b = append(b, body...)
	h.Length = int32(len(b) - LengthPrefix)
	h.Magic = Magic
	h.Put(b)
	seal(b)
	return b
}
