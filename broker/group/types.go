package group

import (
	"bytes"
	"cmp"
)

// TopicID names a topic for life. It is assignable to engine.TopicID.
type TopicID = [16]byte

// MemberID names a member from its joining to its leaving. It is random.
type MemberID [16]byte

// Partition names a partition of a topic.
type Partition struct {
	Topic  TopicID
	Number int32
}

// compare orders partitions by topic, then by number.
func (p Partition) compare(q Partition) int {
	if c := bytes.Compare(p.Topic[:], q.Topic[:]); c != 0 {
		return c
	}
	return cmp.Compare(p.Number, q.Number)
}

// Mode says how a group divides its partitions.
type Mode uint8

const (
	// ModeNone: the group has only offsets so far; the first member decides.
	ModeNone Mode = iota
	// ModeAuto: evenly, among the members there are.
	ModeAuto
	// ModeManual: by a table of instances.
	ModeManual
	// ModeClassic: its members divide them among themselves; see [State.Occupy]. It is
	// never written.
	ModeClassic
)

var modeNames = [...]string{"none", "auto", "manual", "kafka"}

// String is the mode's name.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return "mode(?)"
}

// Topics tells what topics there are. Answers may change between calls; then
// [State.TopicsChanged] is called.
type Topics interface {
	// ByName finds a topic and the number of its partitions.
	ByName(name string) (id TopicID, partitions int32, ok bool)
	// Has reports whether there is such a partition.
	Has(p Partition) bool
}

// Grant is a partition that a member owns.
type Grant struct {
	Partition
	// Since is the generation that gave it to the member. A commit made under an
	// older one is refused.
	Since int32
}

// Offset is what is committed for a partition.
type Offset struct {
	Partition
	// Next is the offset of the next record to be read.
	Next int64
	// Epoch is the leader epoch of the last record read, -1 where it is not known.
	Epoch int32
	// Time is the broker's wall clock at the commit, in Unix nanoseconds.
	Time int64
	// Metadata is the client's.
	Metadata []byte
}

// offset is an Offset in a group's list.
type offset struct {
	Offset
	dead bool // waits to be taken out of the list
}

// group is one group. It changes only by records, but for what is marked as volatile.
type group struct {
	name       string
	block      int
	mode       Mode
	generation int32
	members    []*Member // by id
	table      []claim   // of mode manual, by partition
	offsets    []*offset // in the order of their first commit
	index      map[Partition]*offset
	dead       int    // of offsets
	kept       []byte // of members that are not ours, in their form

	// Volatile.

	others   int   // members that are not ours: see State.Occupy
	unknown  bool  // to the log: it is there for the others alone
	idle     int64 // nanoseconds without members, up to idleFrom
	idleFrom int64 // by the loop's clock
	fenced   []MemberID
	version  int // of the topics that it was last looked at for
	gone     bool
}

// taken reports whether the group has members, of whatever kind.
func (g *group) taken() bool { return len(g.members) > 0 || g.others > 0 }

// claim is a row of the table of mode manual.
type claim struct {
	Partition
	instance string
}

// Member is a member of a group, for the coordinator to know it by.
type Member struct {
	id       MemberID
	instance string // "" for one that has none
	client   string
	session  int64    // nanoseconds of silence that end the membership
	topics   []string // subscribed to, ascending; mode auto
	epoch    int32    // generation in which list changed last
	list     []Grant  // by partition
	leaving  []Grant  // taken off the list and not yet confirmed, by partition

	// Volatile.

	deadline int64 // by the loop's clock
	gone     bool
	// Waiter is the coordinator's: what waits for a change of the list, or nil.
	Waiter any
}

// find is the grant of a partition in a list ordered by partition.
func find(list []Grant, p Partition) *Grant {
	lo, hi := 0, len(list)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if list[mid].compare(p) < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(list) && list[lo].Partition == p {
		return &list[lo]
	}
	return nil
}

// owns is the grant of a partition that the member may commit.
func (m *Member) owns(p Partition) *Grant {
	if g := find(m.list, p); g != nil {
		return g
	}
	return find(m.leaving, p)
}

// member finds a member.
func (g *group) member(id MemberID) *Member {
	if i := g.search(id); i < len(g.members) && g.members[i].id == id {
		return g.members[i]
	}
	return nil
}

// instance finds the member of an instance.
func (g *group) instance(name string) *Member {
	for _, m := range g.members {
		if m.instance == name {
			return m
		}
	}
	return nil
}
