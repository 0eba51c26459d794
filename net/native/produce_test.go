package native_test

import (
	"bytes"
	"testing"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/net/conn"
	"github.com/mqd-broker/mqd/net/native"
	"github.com/mqd-broker/mqd/net/wire"
)

func TestWhatIsProducedIsFetched(t *testing.T) {
	r := newRig(t, rigOptions{seed: 20, shards: 2})
	c := r.dial()
	for _, class := range []string{"memory", "written", "flushed"} {
		id := c.create("t-"+class, 3, wire.Config{Key: "durability", Value: class})
		want := must(wire.DecodeMetadataResponse(c.wait(c.do(func(corr uint32) []byte {
			return wire.AppendMetadataRequest(nil, corr, wire.MetadataRequest{Topics: []string{"t-" + class}})
		})).body)).Topics[0].Class
		for partition := range int32(3) {
			vs := values(20, 300, int(partition))
			for i := range 10 {
				a := must(wire.DecodeProduceResponse(c.wait(c.beginProduce(wire.ProduceRequest{
					Topic: id, Partition: partition, MinClass: want, Batch: records(0, vs[2*i:2*i+2]...),
				})).body))
				if a.Code != wire.CodeNone || a.BaseOffset != int64(2*i) || a.Class != want || a.AppendTime <= 0 {
					t.Fatalf("%s/%d batch %d: %+v", class, partition, i, a)
				}
			}
			f := c.fetch(wire.FetchRequest{Topic: id, Partition: partition, Offset: 7})
			if got := messages(f.Batches, 7); len(got) != 13 || !bytes.Equal(got[0], vs[7]) || !bytes.Equal(got[12], vs[19]) {
				t.Fatalf("%s/%d: %d messages from offset 7", class, partition, len(got))
			}
			if f.Code != wire.CodeNone || f.Class != want || f.LogStart != 0 || f.Durable != 20 || f.End != 20 || f.NextOffset != 20 {
				t.Errorf("%s/%d: %+v", class, partition, f)
			}
		}
	}
	r.home()
}

func TestAPlainBatchIsProducedAsARecordBatch(t *testing.T) {
	r := newRig(t, rigOptions{seed: 21})
	c := r.dial()
	id := c.create("t", 1)
	vs := values(5, 100, 1)
	a := must(wire.DecodeProduceResponse(c.wait(c.beginProduce(wire.ProduceRequest{
		Topic: id, Encoding: wire.EncodingPlain, Batch: plainBatch(vs...),
	})).body))
	if a.Code != wire.CodeNone || a.BaseOffset != 0 {
		t.Fatalf("produce: %+v", a)
	}
	got := messages(c.fetch(wire.FetchRequest{Topic: id}).Batches, 0)
	for i := range vs {
		if !bytes.Equal(got[i], vs[i]) {
			t.Fatalf("message %d differs", i)
		}
	}
	r.home()
}

func TestALargeBatchIsTakenUpToTheLimit(t *testing.T) {
	r := newRig(t, rigOptions{seed: 31})
	c := r.dial()
	id := c.create("t", 1)
	for i, size := range []int{60_000, 65_500, 70_000, 200_000, rigBatch - 100} {
		v := values(1, size, i)
		if base := c.mustProduce(id, records(0, v...)); base != int64(i) {
			t.Errorf("%d bytes: offset %d", size, base)
		}
		if got := messages(c.fetch(wire.FetchRequest{Topic: id, Offset: int64(i)}).Batches, int64(i)); len(got) != 1 || !bytes.Equal(got[0], v[0]) {
			t.Errorf("%d bytes: come back differently", size)
		}
	}
	r.home()
}

