package order

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestNodesStandInTheOrderOfTheirKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l List[int]
		nodes := make([]Node[int], 20)
		var want []int // owners, in order
		for i := range nodes {
			nodes[i].Owner = i
		}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			n := &nodes[rapid.IntRange(0, len(nodes)-1).Draw(t, "node")]
			if i := slices.Index(want, n.Owner); i >= 0 {
				l.Remove(n)
				want = slices.Delete(want, i, i+1)
				continue
			}
			key := rapid.Uint64Range(0, 9).Draw(t, "key")
			at := len(want)
			for at > 0 && nodes[want[at-1]].Key() > key {
				at--
			}
			want = slices.Insert(want, at, n.Owner)
			l.Add(n, key)
		}
		var got []int
		for n := l.First(); n != nil; n = n.Next() {
			got = append(got, n.Owner)
		}
		if !slices.Equal(got, want) || l.Len() != len(want) {
			t.Fatalf("%v (%d), expected %v", got, l.Len(), want)
		}
	})
}

func TestANodeIsInAListOnce(t *testing.T) {
	var l List[int]
	var n Node[int]
	for what, f := range map[string]func(){
		"added twice":     func() { l.Add(&n, 1); l.Add(&n, 2) },
		"removed for two": func() { l.Remove(new(Node[int])) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Fatal(what)
				}
			}()
			f()
		}()
	}
}
