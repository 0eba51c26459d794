package compat

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mqd-broker/mqd/batch"
)

func TestUncompressedBatchesAreTheSameBytes(t *testing.T) {
	for seed := range uint64(50) {
		rs := records(seed, 1+int(seed)*3)
		if got, want := ours(t, rs, batch.CodecNone), theirs(t, rs, batch.CodecNone); !bytes.Equal(got, want) {
			t.Fatalf("seed %d: %d records:\n%x\nkmsg:\n%x", seed, len(rs), got, want)
		}
	}
}

func TestKmsgReadsEveryHeaderField(t *testing.T) {
	b := batch.NewBuilder(nil, batch.MaxSize)
	b.SetProducer(1<<40+1, 300, 70_000)
	b.SetTransactional()
	rs := records(1, 9)
	for i := range rs {
		if err := b.Append(&rs[i]); err != nil {
			t.Fatal(err)
		}
	}
	raw := b.Finish(batch.CodecZstd)
	batch.Stamp(raw, 1<<50+3, 12)
	batch.StampAppendTime(raw, 1_800_000_000_000)
	h, err := batch.CheckStored(raw)
	if err != nil {
		t.Fatal(err)
	}
	var v kmsg.RecordBatch
	if err := v.ReadFrom(raw); err != nil {
		t.Fatal(err)
	}
	if again := v.AppendTo(nil); !bytes.Equal(again, raw) {
		t.Errorf("kmsg encodes what it read as\n%x\nwant\n%x", again, raw)
	}
	got := fmt.Sprint(v.FirstOffset, v.Length, v.PartitionLeaderEpoch, v.Magic, uint32(v.CRC), v.Attributes, v.LastOffsetDelta,
		v.FirstTimestamp, v.MaxTimestamp, v.ProducerID, v.ProducerEpoch, v.FirstSequence, v.NumRecords)
	want := fmt.Sprint(h.BaseOffset, h.Length, h.LeaderEpoch, h.Magic, h.CRC, uint16(h.Attributes), h.LastOffsetDelta,
		h.BaseTimestamp, h.MaxTimestamp, h.ProducerID, h.ProducerEpoch, h.BaseSequence, h.Count)
	if got != want {
		t.Errorf("kmsg reads %s\nwe read    %s", got, want)
	}
	if h.ProducerID != 1<<40+1 || h.Attributes != 0x1c {
		t.Errorf("header %+v", h)
	}
}

// fetch has kgo read the batches in b as if a broker had answered with them.
func fetch(t testing.TB, b []byte, offset int64) []batch.Record {
	t.Helper()
	rp := kmsg.NewFetchResponseTopicPartition()
	rp.RecordBatches = b
	rp.HighWatermark = 1 << 60
	fp, _ := kgo.ProcessFetchPartition(
		kgo.ProcessFetchPartitionOpts{Topic: "alerts", Offset: offset},
		&rp, kgo.DefaultDecompressor(), nil)
	if fp.Err != nil {
		t.Fatalf("kgo: %v", fp.Err)
	}
	var rs []batch.Record
	for _, r := range fp.Records {
		rs = append(rs, fromKgo(r))
	}
	return rs
}

func TestKgoReadsOurBatchesOfEveryCodec(t *testing.T) {
	for _, c := range codecs {
		var run []byte
		var want []batch.Record
		offset := int64(1000)
		for seed := range uint64(10) {
			rs := records(seed, 200)
			b := ours(t, rs, c)
			if h, err := batch.ParseHeader(b); err != nil || h.Attributes.Codec() != c {
				t.Fatalf("%v: codec %v, error %v", c, h.Attributes.Codec(), err)
			}
			batch.Stamp(b, offset, 3)
			offset += int64(len(rs))
			run = append(run, b...)
			want = append(want, rs...)
		}
		same(t, fetch(t, run, 1000), want)
		// A fetch from the middle of a batch skips the records before.
		same(t, fetch(t, run, 1150), want[150:])
	}
}