func TestAWrongBatchIsAnsweredAndTheConnectionStays(t *testing.T) {
	r := newRig(t, rigOptions{seed: 22})
	c := r.dial()
	id := c.create("t", 1, wire.Config{Key: "max.message.bytes", Value: "2048"}, wire.Config{Key: "durability", Value: "written"})
	good := records(0, values(1, 100, 1)...)
	broken := append([]byte(nil), good...)
	broken[len(broken)-1] ^= 1
	short := good[:40]
	for name, x := range map[string]struct {
		req       wire.ProduceRequest
		code      wire.Code
		low, high int64
	}{
		"checksum":     {wire.ProduceRequest{Topic: id, Batch: broken}, wire.CodeCorruptBatch, -1, -1},
		"structure":    {wire.ProduceRequest{Topic: id, Batch: short}, wire.CodeInvalidBatch, -1, -1},
		"empty":        {wire.ProduceRequest{Topic: id}, wire.CodeInvalidBatch, -1, -1},
		"plain":        {wire.ProduceRequest{Topic: id, Encoding: wire.EncodingPlain, Batch: good}, wire.CodeInvalidBatch, -1, -1},
		"size":         {wire.ProduceRequest{Topic: id, Batch: records(0, values(1, 3000, 1)...)}, wire.CodeBatchTooLarge, 0, 2048},
		"class":        {wire.ProduceRequest{Topic: id, MinClass: wire.ClassFlushed, Batch: good}, wire.CodeClassTooWeak, -1, -1},
		"no topic":     {wire.ProduceRequest{Topic: wire.TopicID{1}, Batch: good}, wire.CodeUnknownTopic, -1, -1},
		"no partition": {wire.ProduceRequest{Topic: id, Partition: 1, Batch: good}, wire.CodeUnknownPartition, -1, -1},
	} {
		a := must(wire.DecodeProduceResponse(c.wait(c.beginProduce(x.req)).body))
		if a.Code != x.code || a.BaseOffset != -1 || a.AppendTime != -1 || a.Class != 0 || a.ValidLow != x.low || a.ValidHigh != x.high || a.Message == "" {
			t.Errorf("%s: %+v, want %v", name, a, x.code)
		}
	}
	if base := c.mustProduce(id, good); base != 0 {
		t.Errorf("something was written: the first good batch has offset %d", base)
	}
	r.home()
}

func TestAProducerThatWantsNoAckGetsNone(t *testing.T) {
	r := newRig(t, rigOptions{seed: 23})
	c := r.dial()
	id := c.create("t", 1)
	good := records(0, values(1, 100, 1)...)
	quiet := func(b []byte) wire.ProduceRequest {
		return wire.ProduceRequest{Topic: id, Ack: wire.AckNone, Batch: b}
	}
	c.beginProduce(quiet(good))
	c.beginProduce(quiet(good[:50]))
	c.beginProduce(quiet(good))
	r.settle()
	if n := len(c.answers); n != 2 { // hello and create
		t.Errorf("%d answers", n)
	}
	if base := c.mustProduce(id, good); base != 2 {
		t.Errorf("the next batch has offset %d, want 2", base)
	}
	r.home()
}

func TestRequestsOfAConnectionKeepTheirOrder(t *testing.T) {
	r := newRig(t, rigOptions{seed: 24, shards: 2})
	for n := range 4 {
		c := r.dial()
		id := c.create(string(rune('a'+n)), 1)
		var sent []uint32
		for i := range 300 {
			sent = append(sent, c.beginProduce(wire.ProduceRequest{Topic: id, Batch: records(0, values(1, 10+i*7%2000, i)...)}))
		}
		for i, corr := range sent {
			if a := must(wire.DecodeProduceResponse(c.wait(corr).body)); a.BaseOffset != int64(i) {
				t.Fatalf("batch %d has offset %d", i, a.BaseOffset)
			}
		}
	}
	r.home()
}

func TestRequestsInFlightAreBoundedForEachConnection(t *testing.T) {
	for name, o := range map[string]native.Options{
		"requests": {MaxInFlightRequests: 20},
		"bytes":    {MaxInFlightBytes: 20 * 500},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, rigOptions{seed: 25, native: o})
			c, other := r.dial(), r.dial()
			id := c.create("t", 1)
			s := r.shards[0]
			s.tap.hold = true
			var sent []uint32
			for i := range 200 {
				sent = append(sent, c.beginProduce(wire.ProduceRequest{Topic: id, Batch: records(0, values(1, 400, i)...)}))
			}
			r.settle()
			if n := len(s.tap.produces); n < 15 || n > 25 {
				t.Errorf("%d requests in flight", n)
			}
			other.wait(other.do(func(corr uint32) []byte { return wire.AppendPingRequest(nil, corr) }))
			s.tap.let()
			for i, corr := range sent {
				if a := must(wire.DecodeProduceResponse(c.wait(corr).body)); a.BaseOffset != int64(i) {
					t.Fatalf("batch %d has offset %d", i, a.BaseOffset)
				}
			}
			if r.count(native.Pauses) == 0 {
				t.Error("no pause was counted")
			}
			r.home()
		})
	}
}

