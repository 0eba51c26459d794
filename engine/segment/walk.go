package segment

// walk goes over the whole log: onBatch for each batch that holds, onDamage for
// each range that does not. hints may be nil.
func (s *scanner) walk(hints *Index, onBatch func(*Batch), onDamage func(Range)) error {
	for {
		if end, err := s.advance(hints, onBatch, onDamage); end || err != nil {
			return err
		}
	}
}

// advance is one step of walk: it moves over a batch or a damaged range, and reports
// whether that was the end of the log.
func (s *scanner) advance(hints *Index, onBatch func(*Batch), onDamage func(Range)) (end bool, err error) {
	f, err := s.step()
	if err != nil {
		return false, err
	}
	if f.check == CheckNone {
		if !s.done {
			onBatch(&s.b)
		}
		return s.done, nil
	}
	r := Range{FromOffset: s.next, ToOffset: s.o.EndOffset, FromPos: s.pos, ToPos: s.pos, Check: f.check}
	if !s.done {
		if r, err = s.resync(f, hints); err != nil {
			return false, err
		}
	}
	onDamage(r)
	s.pos, s.next = r.ToPos, r.ToOffset
	return false, nil
}

// appendTimes gives batches the append times that an index knows of.
//
// An entry has its own. Any other batch has at least the time of the entry before
// it, and gets that. Where nothing is known the times are those of the neighbour
// that the caller names, and count as guessed.
type appendTimes struct {
	from      *Index // may be nil
	next      int    // entry to look at
	last      int64
	neighbour int64
	complete  bool // from knows the newest time of this log
	guessed   bool
}

func newAppendTimes(from *Index, complete bool, neighbour int64) *appendTimes {
	a := &appendTimes{from: from, complete: complete, last: neighbour, neighbour: neighbour}
	if from != nil && from.Len() > 0 {
		a.last = from.At(0).AppendTime
	}
	return a
}

// of returns the append time of b, and whether it is known to be exact.
// Positions grow from call to call.
func (a *appendTimes) of(b *Batch) (int64, bool) {
	if a.from == nil {
		return a.last, false
	}
	for a.next < a.from.Len() && a.from.At(a.next).Pos < b.Pos {
		a.next++
	}
	if a.next == a.from.Len() {
		return a.last, false
	}
	e := a.from.At(a.next)
	if e.Pos != b.Pos || e.Offset != b.BaseOffset {
		return a.last, false
	}
	a.last = max(a.last, e.AppendTime)
	return a.last, true
}

// newest is the newest append time of the log.
func (a *appendTimes) newest() int64 {
	switch {
	case a.from != nil && a.complete:
		return a.from.NewestAppend()
	case a.from != nil:
		return max(a.from.NewestAppend(), a.neighbour)
	}
	return a.neighbour
}
