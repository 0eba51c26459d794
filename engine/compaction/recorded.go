package compaction

// Recorded remembers which segment of a partition the newest checkpoints go on in: what lies
// below it in both generations, no start replays anything into.
type Recorded struct {
	seq  [3]uint64 // of the two that stand and the one that is being made
	base [3]int64
}

// Note notes that checkpoint seq says base.
func (r *Recorded) Note(seq uint64, base int64) { r.seq[seq%3], r.base[seq%3] = seq, base }

// Safe is the base below which segments are out of reach of a start, when newest is the
// number of the newest checkpoint that is durable.
func (r *Recorded) Safe(newest uint64) int64 {
	if newest < 2 || r.seq[newest%3] != newest || r.seq[(newest-1)%3] != newest-1 {
		return 0
	}
	return min(r.base[newest%3], r.base[(newest-1)%3])
}
