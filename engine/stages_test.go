package engine

import (
	"testing"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine/stage"
)

// What a turn does before a batch has been checked is no wait of the batch for its round.
func TestABatchWaitsForItsRoundFromItsCheckOn(t *testing.T) {
	const late = 1000
	times := func(checked int64) (all stage.Snapshot) {
		r := newRig(t, rigOptions{seed: 7})
		defer r.close()
		p := r.part(r.topic(1, ClassFlushed), 0)
		r.send(p, 1, 100)
		r.turn() // its round goes to the device, and the next batch waits for it
		a := &produced{}
		a.Part, a.Batch, a.Owner = p, testBatch(t, 1, 100), a
		h, err := batch.Check(a.Batch, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		a.Header, a.Arrived = h, p.store.loop.Now()+checked
		if err := p.store.Append(&a.Append); err != nil {
			t.Fatal(err)
		}
		r.until("ack", func() bool { return a.done })
		p.store.Stages().Copy(&all)
		return all
	}
	was, is := times(0), times(late)
	if was[stage.Round].Total != 2 || was[stage.Round].Sum < late || is[stage.Round].Sum != was[stage.Round].Sum-late {
		t.Errorf("the wait was %d ns and is %d ns, expected %d less", was[stage.Round].Sum, is[stage.Round].Sum, late)
	}
	if h := is[stage.Append]; h.Total != 1 || h.Sum != 0 {
		t.Errorf("%d batches took %d ns to be appended, expected 1 and none", h.Total, h.Sum)
	}
	if is[stage.Device].Sum != was[stage.Device].Sum {
		t.Errorf("the device took %d ns, and %d", is[stage.Device].Sum, was[stage.Device].Sum)
	}
}
