package engine

// Appended bounds when the batch that holds an offset was appended, by the broker's time in
// Unix nanoseconds: the index has the times of one batch in each index interval. It is for
// an offset that has just been read, so that the index is in memory; what it does not know
// is taken for as old as can be, from 0, and as young, to the newest append of the
// partition.
func (p *Partition) Appended(offset int64) (from, to int64) {
	seg, newest := p.segmentOf(offset), p.NewestAppendTime()
	if seg == nil {
		return 0, newest
	}
	from, to, ok := seg.index.Appended(offset)
	if !ok || to < from || to == 0 { // 0: an index made anew does not know when
		return 0, newest
	}
	return from, min(to, newest)
}

// measure fills in Left of a read that begins at pos of seg.
func (r *Read) measure(seg *segfile, pos int64) {
	if !r.Measure {
		return
	}
	p := r.Part
	r.Left = -pos
	for ; seg != p.visSeg; seg = seg.next {
		r.Left += seg.Size
	}
	r.Left += p.visPos
}
