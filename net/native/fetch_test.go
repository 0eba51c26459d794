package native_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/net/conn"
	"github.com/mqd-broker/mqd/net/native"
	"github.com/mqd-broker/mqd/net/wire"
)

func TestALongPollWaitsAndDelaysNothing(t *testing.T) {
	r := newRig(t, rigOptions{seed: 40, shards: 2})
	c := r.dial()
	id := c.create("t", 50)
	var polls []uint32
	for p := range int32(50) {
		polls = append(polls, c.beginFetch(wire.FetchRequest{Topic: id, Partition: p, MinBytes: 1, MaxWait: 20_000}))
	}
	r.settle()
	for p := range int32(50) {
		if c.answered(polls[p]) {
			t.Fatalf("poll %d was answered with nothing to fetch", p)
		}
		b := records(0, values(2, 40, int(p))...)
		a := must(wire.DecodeProduceResponse(c.wait(c.beginProduce(wire.ProduceRequest{Topic: id, Partition: p, Batch: b})).body))
		if a.Code != wire.CodeNone {
			t.Fatalf("produce: %+v", a)
		}
		f := c.fetched(polls[p])
		if got := messages(f.Batches, 0); len(got) != 2 || f.NextOffset != 2 {
			t.Fatalf("poll %d: %d messages, next %d", p, len(got), f.NextOffset)
		}
	}
	r.home()
}

func TestALongPollEndsWithItsTime(t *testing.T) {
	r := newRig(t, rigOptions{seed: 41})
	c := r.dial()
	id := c.create("t", 1)
	poll := c.beginFetch(wire.FetchRequest{Topic: id, MinBytes: 1, MaxWait: 500})
	r.advance(400 * time.Millisecond)
	if c.answered(poll) {
		t.Error("answered early")
	}
	r.advance(400 * time.Millisecond)
	if f := c.fetched(poll); f.Code != wire.CodeNone || len(f.Batches) != 0 || f.NextOffset != 0 || f.NewestAppendTime != -1 {
		t.Errorf("%+v", f)
	}
	r.home()
}

func TestALongPollWaitsForMinBytes(t *testing.T) {
	r := newRig(t, rigOptions{seed: 42})
	c := r.dial()
	id := c.create("t", 1)
	b := records(0, values(1, 400, 1)...)
	poll := c.beginFetch(wire.FetchRequest{Topic: id, MinBytes: uint32(3 * len(b)), MaxWait: 20_000})
	for i := range 3 {
		if c.answered(poll) {
			t.Fatalf("answered with %d batches there", i)
		}
		c.mustProduce(id, b)
		r.settle()
	}
	if f := c.fetched(poll); len(f.Batches) != 3*len(b) {
		t.Errorf("%d bytes, want %d", len(f.Batches), 3*len(b))
	}
	r.home()
}

func TestAWrongFetchIsAnsweredWithTheValidRange(t *testing.T) {
	r := newRig(t, rigOptions{seed: 43})
	c := r.dial()
	id := c.create("t", 1)
	for range 3 {
		c.mustProduce(id, records(0, values(2, 40, 1)...))
	}
	f := c.fetch(wire.FetchRequest{Topic: id, Offset: 7})
	if f.Code != wire.CodeOffsetOutOfRange || f.LogStart != 0 || f.Durable != 6 || f.Class != wire.ClassFlushed {
		t.Errorf("beyond the end: %+v", f)
	}
	for name, req := range map[string]wire.FetchRequest{
		"UnknownTopic":     {Topic: wire.TopicID{1}, MinBytes: 1, MaxWait: 1000},
		"UnknownPartition": {Topic: id, Partition: 5},
	} {
		f := c.fetch(req)
		if f.Code.String() != name || f.LogStart != -1 || f.Durable != -1 || f.End != -1 || f.Class != 0 {
			t.Errorf("%s: %+v", name, f)
		}
	}
	r.home()
}

func TestAHalfClosedClientGetsItsPollsAnswered(t *testing.T) {
	r := newRig(t, rigOptions{seed: 44, shards: 2})
	c := r.dial()
	id := c.create("t", 8)
	var polls []uint32
	for p := range int32(8) {
		polls = append(polls, c.beginFetch(wire.FetchRequest{Topic: id, Partition: p, MinBytes: 1, MaxWait: 60_000}))
	}
	r.settle()
	r.w.CloseWrite(c.sock)
	for _, corr := range polls {
		c.fetched(corr)
	}
	r.until("closed", c.ended)
	r.home()
}

