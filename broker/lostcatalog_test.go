package broker

import (
	"errors"
	"strings"
	"testing"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/checkpoint"
	"github.com/mqd-broker/mqd/engine/layout"
)

// loseCatalogJournal kills the node, removes the journal that has the catalog, and has its
// checkpoint say that this was accepted, as a salvage does.
func (r *rig) loseCatalogJournal() {
	r.t.Helper()
	r.w.Kill()
	fs, shard := r.w.FS(), r.node.catalogShard()
	c, err := checkpoint.Load(fs, rigDir+"/"+layout.CheckpointsDir, checkpoint.Identity{Node: r.rec.Node.ID, Shard: uint16(shard)})
	if err != nil {
		r.t.Fatal(err)
	}
	h := c.Header
	h.Flags |= checkpoint.FlagForsaken
	for range 2 {
		h.Sequence++
		if err := aio.WriteFileAtomic(fs, layout.CheckpointPath(rigDir, shard, h.Sequence), c.Encode(&h)); err != nil {
			r.t.Fatal(err)
		}
	}
	if err := errors.Join(fs.Remove(layout.JournalPath(rigDir, shard)), fs.SyncDir(rigDir+"/"+layout.JournalsDir)); err != nil {
		r.t.Fatal(err)
	}
}

// A node whose catalog was in a lost journal has what a checkpoint or a snapshot has of it.
// It is served, also where another shard knows a topic that is gone; no producer id is given
// out twice; and what comes later stays.
func TestACatalogGoesOnBehindALostJournal(t *testing.T) {
	for _, every := range []int{2, 1000} {
		each(t, func(t *testing.T, shards int) {
			r := newRig(t, rigOptions{shards: shards, broker: Options{SnapshotEvery: every}})
			seen := map[int64]bool{}
			take := func(n int) {
				t.Helper()
				for range n {
					a := r.admin(0, &Admin{Kind: NewProducer})
					if a.Code != OK || seen[a.Producer] {
						t.Fatalf("%v %q: id %d, given out before: %v", a.Code, a.Message, a.Producer, seen[a.Producer])
					}
					seen[a.Producer] = true
				}
			}
			take(3)
			old := r.create("old", 4)
			r.mustProduce(0, old.ID, 0, testBatch(t, 1, 100))
			r.w.Kill()
			r.start() // its checkpoint has the topic
			gone := r.create("gone", 4)
			for p := range int32(4) {
				r.mustProduce(0, gone.ID, p, testBatch(t, 1, 100))
			}
			take(producerBlock + 1)
			r.loseCatalogJournal()
			r.start()
			if r.node.Image().ByID(old.ID) == nil {
				t.Fatalf("a topic of the checkpoint is gone\n%s", strings.Join(r.log, "\n"))
			}
			take(3)
			if r.node.Image().ByName("gone") == nil {
				gone = r.create("gone", 4)
			} else if every > 2 {
				t.Fatal("a topic is there that was in the lost journal only")
			}
			sent := r.mustProduce(0, gone.ID, 0, testBatch(t, 1, 100))
			for range 3 {
				r.w.Kill()
				r.start()
				take(2)
				if topic := r.node.Image().ByName("gone"); topic == nil || topic.ID != gone.ID {
					t.Fatal("a topic that was made behind the loss is gone")
				}
				if _, ok := r.readAll(0, gone.ID, 0)[sent.Base]; !ok {
					t.Fatal("a message behind the loss is gone")
				}
			}
			if r.node.Image().ByID(old.ID) == nil {
				t.Fatal("a topic of the checkpoint is gone later")
			}
		})
	}
}
