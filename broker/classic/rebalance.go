package classic

import "bytes"

// prepare has everybody join again, and goes on if they have.
func (s *State) prepare(now int64, g *group) {
	if g.stage != Preparing {
		first := g.stage == Empty
		for _, m := range g.members {
			if m.sync != nil {
				s.heard(now, m)
				s.end(&m.sync, Rebalancing)
			}
		}
		g.stage, g.limit, g.until = Preparing, 0, now+g.patience()
		if delay := int64(s.limits.Delay); first && delay > 0 {
			g.limit, g.more = g.until, false
			g.until = min(g.until, now+delay)
		}
	}
	s.tryComplete(now, g)
}

// patience is how long a rebalance waits for members.
func (g *group) patience() int64 {
	longest := int64(0)
	for _, m := range g.members {
		longest = max(longest, m.rebalance)
	}
	return longest
}

// tryComplete ends a rebalance for which everybody has come.
func (s *State) tryComplete(now int64, g *group) {
	if g.limit != 0 || len(g.pending) > 0 {
		return
	}
	for _, m := range g.members {
		if m.join == nil {
			return
		}
	}
	s.complete(now, g)
}

// wentOn goes on after members are gone, or fewer are expected than before.
func (s *State) wentOn(now int64, g *group, gone, fewer bool) {
	switch {
	case gone && len(g.members) == 0:
		s.empty(g)
	case g.stage == Preparing && (gone || fewer):
		s.tryComplete(now, g)
	case gone:
		s.prepare(now, g)
	}
}

// empty is the end of a group's last generation.
func (s *State) empty(g *group) {
	g.stage, g.protocol, g.kind, g.leader, g.limit = Empty, "", "", nil, 0
	g.generation++
}

// leastPatience is how long a rebalance that has come to nothing is tried again, at least.
const leastPatience = int64(100e6)

// complete begins the next generation with those who have joined. Static members stay
// although they have not, for as long as they may be silent.
func (s *State) complete(now int64, g *group) {
	for i := len(g.members) - 1; i >= 0; i-- {
		if m := g.members[i]; m.join == nil && m.instance == "" {
			s.drop(g, m, UnknownMember)
		}
	}
	if len(g.members) == 0 {
		s.empty(g)
		return
	}
	if g.leader.join == nil {
		g.leader = nil
		for _, m := range g.members {
			if m.join != nil {
				g.leader = m
				break
			}
		}
		if g.leader == nil { // nobody could assign
			g.leader, g.until = g.members[0], now+max(g.patience(), leastPatience)
			return
		}
	}
	g.generation++
	g.protocol = g.choose()
	g.stage, g.until = Completing, now+g.patience()
	for _, m := range g.members {
		m.synced = false
		s.assign(g, m, nil)
		s.heard(now, m)
		if c := m.join; c != nil {
			m.join = nil
			s.joined(g, m, c)
		}
	}
}

// choose is the protocol that most members like best of those that all have; of two with
// as many votes the one that the oldest member likes better.
func (g *group) choose() string {
	have, votes := map[string]int{}, map[string]int{}
	for _, m := range g.members {
		for _, p := range m.protocols {
			have[p.Name]++
		}
	}
	for _, m := range g.members {
		for _, p := range m.protocols {
			if have[p.Name] == len(g.members) {
				votes[p.Name]++
				break
			}
		}
	}
	best := ""
	for _, p := range g.members[0].protocols {
		if votes[p.Name] > votes[best] {
			best = p.Name
		}
	}
	return best
}

// joined answers a join with the generation that there is.
func (s *State) joined(g *group, m *member, c *Call) {
	c.Member, c.Generation, c.Type, c.Protocol, c.Leader = m.id, g.generation, g.kind, g.protocol, g.leader.id
	if m == g.leader {
		c.Members = make([]Said, 0, len(g.members))
		for _, o := range g.members {
			c.Members = append(c.Members, Said{Member: o.id, Instance: o.instance, Data: o.said(g.protocol)})
		}
	}
	s.answer(c, OK)
}

// said is what the member says of itself in a protocol.
func (m *member) said(protocol string) []byte {
	for _, p := range m.protocols {
		if p.Name == protocol {
			return p.Data
		}
	}
	return nil
}

