package broker

import (
	"fmt"
	"testing"

	"github.com/mqd-broker/mqd/broker/group"
)

// mustNotAllocate measures f, which goes one named path once, after it has warmed
// up. The loops and the simulated machine are part of it.
func mustNotAllocate(t *testing.T, path string, f func()) {
	t.Helper()
	for range 3000 {
		f()
	}
	if n := testing.AllocsPerRun(1000, f); n != 0 {
		t.Errorf("%s: %v allocations", path, n)
	}
}

func TestProduceAllocatesNothing(t *testing.T) {
	r := newRig(t, rigOptions{shards: 2, journal: 8 << 20, chunks: 16 << 20, seed: 1})
	for _, c := range []string{"memory", "written", "flushed"} {
		topic := r.create("t-"+c, 32, class(c))
		for _, partition := range []int32{r.local(0, topic), r.remote(0, topic)} {
			for encoding, data := range map[Encoding][]byte{
				EncodingRecordBatch: testBatch(t, 4, 100),
				EncodingPlain:       plainBatch(t, 4, 100),
			} {
				p := &produced{}
				p.Topic, p.Partition, p.Batch, p.Encoding, p.Owner = topic.ID, partition, data, encoding, p
				path := fmt.Sprintf("Shard.Produce, class %s, encoding %d, shard 0 to %d", c, encoding, r.node.ShardOf(topic.ID, partition))
				mustNotAllocate(t, path, func() {
					p.done = 0
					r.shards[0].Produce(&p.Produce)
					for p.done == 0 {
						r.turn()
					}
				})
				if p.Code != OK {
					t.Fatalf("%s: %v", path, p.Code)
				}
			}
		}
	}
}

func TestFetchAllocatesNothing(t *testing.T) {
	r := newRig(t, rigOptions{shards: 2, journal: 8 << 20, chunks: 16 << 20, seed: 1})
	topic := r.create("t", 32)
	for _, partition := range []int32{r.local(0, topic), r.remote(0, topic)} {
		for range 20 {
			r.mustProduce(0, topic.ID, partition, testBatch(t, 4, 100))
		}
		f := &fetched{}
		f.Topic, f.Partition, f.Owner = topic.ID, partition, f
		b := r.shards[0]
		path := fmt.Sprintf("shard 0 to %d", r.node.ShardOf(topic.ID, partition))
		mustNotAllocate(t, "Shard.Fetch, "+path, func() {
			f.done, f.Offset = 0, 7
			b.Fetch(&f.Fetch)
			for f.done == 0 {
				r.turn()
			}
			b.Release(&f.Fetch)
			r.turn()
		})
		if f.Code != OK || f.Bytes() != 0 || f.Next != 80 {
			t.Fatalf("%v, next %d", f.Code, f.Next)
		}
		mustNotAllocate(t, "Shard.CancelFetch of a long poll, "+path, func() {
			f.done, f.Offset, f.MinBytes, f.MaxWait = 0, 80, 1, 1<<40
			b.Fetch(&f.Fetch)
			r.turn()
			r.turn()
			b.CancelFetch(&f.Fetch)
			for f.done == 0 {
				r.turn()
			}
			b.Release(&f.Fetch)
			r.turn()
		})
		p := &produced{}
		p.Topic, p.Partition, p.Batch, p.Owner = topic.ID, partition, testBatch(t, 4, 100), p
		end := int64(80)
		mustNotAllocate(t, "long poll answered by Shard.Produce, "+path, func() {
			f.done, f.Offset, f.MinBytes, f.MaxWait, p.done = 0, end, 1, 1<<40, 0
			b.Fetch(&f.Fetch)
			r.turn()
			b.Produce(&p.Produce)
			for f.done == 0 || p.done == 0 {
				r.turn()
			}
			end = f.Next
			b.Release(&f.Fetch)
			r.turn()
		})
		if f.Code != OK || p.Code != OK {
			t.Fatalf("%v and %v", f.Code, p.Code)
		}
	}
}

func TestACommitOfAGroupAllocatesNothing(t *testing.T) {
	r := newRig(t, rigOptions{shards: 2, journal: 8 << 20, chunks: 16 << 20, seed: 1})
	topic := r.create("t", 8)
	for p := range int32(8) {
		for range 5 {
			r.mustProduce(0, topic.ID, p, testBatch(t, 1000, 8))
		}
	}
	for _, name := range []string{"a", "b", "c"} { // kept on either shard
		g := commitOf(name, make([]group.Entry, 8)...)
		g.Owner = g
		next := int64(0)
		mustNotAllocate(t, "Shard.Group, a commit", func() {
			g.done, next = 0, next+1
			for p := range g.Entries {
				g.Entries[p] = entryOf(topic.ID, int32(p), next)
			}
			r.shards[0].Group(&g.Group)
			for g.done == 0 {
				r.turn()
			}
		})
		if n := r.committed(1, name, topic.ID, 7); g.Code != OK || n != next || n < 4000 {
			t.Fatalf("%v, %d is committed, expected %d", g.Code, n, next)
		}
	}
}