func TestWeReadKafkasBatchesOfEveryCodec(t *testing.T) {
	for _, c := range codecs {
		for seed := range uint64(10) {
			rs := records(seed, 1+int(seed)*100)
			b := theirs(t, rs, c)
			h, err := batch.Check(b, len(b))
			if err != nil {
				t.Fatalf("%v: seed %d: %v", c, seed, err)
			}
			if h.Attributes.Codec() != c || int(h.Count) != len(rs) {
				t.Fatalf("%v: seed %d: header %+v", c, seed, h)
			}
			got, err := read(b)
			if err != nil {
				t.Fatalf("%v: seed %d: %v", c, seed, err)
			}
			same(t, got, rs)
		}
	}
}

func TestConvertedPlainBatchIsKmsgsBytes(t *testing.T) {
	const now = 1_700_000_000_000
	p := batch.NewPlainBuilder(nil, batch.MaxSize)
	var rs []batch.Record
	for _, r := range records(5, 300) {
		if err := p.Append(r.Value); err != nil {
			t.Fatal(err)
		}
		rs = append(rs, batch.Record{Timestamp: now, Value: append([]byte{}, r.Value...)})
	}
	got, err := batch.PlainToBatch(nil, p.Finish(), now)
	if err != nil {
		t.Fatal(err)
	}
	if want := theirs(t, rs, batch.CodecNone); !bytes.Equal(got, want) {
		t.Errorf("got\n%x\nkmsg:\n%x", got, want)
	}
}

// FuzzRecords: records that our iterator accepts, kmsg reads the same way.
func FuzzRecords(f *testing.F) {
	b := ours(f, records(1, 5), batch.CodecNone)
	f.Add(b[batch.AtRecords:], int32(5))
	f.Add([]byte("\x16\x00\x00\x00\x02k\x02v\x02\x02h\x01"), int32(1))
	f.Add([]byte("\x18\x00\x00\x00\x80\x00k\x02v\x02\x02h\x01"), int32(1))
	f.Fuzz(func(t *testing.T, body []byte, count int32) {
		h := batch.Header{Count: count, LastOffsetDelta: 1 << 20}
		it := h.Records(body)
		rest := body
		for it.Next() {
			v := it.Record()
			length, n := binary.Varint(rest)
			if n <= 0 || int(length) > len(rest)-n {
				t.Fatalf("a record of length %d was accepted in %x", length, rest)
			}
			var k kmsg.Record
			if err := k.ReadFrom(rest[:n+int(length)]); err != nil {
				t.Fatalf("kmsg: %v: %x", err, rest[:n+int(length)])
			}
			rest = rest[n+int(length):]
			if k.TimestampDelta64 != v.Timestamp || int64(k.OffsetDelta) != v.Offset ||
				!bytes.Equal(k.Key, v.Key) || (k.Key == nil) != (v.Key == nil) ||
				!bytes.Equal(k.Value, v.Value) || (k.Value == nil) != (v.Value == nil) ||
				len(k.Headers) != v.HeaderCount() {
				t.Fatalf("we read %+v, kmsg %+v", v, k)
			}
			i := 0
			for hs := v.Headers(); hs.Next(); i++ {
				if k.Headers[i].Key != string(hs.Key()) || !bytes.Equal(k.Headers[i].Value, hs.Value()) {
					t.Fatalf("header %d: we read %q=%q, kmsg %+v", i, hs.Key(), hs.Value(), k.Headers[i])
				}
			}
		}
	})
}

// FuzzCheck: a batch that a broker of ours would append, a kgo client takes as
// one batch with a good checksum.
func FuzzCheck(f *testing.F) {
	for _, c := range codecs {
		f.Add(ours(f, records(2, 5), c))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		// Renew the CRC, or the fuzzer would never get past it.
		if len(b) >= batch.HeaderSize {
			binary.BigEndian.PutUint32(b[batch.AtCRC:], batch.Checksum(b))
		}
		h, err := batch.Check(b, batch.MaxSize)
		if err != nil {
			return
		}
		var v kmsg.RecordBatch
		if err := v.ReadFrom(b); err != nil {
			t.Fatalf("kmsg: %v", err)
		}
		if int(v.Length) != len(b)-12 || v.NumRecords != h.Count || len(v.Records) != len(b)-batch.HeaderSize ||
			uint32(v.CRC) != crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)) {
			t.Fatalf("we read %+v, kmsg %+v", h, v)
		}
	})
}
