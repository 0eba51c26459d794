package batch

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"
)

// field writes a field into a copy of b and renews the CRC.
func field(b []byte, put func(b []byte)) []byte {
	b = append([]byte(nil), b...)
	put(b)
	seal(b)
	return b
}

func put16(at int, v int16) func([]byte) {
	return func(b []byte) { binary.BigEndian.PutUint16(b[at:], uint16(v)) }
}

func put32(at int, v int32) func([]byte) {
	return func(b []byte) { binary.BigEndian.PutUint32(b[at:], uint32(v)) }
}

func put64(at int, v int64) func([]byte) {
	return func(b []byte) { binary.BigEndian.PutUint64(b[at:], uint64(v)) }
}

func all(puts ...func([]byte)) func([]byte) {
	return func(b []byte) {
		for _, p := range puts {
			p(b)
		}
	}
}

func TestCheckAcceptsWhatABuilderMakes(t *testing.T) {
	rs := goldenRecords()
	for _, c := range allCodecs {
		b := build(t, rs, c)
		h, err := Check(b, len(b))
		if err != nil {
			t.Fatalf("%v: %v", c, err)
		}
		if h.Attributes.Codec() != c || int(h.Count) != len(rs) || h.Size() != len(b) || h.ProducerID != NoProducer {
			t.Errorf("%v: header %+v", c, h)
		}
		if h.LastOffset() != int64(len(rs)-1) || h.NextOffset() != int64(len(rs)) {
			t.Errorf("%v: last offset %d, next %d", c, h.LastOffset(), h.NextOffset())
		}
		if _, err := CheckStored(b); err != nil {
			t.Errorf("%v: as stored: %v", c, err)
		}
	}
}

func TestCheckNamesWhatIsWrong(t *testing.T) {
	good := build(t, goldenRecords(), CodecNone)
	n := int32(len(goldenRecords()))
	gzip := build(t, goldenRecords(), CodecGzip)
	older := make([]byte, 30)
	older[AtMagic] = 1
	binary.BigEndian.PutUint32(older[AtLength:], 18)
	broken := append([]byte(nil), good...)
	broken[len(broken)-1] ^= 1
	for _, tc := range []struct {
		name string
		b    []byte
		max  int
		kind error
		at   int
	}{
		{"nothing", nil, MaxSize, ErrTruncated, AtMagic},
		{"no magic", good[:AtMagic], MaxSize, ErrTruncated, AtMagic},
		{"no header", good[:HeaderSize-1], MaxSize, ErrTruncated, AtLength},
		{"cut in the records", good[:len(good)-1], MaxSize, ErrTruncated, AtLength},
		{"followed by a byte", append(append([]byte(nil), good...), 0), MaxSize, ErrInvalid, len(good)},
		{"two batches", append(append([]byte(nil), good...), good...), MaxSize, ErrInvalid, len(good)},
		{"magic 1", older, MaxSize, ErrMagic, AtMagic},
		{"magic 3", field(good, func(b []byte) { b[AtMagic] = 3 }), MaxSize, ErrMagic, AtMagic},
		{"length negative", field(good, put32(AtLength, -1)), MaxSize, ErrInvalid, AtLength},
		{"length most negative", field(good, put32(AtLength, math.MinInt32)), MaxSize, ErrInvalid, AtLength},
		{"length below a header", field(good, put32(AtLength, HeaderSize-LengthPrefix-1)), MaxSize, ErrInvalid, AtLength},
		{"length huge", field(good, put32(AtLength, math.MaxInt32)), MaxSize, ErrTooLarge, AtLength},
		{"over the limit", good, len(good) - 1, ErrTooLarge, AtLength},
		{"a flipped bit", broken, MaxSize, ErrCorrupt, AtCRC},
		{"a flipped attribute", func() []byte { b := append([]byte(nil), good...); b[AtAttributes] ^= 0x80; return b }(), MaxSize, ErrCorrupt, AtCRC},
		{"codec 5", field(good, put16(AtAttributes, 5)), MaxSize, ErrCodec, AtAttributes},
		{"codec 7", field(good, put16(AtAttributes, 7)), MaxSize, ErrCodec, AtAttributes},
		{"attribute bit 7", field(good, put16(AtAttributes, 0x80)), MaxSize, ErrInvalid, AtAttributes},
		{"attribute bit 15", field(good, put16(AtAttributes, math.MinInt16)), MaxSize, ErrInvalid, AtAttributes},
		{"control", field(good, put16(AtAttributes, 0x20)), MaxSize, ErrInvalid, AtAttributes},
		{"delete horizon", field(good, put16(AtAttributes, 0x40)), MaxSize, ErrInvalid, AtAttributes},
		{"append time", field(good, put16(AtAttributes, 0x08)), MaxSize, ErrInvalid, AtAttributes},
		{"no records", field(good, put32(AtCount, 0)), MaxSize, ErrInvalid, AtCount},
		{"negative count", field(good, put32(AtCount, -1)), MaxSize, ErrInvalid, AtCount},
		{"huge count", field(gzip, all(put32(AtCount, math.MaxInt32), put32(AtLastOffsetDelta, math.MaxInt32-1))), MaxSize, ErrInvalid, AtCount},
		{"more records than bytes", field(good, all(put32(AtCount, 5000), put32(AtLastOffsetDelta, 4999))), MaxSize, ErrInvalid, AtCount},
		{"last offset delta too small", field(good, put32(AtLastOffsetDelta, n-2)), MaxSize, ErrInvalid, AtLastOffsetDelta},
		{"last offset delta too large", field(good, put32(AtLastOffsetDelta, n)), MaxSize, ErrInvalid, AtLastOffsetDelta},
		{"last offset delta negative", field(good, put32(AtLastOffsetDelta, -1)), MaxSize, ErrInvalid, AtLastOffsetDelta},
		{"producer without sequence", field(good, all(put64(AtProducerID, 7), put16(AtProducerEpoch, 0))), MaxSize, ErrInvalid, AtBaseSequence},
		{"producer without epoch", field(good, all(put64(AtProducerID, 7), put32(AtBaseSequence, 0))), MaxSize, ErrInvalid, AtProducerEpoch},
		{"producer id below -1", field(good, put64(AtProducerID, -2)), MaxSize, ErrInvalid, AtProducerID},
		{"transaction without producer", field(good, put16(AtAttributes, 0x10)), MaxSize, ErrInvalid, AtProducerID},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, err := Check(tc.b, tc.max)
			var e *Error
			if !errors.Is(err, tc.kind) || !errors.As(err, &e) {
				t.Fatalf("error %v, want %v", err, tc.kind)
			}
			if e.At != tc.at {
				t.Errorf("error at byte %d, want %d: %v", e.At, tc.at, err)
			}
			if h != (Header{}) {
				t.Errorf("a header came with the error: %+v", h)
			}
			if msg := err.Error(); !strings.HasPrefix(msg, "batch: ") || !strings.Contains(msg, tc.kind.Error()) {
				t.Errorf("message %q", msg)
			}
		})
	}
}

