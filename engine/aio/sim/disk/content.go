package disk

import "bytes"

const (
	// sectorSize is the unit in which a device keeps or loses bytes.
	sectorSize = 512
	// pageSize is the unit in which content takes memory.
	pageSize = 64 << 10
)

type page [pageSize]byte

var zeroPage page

// content is the bytes of a file as a sparse array: a missing page is zeros.
type content struct{ pages []*page }

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

// read fills b from off.
func (c *content) read(b []byte, off int64) {
	eachPage(off, int64(len(b)), func(i int, in, at, part int64) {
		if p := c.page(i); p != nil {
			copy(b[at:at+part], p[in:])
		} else {
			clear(b[at : at+part])
		}
	})
}

// write stores b at off. Zeros over a missing page cost no memory.
func (c *content) write(b []byte, off int64) {
	eachPage(off, int64(len(b)), func(i int, in, at, part int64) {
		src := b[at : at+part]
		if c.page(i) == nil {
			if allZero(src) {
				return
			}
			for len(c.pages) <= i {
				c.pages = append(c.pages, nil)
			}
			c.pages[i] = new(page)
		}
		copy(c.pages[i][in:], src)
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
		default:
			clear(p[in : in+part])
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

// copyOf makes c equal to o.
func (c *content) copyOf(o *content) {
	for len(c.pages) < len(o.pages) {
		c.pages = append(c.pages, nil)
	}
	for i := range c.pages {
		src := o.page(i)
		switch {
		case src == nil:
			c.pages[i] = nil
		case c.pages[i] == nil:
			c.pages[i] = new(page)
			fallthrough
		default:
			*c.pages[i] = *src
		}
	}
}

func allZero(b []byte) bool { return bytes.Equal(b, zeroPage[:len(b)]) }
