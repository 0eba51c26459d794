package group

import (
	"bytes"
	"slices"

	"github.com/mqd-broker/mqd/internal/invariant"
)

// Join asks for a membership.
type Join struct {
	Group []byte
	// ID is the new member's: random, and nobody's yet.
	ID   MemberID
	Mode Mode // ModeAuto or ModeManual
	// Instance is a name that stays the same when the program is started again, so that
	// its partitions do. "" for none; ModeManual needs one.
	Instance string
	// Client is for lists.
	Client string
	// Session is how long the member may be silent, in nanoseconds.
	Session int64
	// Topics are those subscribed to, of ModeAuto: at most [MaxTopics], and they need
	// not exist yet.
	Topics []string
	// Claims are partitions that the instance wants if nobody has them, of ModeManual.
	Claims []Partition
}

// Assignment is what a member may read.
type Assignment struct {
	// Generation is that in which the list changed last. The member says it when it
	// works by the list, and has stopped what is not on it.
	Generation int32
	// List is by topic and number. It is valid until the next change.
	List []Grant
}

// fencedKept is how many members whose instance was taken over are remembered.
const fencedKept = 8

// Join makes a member. A member of the same instance loses its membership to it.
func (s *State) Join(now int64, j *Join) (*Member, Assignment, Code) {
	g := s.groups[string(j.Group)]
	if code := s.mayJoin(g, j); code != OK {
		return nil, Assignment{}, code
	}
	if g == nil {
		g = s.make(string(j.Group))
	}
	g.mode = j.Mode
	m := &Member{
		id: j.ID, instance: j.Instance, client: j.Client, session: j.Session, deadline: now + j.Session,
		topics: slices.Compact(slices.Sorted(slices.Values(j.Topics))),
	}
	old := (*Member)(nil)
	if j.Instance != "" {
		old = g.instance(j.Instance)
	}
	g.generation++
	if old != nil {
		// What the instance owned stays its own, under a generation that the process
		// before it does not know.
		s.part(g, old)
		g.fence(old.id)
		m.list = slices.Clone(old.list)
		for i := range m.list {
			m.list[i].Since = g.generation
		}
	}
	m.epoch = g.generation
	g.insert(m)
	s.members++
	s.claim(g, j.Claims, j.Instance)
	s.divide(g)
	s.keep(g, now)
	return m, m.Assignment(), OK
}

func (s *State) mayJoin(g *group, j *Join) Code {
	if j.Mode != ModeAuto && j.Mode != ModeManual || !checkInstance(j.Instance) || !checkInstance(j.Client) ||
		j.Session < int64(s.limits.MinSession) || j.Session > int64(s.limits.MaxSession) || len(j.Topics) > MaxTopics ||
		j.Mode == ModeManual && (j.Instance == "" || len(j.Topics) > 0) || j.Mode == ModeAuto && len(j.Claims) > 0 {
		return Invalid
	}
	for _, t := range j.Topics {
		if len(t) == 0 || len(t) > MaxName {
			return Invalid
		}
	}
	size := (&Member{instance: j.Instance, client: j.Client, topics: j.Topics}).recordSize()
	if g != nil {
		for _, m := range g.members {
			size += m.recordSize()
		}
	}
	switch {
	case size > s.limits.Record/4:
		return Limit
	case g == nil:
		return s.mayMake(j.Group)
	case g.others > 0 || g.mode != j.Mode && (len(g.members) > 0 || len(g.table) > 0):
		return WrongMode
	case len(g.members) >= s.limits.Members && (j.Instance == "" || g.instance(j.Instance) == nil):
		return Limit
	}
	return OK
}

// Heartbeat hears of a member, which works by the list of a generation. If its list is
// another one by now, the answer tells it and changed is true; else the coordinator may
// let the answer wait for a change.
func (s *State) Heartbeat(now int64, name []byte, id MemberID, generation int32) (m *Member, a Assignment, changed bool, code Code) {
	g := s.groups[string(name)]
	if g == nil {
		return nil, a, false, UnknownMember
	}
	if m = g.member(id); m == nil {
		return nil, a, false, g.stranger(id)
	}
	if generation > m.epoch {
		// It has a list that this state never gave.
		return nil, a, false, UnknownMember
	}
	m.deadline = now + m.session
	if generation == m.epoch && len(m.leaving) > 0 {
		m.leaving = nil
		s.divide(g)
		s.keep(g, now)
	}
	return m, m.Assignment(), m.epoch > generation, OK
}

