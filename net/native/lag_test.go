package native_test

import (
	"testing"
	"time"

	"github.com/mqd-broker/mqd/net/wire"
)

func (c *client) beginLag(topic wire.TopicID, partition int32, offset int64) uint32 {
	return c.do(func(corr uint32) []byte {
		return wire.AppendLagRequest(nil, corr, wire.LagRequest{Topic: topic, Partition: partition, Offset: offset})
	})
}

func (c *client) lag(topic wire.TopicID, partition int32, offset int64) wire.LagResponse {
	c.r.t.Helper()
	return must(wire.DecodeLagResponse(c.wait(c.beginLag(topic, partition, offset)).body))
}

// Any reader is told how far it is behind, whichever shard has the partition.
func TestLagIsToldForAnyOffset(t *testing.T) {
	r := newRig(t, rigOptions{seed: 110, shards: 2})
	c := r.dial()
	topic := c.create("t", 4, wire.Config{Key: "message.timestamp.type", Value: "LogAppendTime"})
	b := records(0, []byte("a"), []byte("b"))
	size := int64(len(b))
	for p := range int32(4) {
		var newest, appended []int64
		for range 3 {
			a := must(wire.DecodeProduceResponse(c.wait(c.beginProduce(wire.ProduceRequest{Topic: topic, Partition: p, Batch: b})).body))
			appended = append(appended, a.AppendTime)
			r.advance(10 * time.Second)
		}
		newest = appended[2:]
		for offset := range int64(6) {
			l := c.lag(topic, p, offset)
			since := newest[0] - appended[offset/2]
			if l.Start != 0 || l.End != 6 || l.Lag != 6-offset || l.Bytes != size*(3-offset/2) || l.LagTime/1e6 < since/1e6 || l.LagTime/1e6 > since/1e6+1 {
				t.Errorf("partition %d at %d: %+v, expected %d ns", p, offset, l, since)
			}
		}
		for _, offset := range []int64{6, 7, 1 << 40} {
			if l := c.lag(topic, p, offset); l != (wire.LagResponse{Start: 0, End: 6}) {
				t.Errorf("partition %d at %d: %+v", p, offset, l)
			}
		}
	}
	for _, x := range []struct {
		topic     wire.TopicID
		partition int32
		code      wire.Code
	}{{wire.TopicID{9}, 0, wire.CodeUnknownTopic}, {topic, 4, wire.CodeUnknownPartition}} {
		if l := c.lag(x.topic, x.partition, 0); l != (wire.LagResponse{Code: x.code, Start: -1, End: -1, Lag: -1, Bytes: -1, LagTime: -1}) {
			t.Errorf("%v/%d: %+v", x.topic, x.partition, l)
		}
	}
	r.home()
}

// What lies below the log's start cannot be read any more, and is no lag.
func TestLagBelowTheLogStartIsThatOfTheStart(t *testing.T) {
	r := newRig(t, rigOptions{seed: 111})
	c := r.dial()
	topic := c.create("t", 1)
	b := records(0, []byte("a"), []byte("b"))
	for range 3 {
		c.mustProduce(topic, b)
	}
	trim := func(offset int64) {
		a := must(wire.DecodeTopicTrimResponse(c.wait(c.do(func(corr uint32) []byte {
			return wire.AppendTopicTrimRequest(nil, corr, wire.TopicTrimRequest{Topic: topic, Offset: offset})
		})).body))
		if a.Code != 0 {
			t.Fatalf("%+v", a)
		}
	}
	trim(3)
	if l := c.lag(topic, 0, 1); l.Start != 3 || l.Lag != 3 || l.Bytes != 2*int64(len(b)) || l.LagTime < 0 {
		t.Errorf("%+v", l)
	}
	trim(6)
	if l := c.lag(topic, 0, 1); l != (wire.LagResponse{Start: 6, End: 6}) {
		t.Errorf("%+v", l)
	}
	r.home()
}

// A broker that can do nothing just now says so, and one that is left alone keeps nothing.
func TestALagRequestIsAnsweredWhateverHappens(t *testing.T) {
	r := newRig(t, rigOptions{seed: 112})
	c, gone := r.dial(), r.dial()
	topic := c.create("t", 1)
	c.mustProduce(topic, records(0, []byte("a")))
	tap := r.shards[0].tap
	tap.busy = true
	corr := c.beginLag(topic, 0, 0)
	gone.beginLag(topic, 0, 0)
	r.until("both are asked", func() bool { return len(tap.late) == 2 })
	gone.close()
	tap.busy = false
	tap.refuse()
	if l := must(wire.DecodeLagResponse(c.wait(corr).body)); l.Code != wire.CodeBackpressure || l.End != -1 {
		t.Errorf("%+v", l)
	}
	if l := c.lag(topic, 0, 0); l.Lag != 1 {
		t.Errorf("%+v", l)
	}
	r.home()
}
