package engine

import (
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/order"
	"github.com/mqd-broker/mqd/engine/slab"
	"github.com/mqd-broker/mqd/internal/invariant"
)

// noBatch is the firstPos of a chunk in which no batch begins.
const noBatch = -1

// chunk is a piece of registered memory that holds a partition's newest bytes,
// exactly as they stand in the segment's file: mem[0] is at file position pos.
// Chunks of a partition form a list in log order.
type chunk struct {
	mem   []byte
	piece slab.Piece // that mem is

	part *Partition
	seg  *segfile
	pos  int64 // file position of mem[0], a multiple of 4 KiB
	from int   // first valid byte; bytes before it are only in the file
	to   int   // end of the valid bytes
	pins int32 // reads in flight that refer to mem

	// The first batch that begins in this chunk, noBatch if none does, and the
	// end of the last batch with bytes in it. A chunk is evicted only when all
	// of that batch is in the file, so that a batch is found whole either in
	// memory or in the file.
	firstPos, firstOffset int64
	spill                 int64

	next, prev *chunk             // of the partition, newer and older
	age        order.Node[*chunk] // in the pool's list of clean chunks
	clean      bool
}

// end is the file position behind the chunk's valid bytes.
func (c *chunk) end() int64 { return c.pos + int64(c.to) }

// start is the file position of the chunk's first valid byte.
func (c *chunk) start() int64 { return c.pos + int64(c.from) }

// chunkPool makes chunks of pieces of memory and keeps the clean ones, which hold
// nothing that is not in a segment file too, in order of age for eviction.
type chunkPool struct {
	memory *slab.Pool
	spare  *chunk             // headers for reuse, linked by next
	inFile int                // units of clean chunks
	clean  order.List[*chunk] // the oldest first
	ages   uint64             // given out
}

// newChunkPool makes a pool of the given number of bytes, rounded down to slabs.
func newChunkPool(d aio.Driver, size int64) (*chunkPool, error) {
	memory, err := slab.New(d, size)
	return &chunkPool{memory: memory}, err
}

// get returns an empty chunk of class c, evicting clean chunks if it must, or of a
// smaller class, down to least, where memory is short or in pieces; nil when there
// is none. Before it takes a smaller one it evicts no more than a chunk takes; of
// the smallest it evicts as many as it needs. It leaves kept bytes free.
func (p *chunkPool) get(c, least slab.Class, kept int64) *chunk {
	for {
		if p.memory.Spares(c, kept) {
			if piece, ok := p.memory.Take(c); ok {
				return p.chunk(piece)
			}
		}
		for freed := 0; freed < c.Units() || c == least; {
			from, units := p.evictOldest()
			if units == 0 {
				break
			}
			freed += units
			if !p.memory.Spares(c, kept) {
				continue
			}
			if piece, ok := p.memory.TakeFrom(from, c); ok {
				return p.chunk(piece)
			}
		}
		if c == least {
			return nil
		}
		c--
	}
}

// chunk makes a chunk of a piece.
func (p *chunkPool) chunk(piece slab.Piece) *chunk {
	ch := p.spare
	if ch == nil {
		ch = &chunk{}
	}
	p.spare = ch.next
	*ch = chunk{mem: piece.Mem, piece: piece}
	return ch
}

// put takes a chunk back that is in no list.
func (p *chunkPool) put(ch *chunk) {
	if ch.pins != 0 || ch.clean {
		invariant.Violated("engine: a chunk goes home unpinned and out of every list")
	}
	p.memory.Put(ch.piece)
	*ch = chunk{next: p.spare}
	p.spare = ch
}

// markClean enters ch as the youngest clean chunk.
func (p *chunkPool) markClean(ch *chunk) {
	if ch.clean {
		return
	}
	ch.clean = true
	p.inFile += ch.piece.Class.Units()
	p.ages++
	ch.age.Owner = ch
	p.clean.Add(&ch.age, p.ages)
}

// markDirty takes ch out of the clean list, because it gets new bytes.
func (p *chunkPool) markDirty(ch *chunk) {
	if !ch.clean {
		return
	}
	ch.clean = false
	p.inFile -= ch.piece.Class.Units()
	p.clean.Remove(&ch.age)
}

// evictOldest frees the oldest clean chunk that nobody reads and that is the
// oldest of its partition, so that a partition's chunks stay contiguous. It returns
// the slab that the chunk was from and its units, 0 if there is no such chunk.
func (p *chunkPool) evictOldest() (from, units int) {
	for n := p.clean.First(); n != nil; n = n.Next() {
		if ch := n.Owner; ch.pins == 0 && ch.part.oldest == ch && ch.seg.written >= ch.spill {
			from, units = ch.piece.Slab, ch.piece.Class.Units()
			ch.part.dropOldest(p)
			return from, units
		}
	}
	return 0, 0
}

// size is the pool's size in bytes, used the part of it that is handed out.
func (p *chunkPool) size() int64 { return p.memory.Size() }

func (p *chunkPool) used() int64 { return p.memory.Used() }

// unwritten is the number of bytes that cannot be had by evicting, because they
// are not in a file yet.
func (p *chunkPool) unwritten() int64 { return p.used() - int64(p.inFile)*slab.UnitBytes }
