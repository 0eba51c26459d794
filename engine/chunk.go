package engine

import (
	"math/bits"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/internal/invariant"
)

// A slab is 256 KiB of registered memory, cut into units of 4 KiB.
const (
	unitBytes  = aio.BlockSize
	slabUnits  = 64
	slabBytes  = slabUnits * unitBytes
	chunkSizes = 4
	allUnits   = ^uint64(0)
)

// sizeClass is a chunk's size: 4, 16, 64 or 256 KiB.
type sizeClass uint8

func (c sizeClass) units() int { return 1 << (2 * c) }
func (c sizeClass) bytes() int { return c.units() * unitBytes }

// noBatch is the firstPos of a chunk in which no batch begins.
const noBatch = -1

// largestClass is 256 KiB.
const largestClass = sizeClass(chunkSizes - 1)

// chunk is a piece of registered memory that holds a partition's newest bytes,
// exactly as they stand in the segment's file: mem[0] is at file position pos.
// Chunks of a partition form a list in log order.
type chunk struct {
	mem   []byte
	class sizeClass
	slab  int32
	unit  int32

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

	next, prev *chunk // of the partition, newer and older
	// Links of the pool's list of clean chunks, the oldest first.
	cleanPrev, cleanNext *chunk
	clean                bool
}

// end is the file position behind the chunk's valid bytes.
func (c *chunk) end() int64 { return c.pos + int64(c.to) }

// start is the file position of the chunk's first valid byte.
func (c *chunk) start() int64 { return c.pos + int64(c.from) }

// chunkPool cuts slabs into chunks and keeps the clean ones, which hold nothing
// that is not in a segment file too, in order of age for eviction. Free units
// of a slab are bits of a word, so that neighbours merge by themselves.
type chunkPool struct {
	slabs  [][]byte
	free   []uint64 // per slab: a set bit is a free unit
	hint   [chunkSizes]int
	spare  *chunk // headers for reuse, linked by next
	inUse  int    // units handed out
	inFile int    // units of clean chunks among them
	oldest *chunk
	newest *chunk

	evictions uint64
}

// newChunkPool makes a pool of the given number of bytes, rounded down to slabs.
func newChunkPool(d aio.Driver, size int64) (*chunkPool, error) {
	p := &chunkPool{}
	for n := size / slabBytes; n > 0; n-- {
		mem, err := d.Alloc(slabBytes)
		if err != nil {
			return nil, err
		}
		p.slabs = append(p.slabs, mem)
		p.free = append(p.free, allUnits)
	}
	return p, nil
}

// alignedStarts has a bit for each unit at which a chunk of a class may begin.
var alignedStarts = [chunkSizes]uint64{allUnits, 0x1111111111111111, 0x0001000100010001, 1}

// fits returns the bits at which a free chunk of class c begins in word w.
func fits(w uint64, c sizeClass) uint64 {
	if c >= 1 {
		w &= w >> 1
		w &= w >> 2
	}
	if c >= 2 {
		w &= w >> 4
		w &= w >> 8
	}
	if c >= 3 {
		w &= w >> 16
		w &= w >> 32
	}
	return w & alignedStarts[c]
}

// get returns an empty chunk of class c, evicting clean chunks if it must, or of a
// smaller class, down to least, where memory is short or in pieces; nil when there
// is none. Before it takes a smaller one it evicts no more than a chunk takes; of
// the smallest it evicts as many as it needs.
func (p *chunkPool) get(c, least sizeClass) *chunk {
	for {
		if ch := p.take(c); ch != nil {
			return ch
		}
		for freed := 0; freed < c.units() || c == least; {
			slab, units := p.evictOldest()
			if units == 0 {
				break
			}
			if ch := p.cut(slab, c); ch != nil {
				return ch
			}
			freed += units
		}
		if c == least {
			return nil
		}
		c--
	}
}

