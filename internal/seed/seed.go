// Package seed gives tests their randomness: a seed drawn from the name of the test, so that
// what has passed passes again, or another one each time, to hunt.
package seed

import (
	"flag"
	"hash/fnv"
	"testing"
	"time"
)

// Source gives the tests of a package their seeds.
type Source struct {
	any *bool
	one *uint64
}

// New makes the source of a package's tests, with two flags that begin with its name: -NAME.any
// draws seeds from the clock, and -NAME.rig takes the one that a failed test has told. It is
// for a variable of the test package: flags are made before they are read.
func New(name string) *Source {
	return &Source{
		any: flag.Bool(name+".any", false, "what is given no seed draws one from the clock, to hunt; without it all have the same ones each time"),
		one: flag.Uint64(name+".rig", 0, "the seed of what is given none, as a failed test has told it"),
	}
}

// Of is the seed of a test, and whether it is drawn from the test's name.
func (s *Source) Of(t testing.TB) (n uint64, named bool) {
	switch {
	case *s.one != 0:
		return *s.one, false
	case *s.any:
		return uint64(time.Now().UnixNano()), false
	}
	h := fnv.New64a()
	h.Write([]byte(t.Name()))
	return h.Sum64(), true
}
