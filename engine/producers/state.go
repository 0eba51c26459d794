package producers

// Walk begins a walk through the producers of a partition, for a checkpoint, in steps
// while it is [Table.Walking]. Between them producers may be added, which are not met, and
// forgotten. There is one walk at a time.
func (t *Table) Walk(l *Log) { t.cursor = l.first }

// Walking reports whether the walk is not over.
func (t *Table) Walking() bool { return t.cursor != 0 }

// Step sets st to the next producer of the walk, with those of its batches that lie below
// offset end. It reports false for one that a checkpoint leaves out: it has none there, or
// is to be forgotten.
//
// A batch at or above the end is not part of the answer because whoever restores the
// state reads those in the log behind it, and has to find out which of them are there.
func (t *Table) Step(end, now int64, st *State) bool {
	e := t.entry(t.cursor)
	t.cursor = e.next
	e.below(end, st)
	return st.N > 0 && now-e.at <= t.expiry
}

// below is the state of an entry by its batches below offset end.
func (e *entry) below(end int64, st *State) {
	*st = State{ID: e.id, Epoch: e.epoch, Jumps: e.jumps}
	for _, b := range e.batches[:e.n] {
		if b.End() <= end {
			st.Batches[st.N] = b
			st.N++
		}
	}
}

// States are all producers of a partition, those that were added last first.
func (t *Table) States(l *Log) []State {
	list := make([]State, 0, l.n)
	for i := l.first; i != 0; i = t.entry(i).next {
		var st State
		t.entry(i).below(1<<63-1, &st)
		list = append(list, st)
	}
	return list
}

// Restore adds producers to a partition that has none of them. Their time begins anew at
// now: how long the broker was down does not count. There may be more than the maximum
// until the next one is added, which is when it is known who has been silent for longest.
func (t *Table) Restore(l *Log, states []State, now int64) {
	for i := len(states) - 1; i >= 0; i-- {
		st := &states[i]
		n := t.enter(l, st.ID)
		e := t.entry(n)
		e.at, e.epoch, e.jumps, e.n, e.batches = now, st.Epoch, st.Jumps, uint8(st.N), st.Batches
		t.enterAge(n)
		t.unsorted = true
	}
}

// Lost notes that batches of the partition are gone which had been appended, nobody
// knows of which producers.
func (t *Table) Lost(l *Log) {
	for i := l.first; i != 0; i = t.entry(i).next {
		t.entry(i).jumps = true
	}
}
