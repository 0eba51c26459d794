package disk

const (
	// sectorSize is the unit in which a device keeps or loses bytes.
	sectorSize = 512
	// pageSize is the unit in which content takes memory, and shares it.
	pageSize = 4 << 10
	// chunkPages is the number of pages that are made at a time.
	chunkPages = 64
)

// page is a piece of content. The visible file, the medium and the device's log share
// what they have in common: only who has a page alone may change it.
type page struct {
	b    [pageSize]byte
	refs int32 // users, or more: trees that nobody needs any more do not say so
	// sum is a hash of b while summed is set.
	summed bool
	sum    uint64
}

// zeros are compared with.
var zeros [pageSize]byte

// Pages is the memory of a disk. One disk after another can use it, so that there is
// nothing to be made or cleared for the second.
type Pages struct {
	chunks []*[chunkPages]page
	given  int     // pages of the chunks that have been given out
	free   []*page // those of them that came back
	// loose: the tree has copies. What a page is used for ends without notice then, and
	// pages are left to the collector.
	loose bool
}

// Reset takes all pages back. No disk, and no copy of one, uses any of them any more.
func (s *Pages) Reset() {
	s.given, s.loose = 0, false
	clear(s.free)
	s.free = s.free[:0]
}

// take gives a page out, with whatever is in it.
func (s *Pages) take() *page {
	if s.loose {
		return &page{refs: 1}
	}
	var p *page
	if n := len(s.free); n > 0 {
		p = s.free[n-1]
		s.free = s.free[:n-1]
	} else {
		if s.given == len(s.chunks)*chunkPages {
			s.chunks = append(s.chunks, new([chunkPages]page))
		}
		p = &s.chunks[s.given/chunkPages][s.given%chunkPages]
		s.given++
	}
	p.refs, p.summed = 1, false
	return p
}

// drop ends one use of a page.
func (s *Pages) drop(p *page) {
	if p == nil {
		return
	}
	if p.refs--; p.refs == 0 && !s.loose {
		s.free = append(s.free, p)
	}
}
