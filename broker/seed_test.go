package broker

import (
	"testing"

	"github.com/mqd-broker/mqd/internal/seed"
)

var seeds = seed.New("broker")

// seedOf is the seed of a test's simulated machine.
func seedOf(t testing.TB) uint64 {
	n, _ := seeds.Of(t)
	return n
}
