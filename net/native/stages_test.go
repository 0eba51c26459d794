package native_test

import (
	"testing"

	"github.com/mqd-broker/mqd/engine/stage"
	"github.com/mqd-broker/mqd/net/native"
	"github.com/mqd-broker/mqd/net/wire"
)

// The broker sees a batch long after it came, because the connection has its bound in
// flight: that is time of parsing and of nothing else.
func TestWhatWaitsToBeReadIsTimedAsParsing(t *testing.T) {
	r := newRig(t, rigOptions{seed: 31, native: native.Options{MaxInFlightRequests: 1}})
	s, c := r.shards[0], r.dial()
	id := c.create("t", 1)
	s.tap.hold = true
	began := r.w.Now()
	produce := func(b []byte, corr uint32) []byte {
		return wire.AppendProduceRequest(b, corr, &wire.ProduceRequest{Topic: id, Batch: records(0, values(1, 50, int(corr))...)})
	}
	corr := c.do(func(corr uint32) []byte { return produce(produce(nil, corr), corr+1) })
	r.settle()
	if len(s.tap.produces) != 1 {
		t.Fatalf("%d batches in flight, expected 1", len(s.tap.produces))
	}
	first := s.tap.produces[0]
	s.tap.produces = nil
	firstWent, firstCame := r.w.Now(), first.Received
	s.broker.Produce(first)
	r.until("the other batch", func() bool { return len(s.tap.produces) == 1 })
	r.settle()
	went, came := r.w.Now(), s.tap.produces[0].Received
	s.tap.let()
	for _, corr := range []uint32{corr, corr + 1} {
		if a := must(wire.DecodeProduceResponse(c.wait(corr).body)); a.Code != wire.CodeNone {
			t.Fatalf("%+v", a)
		}
	}
	if firstCame <= began || came < firstCame || came >= firstWent {
		t.Errorf("sent at %d, the batches came at %d and %d, the first went on at %d", began, firstCame, came, firstWent)
	}
	var all stage.Snapshot
	s.stages.Copy(&all)
	if h, want := all[stage.Parse], uint64(firstWent-firstCame+went-came); h.Total != 2 || h.Sum != want {
		t.Errorf("%d batches took %d ns, expected 2 and %d", h.Total, h.Sum, want)
	}
	if h := all[stage.Append]; h.Total != 2 || h.Sum != 0 {
		t.Errorf("%d batches took %d ns to be appended, expected 2 and none", h.Total, h.Sum)
	}
	r.home()
}
