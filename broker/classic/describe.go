package classic

import "slices"

// Description is everything that a person may want to know of a group.
type Description struct {
	Stage          Stage
	Generation     int32
	Type, Protocol string
	Members        []MemberInfo // in the order of their joining
}

// MemberInfo is a member of a described group.
type MemberInfo struct {
	ID, Instance, Client, Host string
	// Session is how long it may be silent, Silent how much longer it may from now on, in
	// nanoseconds.
	Session, Silent int64
	// Said is what it says of itself in the group's protocol, Assigned what has been
	// assigned to it: nothing while members join.
	Said, Assigned []byte
}

// Summary is a group in a list.
type Summary struct {
	Name    string
	Stage   Stage
	Type    string
	Members int
}

// Has reports whether a group has members.
func (s *State) Has(name string) bool {
	g := s.groups[name]
	return g != nil && len(g.members) > 0
}

// List appends the groups that have members, in no order.
func (s *State) List(to []Summary) []Summary {
	for _, g := range s.agenda {
		if len(g.members) > 0 {
			to = append(to, Summary{Name: g.name, Stage: g.stage, Type: g.kind, Members: len(g.members)})
		}
	}
	return to
}

// DescribedSize is about how much memory the description of a group takes, in bytes; 0
// of one that is unknown.
func (s *State) DescribedSize(name string) int {
	if g := s.groups[name]; g != nil {
		return g.bytes + len(g.members)*memberBytes
	}
	return 0
}

// Describe copies what there is of a group; of one without members, nothing.
func (s *State) Describe(now int64, name string) (Description, bool) {
	g := s.groups[name]
	if g == nil || len(g.members) == 0 {
		return Description{}, false
	}
	d := Description{Stage: g.stage, Generation: g.generation, Type: g.kind, Protocol: g.protocol}
	for _, m := range g.members {
		i := MemberInfo{ID: m.id, Instance: m.instance, Client: m.client, Host: m.host, Session: m.session, Silent: m.deadline - now}
		if m.waits() {
			i.Silent = m.session
		}
		if g.stage == Stable {
			i.Said, i.Assigned = slices.Clone(m.said(g.protocol)), slices.Clone(m.data)
		}
		d.Members = append(d.Members, i)
	}
	return d, true
}
