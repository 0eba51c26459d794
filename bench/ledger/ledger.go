// Package ledger follows what was sent and what came back, and counts what of it is wrong.
// Its types go from one machine to another as JSON.
package ledger

import (
	"cmp"
	"fmt"
	"slices"
)

// Faults counts what did not come back as it went out.
type Faults struct {
	// Lost are messages that were acknowledged and not found.
	Lost int64 `json:"lost"`
	// Duplicated are messages found more than once, each time beyond the first.
	Duplicated int64 `json:"duplicated"`
	// Reordered are messages found after a later one of their lane.
	Reordered int64 `json:"reordered"`
	// Corrupted are messages whose bytes are wrong, or that nobody sent.
	Corrupted int64 `json:"corrupted"`
	// Moved are lanes in which messages have another offset than their
	// acknowledgement said.
	Moved int64 `json:"moved"`
	// Refused are messages that the broker did not take.
	Refused int64 `json:"refused"`
}

// Any reports whether there is a fault.
func (f Faults) Any() bool { return f != Faults{} }

// Add adds g.
func (f *Faults) Add(g Faults) {
	f.Lost += g.Lost
	f.Duplicated += g.Duplicated
	f.Reordered += g.Reordered
	f.Corrupted += g.Corrupted
	f.Moved += g.Moved
	f.Refused += g.Refused
}

// String lists the counts.
func (f Faults) String() string {
	return fmt.Sprintf("%d lost, %d duplicated, %d reordered, %d corrupted, %d moved, %d refused",
		f.Lost, f.Duplicated, f.Reordered, f.Corrupted, f.Moved, f.Refused)
}

// Span is sequence numbers from first up to but not including end.
type Span struct {
	First uint64 `json:"first"`
	End   uint64 `json:"end"`
}

// maxSpans bounds the memory of gaps. Beyond it the oldest gap counts as lost.
const maxSpans = 1024

// Tracker follows one lane as it is read: the messages of one producer in one
// partition, numbered from 0, must come in order, each once.
type Tracker struct {
	Next    uint64 `json:"next"`              // what comes next
	Missing []Span `json:"missing,omitempty"` // passed over, ascending
	Given   int64  `json:"given,omitempty"`   // messages in gaps that were forgotten
	Seen    int64  `json:"seen"`              // messages, without repetitions
	// Offsets sums [Fold] over the messages seen.
	Offsets  uint64 `json:"offsets"`
	Repeated int64  `json:"repeated,omitempty"`
	Late     int64  `json:"late,omitempty"`
}

// Take notes message seq at offset and reports whether it is there for the first
// time.
func (t *Tracker) Take(seq uint64, offset int64) bool {
	switch {
	case seq == t.Next:
		t.Next++
	case seq > t.Next:
		t.skip(Span{t.Next, seq})
		t.Next = seq + 1
	case t.found(seq):
		t.Late++
	default:
		t.Repeated++
		return false
	}
	t.Seen++
	t.Offsets += Fold(seq, offset)
	return true
}

func (t *Tracker) skip(s Span) {
	if len(t.Missing) == maxSpans {
		t.Given += int64(t.Missing[0].End - t.Missing[0].First)
		t.Missing = slices.Delete(t.Missing, 0, 1)
	}
	t.Missing = append(t.Missing, s)
}

// found takes seq out of the gaps, if it is in one.
func (t *Tracker) found(seq uint64) bool {
	i := slices.IndexFunc(t.Missing, func(s Span) bool { return s.First <= seq && seq < s.End })
	if i < 0 {
		return false
	}
	s := t.Missing[i]
	var rest []Span
	if s.First < seq {
		rest = append(rest, Span{s.First, seq})
	}
	if seq+1 < s.End {
		rest = append(rest, Span{seq + 1, s.End})
	}
	t.Missing = slices.Replace(t.Missing, i, i+1, rest...)
	return true
}

// Lane is what the producer's side knows of a lane.
type Lane struct {
	Sent    uint64 `json:"sent"` // messages sent: numbers 0 to Sent - 1
	Acked   int64  `json:"acked"`
	Refused []Span `json:"refused,omitempty"` // answered with an error, or not at all; ascending
	// Offsets sums [Fold] over acknowledged messages.
	Offsets uint64 `json:"offsets"`
}

// Refuse notes messages that are not, or perhaps not, in the log.
func (p *Lane) Refuse(s Span) {
	at, _ := slices.BinarySearchFunc(p.Refused, s, func(a, b Span) int { return cmp.Compare(a.First, b.First) })
	p.Refused = slices.Insert(p.Refused, at, s)
}

// Compare counts the faults of a lane when everything is read. What the broker
// has not acknowledged may be there or not.
func (t *Tracker) Compare(p *Lane) Faults {
	f := Faults{Duplicated: t.Repeated, Reordered: t.Late, Lost: t.Given}
	if t.Next > p.Sent {
		f.Corrupted = int64(t.Next - p.Sent)
	}
	missing := t.Missing
	if t.Next < p.Sent {
		missing = append(slices.Clone(missing), Span{t.Next, p.Sent})
	}
	for _, m := range missing {
		f.Lost += int64(m.End - m.First)
		for _, r := range p.Refused {
			if first, end := max(m.First, r.First), min(m.End, r.End); first < end {
				f.Lost -= int64(end - first)
			}
		}
	}
	// With refused messages the two folds are over different messages.
	if !f.Any() && len(p.Refused) == 0 && t.Offsets != p.Offsets {
		f.Moved = 1
	}
	return f
}

// Fold mixes a sequence number with an offset, so that sums over messages differ
// if one has another offset.
func Fold(seq uint64, offset int64) uint64 {
	x := seq*0x9e3779b97f4a7c15 ^ uint64(offset)
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	return x ^ x>>32
}