func TestASlowReaderPinsLittleAndNobodyElseWaits(t *testing.T) {
	for name, shards := range map[string]int{"local": 1, "remote": 2} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, rigOptions{seed: 45, shards: shards, native: native.Options{MaxPinned: 256 << 10}})
			c := r.dial()
			id := c.create("t", 1)
			owner := r.node.ShardOf(broker.TopicID(id), 0)
			slowReader(t, r, c, id, r.shards[(owner+1)%shards])
		})
	}
}

// slowReader has a client on shard s ask for more than it reads.
func slowReader(t *testing.T, r *rig, c *client, id wire.TopicID, s *testShard) {
	slow := r.dialShard(int32(s.loop.ID()))
	b := records(0, values(50, 1000, 1)...)
	for range 40 {
		c.mustProduce(id, b)
	}
	slow.stopReading()
	var sent []uint32
	for range 40 {
		sent = append(sent, slow.beginFetch(wire.FetchRequest{Topic: id, MaxBytes: 100 << 10}))
	}
	r.settle()
	if n := s.tap.fetched - s.tap.released; n < 2 || n > 5 {
		t.Errorf("%d answers keep memory of the engine", n)
	}
	for range 20 {
		if f := c.fetch(wire.FetchRequest{Topic: id, Offset: 100, MaxBytes: 100 << 10}); len(f.Batches) == 0 {
			t.Fatal("another client gets nothing")
		}
		c.mustProduce(id, b)
	}
	if r.count(native.Parks) == 0 {
		t.Error("nothing was parked: the test shows nothing")
	}
	slow.startReading()
	want := c.fetch(wire.FetchRequest{Topic: id, MaxBytes: 100 << 10}).Batches
	for i, corr := range sent {
		if f := slow.fetched(corr); !bytes.Equal(f.Batches, want) {
			t.Fatalf("answer %d has %d bytes, want %d", i, len(f.Batches), len(want))
		}
	}
	r.home()
}

func TestParkedFetchesAreAllAnsweredAlsoIfTheBrokerIsBusyThen(t *testing.T) {
	r := newRig(t, rigOptions{seed: 51, native: native.Options{MaxPinned: 100 << 10}})
	s := r.shards[0]
	c := r.dial()
	id := c.create("t", 1)
	for range 10 {
		c.mustProduce(id, records(0, values(50, 1000, 1)...))
	}
	c.stopReading()
	var sent []uint32
	for range 30 {
		sent = append(sent, c.beginFetch(wire.FetchRequest{Topic: id, MaxBytes: 100 << 10}))
	}
	r.settle()
	if n := r.count(native.Parks); n < 10 {
		t.Errorf("%d answers are parked: the test shows nothing", n)
	}
	s.tap.busy = true
	c.startReading()
	busy := 0
	for _, corr := range sent {
		r.until("an answer", func() bool { s.tap.refuse(); return c.answered(corr) })
		if f := c.fetched(corr); f.Code == wire.CodeBackpressure {
			busy++
		}
	}
	if busy < 10 {
		t.Errorf("%d answers are Backpressure", busy)
	}
	r.home()
}

func TestAReaderThatSleepsIsClosedAndLeavesNothingBehind(t *testing.T) {
	r := newRig(t, rigOptions{seed: 46, native: native.Options{MaxPinned: 256 << 10}})
	c, slow := r.dial(), r.dial()
	id := c.create("t", 1)
	for range 10 {
		c.mustProduce(id, records(0, values(50, 1000, 1)...))
	}
	slow.stopReading()
	for i := range 30 {
		slow.beginFetch(wire.FetchRequest{Topic: id, MaxBytes: 100 << 10, Encoding: wire.Encoding(i % 2)})
	}
	r.advance(33 * time.Second)
	if r.closedFor(conn.ReasonSlowReader) != 1 {
		t.Error("the connection stays")
	}
	if s := r.shards[0]; s.tap.fetched != s.tap.released {
		t.Errorf("%d answers are not released", s.tap.fetched-s.tap.released)
	}
	r.home()
}

func TestAPlainFetchCarriesEachMessageWithItsOffset(t *testing.T) {
	r := newRig(t, rigOptions{seed: 47})
	c := r.dial()
	for _, codec := range []batch.Codec{batch.CodecNone, batch.CodecGzip, batch.CodecLz4, batch.CodecZstd, batch.CodecSnappy} {
		id := c.create(fmt.Sprintf("t-%d", codec), 1)
		vs := values(60, 0, 0)
		for i := range vs {
			vs[i] = bytes.Repeat([]byte(fmt.Sprintf("message %d ", i)), 40) // compressible
		}
		vs[7] = nil
		for i := 0; i < len(vs); i += 4 {
			c.mustProduce(id, records(codec, vs[i:i+4]...))
		}
		for from := range 12 {
			checkPlain(t, c, wire.FetchRequest{Topic: id, Offset: int64(from)}, vs)
		}
	}
	if n, h := r.count(native.PlainFetches), r.count(native.PlainOffloads); h == 0 || h == n {
		t.Errorf("%d of %d plain answers were converted by helpers: the test misses a way", h, n)
	}
	r.home()
}

