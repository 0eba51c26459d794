package kafka_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mqd-broker/mqd/batch"
)

// The catalogue of cases, by their names. K7 is in malformed_test.go.

// timed makes a batch of records at these times.
func timed(codec batch.Codec, times ...int64) []byte {
	b := batch.NewBuilder(nil, batch.MaxSize)
	for _, at := range times {
		if err := b.Append(&batch.Record{Timestamp: at, Value: []byte(fmt.Sprint("at ", at))}); err != nil {
			panic(err)
		}
	}
	return b.Finish(codec)
}

// lookups are the offsets and times of partition 0 of events for each of some times.
func (c *client) lookups(version int16, times ...int64) (all [][2]int64) {
	c.r.t.Helper()
	for _, at := range times {
		l := c.offsetAt(version, at, -1)
		if l.ErrorCode != 0 {
			c.r.t.Errorf("version %d, time %d: code %d", version, at, l.ErrorCode)
		}
		all = append(all, [2]int64{l.Offset, l.Timestamp})
	}
	return all
}

func TestK1OffsetsByTimeOverBatches(t *testing.T) {
	r := newRig(t, rigOptions{seed: 90, shards: 2})
	r.create("events", 1)
	c := r.dial()
	none := [2]int64{-1, -1}
	for v := int16(1); v <= 7; v++ {
		if got := c.lookups(v, 0, 5); got[0] != none || got[1] != none {
			t.Errorf("version %d, an empty topic: %v", v, got)
		}
	}
	for _, at := range []int64{2, 4, 6, 8} {
		c.produced(9, c.ask(9, produceOf("events", 1, timed(0, at))))
	}
	want := [][2]int64{{0, 2}, {0, 2}, {1, 4}, {1, 4}, {2, 6}, {2, 6}, {3, 8}, {3, 8}, none}
	for v := int16(1); v <= 7; v++ {
		if got := c.lookups(v, 1, 2, 3, 4, 5, 6, 7, 8, 9); !slices.Equal(got, want) {
			t.Errorf("version %d: %v, expected %v", v, got, want)
		}
	}
	if got := c.lookups(7, -3); got[0] != [2]int64{3, 8} {
		t.Errorf("the newest: %v", got)
	}
	c.deleteTo(-1)
	for v := int16(1); v <= 7; v++ {
		if got := c.lookups(v, 1, 8); got[0] != none || got[1] != none {
			t.Errorf("version %d, when all is gone: %v", v, got)
		}
	}
	if got := c.lookups(7, -3, -2, -1); got[0] != none || got[1] != [2]int64{4, -1} || got[2] != [2]int64{4, -1} {
		t.Errorf("the newest and the ends, when all is gone: %v", got)
	}
	r.home()
}

// deleteTo deletes the records of partition 0 of events below an offset.
func (c *client) deleteTo(offset int64) {
	c.r.t.Helper()
	q := kmsg.NewPtrDeleteRecordsRequest()
	q.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: "events", Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: offset}}}}
	var a kmsg.DeleteRecordsResponse
	if c.take(2, c.ask(2, q), &a); a.Topics[0].Partitions[0].ErrorCode != 0 {
		c.r.t.Fatalf("delete to %d: %+v", offset, a)
	}
}

func TestK2OffsetsByTimeInABatchOfEachCodec(t *testing.T) {
	r := newRig(t, rigOptions{seed: 91})
	r.create("events", 1)
	c := r.dial()
	for i, codec := range []batch.Codec{batch.CodecNone, batch.CodecGzip, batch.CodecSnappy, batch.CodecLz4, batch.CodecZstd} {
		c.produced(9, c.ask(9, produceOf("events", 1, timed(codec, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12))))
		base := int64(12 * i)
		if got := c.lookups(6, 5); got[0] != [2]int64{base + 4, 5} {
			t.Errorf("%v: %v", codec, got)
		}
		if got := c.lookups(7, -3); got[0] != [2]int64{base + 11, 12} {
			t.Errorf("%v, the newest: %v", codec, got)
		}
		c.deleteTo(-1)
	}
	r.home()
}

