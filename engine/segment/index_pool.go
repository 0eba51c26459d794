package segment

// entry is an [Entry] as memory holds it, 24 bytes.
type entry struct {
	rel        uint32 // offset - base of the segment
	pos        uint32
	maxBefore  int64
	appendTime int64
}

// blockEntries is the size of a block. It is small because a partition with one
// message has one too: 10,000 of them hold 7.5 MiB.
const (
	blockEntries = 32
	blockBytes   = blockEntries * 24
)

type entryBlock [blockEntries]entry

// Sizes for the accounting of memory.
const (
	indexBytes    = 208
	rangeMemBytes = 40
)

// EntryPool keeps blocks of index entries for reuse. It belongs to one shard. A
// nil pool keeps nothing.
type EntryPool struct {
	free []*entryBlock
}

// NewEntryPool returns a pool that keeps at most keepBytes, and holds that
// already.
func NewEntryPool(keepBytes int64) *EntryPool {
	n := int(keepBytes / blockBytes)
	p := &EntryPool{free: make([]*entryBlock, n)}
	all := make([]entryBlock, n)
	for i := range all {
		p.free[i] = &all[i]
	}
	return p
}

func (p *EntryPool) get() *entryBlock {
	if p == nil || len(p.free) == 0 {
		return new(entryBlock)
	}
	b := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	return b
}

// put keeps b if there is room.
func (p *EntryPool) put(b *entryBlock) {
	if p != nil && len(p.free) < cap(p.free) {
		p.free = append(p.free, b)
	}
}
