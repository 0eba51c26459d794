package classic

import (
	"bytes"
	"slices"
)

// join takes a join and returns its group, which may be a new one, or nil.
func (s *State) join(now int64, g *group, c *Call) *group {
	switch {
	case c.Session < int64(s.limits.MinSession) || c.Session > int64(s.limits.MaxSession):
		s.answer(c, InvalidSession)
	case c.Type == "" || len(c.Protocols) == 0 || len(c.Protocols) > s.limits.Protocols || !c.named():
		s.answer(c, Inconsistent)
	case g == nil && c.Member != "":
		s.answer(c, UnknownMember)
	case g != nil && !g.supports(c):
		s.answer(c, Inconsistent)
	default:
		c.Rebalance = min(max(c.Rebalance, 0), int64(s.limits.MaxRebalance))
		if g == nil {
			g = &group{name: c.Group, byID: map[string]*member{}, static: map[string]*member{}, in: -1}
			s.groups[g.name] = g
			s.bytes += g.weight()
		}
		if c.Member == "" {
			s.joinNew(now, g, c)
		} else {
			s.joinAgain(now, g, c)
		}
	}
	return g
}

// named reports whether the kind and the protocols of a join have names that are kept, and
// that every version of the answers has room for.
func (c *Call) named() bool {
	return len(c.Type) <= MaxName && !slices.ContainsFunc(c.Protocols, func(p Protocol) bool { return len(p.Name) > MaxName })
}

// supports reports whether the group could go on with what a member says.
func (g *group) supports(c *Call) bool {
	if len(g.members) == 0 {
		return true
	}
	return c.Type == g.kind && slices.ContainsFunc(c.Protocols, func(p Protocol) bool { return g.common(p.Name) })
}

// common reports whether all members have a protocol.
func (g *group) common(name string) bool {
	for _, m := range g.members {
		if !m.has(name) {
			return false
		}
	}
	return true
}

func (m *member) has(name string) bool {
	return slices.ContainsFunc(m.protocols, func(p Protocol) bool { return p.Name == name })
}

// joinNew takes a join without an id.
func (s *State) joinNew(now int64, g *group, c *Call) {
	if m := g.static[c.Instance]; c.Instance != "" && m != nil {
		s.replace(now, g, m, c)
		return
	}
	if code := s.room(g, nil, c); code != OK {
		s.answer(c, code)
		return
	}
	if c.Twice && c.Instance == "" {
		g.pending = append(g.pending, told{c.ID, now + c.Session})
		g.bytes += len(c.ID)
		s.bytes += len(c.ID)
		c.Member = c.ID
		s.answer(c, IDRequired)
		return
	}
	s.add(now, g, c, c.ID)
}

// joinAgain takes a join with an id.
func (s *State) joinAgain(now int64, g *group, c *Call) {
	if c.Instance == "" && g.pends(c.Member) {
		if code := s.room(g, nil, c); code != OK {
			s.answer(c, code)
			return
		}
		s.unpend(g, c.Member)
		s.add(now, g, c, c.Member)
		return
	}
	m, code := g.find(c.Member, c.Instance)
	if code == OK {
		code = s.room(g, m, c)
	}
	if code != OK {
		s.answer(c, code)
		return
	}
	same := m.same(c.Protocols)
	s.say(g, m, c)
	switch {
	case g.stage == Preparing:
		s.wait(now, g, m, c)
	case same && (g.stage == Completing || g.stage == Stable && m != g.leader):
		// The answer to its last join was lost, or it has forgotten it.
		s.heard(now, m)
		s.joined(g, m, c)
	default: // a leader that joins again wants to assign anew
		s.wait(now, g, m, c)
	}
}

// find is the member of an id, and of an instance where one is named.
func (g *group) find(id, instance string) (*member, Code) {
	if instance != "" {
		switch m := g.static[instance]; {
		case m == nil:
			return nil, UnknownMember
		case m.id != id:
			return nil, Fenced
		}
	}
	if m := g.byID[id]; m != nil {
		return m, OK
	}
	return nil, UnknownMember
}

// replace gives the place of a static member to its successor.
func (s *State) replace(now int64, g *group, m *member, c *Call) {
	if code := s.room(g, m, c); code != OK {
		s.answer(c, code)
		return
	}
	s.end(&m.join, Fenced)
	s.end(&m.sync, Fenced)
	old := m.id
	delete(g.byID, m.id)
	s.say(g, m, c)
	s.rename(g, m, c.ID)
	if g.stage != Stable || g.choose() != g.protocol {
		s.wait(now, g, m, c)
		return
	}
	// Nothing changes for anybody else. A leader that starts again shall not assign
	// anew: it is told so, or that somebody else is the leader.
	s.heard(now, m)
	s.joined(g, m, c)
	s.willKeep(g)
	if m != g.leader {
		return
	}
	if c.Skips {
		c.Skip = true
		return
	}
	c.Leader, c.Members = old, nil
}

