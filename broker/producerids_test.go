package broker

import (
	"testing"

	"github.com/mqd-broker/mqd/engine/aio/sim"
)

// No producer id is given out twice, whatever shard is asked, however the node ends, and
// also when the catalog's record of a block is taken back with the power.
func TestNoProducerIDIsGivenOutTwice(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, rigOptions{shards: shards, broker: Options{SnapshotEvery: 2}})
		seen := map[int64]bool{}
		take := func(n int) {
			for i := range n {
				a := r.admin(i%shards, &Admin{Kind: NewProducer})
				if a.Code != OK || a.Producer < 0 || seen[a.Producer] {
					t.Fatalf("%v %q: id %d, given out before: %v", a.Code, a.Message, a.Producer, seen[a.Producer])
				}
				seen[a.Producer] = true
			}
		}
		for life := range 6 {
			take(3)
			if life%2 == 0 {
				take(producerBlock)
			}
			hold := r.w.Hold(sim.Filter{Ops: sim.Writes | sim.Flushes, Path: "journal-*"})
			left := int(r.shards[r.node.catalogShard()].keeper.producers.end - r.shards[r.node.catalogShard()].keeper.producers.next)
			take(left)
			last := &Admin{Kind: NewProducer}
			waits := r.beginAdmin(0, last)
			for range 200 {
				r.turn()
			}
			if waits.done > 0 {
				t.Fatalf("id %d of a block that is not flushed", last.Producer)
			}
			switch life % 3 {
			case 0:
				r.w.Crash(sim.KeepNone)
			case 1:
				r.w.Crash(sim.KeepRandom)
			default:
				r.w.Kill()
			}
			hold.Release()
			r.start()
		}
		take(5)
	})
}
