package engine

import (
	"flag"
	"hash/fnv"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio/sim"
)

var (
	anySeed = flag.Bool("engine.any", false, "rigs that are given no seed draw one from the clock, to hunt; without it they repeat")
	oneSeed = flag.Uint64("engine.rig", 0, "the seed of rigs that are given none, as a failed test has told it")

	rigs = map[string]uint64{} // how many seeds each test has drawn
)

// seedOf draws a seed from the name of a test, so that what has passed passes again.
func seedOf(t *testing.T) uint64 {
	switch {
	case *oneSeed != 0:
		return *oneSeed
	case *anySeed:
		return uint64(time.Now().UnixNano())
	}
	h := fnv.New64a()
	h.Write([]byte(t.Name()))
	n := rigs[t.Name()]
	if n == 0 {
		t.Cleanup(func() { delete(rigs, t.Name()) })
	}
	rigs[t.Name()]++
	return h.Sum64() + n
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
