package group

import (
	"slices"
	"sort"

	"github.com/mqd-broker/mqd/internal/invariant"
)

// State holds groups; the package's comment explains it. Times are by the loop's
// monotonic clock in nanoseconds, unless they are called wall.
type State struct {
	limits Limits
	topics Topics

	groups  map[string]*group
	list    []*group // all groups, in no order
	blocks  [Blocks]block
	offsets int // committed, of all groups
	members int // of all groups

	// Out is what is to be appended to the log.
	Out Records

	changed []*Member // their lists have
	in      record    // scratch
	tick    int       // the next group of list to look at
	recheck int       // groups to be looked at soon, for changed topics
	version int       // of the topics
}

// New makes a state without groups.
func New(l Limits, t Topics) *State {
	return &State{limits: l.WithDefaults(), topics: t, groups: map[string]*group{}}
}

// Groups is the number of groups.
func (s *State) Groups() int { return len(s.list) }

// Offsets is the number of committed offsets.
func (s *State) Offsets() int { return s.offsets }

// Members is the number of members.
func (s *State) Members() int { return s.members }

// Changed are the members whose list has changed since the last call, each once or
// more; it is valid until the next call of any method.
func (s *State) Changed() []*Member {
	c := s.changed
	s.changed = s.changed[:0]
	return c
}

// Load reads a record of a snapshot or of the log. The error is a [FormatError].
func (s *State) Load(b []byte) error {
	r := &s.in
	if err := r.decode(b); err != nil {
		return err
	}
	switch r.kind {
	case kindOffsets:
		g := s.make(string(r.name))
		g.idle = 0
		for i := range r.offsets {
			s.set(g, &r.offsets[i])
		}
	case kindGroup:
		g := s.make(string(r.name))
		s.members -= len(g.members)
		err := r.decodeGroup(g)
		s.members += len(g.members)
		return err
	case kindKept:
		g := s.make(string(r.name))
		g.idle, g.kept = 0, append([]byte(nil), r.body...)
	case kindOffsetsRemoved:
		if g := s.groups[string(r.name)]; g != nil {
			for _, p := range r.removed {
				s.unset(g, p)
			}
		}
	case kindGroupRemoved:
		if g := s.groups[string(r.name)]; g != nil {
			s.drop(g)
		}
	}
	return nil
}

// Clean says that everything loaded so far is in snapshots.
func (s *State) Clean() {
	for i := range s.blocks {
		s.blocks[i].dirty = false
	}
}

// Begin ends the loading. Members have all of their time to be heard of again, and
// groups without members go on with the time that they were known to be without.
func (s *State) Begin(now int64) {
	for _, g := range s.list {
		for _, m := range g.members {
			m.deadline = now + m.session
		}
		if len(g.members) == 0 {
			g.idleFrom = now
		}
	}
	s.TopicsChanged()
}

// make finds or makes a group.
func (s *State) make(name string) *group {
	g := s.groups[name]
	if g == nil {
		g = &group{name: name, block: blockOf(name), index: map[Partition]*offset{}}
		s.groups[name] = g
		s.list = append(s.list, g)
		s.blocks[g.block].add(g)
	}
	s.blocks[g.block].dirty = true
	return g
}

// drop forgets a group.
func (s *State) drop(g *group) {
	s.offsets -= len(g.index)
	s.members -= len(g.members)
	delete(s.groups, g.name)
	i := slices.Index(s.list, g)
	last := len(s.list) - 1
	s.list[i], s.list[last] = s.list[last], nil
	s.list = s.list[:last]
	s.blocks[g.block].remove(g)
	s.blocks[g.block].dirty = true
	g.gone = true
}

// set puts what is committed for a partition in place. The metadata are copied.
func (s *State) set(g *group, o *Offset) {
	s.blocks[g.block].dirty = true
	at := g.index[o.Partition]
	if at == nil {
		at = &offset{}
		g.index[o.Partition] = at
		g.offsets = append(g.offsets, at)
		s.offsets++
	}
	meta := append(at.Metadata[:0], o.Metadata...)
	at.Offset = *o
	at.Metadata = meta
	g.unknown = false
}

