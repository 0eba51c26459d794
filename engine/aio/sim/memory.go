package sim

import (
	"slices"
	"unsafe"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim/disk"
)

// slabBytes is the size in which drivers take memory, in bytes.
const slabBytes = 1 << 20

// Memory is what a world is made of: the memory of its drivers, which a driver gets
// with whatever one that is dead has left in it, that of its disk and connections, and
// the stacks of helpers. One that is made by [NewMemory] serves one world after another,
// so that there is nothing to be made or cleared for all but the first.
type Memory struct {
	free   [][]byte      // slabs, the newest last
	rings  [][]byte      // of connections that are closed
	disks  []*disk.Pages // of worlds that have ended
	idle   []*coroutine
	shared bool
}

// NewMemory returns memory for worlds that the same goroutine runs, one after another.
func NewMemory() *Memory { return &Memory{shared: true} }

// Free gives it up; no world uses it any more.
func (m *Memory) Free() {
	for _, c := range m.idle {
		c.stop()
	}
	*m = Memory{}
}

// disk gives out the memory of a disk.
func (m *Memory) disk() *disk.Pages {
	last := len(m.disks) - 1
	if last < 0 {
		return new(disk.Pages)
	}
	p := m.disks[last]
	m.disks = m.disks[:last]
	return p
}

// ring gives out a ring of at least n bytes; n is a power of two.
func (m *Memory) ring(n int) []byte {
	for len(m.rings) > 0 {
		last := len(m.rings) - 1
		b := m.rings[last]
		m.rings = m.rings[:last]
		if len(b) >= n {
			return b
		}
	}
	return make([]byte, n)
}

// take gives out n bytes, or more: the smallest slab that there is for them.
func (m *Memory) take(n int) []byte {
	best := -1
	for i, b := range m.free {
		if len(b) >= n && (best < 0 || len(b) <= len(m.free[best])) {
			best = i
		}
	}
	if best < 0 {
		return aligned((n + slabBytes - 1) &^ (slabBytes - 1))
	}
	b := m.free[best]
	m.free = slices.Delete(m.free, best, best+1)
	return b
}

// memory is what a driver has handed out for I/O: ranges in the order of their
// addresses. It is ordinary memory of the Go heap, which does not move.
type memory struct {
	used   int64
	ranges []memRange
	from   *Memory  // where slabs come from; nil: from nowhere, each range is one
	slabs  [][]byte // all of them
	rest   []byte   // of the newest one
}

type memRange struct {
	from, to uintptr
	keep     []byte
}

// get hands out n bytes.
func (m *memory) get(n int) []byte {
	size := (n + aio.BlockSize - 1) &^ (aio.BlockSize - 1)
	switch {
	case m.from == nil:
		m.rest = aligned(size)
	case size > len(m.rest):
		m.rest = m.from.take(size)
		m.slabs = append(m.slabs, m.rest)
	}
	b := m.rest[:n:n]
	m.rest = m.rest[size:]
	from := address(b)
	at, _ := slices.BinarySearchFunc(m.ranges, from, func(r memRange, p uintptr) int {
		if r.from < p {
			return -1
		}
		return 1
	})
	m.ranges = slices.Insert(m.ranges, at, memRange{from, from + uintptr(n), b})
	return b
}

// giveBack returns everything: nobody uses it any more.
func (m *memory) giveBack() {
	if m.from == nil {
		return
	}
	slices.Reverse(m.slabs) // the next driver takes them in the same order
	m.from.free = append(m.from.free, m.slabs...)
	m.slabs, m.rest = nil, nil
}

// holds reports whether b lies in one of the ranges.
func (m *memory) holds(b []byte) bool {
	from := address(b)
	lo, hi := 0, len(m.ranges)
	for lo < hi {
		mid := (lo + hi) / 2
		if m.ranges[mid].to <= from {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo < len(m.ranges) && m.ranges[lo].from <= from && from+uintptr(len(b)) <= m.ranges[lo].to
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// aligned makes n zeroed bytes whose address is a multiple of BlockSize.
func aligned(n int) []byte {
	b := make([]byte, n+aio.BlockSize)
	skip := int(-address(b) & (aio.BlockSize - 1))
	return b[skip : skip+n : skip+n]
}

// Alloc returns n bytes of memory for I/O.
func (d *Driver) Alloc(n int) ([]byte, error) {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	size := int64(n+aio.BlockSize-1) &^ (aio.BlockSize - 1)
	if n < 0 || d.memory.used+size > d.opt.ArenaBytes {
		return nil, d.fail("alloc", aio.ErrNoMemory)
	}
	if n == 0 {
		return nil, nil
	}
	d.memory.used += size
	return d.memory.get(n), nil
}

// knows reports whether b is memory for I/O of any living driver.
func (w *World) knows(d *Driver, b []byte) bool {
	if d.memory.holds(b) {
		return true
	}
	for _, o := range w.drivers {
		if o.memory.holds(b) {
			return true
		}
	}
	return false
}
