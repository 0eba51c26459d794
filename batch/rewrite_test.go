package batch

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// A rewritten batch has exactly the records that stay, as they were, whatever the codec, and
// keeps what says where they belong and from whom they are.
func TestARewrittenBatchHasWhatStays(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for n := range 300 {
		codec := Codec(n % 5)
		b := NewBuilder(nil, 1<<20)
		b.SetProducer(7, 2, 40)
		var sent []Record
		for i := range 1 + rng.IntN(30) {
			r := Record{
				Timestamp: 1_000_000 + rng.Int64N(5000), Key: fmt.Appendf(nil, "k%d", i),
				Value: bytes.Repeat([]byte{byte(i)}, rng.IntN(200)), Headers: []RecordHeader{{Key: "h", Value: []byte{1}}},
			}
			sent = append(sent, r)
			if err := b.Append(&r); err != nil {
				t.Fatal(err)
			}
		}
		in := b.Finish(codec)
		Stamp(in, 1000, 9)
		if n%3 == 0 {
			StampAppendTime(in, 1_002_000)
		}
		var d Decoder
		h, _, err := d.Open(in)
		if err != nil {
			t.Fatal(err)
		}
		re := Rewrite{Keep: make([]bool, len(sent))}
		for i := range sent {
			re.Keep[i] = rng.IntN(3) > 0 || i == len(sent)-1
		}
		if n%2 == 0 {
			re.Horizon = 2_000_000_000_000
		}
		body, err := Decompress(nil, h, in[HeaderSize:], 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		mustHaveStayed(t, h, re.Append([]byte("before"), h, body)[len("before"):], &re, sent, n%3 == 0)
	}
}

// mustHaveStayed holds a rewritten batch against the records that were to stay.
func mustHaveStayed(t *testing.T, h Header, out []byte, re *Rewrite, sent []Record, appended bool) {
	t.Helper()
	got, it, err := new(Decoder).Open(out)
	if err != nil {
		t.Fatalf("%v", err)
	}
	if got.BaseOffset != 1000 || got.LastOffset() != h.LastOffset() || got.LeaderEpoch != 9 || got.ProducerID != 7 ||
		got.ProducerEpoch != 2 || got.BaseSequence != 40 || int(got.Count) != kept(re.Keep) || got.Attributes.DeleteHorizon() != (re.Horizon != 0) {
		t.Fatalf("%+v of %+v", got, h)
	}
	if re.Horizon != 0 && got.BaseTimestamp != re.Horizon {
		t.Fatalf("horizon %d", got.BaseTimestamp)
	}
	newest := int64(0)
	for i, r := range sent {
		if !re.Keep[i] {
			continue
		}
		if !it.Next() {
			t.Fatalf("record %d: %v", i, it.Err())
		}
		want := r.Timestamp
		if appended {
			want = 1_002_000
		}
		newest = max(newest, want)
		v := it.Record()
		if v.Offset != 1000+int64(i) || v.Timestamp != want || !bytes.Equal(v.Key, r.Key) || !bytes.Equal(v.Value, r.Value) || v.HeaderCount() != 1 {
			t.Fatalf("record %d is %+v", i, v)
		}
	}
	if it.Next() || it.Err() != nil || got.MaxTimestamp != newest {
		t.Fatalf("more, or %v; newest %d, expected %d", it.Err(), got.MaxTimestamp, newest)
	}
}

func kept(keep []bool) (n int) {
	for _, k := range keep {
		if k {
			n++
		}
	}
	return n
}

func TestAnEmptyBatchStandsForItsOffsets(t *testing.T) {
	b := AppendEmpty(nil, 5, 5+MaxRecords-1, 3)
	h, it, err := new(Decoder).Open(b)
	if err != nil || len(b) != HeaderSize || it.Next() || it.Err() != nil {
		t.Fatalf("%d bytes: %v, %v", len(b), err, it.Err())
	}
	if h.BaseOffset != 5 || h.NextOffset() != 5+MaxRecords || h.LeaderEpoch != 3 || h.ProducerID != NoProducer {
		t.Fatalf("%+v", h)
	}
}
