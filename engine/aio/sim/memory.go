package sim

import (
	"slices"
	"unsafe"

	"github.com/mqd-broker/mqd/engine/aio"
)

// memory is what a driver has handed out for I/O: ranges in the order of their
// addresses. It is ordinary memory of the Go heap, which does not move.
type memory struct {
	used   int64
	ranges []memRange
}

type memRange struct {
	from, to uintptr
	keep     []byte
}

func (m *memory) add(b []byte) {
	from := address(b)
	at, _ := slices.BinarySearchFunc(m.ranges, from, func(r memRange, p uintptr) int {
		if r.from < p {
			return -1
		}
		return 1
	})
	m.ranges = slices.Insert(m.ranges, at, memRange{from, from + uintptr(len(b)), b})
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

// Memory is the I/O memory of drivers that are gone, by size.
type Memory struct{ spare map[int][][]byte }

// NewMemory makes an empty one.
func NewMemory() *Memory { return &Memory{map[int][][]byte{}} }

// take is aligned, from what there is.
func (m *Memory) take(n int) []byte {
	if m == nil || len(m.spare[n]) == 0 {
		return aligned(n)
	}
	list := m.spare[n]
	b := list[len(list)-1]
	m.spare[n] = list[:len(list)-1]
	clear(b)
	return b
}

// give takes the memory of a driver that is gone.
func (m *Memory) give(from *memory) {
	if m == nil {
		return
	}
	for _, r := range from.ranges {
		m.spare[len(r.keep)] = append(m.spare[len(r.keep)], r.keep)
	}
	from.ranges = nil
}

// Alloc returns n bytes of zeroed memory for I/O.
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
	b := d.w.opt.Memory.take(n)
	d.memory.add(b)
	return b, nil
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
