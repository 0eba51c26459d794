package classic

import (
	"container/heap"
	"slices"

	"github.com/mqd-broker/mqd/internal/invariant"
)

// State holds the members of groups; the package's comment explains it. Times are by the
// loop's monotonic clock in nanoseconds. Between two calls every group stands in the
// agenda.
type State struct {
	limits   Limits
	groups   map[string]*group
	agenda   agenda
	bytes    int // of all groups
	members  int
	answered []*Call
	changed  []*group
	keep     []*group // of which something is to be kept
	scratch  []byte
}

// New makes a state without groups.
func New(l Limits) *State {
	return &State{limits: l.WithDefaults(), groups: map[string]*group{}}
}

// group is one group. It is there as long as it has members, or ids that members were
// told.
type group struct {
	name       string
	stage      Stage
	generation int32
	kind       string
	protocol   string // of this generation
	leader     *member
	members    []*member // in the order in which they joined first
	byID       map[string]*member
	static     map[string]*member // by instance
	pending    []told             // ids that nobody has joined with yet
	bytes      int

	until  int64 // when time is up to join, or to sync
	limit  int64 // of a first rebalance that waits for more members; else 0
	more   bool  // have come since it began to wait
	told   int   // members that the coordinator knows of
	dirty  bool  // stands in State.changed
	toKeep bool  // stands in State.keep

	at int64 // the next time when something may have to be done
	in int   // place in the agenda, -1 for none
}

// told is an id that a member was told, and until when it is good.
type told struct {
	id    string
	until int64
}

// member is a member of a group.
type member struct {
	id, instance       string
	client, host       string
	session, rebalance int64
	protocols          []Protocol
	data               []byte // assigned
	deadline           int64  // of its silence
	join, sync         *Call  // waits for an answer
	synced             bool   // has asked for what was assigned in this generation
	size               int
}

// waits reports whether the member waits for an answer, so that it need not be heard of.
func (m *member) waits() bool { return m.join != nil || m.sync != nil }

// Take takes a call. It may be answered at once, and others with it.
func (s *State) Take(now int64, c *Call) {
	c.Code, c.Leader, c.Skip, c.Members, c.Data = OK, "", false, nil, nil
	g := s.groups[c.Group]
	switch c.Kind {
	case Join:
		g = s.join(now, g, c)
	case Sync:
		s.sync(now, g, c)
	case Heartbeat:
		s.heartbeat(now, g, c)
	case Leave:
		s.leave(now, g, c)
	case Commit:
		s.commit(now, g, c)
	default:
		invariant.Violated("classic: a call has a kind")
	}
	if g != nil && c.Kind != Heartbeat && c.Kind != Commit {
		s.settle(g)
	}
}

// Answered are the calls that have been answered since the last call, in order. They are
// valid until the next call of any method.
func (s *State) Answered() []*Call {
	a := s.answered
	s.answered = s.answered[:0]
	return a
}

// Changed calls f for each group whose number of members is another one than f has heard
// of.
func (s *State) Changed(f func(name string, members int)) {
	for i, g := range s.changed {
		g.dirty = false
		if n := len(g.members); n != g.told {
			g.told = n
			f(g.name, n)
		}
		s.changed[i] = nil
	}
	s.changed = s.changed[:0]
}

// Each calls f for each group that has members.
func (s *State) Each(f func(name string, members int)) {
	for _, g := range s.agenda {
		if len(g.members) > 0 {
			f(g.name, len(g.members))
		}
	}
}

// Members is the number of members of all groups.
func (s *State) Members() int { return s.members }

// Close answers every call that waits with Closed, and forgets everything.
func (s *State) Close() {
	for _, g := range s.agenda {
		for _, m := range g.members {
			s.end(&m.join, Closed)
			s.end(&m.sync, Closed)
		}
		delete(s.groups, g.name)
	}
	s.agenda, s.changed, s.keep, s.bytes, s.members = nil, nil, nil, 0, 0
}

// answer ends a call.
func (s *State) answer(c *Call, code Code) {
	c.Code = code
	s.answered = append(s.answered, c)
}

