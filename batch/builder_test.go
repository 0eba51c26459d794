package batch

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/mqd-broker/mqd/internal/invariant"
)

func TestBuilderAndIteratorAgreeForEveryCodec(t *testing.T) {
	for _, c := range allCodecs {
		t.Run(c.String(), func(t *testing.T) {
			b := build(t, goldenRecords(), c)
			if h, err := ParseHeader(b); err != nil || h.Attributes.Codec() != c {
				t.Fatalf("codec %v, error %v", h.Attributes.Codec(), err)
			}
			sameRecords(t, decode(t, b), goldenRecords())
		})
	}
}

func TestBuilderHeaderHasFirstAndGreatestTimestamp(t *testing.T) {
	rs := []Record{{Timestamp: 100}, {Timestamp: 90}, {Timestamp: 120}, {Timestamp: 110}}
	h, err := Check(build(t, rs, CodecNone), MaxSize)
	if err != nil {
		t.Fatal(err)
	}
	if h.BaseTimestamp != 100 || h.MaxTimestamp != 120 || h.Count != 4 || h.LastOffsetDelta != 3 ||
		h.BaseOffset != 0 || h.LeaderEpoch != NoEpoch || h.ProducerEpoch != NoProducer || h.BaseSequence != NoProducer {
		t.Errorf("header %+v", h)
	}
}

func genRecord() *rapid.Generator[Record] {
	blob := rapid.OneOf(
		rapid.Just([]byte(nil)),
		rapid.SliceOfN(rapid.Byte(), 0, 300),
	)
	return rapid.Custom(func(t *rapid.T) Record {
		r := Record{
			Timestamp: rapid.OneOf(rapid.Int64Range(-1, 4e12), rapid.Int64()).Draw(t, "timestamp"),
			Key:       blob.Draw(t, "key"),
			Value:     blob.Draw(t, "value"),
		}
		for range rapid.IntRange(0, 3).Draw(t, "headers") {
			r.Headers = append(r.Headers, RecordHeader{Key: rapid.String().Draw(t, "header"), Value: blob.Draw(t, "header value")})
		}
		return r
	})
}

// The size a builder announces is the size it makes, the bound is never passed,
// and a refused record changes nothing.
func TestBuilderKeepsItsBoundExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(HeaderSize, 2000).Draw(t, "limit")
		prefix := rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "prefix")
		codec := rapid.SampledFrom(allCodecs).Draw(t, "codec")
		b := NewBuilder(bytes.Clone(prefix), limit)
		var in []Record
		for _, r := range rapid.SliceOfN(genRecord(), 1, 30).Draw(t, "records") {
			size, need, fits := b.Size(), b.SizeOf(&r), b.Fits(&r)
			err := b.Append(&r)
			if fits != (err == nil) || fits != (size+need <= limit) {
				t.Fatalf("size %d + %d, limit %d, Fits %v, error %v", size, need, limit, fits, err)
			}
			if err == nil {
				in = append(in, r)
				size += need
			} else {
				empty := NewBuilder(nil, limit)
				if want := empty.Fits(&r); errors.Is(err, ErrFull) != want || errors.Is(err, ErrTooLarge) == want {
					t.Fatalf("error %v, but an empty batch fits it: %v", err, want)
				}
			}
			if b.Size() != size || b.Count() != len(in) {
				t.Fatalf("size %d, want %d; count %d, want %d", b.Size(), size, b.Count(), len(in))
			}
		}
		if len(in) == 0 {
			return
		}
		size := b.Size()
		out := b.Finish(codec)
		if !bytes.Equal(out[:len(prefix)], prefix) {
			t.Fatal("the caller's bytes in front of the batch changed")
		}
		out = out[len(prefix):]
		if len(out) > size || (codec == CodecNone && len(out) != size) {
			t.Fatalf("%v: %d bytes, announced %d", codec, len(out), size)
		}
		if _, err := Check(out, limit); err != nil {
			t.Fatal(err)
		}
		got, err := tryDecode(out)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(in) {
			t.Fatalf("%d records, want %d", len(got), len(in))
		}
		for i, g := range got {
			w := in[i]
			if g.Timestamp != w.Timestamp || !bytes.Equal(g.Key, w.Key) || !bytes.Equal(g.Value, w.Value) ||
				(g.Key == nil) != (w.Key == nil) || (g.Value == nil) != (w.Value == nil) || len(g.Headers) != len(w.Headers) {
				t.Fatalf("record %d: got %+v, want %+v", i, g, w)
			}
			for j := range w.Headers {
				gh, wh := g.Headers[j], w.Headers[j]
				if gh.Key != wh.Key || !bytes.Equal(gh.Value, wh.Value) || (gh.Value == nil) != (wh.Value == nil) {
					t.Fatalf("record %d: header %d: got %+v, want %+v", i, j, gh, wh)
				}
			}
		}
	})
}

