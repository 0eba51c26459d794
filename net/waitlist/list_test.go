package waitlist

import "testing"

type member struct {
	name string
	at   Node[member]
}

// Members come out in the order in which they came in, whoever has left meanwhile, and one
// that is in no list may leave all the same.
func TestMembersLeaveFromWhereverTheyStand(t *testing.T) {
	for gone := range 4 {
		var l List[member]
		members := []*member{{name: "a"}, {name: "b"}, {name: "c"}, {name: "d"}}
		for _, m := range members {
			l.Push(&m.at, m)
		}
		members[gone].at.Leave()
		members[gone].at.Leave()
		if members[gone].at.Waits() || l.Len() != 3 {
			t.Fatalf("%s waits: %v, %d members", members[gone].name, members[gone].at.Waits(), l.Len())
		}
		l.Push(&members[gone].at, members[gone])
		got := ""
		for l.Len() > 0 {
			first := l.First()
			if popped := l.Pop(); popped != first || popped.at.Waits() {
				t.Fatal("the first one is not the one that came out")
			}
			got += first.name
		}
		want := map[int]string{0: "bcda", 1: "acdb", 2: "abdc", 3: "abcd"}[gone]
		if got != want || l.Pop() != nil || l.First() != nil {
			t.Fatalf("%q, want %q", got, want)
		}
	}
}
