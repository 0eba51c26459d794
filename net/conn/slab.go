package conn

import (
	"fmt"

	"github.com/mqd-broker/mqd/engine/aio"
)

// slab is a piece of registered memory in which a frame is put together.
type slab struct {
	mem  []byte
	size int // its number among the sizes
	next *slab
}

// numSizes is the number of slab sizes.
const numSizes = 4

// slabs is the bounded memory for frames that do not lie in one receive buffer.
// A frame takes the smallest size that holds the bytes it has so far, and only
// when that is used up the next greater one, as long as half of that is free: so
// many small frames do not keep a large one waiting forever, and a frame that
// outgrows its slab only ever waits for a greater one, which makes a circle of
// waiting impossible.
type slabs struct {
	sizes [numSizes]slabSize
}

type slabSize struct {
	bytes   int
	free    *slab
	nfree   int
	total   int
	waiting queue // connections that wait for this size
}

func (p *slabs) init(d aio.Driver, o Options) error {
	for i, s := range [numSizes]struct{ bytes, n int }{
		{smallBytes, o.SmallFrames}, {mediumBytes, o.MediumFrames}, {blocks(o.MaxFrame), o.LargeFrames}, {blocks(o.JumboFrame), o.JumboFrames},
	} {
		z := &p.sizes[i]
		z.bytes, z.total, z.nfree = s.bytes, s.n, s.n
		z.waiting.list = inNoFrame
		if s.n == 0 {
			continue
		}
		mem, err := d.Alloc(s.bytes * s.n)
		if err != nil {
			return fmt.Errorf("conn: frame memory of %d times %d bytes: %w", s.n, s.bytes, err)
		}
		for at := 0; at < len(mem); at += s.bytes {
			z.free = &slab{mem: mem[at : at+s.bytes : at+s.bytes], size: i, next: z.free}
		}
	}
	return nil
}

// sizeFor is the smallest size that holds n bytes.
func (p *slabs) sizeFor(n int) int {
	size := 0
	for p.sizes[size].bytes < n {
		size++
	}
	return size
}

// take returns a slab for n bytes, nil when there is none at the moment.
func (p *slabs) take(n int) *slab {
	size := p.sizeFor(n)
	if s := p.takeSize(size); s != nil {
		return s
	}
	if size+1 < numSizes && p.sizes[size+1].nfree*2 > p.sizes[size+1].total {
		return p.takeSize(size + 1)
	}
	return nil
}

// takeSize returns a slab of one size, nil when there is none.
func (p *slabs) takeSize(size int) *slab {
	z := &p.sizes[size]
	s := z.free
	if s != nil {
		z.free, s.next = s.next, nil
		z.nfree--
	}
	return s
}

func (p *slabs) put(s *slab) {
	z := &p.sizes[s.size]
	s.next, z.free = z.free, s
	z.nfree++
}

// waiters is the number of connections that wait for a slab.
func (p *slabs) waiters() int {
	n := 0
	for i := range p.sizes {
		n += p.sizes[i].waiting.n
	}
	return n
}

// out is the number of slabs that are not home.
func (p *slabs) out() int {
	n := 0
	for i := range p.sizes {
		n += p.sizes[i].total - p.sizes[i].nfree
	}
	return n
}
