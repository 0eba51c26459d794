package native_test

import (
	"testing"

	"github.com/mqd-broker/mqd/net/wire"
)

func TestTrimDeletesTheOldestRecords(t *testing.T) {
	r := newRig(t, rigOptions{seed: 52, shards: 2})
	c := r.dial()
	id := c.create("t", 4)
	for p := range int32(4) { // of both shards
		for range 3 {
			c.wait(c.beginProduce(wire.ProduceRequest{Topic: id, Partition: p, Batch: records(0, values(4, 40, 1)...)}))
		}
		for _, x := range []struct {
			topic  wire.TopicID
			offset int64
			start  int64
			code   wire.Code
		}{
			{id, 0, 0, 0},
			{id, 5, 5, 0},
			{id, 3, 5, 0},
			{id, 13, -1, wire.CodeOffsetOutOfRange},
			{wire.TopicID{9}, 3, -1, wire.CodeUnknownTopic},
			{wire.TopicID{15: 1}, 0, -1, wire.CodeUnknownTopic}, // the catalog's
		} {
			a := must(wire.DecodeTopicTrimResponse(c.wait(c.do(func(corr uint32) []byte {
				return wire.AppendTopicTrimRequest(nil, corr, wire.TopicTrimRequest{Topic: x.topic, Partition: p, Offset: x.offset})
			})).body))
			if a.Code != x.code || a.LogStart != x.start || (a.Message != "") != (x.code != 0) {
				t.Errorf("partition %d, trim to %d: %+v", p, x.offset, a)
			}
		}
		if f := c.fetch(wire.FetchRequest{Topic: id, Partition: p, Offset: 4}); f.Code != wire.CodeOffsetOutOfRange || f.LogStart != 5 || f.Durable != 12 {
			t.Errorf("partition %d, a fetch below the log start: %v, %d to %d", p, f.Code, f.LogStart, f.Durable)
		}
		if f := c.fetch(wire.FetchRequest{Topic: id, Partition: p, Offset: 5}); f.Code != 0 || f.NextOffset != 12 {
			t.Errorf("partition %d, a fetch at the log start: %v, next %d", p, f.Code, f.NextOffset)
		}
		a := must(wire.DecodeTopicTrimResponse(c.wait(c.do(func(corr uint32) []byte {
			return wire.AppendTopicTrimRequest(nil, corr, wire.TopicTrimRequest{Topic: id, Partition: p, Offset: wire.TimeEnd})
		})).body))
		if a.Code != 0 || a.LogStart != 12 {
			t.Errorf("partition %d, trim of everything: %+v", p, a)
		}
	}
	r.home()
}