func TestRequestsInFlightAreBoundedForTheShard(t *testing.T) {
	r := newRig(t, rigOptions{seed: 26, native: native.Options{MaxRequests: 10}})
	s := r.shards[0]
	first := r.dial()
	id := first.create("t", 1)
	var all []*client
	for range 8 {
		all = append(all, r.dial())
	}
	s.tap.hold = true
	sent := map[*client][]uint32{}
	for i := range 20 {
		for _, c := range all {
			sent[c] = append(sent[c], c.beginProduce(wire.ProduceRequest{Topic: id, Batch: records(0, values(1, 50, i)...)}))
			c.do(func(corr uint32) []byte { return wire.AppendPingRequest(nil, corr) })
		}
	}
	r.settle()
	if n := len(s.tap.produces); n != 10 {
		t.Errorf("%d requests in flight, want 10", n)
	}
	all[0].close() // one that has or waits for its place
	r.settle()
	s.tap.let()
	for _, c := range all[1:] {
		for _, corr := range sent[c] {
			if a := must(wire.DecodeProduceResponse(c.wait(corr).body)); a.Code != wire.CodeNone {
				t.Fatalf("%+v", a)
			}
		}
	}
	if r.count(native.ShardWaits) == 0 {
		t.Error("no wait was counted")
	}
	r.home()
}

func TestConnectionsThatWaitForTheShardAllGetTheirTurn(t *testing.T) {
	r := newRig(t, rigOptions{seed: 29, native: native.Options{MaxRequests: 1}})
	s := r.shards[0]
	c := r.dial()
	id := c.create("t", 1)
	var others []*client
	for range 5 {
		others = append(others, r.dial())
	}
	s.tap.hold = true
	c.beginProduce(wire.ProduceRequest{Topic: id, Batch: records(0, values(1, 50, 1)...)})
	r.settle()
	var pings []uint32
	for _, x := range others { // requests that end at once, and wake nobody by that
		pings = append(pings, x.do(func(corr uint32) []byte { return wire.AppendPingRequest(nil, corr) }))
	}
	r.settle()
	if others[0].answered(pings[0]) {
		t.Error("a request was taken above the bound")
	}
	s.tap.let()
	for i, x := range others {
		x.wait(pings[i])
	}
	r.home()
}

func TestConnectionsThatWaitForTheShardCanEnd(t *testing.T) {
	r := newRig(t, rigOptions{seed: 30, native: native.Options{MaxRequests: 1}})
	s := r.shards[0]
	id := r.dial().create("t", 1)
	s.tap.hold = true
	for range 6 {
		c := r.dial()
		for range 3 {
			c.beginProduce(wire.ProduceRequest{Topic: id, Batch: records(0, values(1, 50, 1)...)})
		}
	}
	r.settle()
	s.conns.Abort()
	r.settle()
	s.tap.let()
	r.until("stopped", s.conns.Stopped)
	r.home()
}

func TestAConnectionThatEndsWithBatchesInFlightLeaksNothing(t *testing.T) {
	for seed := range uint64(20) {
		r := newRig(t, rigOptions{seed: 100 + seed, shards: 2})
		c := r.dial()
		id := c.create("t", 8)
		for _, s := range r.shards {
			s.tap.hold = seed%2 == 0
		}
		for i := range 60 {
			c.beginProduce(wire.ProduceRequest{Topic: id, Partition: int32(i % 8), Batch: records(0, values(3, i*30, i)...)})
			c.beginFetch(wire.FetchRequest{Topic: id, Partition: int32(i % 8), MinBytes: 1 << 20, MaxWait: 20_000})
		}
		for range seed * 5 {
			r.turn()
			r.w.Step()
		}
		if seed%3 == 0 {
			r.w.CloseWrite(c.sock)
		} else {
			r.w.Reset(c.sock)
		}
		r.settle()
		for _, s := range r.shards {
			s.tap.let()
		}
		r.home()
	}
}

