package group

import "slices"

// Commit says how far a group has come.
type Commit struct {
	Group []byte
	// Member and Generation are those of the member that commits; a zero Member is
	// nobody's, which is for groups without members.
	Member     MemberID
	Generation int32
	// Anywhere: the offsets may go back, and lie behind the end of the log or below its
	// start. Whoever commits so keeps order in another way.
	Anywhere bool
	// Other: one of the members that [State.Occupy] has told of commits. That it may has
	// been found out before.
	Other   bool
	Entries []Entry
}

// Entry is one partition of a [Commit].
type Entry struct {
	Partition
	// Next is the offset of the next record to be read, at least 0.
	Next int64
	// Epoch is the leader epoch of the last record read, -1 where it is not known.
	Epoch int32
	// Metadata is the client's.
	Metadata []byte
	// Code is OK or Raised, or says what others have found wrong with the entry, which is
	// then passed over; then it is the outcome.
	Code Code
	// Committed is what is committed afterwards, -1 where nothing is.
	Committed int64
}

// Commit commits offsets. A code other than OK is that of all entries. It allocates
// nothing for partitions that have been committed before.
func (s *State) Commit(now, wall int64, c *Commit) Code {
	g, m, code := s.committer(c)
	if code != OK {
		for i := range c.Entries {
			c.Entries[i].Code, c.Entries[i].Committed = code, -1
		}
		return code
	}
	fresh := g == nil
	if fresh {
		g = s.make(string(c.Group))
	}
	n := s.write(g, wall, c.Entries, func(e *Entry, at *offset) Code {
		if m != nil {
			if own := m.owns(e.Partition); own == nil || own.Since > c.Generation {
				return Fenced
			}
		}
		if at != nil && e.Next < at.Next && !c.Anywhere {
			return Backwards
		}
		return OK
	})
	s.settle(g, now, fresh, n)
	return OK
}

// settle ends a commit that wrote n offsets: without members it is what the group is
// kept for, and a group of which nothing is written was never there.
func (s *State) settle(g *group, now int64, fresh bool, n int) {
	switch {
	case fresh && n == 0:
		s.drop(g)
	case !g.taken() && n > 0:
		g.rest(now)
	}
}

// committer finds the group and the member of a commit; a group that is to be made is
// nil.
func (s *State) committer(c *Commit) (*group, *Member, Code) {
	g := s.groups[string(c.Group)]
	switch {
	case c.Member != MemberID{}:
		if g == nil {
			return nil, nil, UnknownMember
		}
		m := g.member(c.Member)
		if m == nil {
			return nil, nil, g.stranger(c.Member)
		}
		return g, m, OK
	case g == nil:
		return nil, nil, s.mayMake(c.Group)
	case len(g.members) > 0 || g.others > 0 && !c.Other:
		return nil, nil, Active
	}
	return g, nil, OK
}

// mayMake reports whether a group of this name can be made.
func (s *State) mayMake(name []byte) Code {
	switch {
	case !CheckName(name):
		return Invalid
	case len(s.list) >= s.limits.Groups:
		return Limit
	}
	return OK
}

// write commits the entries that judge accepts, and returns how many it has written:
// what changes nothing is not.
func (s *State) write(g *group, wall int64, entries []Entry, judge func(*Entry, *offset) Code) int {
	start, total := len(s.Out.b), 0
	b, n := beginOffsets(s.Out.b, g.name, wall), 0
	for i := range entries {
		e := &entries[i]
		at := g.index[e.Partition]
		raised := e.Code == Raised
		if raised {
			e.Code = OK
		}
		if e.Code == OK {
			e.Code = s.check(e, at)
		}
		if e.Code == OK {
			e.Code = judge(e, at)
		}
		e.Committed = -1
		if at != nil {
			e.Committed = at.Next
		}
		if e.Code != OK {
			continue
		}
		e.Committed = e.Next
		if raised {
			e.Code = Raised
		}
		if at != nil && at.Next == e.Next && at.Epoch == e.Epoch && string(at.Metadata) == string(e.Metadata) {
			continue
		}
		o := Offset{Partition: e.Partition, Next: e.Next, Epoch: e.Epoch, Time: wall, Metadata: e.Metadata}
		if n > 0 && len(b)-start+offsetSize+len(e.Metadata) > s.limits.Record {
			endOffsets(b, start, g.name, n)
			s.Out.put(b)
			start, total = len(b), total+n
			b, n = beginOffsets(b, g.name, wall), 0
		}
		b = appendOffset(b, &o)
		n++
		s.set(g, &o)
	}
	if n == 0 {
		s.Out.b = b[:start]
		return total
	}
	endOffsets(b, start, g.name, n)
	s.Out.put(b)
	return total + n
}

