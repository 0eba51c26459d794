package group

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// testTopics are the topics that there are.
type testTopics map[string]int32

func topicID(name string) (id TopicID) {
	copy(id[:], name)
	id[15] = 1
	return id
}

func (t testTopics) ByName(name string) (TopicID, int32, bool) {
	n, ok := t[name]
	return topicID(name), n, ok
}

func (t testTopics) Has(p Partition) bool {
	for name, n := range t {
		if topicID(name) == p.Topic {
			return p.Number >= 0 && p.Number < n
		}
	}
	return false
}

func part(topic string, n int32) Partition { return Partition{Topic: topicID(topic), Number: n} }

func id(n byte) MemberID { return MemberID{n, 15: 1} }

// rig is a state, and another one that is fed with its records, as after a start.
type rig struct {
	*testing.T
	topics testTopics
	s      *State
	log    [][]byte
	now    int64
}

func newRig(t *testing.T, l Limits) *rig {
	topics := testTopics{"orders": 6, "ticks": 3}
	return &rig{T: t, topics: topics, s: New(l, topics), now: int64(time.Hour)}
}

// flush takes the records over into the log.
func (r *rig) flush() int {
	n := r.s.Out.Len()
	for i := range n {
		r.log = append(r.log, slices.Clone(r.s.Out.At(i)))
	}
	r.s.Out.Clear()
	return n
}

// again is a state made of the log from a record on.
func (r *rig) again(s *State, from int) *State {
	r.Helper()
	for i, b := range r.log[from:] {
		if err := s.Load(b); err != nil {
			r.Fatalf("record %d: %v", from+i, err)
		}
	}
	return s
}

// same fails unless two states hold the same, apart from how long members may still be
// silent.
func (r *rig) same(a, b *State) {
	r.Helper()
	if a.Groups() != b.Groups() || a.Offsets() != b.Offsets() {
		r.Fatalf("%d groups with %d offsets, expected %d with %d", b.Groups(), b.Offsets(), a.Groups(), a.Offsets())
	}
	for name := range a.groups {
		x, _ := a.Describe(r.now, []byte(name))
		y, code := b.Describe(r.now, []byte(name))
		for _, d := range []*Description{&x, &y} {
			d.Idle = 0
			for i := range d.Members {
				d.Members[i].Silent = 0
			}
		}
		if code != OK || fmt.Sprintf("%+v", x) != fmt.Sprintf("%+v", y) {
			r.Fatalf("group %q: %v\nhave %+v\nwant %+v", name, code, y, x)
		}
	}
}

// mustBeWhole fails where a partition has two owners, or a list is out of order.
func (r *rig) mustBeWhole(s *State) {
	r.Helper()
	for name, g := range s.groups {
		owners := map[Partition]MemberID{}
		for i, m := range g.members {
			if i > 0 && compareID(g.members[i-1].id, m.id) >= 0 {
				r.Fatalf("group %q: members are out of order", name)
			}
			for _, list := range [...][]Grant{m.list, m.leaving} {
				for j, grant := range list {
					if j > 0 && list[j-1].compare(grant.Partition) >= 0 {
						r.Fatalf("group %q: the list of %v is out of order: %v", name, m.id, list)
					}
					if other, ok := owners[grant.Partition]; ok {
						r.Fatalf("group %q: %v has the owners %v and %v", name, grant.Partition, other, m.id)
					}
					owners[grant.Partition] = m.id
				}
			}
		}
	}
}

func (r *rig) join(group string, n byte, topics ...string) *Member {
	r.Helper()
	m, _, code := r.s.Join(r.now, &Join{Group: []byte(group), ID: id(n), Mode: ModeAuto, Session: int64(10 * time.Second), Topics: topics})
	if code != OK {
		r.Fatalf("member %d: %v", n, code)
	}
	return m
}

func (r *rig) claim(group string, n byte, instance string, claims ...Partition) *Member {
	r.Helper()
	m, _, code := r.s.Join(r.now, &Join{Group: []byte(group), ID: id(n), Mode: ModeManual, Instance: instance, Session: int64(10 * time.Second), Claims: claims})
	if code != OK {
		r.Fatalf("instance %q: %v", instance, code)
	}
	return m
}

// settle has all members of a group work by their newest lists.
func (r *rig) settle(group string) {
	r.Helper()
	for again := true; again; {
		again = false
		for _, m := range slices.Clone(r.s.groups[group].members) {
			before := r.s.groups[group].generation
			if _, _, _, code := r.s.Heartbeat(r.now, []byte(group), m.id, m.epoch); code != OK {
				r.Fatalf("heartbeat: %v", code)
			}
			again = again || before != r.s.groups[group].generation
		}
	}
}

// commit commits one offset and returns the code of the entry.
func (r *rig) commit(group string, m *Member, generation int32, p Partition, next int64) Code {
	c := Commit{Group: []byte(group), Generation: generation, Entries: []Entry{{Partition: p, Next: next, Epoch: -1}}}
	if m != nil {
		c.Member = m.id
	}
	r.s.Commit(r.now, 1_800_000_000_000_000_000, &c)
	return c.Entries[0].Code
}

func (r *rig) mustCommit(want Code, group string, m *Member, p Partition, next int64) {
	r.Helper()
	generation := int32(0)
	if m != nil {
		generation = m.epoch
	}
	if code := r.commit(group, m, generation, p, next); code != want {
		r.Fatalf("commit of %d: %v, expected %v", next, code, want)
	}
}

// mustHave fails unless next is committed for p; -1 stands for nothing.
func (r *rig) mustHave(group string, p Partition, next int64) {
	r.Helper()
	o, ok := r.s.Committed([]byte(group), p)
	if !ok {
		o.Next = -1
	}
	if o.Next != next {
		r.Fatalf("%d is committed, expected %d", o.Next, next)
	}
}

func numbers(list []Grant) []int32 {
	var n []int32
	for _, g := range list {
		n = append(n, g.Number)
	}
	return n
}

func (r *rig) mustRead(m *Member, want ...int32) {
	r.Helper()
	if got := numbers(m.list); !slices.Equal(got, want) {
		r.Fatalf("member %d reads %v, expected %v", m.id[0], got, want)
	}
}

// firstSeed is the same every time, so that what has passed passes again.
var firstSeed = flag.Uint64("group.seed", 1, "the first seed of random tests; 0 draws it from the clock, to hunt")

func seeded(t *testing.T, f func(t *testing.T, rnd *rand.Rand)) {
	runs := 300
	if testing.Short() {
		runs = 60
	}
	base := *firstSeed
	if base == 0 {
		base = uint64(time.Now().UnixNano())
	}
	for i := range runs {
		seed := base + uint64(i)
		rnd := rand.New(rand.NewPCG(seed, 1))
		if !t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { f(t, rnd) }) {
			return
		}
	}
}
