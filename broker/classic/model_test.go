package classic

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// world is a state with everything that was asked of it.
type world struct {
	t     *rapid.T
	s     *State
	now   int64
	fresh int
	open  map[*Call]bool
	ids   []string // that members were given
	known map[string]int
}

// Whatever members do, each call has one answer, a generation has one leader, which knows
// all members, and nothing stays behind when they are gone.
func TestWhateverMembersDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{
			t: t, open: map[*Call]bool{}, known: map[string]int{},
			s: New(Limits{Members: 4, Bytes: 4000, Delay: time.Duration(rapid.IntRange(0, 1).Draw(t, "delay")) * time.Second}),
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			w.step()
			w.check()
		}
		w.now += int64(2 * time.Hour) // everybody is silent
		for w.s.Next() >= 0 && w.s.Next() <= w.now {
			w.s.Tick(w.now)
			w.check()
			w.now += int64(time.Hour)
		}
		if len(w.open) != 0 || w.s.members != 0 || w.s.bytes != 0 || len(w.s.groups) != 0 || len(w.s.agenda) != 0 {
			t.Fatalf("left behind: %d calls, %d members, %d bytes, %d groups", len(w.open), w.s.members, w.s.bytes, len(w.s.groups))
		}
		for name, n := range w.known {
			if n != 0 {
				t.Fatalf("the coordinator believes that %s has %d members", name, n)
			}
		}
	})
}

func (w *world) step() {
	t := w.t
	if rapid.IntRange(0, 9).Draw(t, "kind") == 0 {
		w.now += int64(rapid.IntRange(1, 40).Draw(t, "seconds")) * int64(time.Second)
		for w.s.Tick(w.now) {
		}
		return
	}
	c := &Call{
		Kind: Kind(rapid.IntRange(int(Join), int(Commit)).Draw(t, "call")), Group: rapid.SampledFrom([]string{"g", "h"}).Draw(t, "group"),
		Generation: int32(rapid.IntRange(-1, 6).Draw(t, "generation")), Instance: rapid.SampledFrom([]string{"", "", "one", "two"}).Draw(t, "instance"),
	}
	if len(w.ids) > 0 && rapid.Bool().Draw(t, "known") {
		c.Member = rapid.SampledFrom(w.ids).Draw(t, "member")
	}
	if g := w.s.groups[c.Group]; g != nil && rapid.Bool().Draw(t, "now") {
		c.Generation = g.generation
		if m := g.byID[c.Member]; m != nil {
			c.Instance = m.instance
		}
	}
	switch c.Kind {
	case Join:
		w.fresh++
		c.ID, c.Type, c.Twice = fmt.Sprintf("m-%d", w.fresh), "consumer", rapid.Bool().Draw(t, "twice")
		c.Session, c.Rebalance = int64(10*time.Second), int64(rapid.SampledFrom([]int{0, 5, 30}).Draw(t, "rebalance"))*int64(time.Second)
		for _, p := range rapid.SampledFrom([][]string{{"x"}, {"y", "x"}, {"x", "y"}, {"z", "x", "z"}}).Draw(t, "protocols") {
			c.Protocols = append(c.Protocols, Protocol{p, make([]byte, rapid.IntRange(0, 3).Draw(t, "said")*100)})
		}
	case Sync:
		for _, id := range w.ids {
			c.Assigned = append(c.Assigned, Assigned{id, make([]byte, 50)})
		}
	case Leave:
		c.Leaving = []Leaver{{Member: c.Member, Instance: c.Instance}}
	}
	w.open[c] = true
	w.s.Take(w.now, c)
}

// check takes the answers and holds them, and the state, against what must be.
func (w *world) check() {
	t := w.t
	for _, c := range w.s.Answered() {
		if !w.open[c] {
			t.Fatalf("a call has been answered twice: %+v", c)
		}
		delete(w.open, c)
		switch {
		case c.Kind != Join:
		case c.Code == IDRequired:
			w.ids = append(w.ids, c.Member)
		case c.Code == OK:
			w.ids = append(w.ids, c.Member)
			w.heard(c)
		}
	}
	w.s.Changed(func(name string, n int) { w.known[name] = n })
	w.s.Keep(func(name string, kept []byte) { w.restore(name, kept) })
	members, bytes := 0, 0
	for _, g := range w.s.groups {
		members += len(g.members)
		bytes += g.bytes + g.weight()
		if n := w.known[g.name]; n != len(g.members) {
			t.Fatalf("%s has %d members, the coordinator believes %d", g.name, len(g.members), n)
		}
		if len(g.byID) != len(g.members) || g.in < 0 || w.s.agenda[g.in] != g || (g.stage == Empty) != (len(g.members) == 0) {
			t.Fatalf("%s: %d members, %d by id, place %d, %v", g.name, len(g.members), len(g.byID), g.in, g.stage)
		}
		for _, m := range g.members {
			if m.join != nil && g.stage != Preparing || m.sync != nil && g.stage != Completing {
				t.Fatalf("%s waits although its group is %v", m.id, g.stage)
			}
		}
	}
	if members != w.s.members || bytes != w.s.bytes || len(w.s.agenda) != len(w.s.groups) {
		t.Fatalf("counted %d members of %d, %d bytes of %d, %d groups of %d", w.s.members, members, w.s.bytes, bytes, len(w.s.agenda), len(w.s.groups))
	}
}

// restore makes another state of what is kept of a group: its members are as they were.
func (w *world) restore(name string, kept []byte) {
	again := New(Limits{})
	if err := again.Restore(w.now, name, kept); err != nil {
		w.t.Fatal(err)
	}
	was, _ := w.s.Describe(w.now, name)
	is, _ := again.Describe(w.now, name)
	for _, d := range []*Description{&was, &is} {
		for i := range d.Members {
			d.Members[i].Silent = 0
		}
	}
	if fmt.Sprint(was) != fmt.Sprint(is) || again.bytes != w.s.groups[name].weight()+w.s.groups[name].bytes-w.pending(name) {
		w.t.Fatalf("restored %+v, it was %+v; %d bytes of %d", is, was, again.bytes, w.s.groups[name].bytes)
	}
	again.KeepAll()
	again.Keep(func(_ string, b []byte) {
		if string(b) != string(kept) {
			w.t.Fatalf("kept again %x, it was %x", b, kept)
		}
	})
	for i := range kept {
		if err := New(Limits{}).Restore(w.now, name, kept[:i]); err == nil {
			w.t.Fatalf("restored from %d bytes of %d", i, len(kept))
		}
	}
}

// pending is how much the ids count that were told and nobody has joined with.
func (w *world) pending(name string) (n int) {
	for _, p := range w.s.groups[name].pending {
		n += len(p.id)
	}
	return n
}

// heard notes that a member has heard of a generation.
func (w *world) heard(c *Call) {
	if c.Leader != c.Member {
		return
	}
	seen := map[string]bool{}
	for _, m := range c.Members {
		if seen[m.Member] {
			w.t.Fatalf("a member stands twice in %+v", c.Members)
		}
		seen[m.Member] = true
	}
	if !seen[c.Member] {
		w.t.Fatalf("the leader %s does not know of itself: %+v", c.Member, c.Members)
	}
}
