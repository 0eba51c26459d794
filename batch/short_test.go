package batch

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
)

// walk reads the records of b with or without the path for the common form.
func walk(h Header, body []byte, common bool) (views []RecordView, err error) {
	it := h.Records(body)
	for {
		ok := false
		if common || it.index >= it.count || it.err != nil {
			ok = it.Next()
		} else {
			ok = it.parse()
		}
		if !ok {
			return views, it.Err()
		}
		if it.At().Offset != it.Record().Offset {
			return nil, fmt.Errorf("the view of offset %d is that of %d", it.Record().Offset, it.At().Offset)
		}
		views = append(views, it.Record())
	}
}

// The path for records of the common form and that for all forms are one: the same
// records, and the same errors, whatever the bytes.
func TestTheCommonFormIsReadAsAllFormsAre(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 5))
	text := func(most int) []byte {
		if rng.IntN(5) == 0 {
			return nil
		}
		return bytes.Repeat([]byte{byte(rng.IntN(256))}, rng.IntN(most))
	}
	short := 0
	for range 3000 {
		b := NewBuilder(nil, MaxSize)
		for range 1 + rng.IntN(12) {
			r := Record{Timestamp: 1000 + rng.Int64N(1<<uint(1+rng.IntN(20))), Key: text(100), Value: text(300)}
			if rng.IntN(6) == 0 {
				r.Headers = []RecordHeader{{Key: "h", Value: text(20)}}
			}
			if rng.IntN(30) == 0 {
				r.Value = make([]byte, 20_000)
			}
			if err := b.Append(&r); err != nil {
				t.Fatal(err)
			}
		}
		raw := b.Finish(CodecNone)
		h, err := CheckStored(raw)
		if err != nil {
			t.Fatal(err)
		}
		body := bytes.Clone(raw[AtRecords:])
		for n := rng.IntN(4); n > 0; n-- {
			switch rng.IntN(3) {
			case 0:
				body[rng.IntN(len(body))] = byte(rng.IntN(256))
			case 1:
				body[rng.IntN(min(len(body), 12))] ^= 1 << rng.IntN(8)
			default:
				body = body[:len(body)-rng.IntN(min(len(body), 12))]
			}
		}
		it := h.Records(body)
		if it.short() {
			short++
		}
		want, wantErr := walk(h, body, false)
		got, gotErr := walk(h, body, true)
		if !reflect.DeepEqual(got, want) || fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
			t.Fatalf("%x:\n%d records, %v\nexpected %d records, %v", body, len(got), gotErr, len(want), wantErr)
		}
	}
	if short < 500 {
		t.Fatalf("only %d batches began with the common form", short)
	}
}
