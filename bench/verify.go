package bench

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

// span is sequence numbers from first up to but not including end.
type span struct{ first, end uint64 }

// maxSpans bounds the memory of gaps. Beyond it the oldest gap counts as lost.
const maxSpans = 1024

// tracker follows one lane as it is read: the messages of one producer in one
// partition, numbered from 0, must come in order, each once.
type tracker struct {
	next     uint64 // what comes next
	missing  []span // passed over, ascending
	given    int64  // messages in gaps that were forgotten
	seen     int64  // messages, without repetitions
	offsets  uint64 // fold of sequence numbers and offsets
	repeated int64
	late     int64
}

// take notes message seq at offset and reports whether it is there for the first
// time.
func (t *tracker) take(seq uint64, offset int64) bool {
	switch {
	case seq == t.next:
		t.next++
	case seq > t.next:
		t.skip(span{t.next, seq})
		t.next = seq + 1
	case t.found(seq):
		t.late++
	default:
		t.repeated++
		return false
	}
	t.seen++
	t.offsets += fold(seq, offset)
	return true
}

func (t *tracker) skip(s span) {
	if len(t.missing) == maxSpans {
		t.given += int64(t.missing[0].end - t.missing[0].first)
		t.missing = slices.Delete(t.missing, 0, 1)
	}
	t.missing = append(t.missing, s)
}

// found takes seq out of the gaps, if it is in one.
func (t *tracker) found(seq uint64) bool {
	i := slices.IndexFunc(t.missing, func(s span) bool { return s.first <= seq && seq < s.end })
	if i < 0 {
		return false
	}
	s := t.missing[i]
	var rest []span
	if s.first < seq {
		rest = append(rest, span{s.first, seq})
	}
	if seq+1 < s.end {
		rest = append(rest, span{seq + 1, s.end})
	}
	t.missing = slices.Replace(t.missing, i, i+1, rest...)
	return true
}

// sentLane is what the producer's side knows of a lane.
type sentLane struct {
	sent    uint64 // messages sent: numbers 0 to sent - 1
	acked   int64
	refused []span // answered with an error, or not at all; ascending
	offsets uint64 // fold over acknowledged messages
}

// refuse notes messages that are not, or perhaps not, in the log.
func (p *sentLane) refuse(s span) {
	at, _ := slices.BinarySearchFunc(p.refused, s, func(a, b span) int { return cmp.Compare(a.first, b.first) })
	p.refused = slices.Insert(p.refused, at, s)
}

// compare counts the faults of a lane when everything is read. What the broker
// has not acknowledged may be there or not.
func (t *tracker) compare(p *sentLane) Faults {
	f := Faults{Duplicated: t.repeated, Reordered: t.late, Lost: t.given}
	if t.next > p.sent {
		f.Corrupted = int64(t.next - p.sent)
	}
	missing := t.missing
	if t.next < p.sent {
		missing = append(slices.Clone(missing), span{t.next, p.sent})
	}
	for _, m := range missing {
		f.Lost += int64(m.end - m.first)
		for _, r := range p.refused {
			if first, end := max(m.first, r.first), min(m.end, r.end); first < end {
				f.Lost -= int64(end - first)
			}
		}
	}
	// With refused messages the two folds are over different messages.
	if !f.Any() && len(p.refused) == 0 && t.offsets != p.offsets {
		f.Moved = 1
	}
	return f
}

// fold mixes a sequence number with an offset, so that sums over messages differ
// if one has another offset.
func fold(seq uint64, offset int64) uint64 {
	x := seq*0x9e3779b97f4a7c15 ^ uint64(offset)
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	return x ^ x>>32
}
