package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// plainBatch builds a plain batch field by field, without the package's help.
func plainBatch(bodies ...string) []byte {
	var messages []byte
	var size int
	for _, body := range bodies {
		messages = binary.BigEndian.AppendUint32(messages, uint32(len(body)))
		messages = binary.BigEndian.AppendUint32(messages, crc32.ChecksumIEEE([]byte(body)))
		messages = append(messages, body...)
		size += len(body)
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(12+len(messages)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(bodies)))
	b = binary.BigEndian.AppendUint32(b, uint32(size))
	return append(b, messages...)
}

func TestPlainBuilderMakesTheDocumentedBytes(t *testing.T) {
	bodies := []string{"first", "", "third \x00\xff"}
	b := NewPlainBuilder([]byte("frame"), 1000)
	for _, body := range bodies {
		if err := b.Append([]byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	if b.Count() != 3 {
		t.Errorf("count %d", b.Count())
	}
	if got, want := b.Finish(), append([]byte("frame"), plainBatch(bodies...)...); !bytes.Equal(got, want) {
		t.Errorf("got  %x\nwant %x", got, want)
	}
}

func TestPlainBuilderKeepsItsBound(t *testing.T) {
	b := NewPlainBuilder(nil, 12+8+10+8+4)
	for _, step := range []struct {
		size int
		want error
	}{{23, ErrTooLarge}, {10, nil}, {5, ErrFull}, {4, nil}, {0, ErrFull}} {
		if fits := b.Fits(step.size); fits != (step.want == nil) {
			t.Errorf("%d bytes: fits: %v", step.size, fits)
		}
		if err := b.Append(make([]byte, step.size)); !errors.Is(err, step.want) {
			t.Errorf("%d bytes: error %v, want %v", step.size, err, step.want)
		}
	}
	if b.Size() != b.max || b.Count() != 2 {
		t.Errorf("size %d, count %d", b.Size(), b.Count())
	}
	if _, err := CheckPlain(b.Finish(), b.max); err != nil {
		t.Error(err)
	}
}

func TestPlainCheckNamesWhatIsWrong(t *testing.T) {
	good := plainBatch("first", "", "third")
	put := func(at int, v uint32) []byte {
		b := bytes.Clone(good)
		binary.BigEndian.PutUint32(b[at:], v)
		return b
	}
	flip := func(at int) []byte {
		b := bytes.Clone(good)
		b[at] ^= 1
		return b
	}
	const second = 12 + 8 + 5
	for _, tc := range []struct {
		name string
		b    []byte
		kind error
	}{
		{"nothing", nil, ErrTruncated},
		{"no header", good[:11], ErrTruncated},
		{"cut in the messages", good[:len(good)-1], ErrTruncated},
		{"followed by a byte", append(bytes.Clone(good), 0), ErrInvalid},
		{"no messages", plainBatch(), ErrInvalid},
		{"total below a header", put(0, 11), ErrInvalid},
		{"total one less", put(0, uint32(len(good)-1)), ErrInvalid},
		{"total one more", put(0, uint32(len(good)+1)), ErrInvalid},
		{"total over the limit", put(0, 1001), ErrTooLarge},
		{"total huge", put(0, math.MaxUint32), ErrTooLarge},
		{"count one more", put(4, 4), ErrInvalid},
		{"count huge", put(4, math.MaxUint32), ErrInvalid},
		{"count wraps to the total", put(4, 3+1<<29), ErrInvalid},
		{"body bytes one less", put(8, 9), ErrInvalid},
		{"body bytes huge", put(8, math.MaxUint32), ErrInvalid},
		{"length one less", put(12, 4), ErrInvalid},
		{"length one more", put(12, 6), ErrInvalid},
		{"length of the last one more", put(len(good)-13, 6), ErrInvalid},
		{"length huge", put(second, math.MaxUint32), ErrInvalid},
		{"lengths that hide a message", func() []byte {
			b := plainBatch("12345678", "") // the first body swallows the second header
			binary.BigEndian.PutUint32(b[12:], 16)
			return b
		}(), ErrInvalid},
		{"lengths that make a message", func() []byte {
			b := plainBatch("\x00\x00\x00\x00\x00\x00\x00\x00")
			binary.BigEndian.PutUint32(b[12:], 0)
			return b
		}(), ErrInvalid},
		{"first body", flip(20), ErrCorrupt},
		{"last body", flip(len(good) - 1), ErrCorrupt},
		{"crc of an empty body", flip(second + 4), ErrCorrupt},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var e *Error
			if _, err := CheckPlain(tc.b, 1000); !errors.Is(err, tc.kind) || !errors.As(err, &e) {
				t.Errorf("CheckPlain: %v, want %v", err, tc.kind)
			}
			out, err := PlainToBatch([]byte("front"), tc.b, 1)
			if tc.name == "total over the limit" {
				tc.kind = ErrInvalid // the conversion's own limit is higher
			}
			if !errors.Is(err, tc.kind) || string(out) != "front" {
				t.Errorf("PlainToBatch: %d bytes, %v, want %v", len(out), err, tc.kind)
			}
		})
	}
	h, err := CheckPlain(good, len(good))
	if want := (PlainHeader{Total: uint32(len(good)), Count: 3, Body: 10}); err != nil || h != want {
		t.Errorf("the good one: %+v, %v", h, err)
	}
}

