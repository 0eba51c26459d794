package segment

// NewTailIndex returns the index of what will be appended to a log that has
// batches up to position pos, in bytes, and up to offset next already. It has no
// entries for those: a Floor without a result lies before pos.
func NewTailIndex(id ID, intervalBytes int, pool *EntryPool, pos, next int64) *Index {
	ix := NewIndex(id, intervalBytes, pool)
	ix.end, ix.last = pos, pos
	ix.first, ix.next = next, next
	return ix
}

// whole reports whether ix has entries from the start of its log on.
func (ix *Index) whole() bool {
	return ix != nil && (ix.end == 0 || ix.count > 0 && ix.at(0).pos == 0)
}
