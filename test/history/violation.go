package history

import "fmt"

// Kind is a rule that was broken.
type Kind uint8

// The kinds.
const (
	// Lost: a message that has to be there is not.
	Lost Kind = iota + 1
	// Changed: the bytes of a message are not those that were sent.
	Changed
	// Invented: a message that was not sent, was refused, or belongs elsewhere.
	Invented
	// Duplicated: a message is at two offsets.
	Duplicated
	// TwoContents: an offset has, or once had, another message.
	TwoContents
	// Reordered: messages of one producer, or offsets, are not in order.
	Reordered
	// Gap: offsets without content where the class allows none, or where no crash
	// was, or that the broker did not tell of.
	Gap
	// WentBack: the end of the partition is lower than it was.
	WentBack
	// CameBack: a message that was gone is there again.
	CameBack
	// Expired: messages are gone that were neither old enough nor too many, and nobody
	// had asked for it.
	Expired
	// Disordered: the broker's time of an append is before that of an earlier one.
	Disordered
	// Misused: the history itself makes no sense.
	Misused
)

var kindNames = map[Kind]string{
	Lost: "lost", Changed: "changed", Invented: "invented", Duplicated: "duplicated", TwoContents: "two contents",
	Reordered: "reordered", Gap: "gap", WentBack: "went back", CameBack: "came back",
	Expired: "expired", Disordered: "disordered", Misused: "misused",
}

// String is the kind in words.
func (k Kind) String() string {
	if name, ok := kindNames[k]; ok {
		return name
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Violation is one breach of the rules.
type Violation struct {
	Kind Kind
	// Life is the one in which it was noticed, from 1.
	Life uint32
	Text string
}

// String is the breach in one line.
func (v Violation) String() string { return fmt.Sprintf("%v in life %d: %s", v.Kind, v.Life, v.Text) }

// maxViolations bounds what is kept: the first ones tell.
const maxViolations = 100

func (p *Partition) violate(k Kind, format string, args ...any) {
	if len(p.violations) < maxViolations {
		p.violations = append(p.violations, Violation{k, p.life(), fmt.Sprintf(format, args...)})
	}
}

// Violations are the breaches so far, in the order in which they were noticed.
func (p *Partition) Violations() []Violation { return p.violations }
