package chunks

import (
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/order"
	"github.com/mqd-broker/mqd/engine/slab"
	"github.com/mqd-broker/mqd/internal/invariant"
)

// Pool makes chunks of pieces of memory, for the partitions of one shard, and keeps the clean ones, which hold
// nothing that is not in a segment file too, in order of age for eviction.
type Pool struct {
	memory *slab.Pool
	spare  *Chunk             // headers for reuse, linked by next
	inFile int                // units of clean chunks
	clean  order.List[*Chunk] // the oldest first
	ages   uint64             // given out
}

// New makes a pool of the given number of bytes, rounded down to slabs.
func New(d aio.Driver, size int64) (*Pool, error) {
	memory, err := slab.New(d, size)
	return &Pool{memory: memory}, err
}

// get returns an empty chunk of class c, evicting clean chunks if it must, or of a
// smaller class, down to least, where memory is short or in pieces; nil when there
// is none. Before it takes a smaller one it evicts no more than a chunk takes; of
// the smallest it evicts as many as it needs. It leaves kept bytes free.
func (p *Pool) get(c, least slab.Class, kept int64) *Chunk {
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
func (p *Pool) chunk(piece slab.Piece) *Chunk {
	ch := p.spare
	if ch == nil {
		ch = &Chunk{}
	}
	p.spare = ch.next
	*ch = Chunk{Mem: piece.Mem, piece: piece}
	return ch
}

// put takes a chunk back that is in no list.
func (p *Pool) put(ch *Chunk) {
	if ch.Pins != 0 || ch.clean {
		invariant.Violated("chunks: a chunk goes home unpinned and out of every list")
	}
	p.memory.Put(ch.piece)
	*ch = Chunk{next: p.spare}
	p.spare = ch
}

// markClean enters ch as the youngest clean chunk.
func (p *Pool) markClean(ch *Chunk) {
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
func (p *Pool) markDirty(ch *Chunk) {
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
func (p *Pool) evictOldest() (from, units int) {
	for n := p.clean.First(); n != nil; n = n.Next() {
		if ch := n.Owner; ch.Pins == 0 && ch.list.oldest == ch && ch.Seg.InFile >= ch.spill {
			from, units = ch.piece.Slab, ch.piece.Class.Units()
			ch.list.DropOldest()
			return from, units
		}
	}
	return 0, 0
}

// Size is the pool's size in bytes.
func (p *Pool) Size() int64 { return p.memory.Size() }

// Used is the part of Size that is handed out.
func (p *Pool) Used() int64 { return p.memory.Used() }

// Unwritten is the number of bytes that cannot be had by evicting, because they
// are not in a file yet.
func (p *Pool) Unwritten() int64 { return p.Used() - int64(p.inFile)*slab.UnitBytes }
