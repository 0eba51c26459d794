package batch

import (
	"errors"
	"math"
	"strings"
	"testing"
)

func TestVarintsRoundTripAtTheirEdges(t *testing.T) {
	var vs []int64
	for shift := range 64 {
		v := int64(1) << shift
		vs = append(vs, v, v-1, v+1, -v, -v-1, -v+1)
	}
	buf := make([]byte, 16)
	for _, v := range vs {
		p := putVarint64(buf, 1, v)
		if p-1 != varintSize64(v) {
			t.Errorf("%d: %d bytes, announced %d", v, p-1, varintSize64(v))
		}
		if got, q := varint64(buf[:p], 1); got != v || q != p {
			t.Errorf("%d: read %d, next %d, want %d", v, got, q, p)
		}
		if _, q := varint64(buf[:p-1], 1); q != varintTruncated {
			t.Errorf("%d: cut short: next %d", v, q)
		}
		if v != int64(int32(v)) {
			continue
		}
		p = putVarint32(buf, 1, int32(v))
		if p-1 != varintSize32(int32(v)) {
			t.Errorf("%d: %d bytes, announced %d", v, p-1, varintSize32(int32(v)))
		}
		if got, q := varint32(buf[:p], 1); got != int32(v) || q != p {
			t.Errorf("%d: read %d, next %d, want %d", v, got, q, p)
		}
		if _, q := varint32(buf[:p-1], 1); q != varintTruncated {
			t.Errorf("%d: cut short: next %d", v, q)
		}
	}
}

func TestVarintsRefuseOverflow(t *testing.T) {
	for in, want := range map[string]int{
		"\xff\xff\xff\xff\x0f":         5,
		"\xff\xff\xff\xff\x10":         varintOverflow,
		"\x80\x80\x80\x80\x80\x00":     varintOverflow,
		"\x80\x80\x80\x80\x00":         5, // longer than needed
		"\x80\x80\x80\x80":             varintTruncated,
		"\xff\xff\xff\xff\xff\xff\x01": varintOverflow,
	} {
		if _, p := varint32([]byte(in), 0); p != want {
			t.Errorf("32 bits: %x: next %d, want %d", in, p, want)
		}
	}
	for in, want := range map[string]int{
		"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01":     10,
		"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02":     varintOverflow,
		"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00": varintOverflow,
		"\x80\x80\x80\x80\x80\x80\x80\x80\x80":         varintTruncated,
	} {
		if _, p := varint64([]byte(in), 0); p != want {
			t.Errorf("64 bits: %x: next %d, want %d", in, p, want)
		}
	}
}

func TestIteratorNamesTheMalformedField(t *testing.T) {
	// A good record: length 10, no attributes, timestamp 0, offset 0, key "k",
	// value "v", one header "h" without a value.
	const good = "\x16\x00\x00\x00\x02k\x02v\x02\x02h\x01"
	for _, tc := range []struct {
		name, body string
		count      int32
		kind       error
		field      string
		record     int
	}{
		{"no record", "", 1, ErrTruncated, "record length", 0},
		{"second record missing", good, 2, ErrTruncated, "record length", 1},
		{"bytes after the last", good + "\x00", 1, ErrInvalid, "bytes after the records", 1},
		{"more records than counted", good + good, 1, ErrInvalid, "bytes after the records", 1},
		{"length overflows", "\xff\xff\xff\xff\x7f", 1, ErrInvalid, "record length", 0},
		{"length negative", "\x01", 1, ErrInvalid, "record length", 0},
		{"length below a record", "\x0a\x00\x00\x00\x01\x01", 1, ErrInvalid, "record length", 0},
		{"length beyond the body", "\x18\x00\x00\x00\x02k\x02v\x02\x02h\x01", 1, ErrTruncated, "record length", 0},
		{"timestamp overflows", "\x20\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x00\x01\x01\x00\x00", 1, ErrInvalid, "timestamp delta", 0},
		{"timestamp unfinished", "\x0c\x00\x80\x80\x80\x80\x80", 1, ErrTruncated, "timestamp delta", 0},
		{"offset delta overflows", "\x14\x00\x00\xff\xff\xff\xff\x7f\x01\x01\x00", 1, ErrInvalid, "offset delta", 0},
		{"offset delta negative", "\x0c\x00\x00\x01\x01\x01\x00", 1, ErrInvalid, "offset delta", 0},
		{"offset delta beyond the last", "\x0c\x00\x00\x02\x01\x01\x00", 1, ErrInvalid, "offset delta", 0},
		{"offset delta repeated", good + good, 2, ErrInvalid, "offset delta", 1},
		{"key length -2", "\x0c\x00\x00\x00\x03\x01\x00", 1, ErrInvalid, "key length", 0},
		{"key beyond the record", "\x0c\x00\x00\x00\x08\x01\x00", 1, ErrTruncated, "key length", 0},
		{"value length -2", "\x0c\x00\x00\x00\x01\x03\x00", 1, ErrInvalid, "value length", 0},
		{"value beyond the record", "\x0c\x00\x00\x00\x01\x04\x00", 1, ErrTruncated, "value length", 0},
		{"value takes the header count", "\x0c\x00\x00\x00\x01\x02\x00", 1, ErrTruncated, "header count", 0},
		{"header count negative", "\x0c\x00\x00\x00\x01\x01\x01", 1, ErrInvalid, "header count", 0},
		{"header count beyond the record", "\x10\x00\x00\x00\x01\x01\x04\x00\x00", 1, ErrInvalid, "header count", 0},
		{"header count huge", "\x14\x00\x00\x00\x01\x01\xfe\xff\xff\xff\x0f", 1, ErrInvalid, "header count", 0},
		{"header key missing", "\x10\x00\x00\x00\x01\x01\x02\x01\x01", 1, ErrInvalid, "header key length", 0},
		{"header key length -2", "\x10\x00\x00\x00\x01\x01\x02\x03\x01", 1, ErrInvalid, "header key length", 0},
		{"header key beyond the record", "\x10\x00\x00\x00\x01\x01\x02\x04h", 1, ErrTruncated, "header key length", 0},
		{"header value length -2", "\x10\x00\x00\x00\x01\x01\x02\x00\x03", 1, ErrInvalid, "header value length", 0},
		{"header value beyond the record", "\x10\x00\x00\x00\x01\x01\x02\x00\x02", 1, ErrTruncated, "header value length", 0},
		{"bytes after the headers", "\x12\x00\x00\x00\x01\x01\x02\x00\x01\x00", 1, ErrInvalid, "bytes after the record", 0},
		{"bytes after no headers", "\x0e\x00\x00\x00\x01\x01\x00\x00", 1, ErrInvalid, "bytes after the record", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := Header{Count: tc.count, LastOffsetDelta: tc.count - 1}
			it := h.Records([]byte(tc.body))
			n := 0
			for it.Next() {
				n++
			}
			var e *Error
			if !errors.Is(it.Err(), tc.kind) || !errors.As(it.Err(), &e) {
				t.Fatalf("error %v, want %v", it.Err(), tc.kind)
			}
			if e.Field != tc.field || e.Record != tc.record || n != tc.record {
				t.Errorf("%d records, then %v; want record %d, %s", n, e, tc.record, tc.field)
			}
			if it.Next() || it.Err() != e {
				t.Error("the iterator went on after its error")
			}
			if !strings.Contains(e.Error(), tc.field) {
				t.Errorf("message %q", e.Error())
			}
		})
	}
}

