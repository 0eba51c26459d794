package batch

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// seedGolden adds every golden file.
func seedGolden(f *testing.F) {
	paths, err := filepath.Glob(filepath.Join("testdata", "golden", "*.bin"))
	if err != nil || len(paths) == 0 {
		f.Fatalf("no golden files: %v", err)
	}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
}

// typed fails unless err is one of the package's kinds, with its message.
func typed(t *testing.T, err error) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("an error without a type: %v", err)
	}
	for _, kind := range []error{ErrTruncated, ErrCorrupt, ErrMagic, ErrTooLarge, ErrCodec, ErrCompression, ErrInvalid} {
		if e.Kind == kind && errors.Is(err, kind) && err.Error() != "" {
			return
		}
	}
	t.Fatalf("an error of no kind: %v", err)
}

func FuzzCheck(f *testing.F) {
	seedGolden(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		checkAll(t, b)
		if len(b) >= HeaderSize {
			// Or else hardly any input would get past the checksum.
			seal(b)
			checkAll(t, b)
		}
	})
}

// checkAll gives b to all header functions and compares what they say.
func checkAll(t *testing.T, b []byte) {
	in := bytes.Clone(b)
	h, err := ParseHeader(b)
	checked, cerr := Check(b, len(b))
	stored, serr := CheckStored(b)
	if !bytes.Equal(b, in) {
		t.Fatal("checking changed the input")
	}
	for _, e := range []error{err, cerr, serr} {
		if e != nil {
			typed(t, e)
		}
	}
	if cerr == nil && (err != nil || checked != h || h.Size() != len(b) || h.Count < 1 || h.LastOffsetDelta != h.Count-1) {
		t.Fatalf("Check gives %+v, ParseHeader %+v, %v", checked, h, err)
	}
	if serr == nil && (err != nil || stored != h || h.NextOffset() <= h.BaseOffset) {
		t.Fatalf("CheckStored gives %+v, ParseHeader %+v, %v", stored, h, err)
	}
	if err != nil {
		return
	}
	again := make([]byte, HeaderSize)
	h.Put(again)
	if !bytes.Equal(again, b[:HeaderSize]) {
		t.Fatalf("the header is %x, put again %x", b[:HeaderSize], again)
	}
	if cerr == nil {
		b = in
		Stamp(b, 5, 6)
		if h, err := Check(b, len(b)); err != nil || h.BaseOffset != 5 || h.LeaderEpoch != 6 {
			t.Fatalf("after a stamp: %+v, %v", h, err)
		}
		StampAppendTime(b, 7)
		if h, err := CheckStored(b); err != nil || h.MaxTimestamp != 7 {
			t.Fatalf("after the append time: %+v, %v", h, err)
		}
	}
}

