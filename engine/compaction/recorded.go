package compaction

// Recorded remembers which segment of a partition the newest checkpoints go on in: what lies
// below it in both generations, no start replays anything into.
type Recorded struct {
	seq  [made]uint64
	base [made]int64
}

// made is the number of generations to remember: the two that stand, and the two of the
// checkpoint that is being made.
const made = 4

// Note notes that checkpoint seq says base.
func (r *Recorded) Note(seq uint64, base int64) { r.seq[seq%made], r.base[seq%made] = seq, base }

// Safe is the base below which segments are out of reach of a start, when newest is the
// number of the newest checkpoint that is durable.
func (r *Recorded) Safe(newest uint64) int64 {
	if newest < 2 || r.seq[newest%made] != newest || r.seq[(newest-1)%made] != newest-1 {
		return 0
	}
	return min(r.base[newest%made], r.base[(newest-1)%made])
}
