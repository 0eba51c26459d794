package ringbuf

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestShardSetHoldsWhatWasPutIn(t *testing.T) {
	if shard, rest := (ShardSet{}).Next(); shard != -1 || !rest.Empty() {
		t.Fatalf("the empty set has %d", shard)
	}
	rapid.Check(t, func(t *rapid.T) {
		members := rapid.SliceOf(rapid.IntRange(0, MaxShards-1)).Draw(t, "members")
		var set ShardSet
		for _, m := range members {
			set = set.With(m)
		}
		slices.Sort(members)
		members = slices.Compact(members)
		if set.Len() != len(members) || set.Empty() != (len(members) == 0) {
			t.Fatalf("%d members, expected %d", set.Len(), len(members))
		}
		for m := range MaxShards {
			if set.Has(m) != slices.Contains(members, m) {
				t.Fatalf("Has(%d) is %v", m, set.Has(m))
			}
		}
		var visited []int
		for s := set; !s.Empty(); {
			var m int
			m, s = s.Next()
			visited = append(visited, m)
		}
		if !slices.Equal(visited, members) {
			t.Fatalf("visited %v, expected %v", visited, members)
		}
	})
}