// FuzzIterator walks arbitrary records. What the iterator accepts entirely can be
// built again and decodes to the same.
func FuzzIterator(f *testing.F) {
	records, err := os.ReadFile(filepath.Join("testdata", "golden", "none.bin"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(records[AtRecords:], int32(len(goldenRecords())), int32(0))
	f.Add([]byte("\x16\x00\x00\x00\x02k\x02v\x02\x02h\x01"), int32(1), int32(0))
	f.Add([]byte("\x0c\x00\x00\x04\x01\x01\x00\x0c\x00\x02\x12\x01\x01\x00"), int32(2), int32(9))
	f.Fuzz(func(t *testing.T, body []byte, count, gap int32) {
		h := Header{Count: count, LastOffsetDelta: count - 1 + gap}
		it := h.Records(body)
		again := NewBuilder(nil, MaxSize)
		var want []Record
		last := int64(-1)
		for it.Next() {
			v := it.Record()
			if v.Offset <= last || v.Offset > int64(h.LastOffsetDelta) {
				t.Fatalf("offset %d after %d, last offset delta %d", v.Offset, last, h.LastOffsetDelta)
			}
			last = v.Offset
			r := Record{Timestamp: v.Timestamp, Key: v.Key, Value: v.Value}
			for hs := v.Headers(); hs.Next(); {
				r.Headers = append(r.Headers, RecordHeader{Key: string(hs.Key()), Value: hs.Value()})
			}
			if len(r.Headers) != v.HeaderCount() {
				t.Fatalf("%d headers of %d", len(r.Headers), v.HeaderCount())
			}
			want = append(want, r)
			if err := again.Append(&r); err != nil {
				t.Fatal(err)
			}
		}
		if it.Err() != nil {
			typed(t, it.Err())
			return
		}
		if len(want) != max(0, int(count)) {
			t.Fatalf("%d records of %d without an error", len(want), count)
		}
		if len(want) > 0 {
			sameRecords(t, decode(t, again.Finish(CodecNone)), want)
		}
	})
}

// fuzzDecompress checks the limit and, through another round, the content.
func fuzzDecompress(f *testing.F, c Codec) {
	for name, codec := range goldenCompressed {
		if codec == c {
			b, err := os.ReadFile(filepath.Join("testdata", "golden", name))
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b[AtRecords:], 1<<16)
			f.Add(b[AtRecords:len(b)-1], 100)
		}
	}
	f.Add(Compress(nil, c, make([]byte, 1<<17)), 1<<16)
	f.Add([]byte(zstdOfNothing), 1<<16)
	f.Fuzz(func(t *testing.T, in []byte, limit int) {
		limit &= 1<<20 - 1
		front := []byte("front")
		out, err := Decompress(front, Header{Attributes: Attributes(c)}, in, limit)
		if string(out[:len(front)]) != "front" {
			t.Fatal("dst was overwritten")
		}
		if err != nil {
			typed(t, err)
			if len(out) != len(front) {
				t.Fatalf("%d bytes came with the error %v", len(out)-len(front), err)
			}
			return
		}
		out = out[len(front):]
		if len(out) > limit {
			t.Fatalf("%d bytes, limit %d", len(out), limit)
		}
		// The same input gives the same output, whatever room there is at first.
		for _, room := range []int{len(out), 2*len(out) + 100} {
			again, err := Decompress(make([]byte, 0, room), Header{Attributes: Attributes(c)}, in, max(limit, len(out)))
			if err != nil || !bytes.Equal(again, out) {
				t.Fatalf("again: %d bytes, %v; first %d", len(again), err, len(out))
			}
		}
		back, err := Decompress(nil, Header{Attributes: Attributes(c)}, Compress(nil, c, out), len(out))
		if err != nil || !bytes.Equal(back, out) {
			t.Fatalf("compressed and decompressed: %d bytes, %v; want %d", len(back), err, len(out))
		}
	})
}

func FuzzDecompressGzip(f *testing.F)   { fuzzDecompress(f, CodecGzip) }
func FuzzDecompressSnappy(f *testing.F) { fuzzDecompress(f, CodecSnappy) }
func FuzzDecompressLz4(f *testing.F)    { fuzzDecompress(f, CodecLz4) }
func FuzzDecompressZstd(f *testing.F)   { fuzzDecompress(f, CodecZstd) }

// FuzzPlain: what CheckPlain accepts becomes a valid record batch with the same
// values, which comes back as the same messages.
func FuzzPlain(f *testing.F) {
	seedGolden(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := CheckPlain(b, MaxSize)
		rb, cerr := PlainToBatch(nil, b, 1000)
		if (err == nil) != (cerr == nil) {
			t.Fatalf("CheckPlain: %v, PlainToBatch: %v", err, cerr)
		}
		if err != nil {
			typed(t, err)
			return
		}
		checked, err := Check(rb, PlainBatchBound(h))
		if err != nil || checked.Count != int32(h.Count) {
			t.Fatalf("%d messages became %+v, %v", h.Count, checked, err)
		}
		it := checked.Records(rb[AtRecords:])
		fetched, next, err := AppendPlainFetch(nil, &it, 0, MaxSize)
		if err != nil || next != int64(h.Count) {
			t.Fatalf("fetched up to %d of %d: %v", next, h.Count, err)
		}
		messages, back := PlainMessages(b), PlainFetched(fetched)
		for messages.Next() {
			if !back.Next() || !bytes.Equal(messages.Body(), back.Body()) {
				t.Fatalf("sent %.40q, fetched %.40q, %v", messages.Body(), back.Body(), back.Err())
			}
		}
		if back.Next() || back.Err() != nil {
			t.Fatalf("after the last message: %v", back.Err())
		}
	})
}

func FuzzPlainFetched(f *testing.F) {
	seedGolden(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		it := PlainFetched(b)
		size, last := 0, int64(-1)
		for it.Next() {
			if it.Offset() <= last {
				t.Fatalf("offset %d after %d", it.Offset(), last)
			}
			last = it.Offset()
			size += PlainFetchSize + len(it.Body())
		}
		if it.Err() != nil {
			typed(t, it.Err())
		} else if size != len(b) {
			t.Fatalf("%d of %d bytes without an error", size, len(b))
		}
	})
}
