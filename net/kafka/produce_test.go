package kafka_test

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mqd-broker/mqd/batch"
)

// records makes a record batch of messages.
func records(codec batch.Codec, values ...string) []byte {
	b := batch.NewBuilder(nil, batch.MaxSize)
	for i, v := range values {
		if err := b.Append(&batch.Record{Timestamp: int64(1000 + i), Value: []byte(v)}); err != nil {
			panic(err)
		}
	}
	return b.Finish(codec)
}

// produceOf is a request for partitions of a topic, in order, with a batch for each.
func produceOf(topic string, acks int16, batches ...[]byte) *kmsg.ProduceRequest {
	q := kmsg.NewPtrProduceRequest()
	q.Acks, q.TimeoutMillis = acks, 1000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	for i, b := range batches {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = int32(i), b
		t.Partitions = append(t.Partitions, p)
	}
	q.Topics = append(q.Topics, t)
	return q
}

// produced takes an answer to a produce and checks its only topic's partitions.
func (c *client) produced(version int16, corr int32) []kmsg.ProduceResponseTopicPartition {
	c.r.t.Helper()
	var a kmsg.ProduceResponse
	c.take(version, corr, &a)
	if len(a.Topics) != 1 {
		c.r.t.Fatalf("an answer about %d topics", len(a.Topics))
	}
	return a.Topics[0].Partitions
}

func TestEveryVersionOfProduceIsAnswered(t *testing.T) {
	r := newRig(t, rigOptions{seed: 1, shards: 2})
	r.create("events", 3)
	c := r.dial()
	for v := int16(3); v <= 9; v++ {
		parts := c.produced(v, c.ask(v, produceOf("events", -1, records(0, "a", "b"), records(0, "c"), records(0, "d"))))
		for i, p := range parts {
			want := int64(v-3) * 1
			if i == 0 {
				want *= 2
			}
			if p.ErrorCode != 0 || p.BaseOffset != want || p.Partition != int32(i) || p.LogAppendTime != -1 {
				t.Errorf("version %d, partition %d: %+v, expected offset %d", v, i, p, want)
			}
		}
	}
	for v := int16(0); v < 3; v++ {
		for _, p := range c.produced(v, c.ask(v, produceOf("events", 1, records(0, "x")))) {
			if p.ErrorCode != 35 {
				t.Errorf("version %d: code %d", v, p.ErrorCode)
			}
		}
	}
	r.home()
}

func TestEveryBatchOfARequestCarriesItsArrival(t *testing.T) {
	r := newRig(t, rigOptions{seed: 3})
	r.create("events", 2)
	c, tap := r.dial(), r.shards[0].tap
	tap.hold = true
	began := r.w.Now()
	corr := c.ask(9, produceOf("events", 1, records(0, "a"), records(0, "b")))
	r.until("both batches", func() bool { return len(tap.produces) == 2 })
	came := r.w.Now()
	for i, p := range tap.produces {
		if p.Received < began || p.Received > came || p.Received != tap.produces[0].Received {
			t.Errorf("batch %d of a request of %d to %d came at %d", i, began, came, p.Received)
		}
	}
	tap.let(0)
	tap.let(1)
	c.produced(9, corr)
	r.home()
}

func TestAnswersLeaveInTheOrderOfTheirRequests(t *testing.T) {
	r := newRig(t, rigOptions{seed: 2, shards: 2})
	r.create("events", 8)
	c := r.dial()
	for _, s := range r.shards {
		s.tap.hold = true
	}
	var asked []int32
	for i := range 4 {
		q := produceOf("events", 1, records(0, "a"))
		q.Topics[0].Partitions[0].Partition = int32(i)
		asked = append(asked, c.ask(9, q))
	}
	meta := kmsg.NewPtrMetadataRequest()
	last := c.ask(12, meta)
	var tap *tap
	r.until("four produces", func() bool {
		for _, s := range r.shards {
			if len(s.tap.produces) == 4 {
				tap = s.tap
			}
		}
		return tap != nil
	})
	for _, i := range []int{2, 0, 3} { // all but the second
		tap.let(i)
	}
	r.advance(50 * time.Millisecond)
	if len(c.frames) != 1 {
		t.Fatalf("%d answers while the second produce is not done, expected 1", len(c.frames))
	}
	tap.let(1)
	for _, corr := range asked {
		c.produced(9, corr)
	}
	c.take(12, last, kmsg.NewPtrMetadataResponse())
	r.home()
}

