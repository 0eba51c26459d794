package broker

import (
	"fmt"
	"testing"

	"github.com/mqd-broker/mqd/engine"
)

// BenchmarkProduce measures what the broker and the engine do for a batch of 180
// bytes of class memory, the check of its CRC and the simulated machine's turns
// included, 64 batches a turn.
func BenchmarkProduce(b *testing.B) {
	r := newRig(b, rigOptions{shards: 2, credits: 1024, journal: 64 << 20, chunks: 32 << 20, seed: 1})
	topic := r.create("t", 32, class("memory"))
	for _, partition := range []int32{r.local(0, topic), r.remote(0, topic)} {
		b.Run(fmt.Sprintf("shard 0 to %d", r.node.ShardOf(topic.ID, partition)), func(b *testing.B) {
			var all [64]*produced
			for i := range all {
				all[i] = &produced{}
				all[i].Topic, all[i].Partition, all[i].Owner, all[i].Batch = topic.ID, partition, all[i], testBatch(b, 1, 110)
			}
			want := 0
			b.ReportAllocs()
			for b.Loop() {
				want++
				for _, p := range all {
					r.shards[0].Produce(&p.Produce)
				}
				for all[63].done < want {
					r.turn()
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(all)), "ns/batch")
		})
	}
}

// BenchmarkShardOf measures the way from a partition to its shard.
func BenchmarkShardOf(b *testing.B) {
	r := newRig(b, rigOptions{shards: 2, seed: 1})
	topic := engine.TopicID{1, 2, 3}
	for b.Loop() {
		r.node.ShardOf(topic, 7)
	}
}