func TestCheckSeesEveryFlippedBitThatTheCRCOrTheShapeCovers(t *testing.T) {
	good := build(t, goldenRecords()[:3], CodecNone)
	for i := range good {
		for bit := range 8 {
			b := append([]byte(nil), good...)
			b[i] ^= 1 << bit
			_, err := Check(b, MaxSize)
			// The broker overwrites base offset and leader epoch.
			free := i < AtLength || (i >= AtLeaderEpoch && i < AtMagic)
			if (err == nil) != free {
				t.Fatalf("byte %d bit %d: error %v", i, bit, err)
			}
		}
	}
}

func TestCheckTakesAProducersIdentityWithSequenceWrap(t *testing.T) {
	b := NewBuilder(nil, MaxSize)
	b.SetProducer(42, 3, math.MaxInt32)
	b.SetTransactional()
	rs := goldenRecords()[:3]
	for i := range rs {
		if err := b.Append(&rs[i]); err != nil {
			t.Fatal(err)
		}
	}
	h, err := Check(b.Finish(CodecNone), MaxSize)
	if err != nil {
		t.Fatal(err)
	}
	if h.ProducerID != 42 || h.ProducerEpoch != 3 || h.BaseSequence != math.MaxInt32 || !h.Attributes.Transactional() {
		t.Errorf("header %+v", h)
	}
	if got := h.LastSequence(); got != 1 {
		t.Errorf("last sequence %d, want 1: 2^31-1, 0, 1", got)
	}
}

