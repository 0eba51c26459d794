package node

import (
	"strings"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/layout"
)

// fillSegments has a topic's partitions fill segments.
func (r *rig) fillSegments(topic string, partitions, records int) {
	r.t.Helper()
	ctx, c := r.context(), r.dial()
	defer closeNow(c)
	spec := client.TopicSpec{Name: topic, Partitions: partitions, Configs: map[string]string{"segment.bytes": "16384"}}
	if _, err := c.Admin().CreateTopic(ctx, spec); err != nil {
		r.t.Fatal(err)
	}
	for n := range records {
		p, err := c.Producer(topic, client.WithPartition(int32(n%partitions)))
		if err != nil {
			r.t.Fatal(err)
		}
		if _, err := p.Send(ctx, client.Record{Value: stamp(1, n, 5<<10)}); err != nil {
			r.t.Fatal(err)
		}
	}
}

// scrubbedNow is the number of segments that have been scrubbed, and of damaged places.
func (r *rig) scrubbedNow() (segments, damaged uint64) {
	for i := range r.n.Shards() {
		st := r.n.ScrubStats(i)
		segments += st.Segments.Load()
		damaged += st.Damaged.Load()
	}
	return segments, damaged
}

// TestANodeScrubsOnEveryShard damages a batch of each partition and waits until the log
// has told of them, with nobody reading.
func TestANodeScrubsOnEveryShard(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		cfg := small(shards)
		cfg.ScrubRate, cfg.ScrubInterval = 1<<30, time.Second
		r := newRig(t, cfg)
		const partitions = 6
		r.fillSegments("t", partitions, 60)
		r.stop()
		for _, dir := range r.partitionDirs("t") {
			if err := r.w.Corrupt(dir+"/00000000000000000000.log", 5000, 1); err != nil {
				t.Fatal(err)
			}
		}
		r.start()
		eventually(t, "everything is scrubbed", func() bool { _, n := r.scrubbedNow(); return n == partitions })
		told := func() int { return strings.Count(r.log.String(), "DAMAGED: found by scrubbing") }
		eventually(t, "the log tells of each place", func() bool { return told() >= partitions })
		eventually(t, "the log tells of a pass", func() bool { return strings.Contains(r.log.String(), "scrubbed everything") })
		if n := told(); n != partitions {
			t.Errorf("told of %d damaged places, expected %d\n%s", n, partitions, r.log)
		}
		r.stop()
	})
}

// partitionDirs are the directories of a topic's partitions.
func (r *rig) partitionDirs(topic string) (dirs []string) {
	r.t.Helper()
	topics := rigDir + "/" + layout.TopicsDir
	list, err := r.w.FS().ReadDir(topics)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range list {
		if !strings.HasPrefix(e.Name, topic+".") {
			continue
		}
		parts, err := r.w.FS().ReadDir(topics + "/" + e.Name)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, p := range parts {
			dirs = append(dirs, topics+"/"+e.Name+"/"+p.Name)
		}
	}
	return dirs
}

// TestAnOrderlyEndWaitsForAPieceOfScrubbing holds a piece in the middle: the end waits
// for it, begins no other, and leaves nothing in flight.
func TestAnOrderlyEndWaitsForAPieceOfScrubbing(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		cfg := small(shards)
		cfg.ScrubRate, cfg.ScrubInterval = 1<<30, time.Second
		r := newRig(t, cfg)
		r.fillSegments("t", 3, 30)
		r.stop()
		held := r.w.Hold(sim.Filter{Ops: sim.Opens, Path: rigDir + "/" + layout.TopicsDir + "/t.*/*/0*.log"})
		r.start()
		eventually(t, "a piece begins", func() bool { return held.Count() > 0 })
		n, done := r.n, make(chan error, 1)
		r.n = nil
		go func() { done <- n.Stop(r.context()) }()
		eventually(t, "the end begins", func() bool { return n.order.Load() == orderStop })
		held.Release()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		for i, s := range n.shards {
			if f := s.drv.InFlight(); f != 0 {
				t.Errorf("shard %d: %d operations in flight after the end", i, f)
			}
		}
	})
}