// assign keeps what is assigned to a member.
func (s *State) assign(g *group, m *member, data []byte) {
	s.grow(g, m, len(data)-len(m.data))
	m.data = bytes.Clone(data)
}

// current is the member of a call that names one, and a generation.
func (g *group) current(c *Call) (*member, Code) {
	if g == nil {
		return nil, UnknownMember
	}
	m, code := g.find(c.Member, c.Instance)
	switch {
	case code != OK:
		return nil, code
	case c.Generation != g.generation:
		return nil, IllegalGeneration
	}
	return m, OK
}

// sync takes a sync.
func (s *State) sync(now int64, g *group, c *Call) {
	m, code := g.current(c)
	switch {
	case code != OK:
	case c.Type != "" && c.Type != g.kind || c.Protocol != "" && c.Protocol != g.protocol:
		code = Inconsistent
	case g.stage == Preparing:
		code = Rebalancing
	case g.stage == Completing && m == g.leader && !s.fits(g, c):
		code = Busy
	}
	if code != OK {
		s.answer(c, code)
		return
	}
	s.heard(now, m)
	m.synced = true
	s.end(&m.sync, Rebalancing) // of a connection that is gone
	if g.stage == Stable {
		s.synced(g, m, c)
		return
	}
	m.sync = c
	if m == g.leader {
		s.share(now, g, c)
	}
	c.Assigned = nil
}

// fits reports whether there is room for what a leader assigns.
func (s *State) fits(g *group, c *Call) bool {
	n := 0
	for i := range c.Assigned {
		n += len(c.Assigned[i].Data)
	}
	return s.bytes+n <= s.limits.Bytes
}

// share hands out what the leader has assigned.
func (s *State) share(now int64, g *group, c *Call) {
	for i := range c.Assigned {
		if m := g.byID[c.Assigned[i].Member]; m != nil {
			s.assign(g, m, c.Assigned[i].Data)
		}
	}
	g.stage = Stable
	s.willKeep(g)
	for _, m := range g.members {
		if c := m.sync; c != nil {
			m.sync = nil
			s.heard(now, m)
			s.synced(g, m, c)
		}
	}
}

// synced answers a sync.
func (s *State) synced(g *group, m *member, c *Call) {
	c.Type, c.Protocol, c.Data = g.kind, g.protocol, m.data
	s.answer(c, OK)
}

// heartbeat takes a heartbeat.
func (s *State) heartbeat(now int64, g *group, c *Call) {
	m, code := g.current(c)
	if code == OK {
		s.heard(now, m)
		if g.stage == Preparing {
			code = Rebalancing
		}
	}
	s.answer(c, code)
}

// commit judges whether offsets may be committed. While members join they may: they have
// not stopped reading yet.
func (s *State) commit(now int64, g *group, c *Call) {
	if c.Generation < 0 && (g == nil || len(g.members) == 0) {
		s.answer(c, OK) // by a consumer that is no member of anything
		return
	}
	m, code := g.current(c)
	if code == OK {
		if g.stage == Completing {
			code = Rebalancing
		}
		s.heard(now, m)
	}
	s.answer(c, code)
}

// leave takes a leave.
func (s *State) leave(now int64, g *group, c *Call) {
	gone, fewer := false, false
	for i := range c.Leaving {
		l := &c.Leaving[i]
		if g == nil {
			l.Code = UnknownMember
			continue
		}
		if l.Instance == "" && g.pends(l.Member) {
			s.unpend(g, l.Member)
			l.Code, fewer = OK, true
			continue
		}
		m, code := g.leaver(l)
		if l.Code = code; code == OK {
			s.drop(g, m, UnknownMember)
			gone = true
		}
	}
	s.answer(c, OK)
	if g != nil {
		s.wentOn(now, g, gone, fewer)
	}
}

// leaver is the member that leaves.
func (g *group) leaver(l *Leaver) (*member, Code) {
	if l.Member == "" && l.Instance != "" {
		if m := g.static[l.Instance]; m != nil {
			return m, OK
		}
		return nil, UnknownMember
	}
	return g.find(l.Member, l.Instance)
}