// bomb is a batch of one record whose body is something else.
func bomb(codec batch.Codec, body []byte) []byte {
	b := records(batch.CodecNone, "x")[:batch.HeaderSize]
	b = append(b, body...)
	binary.BigEndian.PutUint32(b[batch.AtLength:], uint32(len(b)-12))
	binary.BigEndian.PutUint16(b[batch.AtAttributes:], uint16(codec))
	binary.BigEndian.PutUint32(b[batch.AtCRC:], checksum(b))
	return b
}

// A batch that expands to more than anything may is stored and sent as it is; where it would
// have to be expanded there is an error, and the connection stays.
func TestK3ABombIsNotExpanded(t *testing.T) {
	zeros := make([]byte, 80<<20)
	long := append([]byte{0xfe, 0xff, 0xff, 0xff, 0x0f}, "a record that says it has 2^31-1 bytes"...)
	for name, b := range map[string][]byte{
		"gzip":   bomb(batch.CodecGzip, batch.Compress(nil, batch.CodecGzip, zeros)),
		"zstd":   bomb(batch.CodecZstd, batch.Compress(nil, batch.CodecZstd, zeros)),
		"length": bomb(batch.CodecNone, long),
	} {
		r := newRig(t, rigOptions{seed: 92})
		r.create("events", 1)
		c := r.dial()
		if p := c.produced(9, c.ask(9, produceOf("events", 1, b)))[0]; p.ErrorCode != 0 {
			t.Fatalf("%s: %d bytes are refused: %+v", name, len(b), p)
		}
		for _, at := range []int64{0, 1000} {
			if l := c.offsetAt(6, at, -1); l.ErrorCode != 2 || l.Offset != -1 {
				t.Errorf("%s: a look-up by time: %+v", name, l)
			}
		}
		f := c.fetched(12, c.ask(12, fetchOf("events", 0)))[0]
		if f.ErrorCode != 0 || len(f.RecordBatches) != len(b) || !bytes.Equal(f.RecordBatches[batch.AtAttributes:], b[batch.AtAttributes:]) {
			t.Errorf("%s: fetched %d bytes, code %d", name, len(f.RecordBatches), f.ErrorCode)
		}
		if got := c.lookups(6, -2, -1); got[0][0] != 0 || got[1][0] != 1 {
			t.Errorf("%s: %v", name, got)
		}
		r.alive()
		r.home()
	}
}

func TestK4TheLargestMessageIsTheTopics(t *testing.T) {
	const limit = 32768
	r := newRig(t, rigOptions{seed: 93})
	c := r.dial()
	if a := c.createTopics(7, false, newTopic("events", 1, 1, fmt.Sprint("max.message.bytes=", limit))); a[0].ErrorCode != 0 {
		t.Fatalf("%+v", a)
	}
	sized := func(n int) []byte { // a batch of n bytes
		for v := n - 200; ; v++ {
			if b := records(0, strings.Repeat("v", v)); len(b) == n {
				return b
			}
		}
	}
	many := make([]string, 100)
	for i := range many {
		many[i] = strings.Repeat("m", 1024)
	}
	end := int64(0)
	for _, x := range []struct {
		b  []byte
		ok bool
	}{
		{records(0, many...), false}, {sized(40_000), false}, {sized(limit + 1), false}, {sized(limit), true},
		{records(batch.CodecGzip, many...), true}, // what counts is what is sent
	} {
		p := c.produced(9, c.ask(9, produceOf("events", 1, x.b)))[0]
		switch {
		case x.ok && (p.ErrorCode != 0 || p.BaseOffset != end):
			t.Errorf("%d bytes: %+v", len(x.b), p)
		case x.ok:
			end += int64(must(batch.ParseHeader(x.b)).Count)
		case p.ErrorCode != 10 || p.ErrorMessage == nil || !strings.Contains(*p.ErrorMessage, fmt.Sprint(limit)) || !strings.Contains(*p.ErrorMessage, fmt.Sprint(len(x.b))):
			t.Errorf("%d bytes: code %d, %v", len(x.b), p.ErrorCode, text(p.ErrorMessage))
		}
		if got := c.lookups(6, -1); got[0][0] != end {
			t.Errorf("after %d bytes the log ends at %d, expected %d", len(x.b), got[0][0], end)
		}
	}
	r.home()
}

func text(s *string) string {
	if s == nil {
		return "no message"
	}
	return *s
}

