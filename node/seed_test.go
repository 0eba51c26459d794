package node

import (
	"flag"
	"hash/fnv"
	"testing"
	"time"
)

var (
	anySeed = flag.Bool("node.any", false, "machines that are given no seed draw one from the clock, to hunt; without it they have the same ones each time")
	oneSeed = flag.Uint64("node.rig", 0, "the seed of machines that are given none, as a failed test has told it")
)

// seedOf draws a seed from the name of a test: what a machine does to a node is the same
// each time, although in real time the order of things is not.
func seedOf(t testing.TB) uint64 {
	switch {
	case *oneSeed != 0:
		return *oneSeed
	case *anySeed:
		return uint64(time.Now().UnixNano())
	}
	h := fnv.New64a()
	h.Write([]byte(t.Name()))
	return h.Sum64()
}