func TestPlainCheckSeesEveryFlippedBit(t *testing.T) {
	good := plainBatch("first", "", "third")
	for i := range good {
		for bit := range 8 {
			b := bytes.Clone(good)
			b[i] ^= 1 << bit
			if _, err := CheckPlain(b, MaxSize); err == nil {
				t.Fatalf("byte %d bit %d: accepted", i, bit)
			}
		}
	}
}

func TestPlainBatchBecomesTheRecordBatchThatABuilderMakes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bodies := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 200), 1, 200).Draw(t, "bodies")
		now := rapid.Int64Range(0, 4e12).Draw(t, "now")
		p := NewPlainBuilder(nil, MaxSize)
		b := NewBuilder(nil, MaxSize)
		for _, body := range bodies {
			if body == nil {
				body = []byte{}
			}
			if err := errors.Join(p.Append(body), b.Append(&Record{Timestamp: now, Value: body})); err != nil {
				t.Fatal(err)
			}
		}
		plain := p.Finish()
		got, err := PlainToBatch([]byte("front"), plain, now)
		if err != nil {
			t.Fatal(err)
		}
		if want := append([]byte("front"), b.Finish(CodecNone)...); !bytes.Equal(got, want) {
			t.Fatalf("got  %x\nwant %x", got, want)
		}
		h, _ := CheckPlain(plain, MaxSize)
		if bound := PlainBatchBound(h); len(got)-5 > bound {
			t.Fatalf("%d bytes, bound %d", len(got)-5, bound)
		}
		i := 0
		for it := PlainMessages(plain); it.Next(); i++ {
			if !bytes.Equal(it.Body(), bodies[i]) {
				t.Fatalf("message %d: %q", i, it.Body())
			}
		}
		if i != len(bodies) {
			t.Fatalf("%d messages, want %d", i, len(bodies))
		}
	})
}

// A fetch in plain encoding, cut at any limit and resumed where it says, gives
// every value from the wanted offset on exactly once.
func TestPlainFetchResumesWhereItStopped(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 50), 1, 40).Draw(t, "values")
		base := rapid.Int64Range(0, 1<<40).Draw(t, "base")
		from := base + int64(rapid.IntRange(-2, len(values)+1).Draw(t, "from"))
		limit := rapid.IntRange(PlainFetchSize+50, 300).Draw(t, "limit")
		b := NewBuilder(nil, MaxSize)
		for _, v := range values {
			if err := b.Append(&Record{Key: []byte("key"), Value: v}); err != nil {
				t.Fatal(err)
			}
		}
		out := b.Finish(CodecNone)
		Stamp(out, base, 1)
		want := max(from, base)
		for next := from; next < base+int64(len(values)); {
			var d Decoder
			_, it, err := d.Open(out)
			if err != nil {
				t.Fatal(err)
			}
			answer, n, err := AppendPlainFetch([]byte("front"), &it, next, limit)
			if err != nil {
				t.Fatal(err)
			}
			if len(answer)-5 > limit || n <= next {
				t.Fatalf("%d bytes of %d, from %d to %d", len(answer)-5, limit, next, n)
			}
			next = n
			f := PlainFetched(answer[5:])
			for ; f.Next(); want++ {
				if f.Offset() != want || !bytes.Equal(f.Body(), values[want-base]) {
					t.Fatalf("offset %d: %q, want offset %d", f.Offset(), f.Body(), want)
				}
			}
			if f.Err() != nil {
				t.Fatal(f.Err())
			}
		}
		if end := base + int64(len(values)); want < end {
			t.Fatalf("ended at %d, want %d", want, end)
		}
	})
}

