package rig

import (
	"hash/fnv"
	"math/rand/v2"
	"testing"
)

// Seed is a seed for a test: the one that it was told, if that is not 0; any one, to hunt; or
// else the one that follows from its name, so that nothing but the machine's time differs
// from one run to the next.
func Seed(t testing.TB, told uint64, any bool) uint64 {
	switch {
	case told != 0:
		return told
	case any:
		return rand.Uint64()>>32 + 1
	}
	h := fnv.New32a()
	h.Write([]byte(t.Name()))
	return uint64(h.Sum32()) + 1
}
