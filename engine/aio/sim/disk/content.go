package disk

import (
	"bytes"
	"hash/maphash"
)

const (
	// sectorSize is the unit in which a device keeps or loses bytes.
	sectorSize = 512
	// pageSize is the unit in which content takes memory.
	pageSize = 16 << 10
)

// page is a piece of a file.
type page struct {
	b [pageSize]byte
	// sum is a hash of b while summed is set.
	sum    uint64
	summed bool
}

// zeros are compared with.
var zeros [arenaChunk]byte

// seed is of the hashes of pages, which do not outlive the process.
var seed = maphash.MakeSeed()

// content is the bytes of a file as a sparse array: a missing page is zeros. A page
// that several contents have is copied by the one that changes it.
type content struct {
	pages  []*page
	shared []bool // of pages: another content may have it too
}

// eachPage calls do for every part of [off, off+n) that lies in one page: the
// page's number, the offset in it, and the part's place in the range.
func eachPage(off, n int64, do func(page int, in, at, part int64)) {
	for at := int64(0); at < n; {
		in := (off + at) % pageSize
		part := min(pageSize-in, n-at)
		do(int((off+at)/pageSize), in, at, part)
		at += part
	}
}

func (c *content) page(i int) *page {
	if i >= len(c.pages) {
		return nil
	}
	return c.pages[i]
}

// own is the page i, to be changed.
func (c *content) own(i int) *page {
	for len(c.pages) <= i {
		c.pages, c.shared = append(c.pages, nil), append(c.shared, false)
	}
	switch p := c.pages[i]; {
	case p == nil:
		c.pages[i] = new(page)
	case c.shared[i]:
		c.pages[i] = &page{b: p.b}
	default:
		p.summed = false
	}
	c.shared[i] = false
	return c.pages[i]
}

// read fills b from off.
func (c *content) read(b []byte, off int64) {
	eachPage(off, int64(len(b)), func(i int, in, at, part int64) {
		if p := c.page(i); p != nil {
			copy(b[at:at+part], p.b[in:])
		} else {
			clear(b[at : at+part])
		}
	})
}

// write stores b at off. Zeros over a missing page cost no memory.
func (c *content) write(b []byte, off int64) {
	eachPage(off, int64(len(b)), func(i int, in, at, part int64) {
		src := b[at : at+part]
		if c.page(i) == nil && allZero(src) {
			return
		}
		copy(c.own(i).b[in:], src)
	})
}

// zero clears [from, to); whole pages are given back.
func (c *content) zero(from, to int64) {
	to = min(to, int64(len(c.pages))*pageSize)
	eachPage(from, max(0, to-from), func(i int, in, _, part int64) {
		switch p := c.page(i); {
		case p == nil:
		case part == pageSize:
			c.pages[i] = nil
		case !allZero(p.b[in : in+part]):
			clear(c.own(i).b[in : in+part])
		}
	})
}

// cut clears everything from off on.
func (c *content) cut(off int64) { c.zero(off, int64(len(c.pages))*pageSize) }

// flip inverts the bits of mask in the byte at off.
func (c *content) flip(off int64, mask byte) {
	var b [1]byte
	c.read(b[:], off)
	b[0] ^= mask
	c.write(b[:], off)
}

// copyOf makes c equal to o. They have their pages in common until one of them
// changes.
func (c *content) copyOf(o *content) {
	for i := range o.shared {
		o.shared[i] = true
	}
	c.pages = append(c.pages[:0], o.pages...)
	c.shared = append(c.shared[:0], o.shared...)
}

// holds reports whether the bytes at off are b.
func (c *content) holds(b []byte, off int64) bool {
	same := true
	eachPage(off, int64(len(b)), func(i int, in, at, part int64) {
		if p := c.page(i); p != nil {
			same = same && bytes.Equal(b[at:at+part], p.b[in:in+part])
		} else {
			same = same && allZero(b[at:at+part])
		}
	})
	return same
}

// fold adds what is not zero to a hash of other things.
func (c *content) fold(h *maphash.Hash) {
	for i, p := range c.pages {
		if p == nil {
			continue
		}
		if !p.summed {
			p.sum, p.summed = maphash.Bytes(seed, p.b[:]), true
		}
		if p.sum != zeroSum {
			foldNumbers(h, uint64(i), p.sum)
		}
	}
}

var zeroSum = maphash.Bytes(seed, zeros[:pageSize])

func allZero(b []byte) bool { return bytes.Equal(b, zeros[:len(b)]) }