func TestIteratorWalksCompactedOffsets(t *testing.T) {
	body := "\x0c\x00\x00\x04\x01\x01\x00" + "\x0c\x00\x02\x12\x01\x01\x00" // offset deltas 2 and 9
	b := rawBatch(Header{BaseOffset: 100, LastOffsetDelta: 10, BaseTimestamp: 50, Count: 2, ProducerID: NoProducer}, []byte(body))
	var d Decoder
	_, it, err := d.Open(b)
	if err != nil {
		t.Fatal(err)
	}
	want := []RecordView{{Offset: 102, Timestamp: 50}, {Offset: 109, Timestamp: 51}}
	for i, w := range want {
		if !it.Next() {
			t.Fatalf("record %d: %v", i, it.Err())
		}
		if r := it.Record(); r.Offset != w.Offset || r.Timestamp != w.Timestamp || r.Key != nil || r.Value != nil {
			t.Errorf("record %d: %+v", i, r)
		}
	}
	if it.Next() || it.Err() != nil {
		t.Errorf("after the last record: %v", it.Err())
	}
}

func TestDecoderOpensABatchWithoutRecords(t *testing.T) {
	for _, c := range allCodecs {
		b := rawBatch(Header{Attributes: Attributes(c), LastOffsetDelta: 4, ProducerID: 9}, nil)
		var d Decoder
		h, it, err := d.Open(b)
		if err != nil {
			t.Fatalf("%v: %v", c, err)
		}
		if it.Next() || it.Err() != nil || h.NextOffset() != 5 {
			t.Errorf("%v: next offset %d, error %v", c, h.NextOffset(), it.Err())
		}
	}
}

func TestDecoderObeysItsLimit(t *testing.T) {
	b := build(t, []Record{{Value: make([]byte, 100_000)}}, CodecZstd)
	d := Decoder{Limit: 100_000}
	if _, _, err := d.Open(b); !errors.Is(err, ErrTooLarge) {
		t.Errorf("error %v, want %v", err, ErrTooLarge)
	}
	d.Limit = 0
	if _, it, err := d.Open(b); err != nil || !it.Next() || len(it.Record().Value) != 100_000 {
		t.Errorf("with the default limit: %v", err)
	}
}

func TestViewsHaveNoSpareCapacity(t *testing.T) {
	b := build(t, goldenRecords(), CodecNone)
	var d Decoder
	_, it, err := d.Open(b)
	if err != nil {
		t.Fatal(err)
	}
	for it.Next() {
		r := it.Record()
		if cap(r.Key) != len(r.Key) || cap(r.Value) != len(r.Value) {
			t.Fatalf("offset %d: key %d of %d, value %d of %d: an append would overwrite the batch",
				r.Offset, len(r.Key), cap(r.Key), len(r.Value), cap(r.Value))
		}
	}
}

func TestRecordTooLongForTheFormatIsRefused(t *testing.T) {
	b := NewBuilder(nil, MaxSize)
	r := Record{Timestamp: math.MaxInt64, Value: make([]byte, MaxSize)}
	if err := b.Append(&r); !errors.Is(err, ErrTooLarge) || b.Count() != 0 {
		t.Errorf("count %d, error %v", b.Count(), err)
	}
}
