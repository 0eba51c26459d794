package broker

import (
	"flag"
	"hash/fnv"
	"testing"
	"time"
)

var (
	anySeed = flag.Bool("broker.any", false, "rigs that are given no seed draw one from the clock, to hunt; without it they repeat")
	oneSeed = flag.Uint64("broker.rig", 0, "the seed of rigs that are given none, as a failed test has told it")
)

// seedOf draws a seed from the name of a test, so that what has passed passes again.
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