// unset forgets what is committed for a partition.
func (s *State) unset(g *group, p Partition) {
	at := g.index[p]
	if at == nil {
		return
	}
	s.blocks[g.block].dirty = true
	at.dead = true
	delete(g.index, p)
	g.dead++
	s.offsets--
	g.tidy(&s.blocks[g.block])
}

// tidy takes dead offsets out of the list, unless a snapshot walks through it.
func (g *group) tidy(b *block) {
	if g.dead*2 > len(g.offsets) && !b.writing {
		g.offsets = slices.DeleteFunc(g.offsets, func(o *offset) bool { return o.dead })
		g.dead = 0
	}
}

// keep appends the record of everything of a group but its offsets.
func (s *State) keep(g *group, now int64) {
	s.blocks[g.block].dirty = true
	g.unknown = false
	s.Out.put(appendGroup(s.Out.b, g, g.idleAt(now)))
}

// idleAt is how long the group has been without members.
func (g *group) idleAt(now int64) int64 {
	if g.taken() {
		return 0
	}
	return g.idle + now - g.idleFrom
}

// rest begins the time without members anew.
func (g *group) rest(now int64) { g.idle, g.idleFrom = 0, now }

// Remove deletes a group with its offsets. A group with members is Active.
func (s *State) Remove(name []byte) Code {
	g := s.groups[string(name)]
	switch {
	case g == nil:
		return Unknown
	case g.taken():
		return Active
	}
	s.remove(g)
	return OK
}

func (s *State) remove(g *group) {
	s.Out.put(appendHead(s.Out.b, kindGroupRemoved, g.name))
	s.drop(g)
}

// TopicsChanged has every group looked at in the ticks that follow.
func (s *State) TopicsChanged() {
	s.version++
	s.recheck = len(s.list)
}

// tickBudget is how many groups a tick looks at.
const tickBudget = 64

// Tick looks at some of the groups: it ends the memberships of those that have been
// silent for too long, forgets groups that have been without members for as long as the
// limits say, and offsets of partitions that are gone. It reports whether groups are
// left that [State.TopicsChanged] wants looked at. Calling it a few times a second, and
// at once while it reports true, looks at all groups often enough.
func (s *State) Tick(now int64) bool {
	for range min(tickBudget, len(s.list)) {
		if s.tick >= len(s.list) {
			s.tick = 0
		}
		g := s.list[s.tick]
		s.look(g, now)
		if !g.gone {
			s.tick++
		}
		s.recheck = max(0, s.recheck-1)
	}
	return s.recheck > 0 && len(s.list) > 0
}

func (s *State) look(g *group, now int64) {
	if g.version != s.version {
		g.version = s.version
		s.lookAtTopics(g, now)
	}
	silent := false
	for i := len(g.members) - 1; i >= 0; i-- {
		if m := g.members[i]; now >= m.deadline {
			s.part(g, m)
			silent = true
		}
	}
	switch {
	case silent:
		s.regroup(g, now)
	case !g.taken() && len(g.table) == 0 && g.idleAt(now) >= int64(s.limits.Retention):
		s.remove(g)
	}
}

// lookAtTopics forgets what is committed for partitions that are gone, and divides the
// partitions anew.
func (s *State) lookAtTopics(g *group, now int64) {
	var gone []Partition
	for _, o := range g.offsets {
		if !o.dead && !s.topics.Has(o.Partition) {
			gone = append(gone, o.Partition)
		}
	}
	s.removed(g, gone)
	for _, p := range gone {
		s.unset(g, p)
	}
	n := len(g.table)
	g.table = slices.DeleteFunc(g.table, func(c claim) bool { return !s.topics.Has(c.Partition) })
	if s.divide(g) || len(g.table) != n {
		s.keep(g, now)
	}
}

// search is where a member stands or would stand in the list of members.
func (g *group) search(id MemberID) int {
	return sort.Search(len(g.members), func(i int) bool { return compareID(g.members[i].id, id) >= 0 })
}

// insert puts a member in its place.
func (g *group) insert(m *Member) {
	i := g.search(m.id)
	if i < len(g.members) && g.members[i].id == m.id {
		invariant.Violated("group: a member's id is its own")
	}
	g.members = slices.Insert(g.members, i, m)
}
