package node

import (
	"testing"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/engine/segment"
)

// TestANodeServesBeforeItHasOpenedAnIndex holds every opening of an index: a node that
// died with many segments starts and takes records without any, and serves what is old
// when it gets them.
func TestANodeServesBeforeItHasOpenedAnIndex(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, small(shards))
		ctx := r.context()
		c := r.dial()
		spec := client.TopicSpec{Name: "t", Partitions: 3, Configs: map[string]string{"segment.bytes": "16384"}}
		if _, err := c.Admin().CreateTopic(ctx, spec); err != nil {
			t.Fatal(err)
		}
		l := newLoad(r)
		send := func(c *client.Client, n, size int) {
			t.Helper()
			p, err := c.Producer("t", client.WithPartition(int32(n%3)))
			if err != nil {
				t.Fatal(err)
			}
			v := stamp(1, n, size)
			at, err := p.Send(ctx, client.Record{Value: v})
			if err != nil {
				t.Fatal(err)
			}
			l.acked[spot{at.Topic, at.Partition, at.Offset}] = v
		}
		for n := range 120 {
			send(c, n, 12<<10)
		}
		closeNow(c)
		r.die()
		held := r.w.Hold(sim.Filter{Ops: sim.Opens, Path: "*.index"})
		r.start()
		c = r.dial()
		for n := range 6 {
			send(c, 1000+n, 100)
		}
		held.Release()
		l.mustHave("t")
		closeNow(c)
		r.stop()
	})
}

// TestANodeServesBeforeDeletedTopicsAreGone leaves the directory of a topic whose removal
// was interrupted: it goes while the node serves, and not before.
func TestANodeServesBeforeDeletedTopicsAreGone(t *testing.T) {
	r := newRig(t, small(2))
	r.create(r.dial(), "t", 2, "flushed")
	r.die()
	fs, topics := r.w.FS(), rigDir+"/"+layout.TopicsDir
	left := topics + "/" + segment.Deleted(segment.TopicDir("old", [16]byte{1}))
	for _, dir := range []string{left, left + "/0"} {
		if err := fs.Mkdir(dir); err != nil {
			t.Fatal(err)
		}
	}
	f, err := fs.Open(left+"/0/"+segment.LogName(0), aio.OpenWrite|aio.OpenCreate)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	held := r.w.Hold(sim.Filter{Ops: sim.Removes, Path: "*.log"})
	r.start()
	l := newLoad(r)
	l.mustHave("t")
	if _, err := fs.ReadDir(left); err != nil {
		t.Fatalf("removed by the start, which took as long: %v", err)
	}
	held.Release()
	eventually(t, "the directory goes", func() bool {
		_, err := fs.ReadDir(left)
		return aio.IsNotExist(err)
	})
	r.stop()
}
