package history

import (
	"maps"
	"slices"
)

// entry is what is known of one offset.
type entry struct {
	producer, seq uint32
	life          uint32 // when it was first known
	scan          uint32 // the newest reading that found it
	class         Class  // what was promised: the partition's weakest until it is acknowledged
	flags         flags
}

type flags uint8

const (
	isKnown flags = 1 << iota
	isAcked
	// isKept: an earlier recovery has kept it; it is durable whatever the class.
	isKept
	// isTaken: a complete reading did not find it.
	isTaken
	// isCompacted: the same, and what stands behind it is why.
	isCompacted
)

const pageEntries = 1024

// pages holds the entries of all offsets that are known: full pages, and wide
// gaps between them.
type pages map[int64]*[pageEntries]entry

// at is the entry of an offset, which it makes if there is none.
func (ps pages) at(offset int64) *entry {
	page := ps[offset/pageEntries]
	if page == nil {
		page = new([pageEntries]entry)
		ps[offset/pageEntries] = page
	}
	return &page[offset%pageEntries]
}

// below yields the known entries of all offsets below end, in order.
func (ps pages) below(end int64, yield func(offset int64, e *entry)) {
	for _, number := range slices.Sorted(maps.Keys(ps)) {
		first := number * pageEntries
		for i := range min(pageEntries, end-first) {
			if e := &ps[number][i]; e.flags&isKnown != 0 {
				yield(first+i, e)
			}
		}
	}
}
