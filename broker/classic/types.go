package classic

import "time"

// Code is the outcome of a call. Zero is success.
type Code uint8

// The codes.
const (
	OK Code = iota
	// InvalidSession: the session timeout is out of its bounds.
	InvalidSession
	// Inconsistent: no protocol is common to all members, or the kind of the group is
	// another one.
	Inconsistent
	// UnknownMember: the group has no such member, any more. It joins again without an id.
	UnknownMember
	// IDRequired: the member joins again with the id of the answer.
	IDRequired
	// Fenced: the instance has another member now.
	Fenced
	// IllegalGeneration: the generation is not the group's. The member joins again.
	IllegalGeneration
	// Rebalancing: the member joins again.
	Rebalancing
	// Full: the group has its bound of members, or of what they say of themselves.
	Full
	// Busy: there is no memory for what has been assigned.
	Busy
	// Closed: the coordinator ends.
	Closed
)

var codeNames = [...]string{"OK", "InvalidSession", "Inconsistent", "UnknownMember", "IDRequired", "Fenced",
	"IllegalGeneration", "Rebalancing", "Full", "Busy", "Closed"}

// String is the code's name.
func (c Code) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return "Code(?)"
}

// Kind says what a [Call] asks for.
type Kind uint8

const (
	// Join makes a member, or has one take part in the next generation.
	Join Kind = iota + 1
	// Sync asks for what has been assigned; the leader's brings it.
	Sync
	// Heartbeat tells that the member lives.
	Heartbeat
	// Leave ends memberships.
	Leave
	// Commit asks whether offsets may be committed.
	Commit
)

// Call is a request. The caller owns it; it belongs to the state from [State.Take] until
// it is among those of [State.Answered]. What the state keeps of its bytes it copies.
type Call struct {
	Kind  Kind
	Group string
	// Member is the id of the member, "" for none; after a join that of the member.
	Member string
	// Instance is the name of a static member, "" for a dynamic one.
	Instance string
	// Generation is the group's as the member knows it, negative for none; after a join
	// that of the group.
	Generation int32
	// Type is the kind of the group, Protocol the one protocol that was chosen, of a sync
	// that says them; after a join and a sync those of the group.
	Type, Protocol string

	// Of a join.

	// ID is the id of a new member. It is random, and nobody's yet.
	ID string
	// Client and Host are for lists.
	Client, Host string
	// Session is how long the member may be silent, Rebalance how long a rebalance waits
	// for it, in nanoseconds.
	Session, Rebalance int64
	// Twice: a new member is told its id and joins again with it, so that one whose answer
	// is lost leaves nobody behind.
	Twice bool
	// Skips: the member understands an answer with Skip.
	Skips bool
	// Protocols are how it can divide the work, the best first.
	Protocols []Protocol

	// Assigned is of the leader's sync.
	Assigned []Assigned

	// Leaving are the members of a leave, with the outcome of each.
	Leaving []Leaver

	// Owner is the caller's.
	Owner any

	// Result.

	Code Code
	// Leader is the leader's id. Skip tells it that nothing need be assigned.
	Leader string
	Skip   bool
	// Members are all members, of the leader's join.
	Members []Said
	// Data is what was assigned, of a sync.
	Data []byte
}

// Nobody answers a call where there is no group, and it makes none.
func (c *Call) Nobody() {
	c.Code = UnknownMember
	switch {
	case c.Kind == Commit && c.Generation >= 0:
		c.Code = IllegalGeneration
	case c.Kind == Leave:
		c.Code = OK
		for i := range c.Leaving {
			c.Leaving[i].Code = UnknownMember
		}
	}
}

// MaxName is the length of the longest kind of a group, and of the longest name of a
// protocol, in bytes. A join that names a longer one is Inconsistent.
const MaxName = 249

// Protocol is a way to divide the work, and what a member says of itself in it.
type Protocol struct {
	Name string
	Data []byte
}

// Assigned is what a leader assigns to a member.
type Assigned struct {
	Member string
	Data   []byte
}

// Leaver is a member that leaves.
type Leaver struct {
	// Member is its id, "" for whoever has the instance.
	Member, Instance string
	Code             Code
}

// Said is what a member says of itself, as the leader hears it.
type Said struct {
	Member, Instance string
	Data             []byte
}

// Limits bound what groups may take. Zero fields take the defaults.
type Limits struct {
	// Members of one group, those included that have been told an id and have not joined
	// with it. Default 1,000.
	Members int
	// Protocols of one member. Default 32.
	Protocols int
	// GroupBytes bounds what the members of a group say of themselves, with their names,
	// in bytes. Default 4 MiB.
	GroupBytes int
	// Bytes bounds that and what is assigned, and 500 bytes and the name of each group, of
	// all groups of a state. Default 32 MiB.
	Bytes int
	// MinSession and MaxSession bound how long a member may be silent. Defaults 1 s and 30
	// min.
	MinSession, MaxSession time.Duration
	// MaxRebalance is the longest rebalance timeout; one that is longer is cut. Default 1
	// h.
	MaxRebalance time.Duration
	// Delay is how long the first rebalance of a group without members waits for more of
	// them. Each that comes has it wait for as long again, up to the rebalance timeout.
	// Default none.
	Delay time.Duration
}

// WithDefaults returns l with its zero fields set.
func (l Limits) WithDefaults() Limits {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	def(&l.Members, 1_000)
	def(&l.Protocols, 32)
	def(&l.GroupBytes, 4<<20)
	def(&l.Bytes, 32<<20)
	duration := func(p *time.Duration, v time.Duration) {
		if *p == 0 {
			*p = v
		}
	}
	duration(&l.MinSession, time.Second)
	duration(&l.MaxSession, 30*time.Minute)
	duration(&l.MaxRebalance, time.Hour)
	return l
}

// Stage says where a group is between two generations.
type Stage uint8

const (
	// Empty: it has no members.
	Empty Stage = iota
	// Preparing: its members join.
	Preparing
	// Completing: its leader assigns.
	Completing
	// Stable: everybody has been told what to do.
	Stable
)

var stageNames = [...]string{"empty", "preparing", "completing", "stable"}

// String is the stage's name.
func (s Stage) String() string {
	if int(s) < len(stageNames) {
		return stageNames[s]
	}
	return "stage(?)"
}
