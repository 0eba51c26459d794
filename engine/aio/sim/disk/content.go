package disk

import (
	"bytes"
	"hash/maphash"
)

// content is the bytes of a file as a sparse array: a missing page is zeros.
type content struct {
	mem   *Pages
	pages []*page
}

// eachPage calls do for every part of [off, off+n) that lies in one page: the
// page's number, the part's bounds in it, and the part's place in the range.
func eachPage(off, n int64, do func(i int, from, to, at int64)) {
	for at := int64(0); at < n; {
		from := (off + at) % pageSize
		to := min(pageSize, from+n-at)
		do(int((off+at)/pageSize), from, to, at)
		at += to - from
	}
}

func (c *content) page(i int) *page {
	if i >= len(c.pages) {
		return nil
	}
	return c.pages[i]
}

// set makes p page i; the caller's use of p becomes c's.
func (c *content) set(i int, p *page) {
	if i >= len(c.pages) {
		if p == nil {
			return
		}
		c.pages = append(c.pages, make([]*page, i+1-len(c.pages))...)
	}
	c.mem.drop(c.pages[i])
	c.pages[i] = p
}

// own is page i, of which c is the only user, to be changed.
func (c *content) own(i int) *page {
	old := c.page(i)
	if old != nil && old.refs == 1 {
		old.summed = false
		return old
	}
	p := c.mem.take()
	if old != nil {
		p.b = old.b
	} else {
		clear(p.b[:])
	}
	c.set(i, p)
	return p
}

// read fills b from off.
func (c *content) read(b []byte, off int64) {
	eachPage(off, int64(len(b)), func(i int, from, to, at int64) {
		if p := c.page(i); p != nil {
			copy(b[at:], p.b[from:to])
		} else {
			clear(b[at : at+to-from])
		}
	})
}

// put makes a part of page i equal to that part of p, zeros without one. It shares p
// where it can.
func (c *content) put(i int, from, to int64, p *page) {
	switch {
	case c.page(i) == p:
	case to-from < pageSize && p == nil:
		clear(c.own(i).b[from:to])
	case to-from < pageSize:
		copy(c.own(i).b[from:to], p.b[from:to])
	case p == nil:
		c.set(i, nil)
	default:
		p.refs++
		c.set(i, p)
	}
}

// zero clears [from, to).
func (c *content) zero(from, to int64) {
	to = min(to, int64(len(c.pages))*pageSize)
	eachPage(from, max(0, to-from), func(i int, from, to, _ int64) { c.put(i, from, to, nil) })
}

// cut clears everything from off on.
func (c *content) cut(off int64) { c.zero(off, int64(len(c.pages))*pageSize) }

// flip inverts the bits of mask in the byte at off.
func (c *content) flip(off int64, mask byte) { c.own(int(off / pageSize)).b[off%pageSize] ^= mask }

// become makes c equal to o.
func (c *content) become(o *content) {
	for i := range max(len(c.pages), len(o.pages)) {
		c.put(i, 0, pageSize, o.page(i))
	}
}

// holds reports whether the bytes at off are b.
func (c *content) holds(b []byte, off int64) bool {
	same := true
	eachPage(off, int64(len(b)), func(i int, from, to, at int64) {
		part := b[at : at+to-from]
		if p := c.page(i); p != nil {
			same = same && bytes.Equal(part, p.b[from:to])
		} else {
			same = same && allZero(part)
		}
	})
	return same
}

// seed is of the hashes of pages, which do not outlive the process.
var seed = maphash.MakeSeed()

var zeroSum = maphash.Bytes(seed, zeros[:])

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

func allZero(b []byte) bool { return bytes.Equal(b, zeros[:len(b)]) }
