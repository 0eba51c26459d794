package journal

// Barrier is a round that must be written or flushed before something goes on. The zero
// Barrier has been passed.
type Barrier struct {
	lsn  uint64
	need Need
}

// Raise has the barrier stand until round lsn, too, is what need says. Rounds do not go
// back; of two needs the stronger one stays.
func (b *Barrier) Raise(j *Journal, lsn uint64, need Need) {
	if !b.Passed(j) {
		need = max(need, b.need)
	}
	*b = Barrier{lsn: lsn, need: need}
}

// Passed reports whether the journal has come that far.
func (b *Barrier) Passed(j *Journal) bool {
	if b.need == NeedFlushed {
		return j.FlushedLSN() >= b.lsn
	}
	return j.WrittenLSN() >= b.lsn
}