func TestAProduceWithoutAcksHasNoAnswer(t *testing.T) {
	r := newRig(t, rigOptions{seed: 3})
	r.create("events", 1)
	c := r.dial()
	c.ask(9, produceOf("events", 0, records(0, "silent")))
	if p := c.produced(9, c.ask(9, produceOf("events", 1, records(0, "loud"))))[0]; p.BaseOffset != 1 {
		t.Errorf("the second batch is at %d", p.BaseOffset)
	}
	c.ask(9, produceOf("nothing", 0, records(0, "lost")))
	c.gone()
	if len(c.frames) != 0 || len(r.refused) != 1 || !strings.Contains(r.refused[0].Error(), "acks=0") {
		t.Errorf("%d answers, refused %v", len(c.frames), r.refused)
	}
	r.home()
}

func TestBatchesAreRefusedWithTheCodesOfKafka(t *testing.T) {
	r := newRig(t, rigOptions{seed: 4})
	r.create("events", 1)
	c := r.dial()
	good := records(0, "value")
	change := func(at int, v byte, sum bool) []byte {
		b := bytes.Clone(good)
		b[at] = v
		if sum {
			binary.BigEndian.PutUint32(b[batch.AtCRC:], checksum(b))
		}
		return b
	}
	for name, x := range map[string]struct {
		batch []byte
		v     int16
		acks  int16
		code  int16
	}{
		"damaged":       {change(len(good)-1, 'X', false), 9, 1, 2},
		"control":       {change(batch.AtAttributes+1, 0x20, true), 9, 1, 87},
		"transactional": {change(batch.AtAttributes+1, 0x10, true), 9, 1, 87},
		"no codec":      {change(batch.AtAttributes+1, 6, true), 9, 1, 76},
		"two batches":   {append(bytes.Clone(good), good...), 9, 1, 87},
		"nothing":       {nil, 9, 1, 87},
		"lying count":   {change(batch.AtCount+3, 9, true), 9, 1, 87},
		"old zstd":      {records(batch.CodecZstd, strings.Repeat("value", 100)), 6, 1, 76},
		"zstd":          {records(batch.CodecZstd, strings.Repeat("value", 100)), 7, 1, 0},
		"two acks":      {good, 9, 2, 21},
		"too large":     {records(0, strings.Repeat("x", maxBatch)), 9, 1, 10},
	} {
		if p := c.produced(x.v, c.ask(x.v, produceOf("events", x.acks, x.batch)))[0]; p.ErrorCode != x.code || (p.ErrorCode != 0) != (p.BaseOffset == -1) {
			t.Errorf("%s: %+v, expected code %d", name, p, x.code)
		}
	}
	if p := c.produced(9, c.ask(9, produceOf("unknown", 1, good)))[0]; p.ErrorCode != 3 {
		t.Errorf("an unknown topic: code %d", p.ErrorCode)
	}
	if p := c.produced(9, c.ask(9, produceOf("events", 1, good, good)))[1]; p.ErrorCode != 3 {
		t.Errorf("an unknown partition: code %d", p.ErrorCode)
	}
	if p := c.produced(9, c.ask(9, produceOf("events", 1, good)))[0]; p.ErrorCode != 0 || p.BaseOffset != 2 { // the zstd batch, and the one beside an unknown partition
		t.Errorf("after all of them: %+v", p)
	}
	r.home()
}

// Producers that know no limit of a request put batches for many partitions into one.
func TestARequestMayBeLargerThanAnyBatch(t *testing.T) {
	r := newRig(t, rigOptions{seed: 5, shards: 2, journal: 16 << 20})
	r.create("events", 10)
	c := r.dial()
	var batches [][]byte
	for range 10 {
		batches = append(batches, records(0, strings.Repeat("x", 200<<10)))
	}
	for i, p := range c.produced(9, c.ask(9, produceOf("events", -1, batches...))) {
		if p.ErrorCode != 0 {
			t.Errorf("partition %d: %+v", i, p)
		}
	}
	c.write([]byte{0x7f, 0xff, 0xff, 0xff})
	c.gone()
	r.home()
}
