package compat

import (
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mqd-broker/mqd/batch"
)

func TestKeysGoWhereKafkasDefaultPartitionerSendsThem(t *testing.T) {
	rnd := rand.New(rand.NewPCG(8, 8))
	p := kgo.StickyKeyPartitioner(nil).ForTopic("alerts")
	for i := range 20_000 {
		key := make([]byte, i%70)
		for j := range key {
			key[j] = byte(rnd.Uint32())
		}
		n := 1 + rnd.IntN(1000)
		want := p.Partition(&kgo.Record{Key: key}, n)
		if got := batch.Partition(key, int32(n)); int(got) != want {
			t.Fatalf("key %x of %d partitions: %d, kgo: %d", key, n, got, want)
		}
	}
}
