package node

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/engine"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/net/wire"
)

// Failed flushes of indexes, of directories of deleted topics and of the ballast were tried
// again or left alone, and batches were acknowledged all the same, for flushes behind them
// that seemed to succeed.
func TestWhoeverFlushesInVainTheDeviceHasFailed(t *testing.T) {
	for _, c := range []struct {
		name  string
		flush sim.Filter
		// cause has a node whose topic is t make the flush.
		cause func(r *rig, x *raw, t wire.TopicID)
	}{
		{"index", sim.Filter{Ops: sim.Flushes, Path: "*.index.tmp"}, func(r *rig, x *raw, id wire.TopicID) {
			eventually(r.t, "an index is written", func() bool { // when segments are
				x.produced(x.produce(id, 0, batchOf(r.t, make([]byte, 8<<10))))
				return r.n.device.Load()
			})
		}},
		{"removal of a topic", sim.Filter{Ops: sim.DirSyncs, Path: "topics"}, func(r *rig, _ *raw, _ wire.TopicID) {
			if err := r.dial().Admin().DeleteTopic(r.context(), "gone"); err != nil {
				r.t.Fatal(err)
			}
		}},
		{"ballast", sim.Filter{Ops: sim.DirSyncs, Path: rigDir}, func(r *rig, _ *raw, _ wire.TopicID) {
			r.n.ReleaseBallast() // it is removed, so that there is room
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, small(2))
			spec := client.TopicSpec{Name: "t", Partitions: 2, Configs: map[string]string{"segment.bytes": "16384"}}
			_, err := r.dial().Admin().CreateTopic(r.context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			r.create(r.dial(), "gone", 1, "flushed")
			gone := r.connect(anyShard)
			eventually(t, "a directory to be removed", func() bool {
				gone.produced(gone.produce(gone.metadata("gone").ID, 0, batchOf(t, make([]byte, 8<<10))))
				entries, err := r.w.FS().ReadDir(rigDir + "/topics")
				return err == nil && slices.ContainsFunc(entries, func(e aio.DirEntry) bool {
					return strings.HasPrefix(e.Name, "gone")
				})
			})
			eventually(t, "ballast", func() bool { return r.ballastBytes() > 0 })
			x := r.connect(anyShard)
			id := x.metadata("t").ID
			if a := x.produced(x.produce(id, 0, batchOf(t, []byte("before")))); a.Code != wire.CodeNone {
				t.Fatal(a.Code)
			}
			r.w.Inject(sim.Fault{Filter: c.flush})
			c.cause(r, x, id)
			eventually(t, "the device counts as failed", r.n.device.Load)
			for p := range int32(2) {
				if a := x.produced(x.produce(id, p, batchOf(t, []byte("late")))); a.Code != wire.CodeStorageError {
					t.Errorf("partition %d: produce behind a failed flush: %v", p, a.Code)
				}
			}
			if err := r.end(r.context()); !errors.Is(err, engine.ErrStorage) {
				t.Errorf("stop: %v", err)
			}
		})
	}
}
