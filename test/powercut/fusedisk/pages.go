package fusedisk

// pageSize is the unit in which disks share memory, in bytes.
const pageSize = 4096

// pages are a disk's bytes. Pages that were never written are nil and read as
// zeros. A page may belong to several disks; whoever writes to one that is not its
// own copies it first.
type pages struct {
	page []*[pageSize]byte
	mine []bool
}

// newPages has room for size bytes, a multiple of pageSize.
func newPages(size int64) pages {
	n := size / pageSize
	return pages{page: make([]*[pageSize]byte, n), mine: make([]bool, n)}
}

// clone is a copy that shares all memory.
func (p *pages) clone() pages {
	clear(p.mine)
	return pages{page: append([]*[pageSize]byte(nil), p.page...), mine: make([]bool, len(p.page))}
}

// read fills b from off on. All of it lies within the size.
func (p *pages) read(b []byte, off int64) {
	for len(b) > 0 {
		page, at := p.page[off/pageSize], off%pageSize
		n := min(int64(len(b)), pageSize-at)
		if page == nil {
			clear(b[:n])
		} else {
			copy(b[:n], page[at:])
		}
		b, off = b[n:], off+n
	}
}

// write puts b at off. All of it lies within the size.
func (p *pages) write(b []byte, off int64) {
	for len(b) > 0 {
		i, at := off/pageSize, off%pageSize
		if !p.mine[i] {
			own := new([pageSize]byte)
			if p.page[i] != nil {
				*own = *p.page[i]
			}
			p.page[i], p.mine[i] = own, true
		}
		n := copy(p.page[i][at:], b)
		b, off = b[n:], off+int64(n)
	}
}
