package ringbuf

import (
	"testing"

	"github.com/mqd-broker/mqd/internal/invariant"
)

// mustViolate runs f and fails the test unless it breaks the named invariant.
func mustViolate(t *testing.T, name string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		got := recover()
		if v, ok := got.(invariant.Violation); !ok || v.Name != name {
			t.Fatalf("violated %v, expected %q", got, name)
		}
	}()
	f()
}

// startAt lets an empty ring continue from counter n, to get near the place
// where counters overflow.
func startAt[T any](r *SPSC[T], n uint64) {
	r.pushed, r.headSeen, r.taken, r.tailSeen = n, n, n, n
	r.published.Store(n)
	r.released.Store(n)
}

// occupied counts the slots that hold something.
func occupied[T comparable](r *SPSC[T]) int {
	var zero T
	n := 0
	for _, v := range r.slots {
		if v != zero {
			n++
		}
	}
	return n
}