func TestBuilderLeavesIncompressibleRecordsAlone(t *testing.T) {
	rs := alerts(1)
	for _, c := range allCodecs {
		b := build(t, rs, c)
		h, err := Check(b, MaxSize)
		if err != nil {
			t.Fatal(err)
		}
		if h.Attributes.Codec() != CodecNone {
			t.Errorf("%v: one random message was stored compressed in %d bytes", c, len(b))
		}
		sameRecords(t, decode(t, b), rs)
	}
}

func TestBuilderIsReusableAndForgetsThePastBatch(t *testing.T) {
	b := NewBuilder(nil, MaxSize)
	b.SetProducer(1, 2, 3)
	b.SetTransactional()
	rs := goldenRecords()
	for i := range rs {
		if err := b.Append(&rs[i]); err != nil {
			t.Fatal(err)
		}
	}
	first := b.Finish(CodecLz4)
	b.Reset(first[:0])
	if b.Count() != 0 || b.Size() != HeaderSize {
		t.Errorf("after Reset: count %d, size %d", b.Count(), b.Size())
	}
	r := Record{Timestamp: 5, Value: []byte("x")}
	if err := b.Append(&r); err != nil {
		t.Fatal(err)
	}
	got := b.Finish(CodecNone)
	if want := build(t, []Record{r}, CodecNone); !bytes.Equal(got, want) {
		t.Errorf("a used builder makes\n%x, a new one\n%x", got, want)
	}
}

func TestBuilderPanicsOnCallsOutOfOrder(t *testing.T) {
	r := Record{Value: []byte("x")}
	for name, f := range map[string]func(){
		"limit below a header":         func() { NewBuilder(nil, HeaderSize-1) },
		"limit above a batch":          func() { NewBuilder(nil, MaxSize+1) },
		"finish without records":       func() { NewBuilder(nil, MaxSize).Finish(CodecNone) },
		"finish twice":                 func() { b := NewBuilder(nil, 200); _ = b.Append(&r); b.Finish(0); b.Finish(0) },
		"append after finish":          func() { b := NewBuilder(nil, 200); _ = b.Append(&r); b.Finish(0); _ = b.Append(&r) },
		"transaction without producer": func() { b := NewBuilder(nil, 200); b.SetTransactional(); _ = b.Append(&r); b.Finish(0) },
		"negative producer":            func() { NewBuilder(nil, 200).SetProducer(-1, 0, 0) },
		"codec without a meaning":      func() { Compress(nil, 5, []byte("x")) },
		"stamp of half a header":       func() { Stamp(make([]byte, 30), 0, 0) },
		"no partitions":                func() { Partition(nil, 0) },
		"empty plain batch":            func() { NewPlainBuilder(nil, 100).Finish() },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if _, ok := recover().(invariant.Violation); !ok {
					t.Error("no invariant was violated")
				}
			}()
			f()
		})
	}
}
