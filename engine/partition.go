package engine

import (
	"sort"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/checkpoint"
	"github.com/mqd-broker/mqd/engine/indexing"
	"github.com/mqd-broker/mqd/engine/journal"
	"github.com/mqd-broker/mqd/engine/order"
	"github.com/mqd-broker/mqd/engine/producers"
	"github.com/mqd-broker/mqd/engine/retention"
	"github.com/mqd-broker/mqd/engine/segment"
	"github.com/mqd-broker/mqd/engine/slab"
	"github.com/mqd-broker/mqd/internal/invariant"
)

// segfile is a segment of a partition as its shard knows it.
type segfile struct {
	part *Partition
	base int64 // offset of its first batch
	next *segfile

	// Positions in the file, each no larger than the one before.
	size    int64 // end of what has been appended
	safe    int64 // end of what the journal has written
	written int64 // end of what the file holds
	flushed int64 // end of what is durable in the file

	// Offsets that belong to the positions of the same name.
	endOffset, safeOffset, writtenOffset, flushedOffset int64

	file      aio.File
	opening   *opening
	writing   bool // a writer is at work on it
	allocated int64
	created   bool // the file exists
	entry     bool // its directory entry is durable
	closed    bool // no more appends: a later segment exists
	sealed    bool // truncated, synced, index written or being written

	index indexing.State

	discarded int64 // bytes at its end that the journal will not get, because the partition is dropped

	maxTimestamp, appendTime int64
	reads                    int                  // cold reads in flight
	lru                      order.Node[*segfile] // in the list of open files, by use
}

// Partition is one ordered log. It belongs to the store of one shard and is
// touched by that shard's loop only.
type Partition struct {
	key   Key
	slot  uint16
	store *Store
	cfg   PartitionConfig
	dir   string

	class   Class
	shown   Class           // the weakest class under which anything may have been shown that is not as durable as class wants
	changes []classChange   // of class, the oldest first
	before  journal.Barrier // of what came under a stronger class

	inChanging bool // in the store's list of partitions with changes

	start      retention.LogStart
	isTrimming bool // in the store's queue of partitions whose log start moves

	next    int64 // the offset that the next batch gets: log end
	visible int64 // consumers read below it
	visSeg  *segfile
	visPos  int64

	first, active *segfile   // list by next
	bases         []*segfile // the same, for binary search
	unwritten     *segfile   // oldest segment that is not yet complete in its file

	oldest, newest *chunk
	filling        *chunk    // the chunk that took the newest byte, if it is still there
	unsaved        *chunk    // oldest chunk with bytes that are not in its file; nil: none
	pace           slab.Pace // at which chunks are filled

	newestLSN uint64                 // newest round with bytes of this partition
	dirtyLSN  uint64                 // oldest round with bytes that are not flushed to a segment; 0: none
	dirty     order.Node[*Partition] // in the store's list of dirty partitions, by dirtyLSN
	tailCost  int64                  // what a tail entry of this partition could take of the ring
	isReady   bool                   // in the store's list of partitions with something to write
	writer    *writer
	dirMade   bool
	memory    int // entries of this partition that wait for the journal

	waiters    order.List[*Read]  // fetches that wait for new batches
	nextWaiter *order.Node[*Read] // that is looked at next, while they are woken
	ends       [lastEnds]place    // where the newest fetches from memory ended
	nextEnd    uint8              // the one to be forgotten next

	isWoken   bool // in the store's list of partitions whose waiters may go on
	nextWoken *Partition

	producers producers.Log

	epochs  checkpoint.EpochTable
	reserve int64 // offsets below it may be served although a crash can take them back
	asked   int64 // what the newest checkpoint that was to raise it says
	renew   bool  // a larger reservation is wanted or being made durable

	askedClass Class // the class that goes with asked

	dropped  bool
	dropDone DropDone
}

// Key names the partition.
func (p *Partition) Key() Key { return p.key }

// Class is the durability class in force: what an append is acknowledged under.
func (p *Partition) Class() Class { return p.class }

// LogStart is the first offset that can be read.
func (p *Partition) LogStart() int64 { return p.start.At() }

// Durable is the end of what the class promises: consumers read below it.
func (p *Partition) Durable() int64 { return p.visible }