func TestAStoppingBrokerAnswersWhatIsInFlight(t *testing.T) {
	r := newRig(t, rigOptions{seed: 27})
	s := r.shards[0]
	c := r.dial()
	id := c.create("t", 1)
	s.tap.hold = true
	p := c.beginProduce(wire.ProduceRequest{Topic: id, Batch: records(0, values(1, 10, 1)...)})
	poll := c.beginFetch(wire.FetchRequest{Topic: id, MinBytes: 1, MaxWait: 30_000})
	r.settle()
	s.conns.Stop()
	r.settle()
	if !c.answered(poll) || c.ended() {
		t.Errorf("the long poll is answered: %v; ended: %v", c.answered(poll), c.ended())
	}
	s.tap.let()
	if a := must(wire.DecodeProduceResponse(c.wait(p).body)); a.Code != wire.CodeNone {
		t.Errorf("the batch in flight: %+v", a)
	}
	r.until("stopped", s.conns.Stopped)
	if r.closedFor(conn.ReasonShutdown) != 1 {
		t.Error("not counted as the end that it was")
	}
	r.home()
}

func TestARefusedProduceSaysWhy(t *testing.T) {
	r := newRig(t, rigOptions{seed: 28})
	c := r.dial()
	id := c.create("t", 1)
	r.node.Quiesce()
	if a := c.produce(id, records(0, values(1, 10, 1)...)); a.Code != wire.CodeShuttingDown || a.Message != broker.ShuttingDown.Help() {
		t.Errorf("%+v", a)
	}
	r.home()
}

// idempotent is a batch of one message of a producer.
func idempotent(id int64, epoch int16, seq int32, value []byte) []byte {
	b := batch.NewBuilder(nil, 1<<16)
	b.SetProducer(id, epoch, seq)
	if err := b.Append(&batch.Record{Value: value}); err != nil {
		panic(err)
	}
	return b.Finish(batch.CodecNone)
}

func TestABatchThatIsSentTwiceIsWrittenOnce(t *testing.T) {
	r := newRig(t, rigOptions{seed: 41, shards: 2})
	c, d := r.dial(), r.dialShard(1)
	id := c.create("t", 1)
	producer := func(c *client) wire.ProducerInitResponse {
		return must(wire.DecodeProducerInitResponse(c.wait(c.do(func(corr uint32) []byte { return wire.AppendProducerInitRequest(nil, corr) })).body))
	}
	p, q := producer(c), producer(d)
	if p.Code != wire.CodeNone || q.Code != wire.CodeNone || p.Producer == q.Producer || p.Epoch != 0 {
		t.Fatalf("%+v, %+v", p, q)
	}
	for seq := range int32(7) {
		for _, from := range []*client{c, d, c} { // in flight twice, and again later
			if a := from.produce(id, idempotent(p.Producer, p.Epoch, seq, []byte("of p"))); a.Code != wire.CodeNone || a.BaseOffset != int64(seq) || a.Class != wire.ClassFlushed {
				t.Fatalf("sequence %d: %+v", seq, a)
			}
		}
	}
	for _, refused := range []struct {
		epoch int16
		seq   int32
		code  wire.Code
	}{{0, 8, wire.CodeOutOfOrderSequence}, {0, 1, wire.CodeDuplicateSequence}, {1, 3, wire.CodeOutOfOrderSequence}} {
		if a := c.produce(id, idempotent(p.Producer, refused.epoch, refused.seq, []byte("no"))); a.Code != refused.code || a.BaseOffset != -1 {
			t.Errorf("epoch %d, sequence %d: %+v", refused.epoch, refused.seq, a)
		}
	}
	if a := d.produce(id, idempotent(p.Producer, 1, 0, []byte("of the next epoch"))); a.Code != wire.CodeNone || a.BaseOffset != 7 {
		t.Fatalf("the next epoch: %+v", a)
	}
	if a := c.produce(id, idempotent(p.Producer, 0, 7, []byte("fenced"))); a.Code != wire.CodeFencedProducer {
		t.Fatalf("the epoch before: %+v", a)
	}
	if f := c.fetch(wire.FetchRequest{Topic: id}); f.Durable != 8 {
		t.Fatalf("%d messages, want 8", f.Durable)
	}
	r.home()
}
