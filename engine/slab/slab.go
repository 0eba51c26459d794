// Package slab cuts registered memory into pieces of four sizes. It knows nothing of
// what the pieces hold; who has one gives it back.
package slab

import (
	"math/bits"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/internal/invariant"
)

// A slab is 256 KiB of registered memory, cut into units of 4 KiB.
const (
	// UnitBytes is the size of the smallest piece.
	UnitBytes = aio.BlockSize

	slabUnits = 64
	slabBytes = slabUnits * UnitBytes
	classes   = 4
	allUnits  = ^uint64(0)
)

// Class is a piece's size: 4, 16, 64 or 256 KiB.
type Class uint8

// Largest is 256 KiB.
const Largest = Class(classes - 1)

// Units is the size in units, Bytes in bytes.
func (c Class) Units() int { return 1 << (2 * c) }

// Bytes is the size in bytes.
func (c Class) Bytes() int { return c.Units() * UnitBytes }

// mask has a bit for each unit of a piece at the start of a slab.
func (c Class) mask() uint64 {
	if c == Largest {
		return allUnits
	}
	return 1<<c.Units() - 1
}

// Piece is memory that has been taken.
type Piece struct {
	Mem   []byte
	Class Class
	Slab  int // that it is a part of
	unit  int
}

// Pool cuts slabs into pieces. Free units of a slab are bits of a word, so that
// neighbours merge by themselves.
type Pool struct {
	slabs [][]byte
	free  []uint64 // per slab: a set bit is a free unit
	hint  [classes]int
	inUse int // units
}

// New makes a pool of the given number of bytes, rounded down to slabs.
func New(d aio.Driver, size int64) (*Pool, error) {
	p := &Pool{}
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

// starts has a bit for each unit at which a piece of a class may begin.
var starts = [classes]uint64{allUnits, 0x1111111111111111, 0x0001000100010001, 1}

// fits returns the bits at which a free piece of class c begins in word w.
func fits(w uint64, c Class) uint64 {
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
	return w & starts[c]
}

// Take returns a piece of class c; false when there is none.
func (p *Pool) Take(c Class) (Piece, bool) {
	n := len(p.slabs)
	if p.inUse+c.Units() > n*slabUnits {
		return Piece{}, false
	}
	for i := 0; i < n; i++ {
		s := p.hint[c] + i
		if s >= n {
			s -= n
		}
		if piece, ok := p.TakeFrom(s, c); ok {
			return piece, true
		}
	}
	return Piece{}, false
}

// TakeFrom returns a piece of class c out of one slab; false when that has no room
// for it.
func (p *Pool) TakeFrom(slab int, c Class) (Piece, bool) {
	at := fits(p.free[slab], c)
	if at == 0 {
		return Piece{}, false
	}
	p.hint[c] = slab
	unit := bits.TrailingZeros64(at)
	p.free[slab] &^= c.mask() << unit
	p.inUse += c.Units()
	mem := p.slabs[slab][unit*UnitBytes : (unit+c.Units())*UnitBytes]
	return Piece{Mem: mem, Class: c, Slab: slab, unit: unit}, true
}

// Put takes a piece back.
func (p *Pool) Put(piece Piece) {
	m := piece.Class.mask() << piece.unit
	if p.free[piece.Slab]&m != 0 {
		invariant.Violated("slab: a piece goes home once")
	}
	p.free[piece.Slab] |= m
	p.inUse -= piece.Class.Units()
}

// Spares reports whether kept bytes are free beside a piece of class c.
func (p *Pool) Spares(c Class, kept int64) bool {
	return p.Size()-p.Used() >= int64(c.Bytes())+kept
}

// Size is the pool's size in bytes.
func (p *Pool) Size() int64 { return int64(len(p.slabs)) * slabBytes }

// Used is the number of bytes that have been taken.
func (p *Pool) Used() int64 { return int64(p.inUse) * UnitBytes }