// End is the offset that the next batch will get.
func (p *Partition) End() int64 { return p.next }

// NewestAppendTime is the broker's time of the newest batch, in Unix
// nanoseconds; 0 for an empty partition.
func (p *Partition) NewestAppendTime() int64 {
	if p.active == nil {
		return 0
	}
	return p.active.appendTime
}

// Bytes is the size in bytes of all segments that are not below the log start.
func (p *Partition) Bytes() int64 {
	var n int64
	for s := p.first; s != nil; s = s.next {
		if s.next == nil || s.next.base > p.LogStart() {
			n += s.size
		}
	}
	return n
}

// ExposedBytes is what has been acknowledged and could be lost by a power cut now,
// counted in bytes of the log; 0 for class flushed.
func (p *Partition) ExposedBytes() int64 {
	if p.class == ClassFlushed || p.active == nil {
		return 0
	}
	return p.store.exposed(p)
}

// Epoch is the newest epoch in the partition's table.
func (p *Partition) Epoch() uint32 {
	e, ok := p.epochs.Last()
	if !ok {
		return 0
	}
	return uint32(e.Epoch)
}

// addSegment appends an empty segment that begins at offset base.
func (p *Partition) addSegment(base int64) *segfile {
	s := &segfile{part: p, base: base, file: aio.NoFile}
	s.endOffset, s.safeOffset, s.writtenOffset, s.flushedOffset = base, base, base, base
	s.index.Tail = segment.NewIndex(p.segmentID(base), int(p.cfg.IndexInterval), p.store.entries)
	p.linkSegment(s)
	return s
}

func (p *Partition) linkSegment(s *segfile) {
	if p.active != nil {
		if s.base <= p.active.base {
			invariant.Violated("engine: segments of a partition begin at rising offsets")
		}
		p.active.next = s
		p.active.closed = true
		s.appendTime, s.maxTimestamp = p.active.appendTime, p.active.maxTimestamp
	} else {
		p.first = s
	}
	p.active = s
	p.bases = append(p.bases, s)
	if p.unwritten == nil {
		p.unwritten = s
	}
}

// segmentOf is the segment whose offsets include offset.
func (p *Partition) segmentOf(offset int64) *segfile {
	i := sort.Search(len(p.bases), func(i int) bool { return p.bases[i].base > offset })
	if i == 0 {
		return nil
	}
	return p.bases[i-1]
}

// room makes sure that the chunks can take n more bytes of the active segment. It
// reports false, with nothing changed, when there is no memory. last is the chunk
// behind which the new ones are, for dropAfter. What is urgent may take the last.
func (p *Partition) room(n int, urgent bool) (last *chunk, ok bool) {
	last = p.newest
	have := 0
	if last != nil && last.seg == p.active {
		have = len(last.mem) - last.to
	}
	return last, have >= n || p.moreRoom(n, have, urgent)
}

// moreRoom adds chunks to those that have room for have bytes.
func (p *Partition) moreRoom(n, have int, urgent bool) bool {
	seg, last, kept := p.active, p.newest, int64(keptMemory)
	if urgent {
		kept = 0
	}
	if last != nil {
		last.pins++ // get evicts clean chunks, also of this partition
	}
	for have < n {
		pos, from := seg.size, 0
		if p.newest != nil && p.newest.seg == seg {
			pos = p.newest.pos + int64(len(p.newest.mem))
		} else {
			from = int(pos % slab.UnitBytes)
			pos -= int64(from)
		}
		c := p.store.chunks.get(p.chunkClass(n-have+from, leastClass(n)), leastClass(n), kept)
		if c == nil {
			break
		}
		c.part, c.seg, c.pos, c.from, c.to = p, seg, pos, from, from
		c.firstPos = noBatch
		p.linkChunk(c)
		have += len(c.mem) - from
	}
	if last != nil {
		last.pins--
	}
	if have < n {
		p.dropAfter(last)
	}
	return have >= n
}

// leastClass is the smallest chunk for a batch of n bytes: in smaller ones it would
// lie in too many pieces to be sent.
func leastClass(n int) slab.Class { return slab.Least(n, MaxPieces/2) }