// Leave ends a membership.
func (s *State) Leave(now int64, name []byte, id MemberID) Code {
	g := s.groups[string(name)]
	if g == nil {
		return UnknownMember
	}
	m := g.member(id)
	if m == nil {
		return g.stranger(id)
	}
	s.part(g, m)
	s.regroup(g, now)
	return OK
}

// Assignment is what the member may read now.
func (m *Member) Assignment() Assignment { return Assignment{Generation: m.epoch, List: m.list} }

// ID is the member's.
func (m *Member) ID() MemberID { return m.id }

// part ends a membership without dividing anew.
func (s *State) part(g *group, m *Member) {
	i := g.search(m.id)
	g.members = slices.Delete(g.members, i, i+1)
	m.gone = true
	s.members--
	if m.Waiter != nil {
		s.changed = append(s.changed, m)
	}
}

// Gone reports whether the membership has ended.
func (m *Member) Gone() bool { return m.gone }

// regroup divides the partitions after a member is gone.
func (s *State) regroup(g *group, now int64) {
	g.generation++
	if len(g.members) == 0 {
		g.rest(now)
	}
	s.divide(g)
	s.keep(g, now)
}

// fence remembers a member whose instance was taken over.
func (g *group) fence(id MemberID) {
	if len(g.fenced) == fencedKept {
		g.fenced = slices.Delete(g.fenced, 0, 1)
	}
	g.fenced = append(g.fenced, id)
}

// stranger says why there is no such member.
func (g *group) stranger(id MemberID) Code {
	if slices.Contains(g.fenced, id) {
		return Fenced
	}
	return UnknownMember
}

// Stranger says what has become of a member that is gone: Fenced if its instance was
// taken over, else UnknownMember.
func (s *State) Stranger(name []byte, id MemberID) Code {
	if g := s.groups[string(name)]; g != nil {
		return g.stranger(id)
	}
	return UnknownMember
}

// divide brings the lists of members closer to what they should be. It reports whether
// any has changed, or a grant is on its way out.
func (s *State) divide(g *group) bool {
	want := s.target(g)
	owned := map[Partition]bool{}
	changed := false
	take := func(m *Member) { // what is not wanted any more
		kept := m.list[:0:0]
		for _, grant := range m.list {
			if _, ok := slices.BinarySearchFunc(want[m], grant.Partition, Partition.compare); ok {
				kept = append(kept, grant)
			} else {
				m.leaving = append(m.leaving, grant)
			}
		}
		if len(kept) != len(m.list) {
			m.list = kept
			slices.SortFunc(m.leaving, func(a, b Grant) int { return a.compare(b.Partition) })
			s.touch(g, m, &changed)
		}
	}
	for _, m := range g.members {
		take(m)
	}
	for _, m := range g.members {
		for _, list := range [...][]Grant{m.list, m.leaving} {
			for _, grant := range list {
				if owned[grant.Partition] {
					invariant.Violated("group: a partition has one owner")
				}
				owned[grant.Partition] = true
			}
		}
	}
	for _, m := range g.members {
		n := len(m.list)
		for _, p := range want[m] {
			if !owned[p] {
				m.list = append(m.list, Grant{Partition: p})
				owned[p] = true
			}
		}
		if len(m.list) > n {
			s.touch(g, m, &changed)
			for i := n; i < len(m.list); i++ {
				m.list[i].Since = m.epoch
			}
			slices.SortFunc(m.list, func(a, b Grant) int { return a.compare(b.Partition) })
		}
	}
	return changed
}

// touch gives a member's list a generation of its own.
func (s *State) touch(g *group, m *Member, changed *bool) {
	if !*changed {
		*changed = true
		g.generation++
	}
	m.epoch = g.generation
	s.changed = append(s.changed, m)
}

// target is what each member should have in the end, each by partition.
func (s *State) target(g *group) map[*Member][]Partition {
	if g.mode == ModeAuto {
		return assign(g.members, s.topics, s.limits.partitions())
	}
	want := map[*Member][]Partition{}
	for i := range g.table {
		if m := g.instance(g.table[i].instance); m != nil {
			want[m] = append(want[m], g.table[i].Partition)
		}
	}
	return want
}

func compareID(a, b MemberID) int { return bytes.Compare(a[:], b[:]) }