// end ends a member's call, if there is one.
func (s *State) end(c **Call, code Code) {
	if *c != nil {
		s.answer(*c, code)
		*c = nil
	}
}

// tickBudget is how many groups a tick looks at.
const tickBudget = 64

// Tick lets time act on some groups, and reports whether more are waiting for it.
func (s *State) Tick(now int64) bool {
	for range tickBudget {
		if len(s.agenda) == 0 || s.agenda[0].at > now {
			return false
		}
		g := s.agenda[0]
		s.expire(now, g)
		s.settle(g)
	}
	return len(s.agenda) > 0 && s.agenda[0].at <= now
}

// Next is when Tick has something to do, -1 for never.
func (s *State) Next() int64 {
	if len(s.agenda) == 0 {
		return -1
	}
	return s.agenda[0].at
}

// expire does what is due in a group.
func (s *State) expire(now int64, g *group) {
	gone, fewer := false, false
	for i := len(g.pending) - 1; i >= 0; i-- {
		if now >= g.pending[i].until {
			s.unpend(g, g.pending[i].id)
			fewer = true
		}
	}
	for i := len(g.members) - 1; i >= 0; i-- {
		if m := g.members[i]; !m.waits() && now >= m.deadline {
			s.drop(g, m, UnknownMember)
			gone = true
		}
	}
	s.wentOn(now, g, gone, fewer)
	if now < g.until {
		return
	}
	switch g.stage {
	case Preparing:
		s.timeUp(now, g)
	case Completing, Stable:
		gone = false
		for i := len(g.members) - 1; i >= 0; i-- {
			if m := g.members[i]; !m.synced {
				s.drop(g, m, UnknownMember)
				gone = true
			}
		}
		s.wentOn(now, g, gone, false)
	}
}

// timeUp ends the time for members to join, unless a first rebalance waits for more.
func (s *State) timeUp(now int64, g *group) {
	if g.limit != 0 && g.more && now < g.limit {
		g.more = false
		g.until = min(now+int64(s.limits.Delay), g.limit)
		return
	}
	g.limit = 0
	s.complete(now, g)
}

// settle ends what was done with a group: one with nobody in it is forgotten, of any
// other it is worked out when it has to be looked at next.
func (s *State) settle(g *group) {
	if len(g.members) != g.told && !g.dirty {
		g.dirty = true
		s.changed = append(s.changed, g)
	}
	if len(g.members) == 0 && len(g.pending) == 0 {
		if s.groups[g.name] == g {
			delete(s.groups, g.name)
			s.bytes -= g.weight()
			if g.in >= 0 {
				heap.Remove(&s.agenda, g.in)
			}
		}
		return
	}
	at := int64(1<<63 - 1)
	for _, p := range g.pending {
		at = min(at, p.until)
	}
	for _, m := range g.members {
		if !m.waits() {
			at = min(at, m.deadline)
		}
	}
	if g.stage == Preparing || slices.ContainsFunc(g.members, func(m *member) bool { return !m.synced }) {
		at = min(at, g.until)
	}
	g.at = at
	if g.in < 0 {
		heap.Push(&s.agenda, g)
	} else {
		heap.Fix(&s.agenda, g.in)
	}
}

// agenda orders groups by when they have to be looked at. A member that is heard of moves
// its own deadline only, and the group is looked at in vain once a session.
type agenda []*group

// Len implements heap.Interface.
func (a agenda) Len() int { return len(a) }

// Less implements heap.Interface.
func (a agenda) Less(i, j int) bool { return a[i].at < a[j].at }

// Swap implements heap.Interface.
func (a agenda) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].in, a[j].in = i, j
}

// Push implements heap.Interface.
func (a *agenda) Push(g any) {
	g.(*group).in = len(*a)
	*a = append(*a, g.(*group))
}

// Pop implements heap.Interface.
func (a *agenda) Pop() any {
	n := len(*a) - 1
	g := (*a)[n]
	(*a)[n], *a = nil, (*a)[:n]
	g.in = -1
	return g
}