// An idempotent producer has five batches in flight, hears of none or some of them, and the
// broker is killed: it sends again what it has not heard of, and each record is there once,
// in order, where the first answer has said or would have.
func TestK5ARetryAfterAKillIsWrittenOnce(t *testing.T) {
	r := newRig(t, rigOptions{seed: 94, shards: 2})
	r.create("events", 1)
	rng := rand.New(rand.NewPCG(94, 0))
	const id, rounds, window = 7001, 100, 5
	var want []string
	next, sequence := int64(0), int32(0)
	for round := range rounds {
		var batches [][]byte
		for k := range window {
			var vs []string
			for n := range 1 + rng.IntN(3) {
				vs = append(vs, fmt.Sprint(round, ".", k, ".", n))
			}
			batches = append(batches, idempotent(records(0, vs...), id, 0, sequence))
			sequence += int32(len(vs))
			want = append(want, vs...)
		}
		c := r.dial()
		for i, b := range batches {
			c.write(frame(9, int32(i+1), produceOf("events", -1, b)))
		}
		heard := rng.IntN(window + 1)
		r.until("some answers", func() bool { return len(c.frames) >= heard })
		for range rng.IntN(30) {
			r.turn()
		}
		c.close()
		r.restart()
		c = r.dial()
		for i, b := range batches {
			p := c.produced(9, c.ask(9, produceOf("events", -1, b)))[0]
			if p.ErrorCode != 0 || p.BaseOffset != next {
				t.Fatalf("round %d, batch %d, of which %d were answered: %+v, expected offset %d", round, i, heard, p, next)
			}
			next += int64(must(batch.ParseHeader(b)).Count)
		}
		c.close()
	}
	c := r.dial()
	var got []string
	for len(got) < len(want) {
		f := c.fetched(12, c.ask(12, fetchOf("events", int64(len(got)))))[0]
		if f.ErrorCode != 0 || len(f.RecordBatches) == 0 {
			t.Fatalf("at offset %d: %+v", len(got), f)
		}
		got = append(got, values(t, f.RecordBatches)...)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d records, expected %d, each once and in order", len(got), len(want))
	}
	r.home()
}

func TestK6AForgottenProducerGoesOn(t *testing.T) {
	r := newRig(t, rigOptions{seed: 95, expiry: 3 * time.Second})
	r.create("events", 1)
	c := r.dial()
	for sequence := int32(0); sequence < 6; sequence++ {
		if sequence%2 == 0 && sequence > 0 {
			r.advance(5 * time.Second)
		}
		b := idempotent(records(0, fmt.Sprint(sequence)), 77, 0, sequence)
		if p := c.produced(9, c.ask(9, produceOf("events", -1, b)))[0]; p.ErrorCode != 0 || p.BaseOffset != int64(sequence) {
			t.Fatalf("sequence %d: %+v", sequence, p)
		}
	}
	r.advance(5 * time.Second)
	if p := c.produced(9, c.ask(9, produceOf("events", -1, idempotent(records(0, "far"), 77, 0, 500))))[0]; p.ErrorCode != 0 || p.BaseOffset != 6 {
		t.Errorf("a sequence that does not follow, of a producer that nobody remembers: %+v", p)
	}
	r.home()
}

func TestK8AFullPartitionIsAnsweredAtOnce(t *testing.T) {
	r := newRig(t, rigOptions{seed: 96, journal: 16 << 20})
	r.create("events", 1)
	c := r.dial()
	v := strings.Repeat("v", 16<<10)
	for range 40 {
		c.produced(9, c.ask(9, produceOf("events", 1, records(0, v, v))))
	}
	q := fetchOf("events", 0)
	q.MinBytes, q.MaxWaitMillis, q.Topics[0].Partitions[0].PartitionMaxBytes = 1<<20, 60_000, 64<<10
	for range 3 {
		began := r.w.Now()
		f := c.fetched(12, c.ask(12, q))[0]
		if n := len(f.RecordBatches); n < 32<<10 || n > 64<<10 || r.w.Now()-began > int64(time.Second) {
			t.Errorf("%d bytes after %v", n, time.Duration(r.w.Now()-began))
		}
		q.Topics[0].Partitions[0].FetchOffset += int64(len(values(t, f.RecordBatches)))
	}
	r.home()
}