func TestPlainFetchOfRecordsBehindTheWantedOffsetIsEmpty(t *testing.T) {
	b := build(t, goldenRecords(), CodecNone)
	h, _ := Check(b, MaxSize)
	it := h.Records(b[AtRecords:])
	out, next, err := AppendPlainFetch(nil, &it, 1000, 10)
	if err != nil || len(out) != 0 || next != 1000 {
		t.Errorf("%d bytes, next %d, error %v", len(out), next, err)
	}
}

func TestPlainFetchPassesErrorsOn(t *testing.T) {
	b := build(t, goldenRecords(), CodecNone)
	h, _ := Check(b, MaxSize)
	it := h.Records(b[AtRecords:])
	if out, next, err := AppendPlainFetch([]byte("front"), &it, 0, PlainFetchSize+4); !errors.Is(err, ErrTooLarge) || string(out) != "front" || next != 0 {
		t.Errorf("first message over the limit: %q, next %d, error %v", out, next, err)
	}
	it = h.Records(b[AtRecords : len(b)-1])
	if out, next, err := AppendPlainFetch([]byte("front"), &it, 0, MaxSize); !errors.Is(err, ErrTruncated) || string(out) != "front" || next != 0 {
		t.Errorf("broken records: %d bytes, next %d, error %v", len(out), next, err)
	}
}

func TestPlainFetchedStopsAtDamage(t *testing.T) {
	b := build(t, []Record{{Value: []byte("one")}, {Value: []byte("two")}}, CodecNone)
	h, _ := Check(b, MaxSize)
	it := h.Records(b[AtRecords:])
	good, _, err := AppendPlainFetch(nil, &it, 0, MaxSize)
	if err != nil {
		t.Fatal(err)
	}
	put := func(at int, v byte) []byte {
		b := bytes.Clone(good)
		b[at] = v
		return b
	}
	for name, tc := range map[string]struct {
		b    []byte
		n    int
		kind error
	}{
		"cut in a body":    {good[:len(good)-1], 1, ErrTruncated},
		"cut in a header":  {good[:20], 1, ErrTruncated},
		"length huge":      {put(8, 0xff), 0, ErrTruncated},
		"body":             {put(16, 'O'), 0, ErrCorrupt},
		"offset repeated":  {put(19+7, 0), 1, ErrInvalid},
		"offset negative":  {put(0, 0x80), 0, ErrInvalid},
		"nothing is wrong": {good, 2, nil},
	} {
		it := PlainFetched(tc.b)
		n := 0
		for it.Next() {
			n++
		}
		if n != tc.n || !errors.Is(it.Err(), tc.kind) {
			t.Errorf("%s: %d messages, error %v; want %d, %v", name, n, it.Err(), tc.n, tc.kind)
		}
	}
}

func ExamplePlainToBatch() {
	p := NewPlainBuilder(nil, 64<<10)
	_ = p.Append([]byte("disk 3 is slow"))
	b, err := PlainToBatch(nil, p.Finish(), 1_700_000_000_000)
	if err != nil {
		fmt.Println(err)
		return
	}
	var d Decoder
	h, it, err := d.Open(b)
	for err == nil && it.Next() {
		fmt.Printf("%d of %d: %s\n", it.Record().Offset+1, h.Count, it.Record().Value)
	}
	// Output: 1 of 1: disk 3 is slow
}
