package history

import "fmt"

// Offsets is what a consumer group has committed for one partition, as its clients know
// it: acknowledged commits are there for ever, and only what was asked for can be.
type Offsets struct {
	acked      int64 // highest acknowledged, -1 for none
	asked      int64 // highest asked for, -1 for none
	violations []Violation
}

// NewOffsets makes the history of a group that has committed nothing.
func NewOffsets() *Offsets { return &Offsets{acked: -1, asked: -1} }

// Asked notes that a commit was sent.
func (o *Offsets) Asked(next int64) { o.asked = max(o.asked, next) }

// Most is the highest that was asked for, -1 for nothing.
func (o *Offsets) Most() int64 { return o.asked }

// Acked notes that committed was told to be what is committed, and that it is durable.
func (o *Offsets) Acked(committed int64) {
	if committed > o.asked {
		o.violate(Invented, "%d is acknowledged, at most %d was asked for", committed, o.asked)
	}
	o.acked = max(o.acked, committed)
}

// Mark is what has been acknowledged so far: the least that a request sent from now on
// may be answered with.
func (o *Offsets) Mark() int64 { return o.acked }

// Read notes the answer to a request that was sent at a mark; -1 stands for nothing.
func (o *Offsets) Read(mark, committed int64) {
	switch {
	case committed < mark:
		o.violate(WentBack, "%d is committed, %d was acknowledged", committed, mark)
	case committed > o.asked:
		o.violate(Invented, "%d is committed, at most %d was asked for", committed, o.asked)
	default:
		o.acked = max(o.acked, committed) // who has read it may rely on it
	}
}

// Violations are the breaches so far.
func (o *Offsets) Violations() []Violation { return o.violations }

func (o *Offsets) violate(k Kind, format string, args ...any) {
	if len(o.violations) < maxViolations {
		o.violations = append(o.violations, Violation{Kind: k, Text: fmt.Sprintf(format, args...)})
	}
}
