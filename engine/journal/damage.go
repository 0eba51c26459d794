package journal

import "fmt"

// DamageKind says what is damaged.
type DamageKind uint8

const (
	// DamageRound: one or more rounds cannot be read, header or table.
	DamageRound DamageKind = iota + 1
	// DamageBody: a round's header is intact, the body of one entry is not.
	DamageBody
)

// Damage is corruption: a round that was durable and is not what was written. It
// stays in place until a checkpoint releases it.
type Damage struct {
	Kind DamageKind
	// FirstLSN to LastLSN are the rounds that are lost; numbers between the
	// lives of a journal may be among them that were never given. Both are 0
	// when the chain is broken but no number is missing.
	FirstLSN, LastLSN uint64
	// Pos is where the damage begins, End where what follows it begins, in bytes
	// from the start of the region. End is 0 when nothing follows.
	Pos, End int64
	// Entry is what was lost, for DamageBody.
	Entry Entry
	// Reason tells what was expected and what was found.
	Reason error
}

// Error describes the damage in a line.
func (d *Damage) Error() string {
	if d.Kind == DamageBody {
		return fmt.Sprintf("journal: round %d at %d: body of the entry for topic %x partition %d offset %d: %v",
			d.FirstLSN, d.Pos, d.Entry.Topic, d.Entry.Partition, d.Entry.BaseOffset, d.Reason)
	}
	return fmt.Sprintf("journal: rounds %d to %d at %d: %v", d.FirstLSN, d.LastLSN, d.Pos, d.Reason)
}

// Unwrap returns the reason.
func (d *Damage) Unwrap() error { return d.Reason }

// Ending says how the chain of rounds ends.
type Ending uint8

const (
	// EndClean: behind the last round nothing follows.
	EndClean Ending = iota + 1
	// EndTorn: behind the last round lie the remains of a crash, which nobody was
	// promised. They are dropped.
	EndTorn
	// EndDamaged: the last rounds that were durable are damaged.
	EndDamaged
)

// String names the ending.
func (e Ending) String() string {
	switch e {
	case EndClean:
		return "clean"
	case EndTorn:
		return "torn"
	case EndDamaged:
		return "damaged"
	}
	return "unknown"
}

// Drop is a torn tail.
type Drop struct {
	FirstLSN, LastLSN uint64 // 0 when nothing was dropped
	Pos               int64
	Reason            error
}

// Result is what a Scan found.
type Result struct {
	// Anchor is the one that counts. AnchorFlaw is what is wrong with the other,
	// nil if nothing is; a crash during a release leaves it torn.
	Anchor     Anchor
	AnchorFlaw error
	// AnchorStale: the anchor that counts is not the newest that was durable.
	AnchorStale bool

	// HeadLSN is the oldest round of the journal, LastLSN the newest that
	// counts, damaged or not. With LastLSN < HeadLSN there is none.
	HeadLSN, LastLSN uint64
	// NextLSN and NextPos are where the next life begins.
	NextLSN uint64
	NextPos int64
	// ProvenLSN is the newest round that is known to have been durable.
	ProvenLSN uint64
	// AppendTime is the newest append time, Unix nanoseconds, 0 for none.
	AppendTime int64

	Ending  Ending
	Dropped Drop
	Damages []*Damage

	// Rounds, Entries and Bytes count what was intact; Bytes are bodies.
	Rounds, Entries, Bytes uint64
	// Unknown counts entries of unknown kinds that need not be known.
	Unknown uint64
	// Unreadable counts blocks that the device refused to read.
	Unreadable int

	head        live
	rounds      []live
	lastCRC     uint32
	incarnation uint64 // the newest seen
	otherBlock  int64  // holds the anchor that does not count
}

// Intact reports whether nothing that was durable is damaged.
func (r *Result) Intact() bool { return len(r.Damages) == 0 }
