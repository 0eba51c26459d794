package group

import "slices"

// Description is everything that a person may want to know of a group.
type Description struct {
	Name       string
	Mode       Mode
	Generation int32
	Members    []MemberInfo // by id
	Table      []Claimed    // of ModeManual, by partition
	Offsets    []Offset     // by partition
	// Idle is how long the group has been without members, in nanoseconds.
	Idle int64
}

// MemberInfo is a member of a described group.
type MemberInfo struct {
	ID               MemberID
	Instance, Client string
	// Session is how long it may be silent, Silent how much longer it may from now on,
	// in nanoseconds.
	Session, Silent int64
	Topics          []string
	Generation      int32
	List            []Grant
	// Leaving is what it has to stop reading, and has not confirmed yet.
	Leaving []Grant
}

// Claimed is a row of the table of mode manual.
type Claimed struct {
	Partition
	Instance string
	// Away: the instance is no member now.
	Away bool
}

// Summary is a group in a list.
type Summary struct {
	Name string
	Mode Mode
	// Members and Offsets are how many it has.
	Members, Offsets int
}

// List appends all groups, in no order.
func (s *State) List(to []Summary) []Summary {
	for _, g := range s.list {
		to = append(to, Summary{Name: g.name, Mode: g.shown(), Members: len(g.members) + g.others, Offsets: len(g.offsets) - g.dead})
	}
	return to
}

// shown is the mode as people see it.
func (g *group) shown() Mode {
	if g.others > 0 {
		return ModeClassic
	}
	return g.mode
}

const (
	// GrantSize is what a [Grant] takes in memory, in bytes.
	GrantSize = 24
	// So much is counted for the rest of a description, names and metadata apart.
	offsetSpace  = 72
	memberSpace  = 168
	claimedSpace = 48
	topicSpace   = 16
)

// DescribedSize is about how much memory the description of a group takes, in bytes; 0
// of one that is unknown.
func (s *State) DescribedSize(name []byte) int {
	g := s.groups[string(name)]
	if g == nil {
		return 0
	}
	n := len(g.table) * claimedSpace
	for _, m := range g.members {
		n += memberSpace + (len(m.list)+len(m.leaving))*GrantSize + len(m.topics)*topicSpace
	}
	for _, o := range g.offsets {
		n += offsetSpace + len(o.Metadata)
	}
	return n
}

// Describe copies what there is of a group.
func (s *State) Describe(now int64, name []byte) (Description, Code) {
	g := s.groups[string(name)]
	if g == nil {
		return Description{}, Unknown
	}
	d := Description{Name: g.name, Mode: g.shown(), Generation: g.generation, Idle: g.idleAt(now)}
	for _, m := range g.members {
		d.Members = append(d.Members, MemberInfo{
			ID: m.id, Instance: m.instance, Client: m.client, Session: m.session, Silent: m.deadline - now,
			Topics: slices.Clone(m.topics), Generation: m.epoch, List: slices.Clone(m.list), Leaving: slices.Clone(m.leaving),
		})
	}
	for _, c := range g.table {
		d.Table = append(d.Table, Claimed{Partition: c.Partition, Instance: c.instance, Away: g.instance(c.instance) == nil})
	}
	for _, o := range g.offsets {
		if !o.dead {
			c := o.Offset
			c.Metadata = slices.Clone(c.Metadata)
			d.Offsets = append(d.Offsets, c)
		}
	}
	slices.SortFunc(d.Offsets, func(a, b Offset) int { return a.compare(b.Partition) })
	return d, OK
}