// rename gives a member another id.
func (s *State) rename(g *group, m *member, id string) {
	s.grow(g, m, len(id)-len(m.id))
	m.id = id
	g.byID[id] = m
}

// add makes a member.
func (s *State) add(now int64, g *group, c *Call, id string) {
	m := &member{id: id, instance: c.Instance}
	if len(g.members) == 0 {
		g.kind = c.Type
	}
	g.members = append(g.members, m)
	g.byID[id] = m
	if m.instance != "" {
		g.static[m.instance] = m
	}
	s.members++
	if g.leader == nil {
		g.leader = m
	}
	s.say(g, m, c)
	g.more = true
	s.wait(now, g, m, c)
}

// memberBytes is what a member counts, its names and bytes apart.
const memberBytes = 200

// groupBytes is what a group counts, its name and members apart: much of the memory of a
// group in which somebody was only told an id.
const groupBytes = 500

// weight is what a group counts, its members apart.
func (g *group) weight() int { return groupBytes + len(g.name) }

// said is what a member says of itself, in bytes.
func said(c *Call) int {
	n := memberBytes + len(c.Instance) + len(c.Client) + len(c.Host)
	for _, p := range c.Protocols {
		n += len(p.Name) + len(p.Data) + 40
	}
	return n
}

// weight is what a member counts.
func (m *member) weight() int {
	return said(&Call{Instance: m.instance, Client: m.client, Host: m.host, Protocols: m.protocols}) + len(m.id) + len(m.data)
}

// room reports whether there is room for what a member says; m is nil for a new one.
func (s *State) room(g *group, m *member, c *Call) Code {
	more := said(c) + len(c.ID)
	if m != nil {
		more -= m.size
	} else if n := len(g.members) + len(g.pending); n > s.limits.Members || n == s.limits.Members && c.Member == "" {
		return Full
	}
	if g.bytes+more > s.limits.GroupBytes || s.bytes+more > s.limits.Bytes {
		return Full
	}
	return OK
}

// grow counts bytes.
func (s *State) grow(g *group, m *member, n int) {
	m.size += n
	g.bytes += n
	s.bytes += n
}

// say keeps what a member says of itself. Of a protocol that it names twice the first
// counts.
func (s *State) say(g *group, m *member, c *Call) {
	m.client, m.host, m.session, m.rebalance = c.Client, c.Host, c.Session, c.Rebalance
	m.protocols = nil
	for _, p := range c.Protocols {
		if !m.has(p.Name) {
			m.protocols = append(m.protocols, Protocol{p.Name, bytes.Clone(p.Data)})
		}
	}
	c.Protocols = m.protocols // a call that waits keeps nothing else
	s.grow(g, m, m.weight()-m.size)
}

// same reports whether the member has said just this before.
func (m *member) same(protocols []Protocol) bool {
	return slices.EqualFunc(m.protocols, protocols, func(a, b Protocol) bool { return a.Name == b.Name && bytes.Equal(a.Data, b.Data) })
}

// wait has a join wait for the next generation.
func (s *State) wait(now int64, g *group, m *member, c *Call) {
	s.end(&m.join, Rebalancing) // of a connection that is gone
	m.join = c
	s.prepare(now, g)
}

// heard notes that a member lives.
func (s *State) heard(now int64, m *member) { m.deadline = now + m.session }

// pends reports whether an id was told and nobody has joined with it.
func (g *group) pends(id string) bool {
	return slices.ContainsFunc(g.pending, func(t told) bool { return t.id == id })
}

// unpend forgets an id that was told.
func (s *State) unpend(g *group, id string) {
	g.pending = slices.DeleteFunc(g.pending, func(t told) bool { return t.id == id })
	g.bytes -= len(id)
	s.bytes -= len(id)
}

// drop ends a membership. What follows from it is up to the caller.
func (s *State) drop(g *group, m *member, code Code) {
	s.end(&m.join, code)
	s.end(&m.sync, code)
	g.members = slices.DeleteFunc(g.members, func(o *member) bool { return o == m })
	delete(g.byID, m.id)
	if m.instance != "" {
		delete(g.static, m.instance)
	}
	s.grow(g, m, -m.size)
	s.members--
	if g.leader == m {
		g.leader = nil
		if len(g.members) > 0 {
			g.leader = g.members[0]
		}
	}
}