// take finds a free place without evicting.
func (p *chunkPool) take(c sizeClass) *chunk {
	n := len(p.slabs)
	if p.inUse+c.units() > n*slabUnits {
		return nil
	}
	for i := 0; i < n; i++ {
		s := p.hint[c] + i
		if s >= n {
			s -= n
		}
		if ch := p.cut(s, c); ch != nil {
			return ch
		}
	}
	return nil
}

// cut takes a chunk of class c out of slab s, if it has room for one.
func (p *chunkPool) cut(s int, c sizeClass) *chunk {
	at := fits(p.free[s], c)
	if at == 0 {
		return nil
	}
	p.hint[c] = s
	unit := bits.TrailingZeros64(at)
	p.free[s] &^= mask(c) << unit
	p.inUse += c.units()
	ch := p.header()
	ch.class, ch.slab, ch.unit = c, int32(s), int32(unit)
	ch.mem = p.slabs[s][unit*unitBytes : (unit+c.units())*unitBytes]
	return ch
}

func mask(c sizeClass) uint64 {
	if c == largestClass {
		return allUnits
	}
	return 1<<c.units() - 1
}

func (p *chunkPool) header() *chunk {
	ch := p.spare
	if ch == nil {
		return &chunk{}
	}
	p.spare = ch.next
	*ch = chunk{}
	return ch
}

// put takes a chunk back that is in no list.
func (p *chunkPool) put(ch *chunk) {
	if ch.pins != 0 || ch.clean {
		invariant.Violated("engine: a chunk goes home unpinned and out of every list")
	}
	m := mask(ch.class) << ch.unit
	if p.free[ch.slab]&m != 0 {
		invariant.Violated("engine: a chunk goes home once")
	}
	p.free[ch.slab] |= m
	p.inUse -= ch.class.units()
	ch.mem, ch.part, ch.seg, ch.prev = nil, nil, nil, nil
	ch.next = p.spare
	p.spare = ch
}

// markClean enters ch as the youngest clean chunk.
func (p *chunkPool) markClean(ch *chunk) {
	if ch.clean {
		return
	}
	ch.clean = true
	p.inFile += ch.class.units()
	ch.cleanPrev = p.newest
	if p.newest != nil {
		p.newest.cleanNext = ch
	} else {
		p.oldest = ch
	}
	p.newest = ch
}

// markDirty takes ch out of the clean list, because it gets new bytes.
func (p *chunkPool) markDirty(ch *chunk) {
	if !ch.clean {
		return
	}
	ch.clean = false
	p.inFile -= ch.class.units()
	if ch.cleanPrev != nil {
		ch.cleanPrev.cleanNext = ch.cleanNext
	} else {
		p.oldest = ch.cleanNext
	}
	if ch.cleanNext != nil {
		ch.cleanNext.cleanPrev = ch.cleanPrev
	} else {
		p.newest = ch.cleanPrev
	}
	ch.cleanPrev, ch.cleanNext = nil, nil
}

// evictOldest frees the oldest clean chunk that nobody reads and that is the
// oldest of its partition, so that a partition's chunks stay contiguous. It returns
// the chunk's slab and its units, 0 if there is no such chunk.
func (p *chunkPool) evictOldest() (slab, units int) {
	for ch := p.oldest; ch != nil; ch = ch.cleanNext {
		if ch.pins == 0 && ch.part.oldest == ch && ch.seg.written >= ch.spill {
			slab, units = int(ch.slab), ch.class.units()
			ch.part.dropOldest(p)
			p.evictions++
			return slab, units
		}
	}
	return 0, 0
}

// size is the pool's size in bytes.
func (p *chunkPool) size() int64 { return int64(len(p.slabs)) * slabBytes }

// used is the number of bytes handed out.
func (p *chunkPool) used() int64 { return int64(p.inUse) * unitBytes }

// unwritten is the number of bytes that cannot be had by evicting, because they
// are not in a file yet.
func (p *chunkPool) unwritten() int64 { return int64(p.inUse-p.inFile) * unitBytes }