func TestCheckStoredTakesWhatABrokerMakesOfABatch(t *testing.T) {
	good := build(t, goldenRecords(), CodecNone)
	n := int32(len(goldenRecords()))
	for name, b := range map[string][]byte{
		"compacted":       field(good, put32(AtLastOffsetDelta, n+10)),
		"control":         field(good, put16(AtAttributes, 0x30)),
		"append time":     field(good, put16(AtAttributes, 0x08)),
		"delete horizon":  field(good, put16(AtAttributes, 0x40)),
		"producer state":  rawBatch(Header{LastOffsetDelta: 9, ProducerID: 1, BaseSequence: 4}, nil),
		"greatest offset": field(good, put64(AtBaseOffset, maxOffset-int64(n)+1)),
	} {
		if _, err := CheckStored(b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, b := range map[string][]byte{
		"more records than offsets":   field(good, put32(AtLastOffsetDelta, n-2)),
		"negative last offset delta":  field(good, put32(AtLastOffsetDelta, -1)),
		"huge last offset delta":      field(good, put32(AtLastOffsetDelta, math.MaxInt32)),
		"negative base offset":        field(good, put64(AtBaseOffset, -1)),
		"offsets overflow":            field(good, put64(AtBaseOffset, maxOffset-int64(n)+2)),
		"bytes but no records":        field(good, put32(AtCount, 0)),
		"attribute without a meaning": field(good, put16(AtAttributes, 0x100)),
	} {
		if _, err := CheckStored(b); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: error %v, want %v", name, err, ErrInvalid)
		}
	}
}

func TestStampChangesOffsetAndEpochOnly(t *testing.T) {
	b := build(t, goldenRecords(), CodecNone)
	before := append([]byte(nil), b...)
	Stamp(b, 1<<40+5, 77)
	h, err := Check(b, MaxSize)
	if err != nil {
		t.Fatal(err)
	}
	if h.BaseOffset != 1<<40+5 || h.LeaderEpoch != 77 {
		t.Errorf("base offset %d, leader epoch %d", h.BaseOffset, h.LeaderEpoch)
	}
	for i := range b {
		stamped := i < AtLength || (i >= AtLeaderEpoch && i < AtMagic)
		if b[i] != before[i] && !stamped {
			t.Errorf("byte %d changed", i)
		}
	}
	r := decode(t, b)
	sameRecords(t, r, goldenRecords())
}

func TestStampAppendTimeKeepsTheBatchValid(t *testing.T) {
	for _, c := range allCodecs {
		b := build(t, goldenRecords(), c)
		base, _ := Check(b, MaxSize)
		StampAppendTime(b, 1_800_000_000_123)
		h, err := CheckStored(b)
		if err != nil {
			t.Fatalf("%v: %v", c, err)
		}
		if h.Attributes.TimestampType() != LogAppendTime || h.MaxTimestamp != 1_800_000_000_123 ||
			h.Attributes.Codec() != c || h.BaseTimestamp != base.BaseTimestamp {
			t.Errorf("%v: header %+v", c, h)
		}
		for i, r := range decode(t, b) {
			if r.Timestamp != 1_800_000_000_123 {
				t.Errorf("%v: record %d has timestamp %d", c, i, r.Timestamp)
			}
		}
	}
}

func TestHeaderSurvivesPutAndParse(t *testing.T) {
	want := Header{
		BaseOffset: -1, Length: 49, LeaderEpoch: -2, Magic: Magic, CRC: 0xfedcba98, Attributes: 0x8055,
		LastOffsetDelta: -3, BaseTimestamp: -4, MaxTimestamp: 1<<63 - 1, ProducerID: -1 << 63,
		ProducerEpoch: -5, BaseSequence: -6, Count: -7,
	}
	b := make([]byte, HeaderSize)
	want.Put(b)
	got, err := ParseHeader(b)
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if _, err := ParseHeader(b[:HeaderSize-1]); !errors.Is(err, ErrTruncated) {
		t.Errorf("a byte less: %v", err)
	}
}

func TestSplitWalksARunOfBatches(t *testing.T) {
	one, two := build(t, goldenRecords()[:1], CodecNone), build(t, goldenRecords(), CodecZstd)
	run := append(append([]byte(nil), one...), two...)
	first, rest, err := Split(run)
	if err != nil || string(first) != string(one) || cap(first) != len(one) {
		t.Fatalf("first batch: %d bytes, capacity %d, error %v", len(first), cap(first), err)
	}
	second, rest, err := Split(rest)
	if err != nil || string(second) != string(two) || len(rest) != 0 {
		t.Fatalf("second batch: %d bytes, %d left, error %v", len(second), len(rest), err)
	}
	if _, rest, err = Split(run[:len(one)-1]); !errors.Is(err, ErrTruncated) || len(rest) != len(one)-1 {
		t.Errorf("a batch cut short: %d bytes left, error %v", len(rest), err)
	}
}
