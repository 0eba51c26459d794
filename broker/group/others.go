package group

import (
	"bytes"

	"github.com/mqd-broker/mqd/internal/invariant"
)

// MayOccupy reports whether a group can have members that are kept elsewhere: WrongMode
// if it has some of its own, or a table.
func (s *State) MayOccupy(name []byte) Code {
	g := s.groups[string(name)]
	switch {
	case g == nil:
		return s.mayMake(name)
	case len(g.members) > 0 || len(g.table) > 0:
		return WrongMode
	}
	return OK
}

// Occupy says that a group has n members that are kept elsewhere, and divide the work by
// rules of their own. As long as it has any, the group belongs to them: nobody joins it
// here, and only they commit. Of that only what [State.Keep] is given is written. The group
// is made if there is none; one of which nothing was ever written goes with the last of them.
func (s *State) Occupy(now int64, name []byte, n int) {
	g := s.groups[string(name)]
	if g == nil {
		if n == 0 {
			return
		}
		g = s.make(string(name))
		g.unknown = true
	}
	was := g.others
	g.others = n
	if n > 0 || was == 0 {
		return
	}
	switch {
	case g.unknown:
		s.drop(g)
	case len(g.index) == 0 && len(g.table) == 0 && g.generation == 0:
		s.remove(g)
	default:
		g.rest(now)
		s.Keep(name, nil)
	}
}

// Keep writes what is kept of the members that [State.Occupy] has told of, in place of
// what was kept before; nothing is kept of more than a record holds. The group has to be
// there.
func (s *State) Keep(name, kept []byte) {
	g := s.groups[string(name)]
	if g == nil {
		invariant.Violated("group: members are kept of a group that is there")
	}
	if len(kept)+len(name)+64 > s.limits.Record {
		kept = nil
	}
	if bytes.Equal(g.kept, kept) {
		return
	}
	g.kept = append([]byte(nil), kept...)
	g.unknown = false
	s.blocks[g.block].dirty = true
	s.Out.put(appendKept(s.Out.b, g))
}

// EachKept calls f for each group of whose members something is kept. F changes nothing.
func (s *State) EachKept(f func(name string, kept []byte)) {
	for _, g := range s.list {
		if len(g.kept) > 0 {
			f(g.name, g.kept)
		}
	}
}

// Known reports whether there is a group of this name.
func (s *State) Known(name []byte) bool { return s.groups[string(name)] != nil }