// chunkClass is the size of the next chunk, for need bytes. It follows the pace of
// the partition, is at least what is needed now, and, down to least, at most the
// partition's share of two thirds of the memory: what dirty partitions hold may all be
// unwritten at the same time.
func (p *Partition) chunkClass(need int, least slab.Class) slab.Class {
	c := slab.Class(0)
	if p.newest != nil {
		c = p.pace.Next(p.store.loop.Now())
	}
	for c < slab.Largest && c.Bytes() < need {
		c++
	}
	share := p.store.chunks.size() * 2 / 3 / int64(1+p.store.dirty.Len())
	for c > least && int64(c.Bytes()) > share {
		c--
	}
	return max(c, least)
}

func (p *Partition) linkChunk(c *chunk) {
	c.prev = p.newest
	if p.newest != nil {
		p.newest.next = c
	} else {
		p.oldest = c
	}
	p.newest = c
}

// dropAfter gives back the chunks that follow last; they are empty.
func (p *Partition) dropAfter(last *chunk) {
	c := p.oldest
	if last != nil {
		c = last.next
		last.next = nil
	} else {
		p.oldest = nil
	}
	p.newest = last
	for c != nil {
		next := c.next
		if c.to != c.from {
			invariant.Violated("engine: only empty chunks are taken back")
		}
		p.store.chunks.put(c)
		c = next
	}
}

// dropOldest evicts the partition's oldest chunk.
func (p *Partition) dropOldest(pool *chunkPool) {
	c := p.oldest
	pool.markDirty(c) // out of the clean list
	if p.filling == c {
		p.filling = nil
	}
	if p.unsaved == c {
		p.unsaved = c.next
	}
	p.oldest = c.next
	if p.oldest == nil {
		p.newest = nil
	} else {
		p.oldest.prev = nil
	}
	c.next = nil
	pool.put(c)
}

// copyIn appends b to the chunks and returns the position in the segment at which
// it begins. room has been made.
func (p *Partition) copyIn(b []byte) int64 {
	seg := p.active
	at := seg.size
	end := at + int64(len(b))
	c := p.fillable(p.filling)
	if c.end() != at {
		invariant.Violated("engine: chunks of a partition are contiguous")
	}
	if c.firstPos == noBatch {
		c.firstPos, c.firstOffset = at, p.next
	}
	for len(b) > 0 {
		c = p.fillable(c)
		p.store.chunks.markDirty(c)
		if c.from == c.to {
			p.pace.Begun(c.prev == nil, p.store.loop.Now())
		}
		if p.unsaved == nil {
			p.unsaved = c
		}
		n := copy(c.mem[c.to:], b)
		c.to += n
		c.spill = end
		b = b[n:]
	}
	p.filling = c
	seg.size = end
	return at
}

// fillable is the first chunk from c on that can take bytes of the active
// segment; a nil c stands for the oldest.
func (p *Partition) fillable(c *chunk) *chunk {
	if c == nil {
		c = p.oldest
	}
	for c != nil && (c.seg != p.active || c.to == len(c.mem)) {
		c = c.next
	}
	if c == nil {
		invariant.Violated("engine: room is made before a batch is copied in")
	}
	return c
}

// unsavedHolding is the chunk that holds the byte of seg at pos, which is not in
// the file, or nil.
func (p *Partition) unsavedHolding(seg *segfile, pos int64) *chunk {
	return p.unsaved.holding(seg, pos)
}

// holding is the first chunk from c on that holds the byte of seg at pos, or nil.
func (c *chunk) holding(seg *segfile, pos int64) *chunk {
	for ; c != nil; c = c.next {
		if c.seg == seg && pos >= c.start() && pos < c.end() {
			return c
		}
	}
	return nil
}

// setVisible moves the visible end to offset, which lies at pos of seg.
func (p *Partition) setVisible(offset int64, seg *segfile, pos int64) {
	if offset < p.visible {
		invariant.Violated("engine: the durable offset never goes back")
	}
	p.visible, p.visSeg, p.visPos = offset, seg, pos
	if p.waiters.Len() > 0 && !p.isWoken {
		p.isWoken, p.nextWoken, p.store.woken = true, p.store.woken, p
	}
}
