package engine

import (
	"testing"

	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/internal/seed"
)

var (
	seeds = seed.New("engine")
	rigs  = map[string]uint64{} // how many seeds each test has drawn
)

// seedOf is a seed for the next rig of a test.
func seedOf(t *testing.T) uint64 {
	first, named := seeds.Of(t)
	if !named {
		return first
	}
	n := rigs[t.Name()]
	if n == 0 {
		t.Cleanup(func() { delete(rigs, t.Name()) })
	}
	rigs[t.Name()]++
	return first + n
}

// Nothing in a rig depends on anything but its seed: not on time, on the order of maps, or
// on the tests before.
func TestARigRepeatsByItsSeed(t *testing.T) {
	life := func(seed uint64) uint64 {
		r := newRig(t, rigOptions{seed: seed, shards: 2, segment: 16 << 10, journal: 256 << 10, maxBatch: 16 << 10})
		id := r.topic(1, ClassFlushed)
		for range 3 {
			for n := range 120 {
				r.send(r.part(id, n%5), 1+n%4, 400)
			}
			r.checkpointAll()
			r.w.Crash(sim.KeepRandom)
			r.start()
		}
		r.close()
		return r.w.TraceHash()
	}
	first := seedOf(t)
	a, b, other := life(first), life(first), life(seedOf(t))
	if a != b || a == other {
		t.Fatalf("traces %x and %x of one seed, %x of another", a, b, other)
	}
}