// check judges an entry by itself.
func (s *State) check(e *Entry, at *offset) Code {
	switch {
	case e.Next < 0 || e.Epoch < -1 || e.Number < 0 || len(e.Metadata) > s.limits.Metadata || !s.topics.Has(e.Partition):
		return Invalid
	case at == nil && s.offsets >= s.limits.Offsets:
		return Limit
	}
	return OK
}

// Reset commits offsets on the order of an administrator: they may go back, and the
// group is made if it is unknown. A partition that a member owns is Active.
func (s *State) Reset(now, wall int64, name []byte, entries []Entry) Code {
	g := s.groups[string(name)]
	fresh := g == nil
	if fresh {
		if code := s.mayMake(name); code != OK {
			return code
		}
		g = s.make(string(name))
	}
	owned := g.owned(len(entries))
	n := s.write(g, wall, entries, func(e *Entry, _ *offset) Code {
		if owned.has(e.Partition) {
			return Active
		}
		return OK
	})
	s.settle(g, now, fresh, n)
	return OK
}

// Forget takes committed offsets away. A partition that a member owns is Active, one
// without an offset is OK. others reports whether one of the members reads a partition that
// are kept elsewhere, see [State.Occupy]; nil: they read all.
func (s *State) Forget(name []byte, parts []Partition, codes []Code, others func(p Partition) bool) Code {
	g := s.groups[string(name)]
	if g == nil {
		return Unknown
	}
	var gone []Partition
	owned := g.owned(len(parts))
	for i, p := range parts {
		read := owned.has(p)
		if g.others > 0 && others != nil {
			read = others(p)
		}
		switch {
		case read:
			codes[i] = Active
		case g.index[p] != nil:
			gone = append(gone, p)
			s.unset(g, p)
			fallthrough
		default:
			codes[i] = OK
		}
	}
	s.removed(g, gone)
	return OK
}

// removed writes that offsets are gone.
func (s *State) removed(g *group, gone []Partition) {
	for piece := range slices.Chunk(gone, (s.limits.Record-MaxName-8)/partitionSize) {
		s.Out.put(appendRemoved(s.Out.b, g.name, piece))
	}
}

// Committed is what is committed for a partition, with metadata that are valid until
// the next change. ok is false where nothing is, or the group is unknown.
func (s *State) Committed(name []byte, p Partition) (o Offset, ok bool) {
	g := s.groups[string(name)]
	if g == nil {
		return Offset{}, false
	}
	at := g.index[p]
	if at == nil {
		return Offset{}, false
	}
	return at.Offset, true
}

// ownership knows which partitions of a group a member owns, or has not confirmed that
// it does not.
type ownership struct {
	g   *group
	all map[Partition]struct{} // nil: the members are asked
}

// owned is the ownership for n questions: of many members they are put together first.
func (g *group) owned(n int) ownership {
	o := ownership{g: g}
	if n <= fewQuestions || len(g.members) == 0 {
		return o
	}
	o.all = map[Partition]struct{}{}
	for _, m := range g.members {
		for _, list := range [...][]Grant{m.list, m.leaving} {
			for i := range list {
				o.all[list[i].Partition] = struct{}{}
			}
		}
	}
	return o
}

// fewQuestions is up to how many are answered without a map.
const fewQuestions = 16

func (o *ownership) has(p Partition) bool {
	if o.g.others > 0 {
		return true // nobody here knows who reads what
	}
	if o.all != nil {
		_, ok := o.all[p]
		return ok
	}
	for _, m := range o.g.members {
		if m.owns(p) != nil {
			return true
		}
	}
	return false
}