func TestALongPlainFetchGoesOnWhereItStopped(t *testing.T) {
	r := newRig(t, rigOptions{seed: 48})
	c := r.dial()
	id := c.create("t", 1)
	vs := values(900, 700, 1)
	for i := 0; i < len(vs); i += 30 {
		c.mustProduce(id, records(0, vs[i:i+30]...))
	}
	for _, limit := range []uint32{1, 100, 1000, 40_000, 300_000, 0} {
		next, n := int64(0), 0
		for next < int64(len(vs)) {
			f := checkPlain(t, c, wire.FetchRequest{Topic: id, Offset: next, MaxBytes: limit}, vs)
			if f.NextOffset <= next {
				t.Fatalf("limit %d: next offset %d after %d", limit, f.NextOffset, next)
			}
			if n++; limit < 1000 && n > 20 {
				break
			}
			next = f.NextOffset
		}
	}
	r.home()
}

// checkPlain fetches in plain encoding and compares with what was produced.
func checkPlain(t *testing.T, c *client, req wire.FetchRequest, vs [][]byte) wire.FetchResponse {
	t.Helper()
	req.Encoding = wire.EncodingPlain
	f := c.fetch(req)
	if f.Code != wire.CodeNone || f.Encoding != wire.EncodingPlain {
		t.Fatalf("fetch at %d: %+v", req.Offset, f)
	}
	at := req.Offset
	it := batch.PlainFetched(f.Batches)
	for it.Next() {
		if it.Offset() != at || !bytes.Equal(it.Body(), vs[at]) {
			t.Fatalf("fetch at %d: message at %d, want %d, and its body", req.Offset, it.Offset(), at)
		}
		at++
	}
	if it.Err() != nil || at != f.NextOffset || at == req.Offset {
		t.Fatalf("fetch at %d: messages up to %d, next offset %d: %v", req.Offset, at, f.NextOffset, it.Err())
	}
	return f
}

func TestPlainAnswersForAPeerThatDoesNotReadAreBounded(t *testing.T) {
	r := newRig(t, rigOptions{seed: 49, chunks: 64 << 20, native: native.Options{MaxPinned: 256 << 10}})
	c, slow := r.dial(), r.dial()
	id := c.create("t", 1)
	vs := values(600, 500, 1)
	for i := 0; i < len(vs); i += 60 {
		c.mustProduce(id, records(batch.CodecZstd, vs[i:i+60]...))
	}
	slow.stopReading()
	var sent []uint32
	for range 60 {
		sent = append(sent, slow.beginFetch(wire.FetchRequest{Topic: id, Encoding: wire.EncodingPlain}))
	}
	r.settle()
	if n := r.shards[0].conns.Spilled(); n > 4<<20 {
		t.Errorf("%d bytes wait on the heap", n)
	}
	slow.startReading()
	for _, corr := range sent {
		if f := slow.fetched(corr); len(f.Batches) < 240_000 {
			t.Fatalf("an answer of %d bytes", len(f.Batches))
		}
	}
	r.home()
}

func TestListOffsetsFindsByTime(t *testing.T) {
	r := newRig(t, rigOptions{seed: 50, shards: 2})
	c := r.dial()
	id := c.create("t", 4)
	for p := range int32(4) {
		for range 3 {
			c.wait(c.beginProduce(wire.ProduceRequest{Topic: id, Partition: p, Batch: records(0, values(4, 40, 1)...)}))
		}
		for _, x := range []struct {
			time          int64
			offset, stamp int64
			code          wire.Code
			topic         wire.TopicID
		}{
			{wire.TimeStart, 0, -1, 0, id},
			{wire.TimeEnd, 12, -1, 0, id},
			{0, 0, 1000, 0, id},
			{1 << 50, 12, -1, 0, id},
			{0, -1, -1, wire.CodeUnknownTopic, wire.TopicID{9}},
		} {
			a := must(wire.DecodeListOffsetsResponse(c.wait(c.do(func(corr uint32) []byte {
				return wire.AppendListOffsetsRequest(nil, corr, wire.ListOffsetsRequest{Topic: x.topic, Partition: p, Time: x.time})
			})).body))
			if a.Code != x.code || a.Offset != x.offset || a.Timestamp != x.stamp {
				t.Errorf("partition %d, time %d: %+v", p, x.time, a)
			}
		}
	}
	r.home()
}
