package slab

import "time"

// A piece that lasted for less than growWithin is followed by a larger one, one
// that lasted for more than shrinkAfter by a smaller one: whoever fills pieces holds a
// few seconds of what it gets.
const (
	growWithin  = int64(2 * time.Second)
	shrinkAfter = int64(20 * time.Second)
)

// Pace is how fast somebody fills pieces one after another. Times are in nanoseconds.
// The zero Pace begins with the smallest piece.
type Pace struct {
	class Class // of the newest piece, if memory was not short
	at    int64 // when it got its first bytes
}

// Next is the size that suits the pace at time now.
func (p *Pace) Next(now int64) Class {
	lasted := now - p.at
	switch {
	case lasted < growWithin && p.class < Largest:
		return p.class + 1
	case lasted > shrinkAfter && p.class > 0:
		return p.class - 1
	}
	return p.class
}

// Begun notes that a piece gets its first bytes at time now. After a first one the
// pace is that of a beginner.
func (p *Pace) Begun(first bool, now int64) {
	next := p.Next(now)
	if first {
		next = 0
	}
	p.class, p.at = next, now
}

// Least is the smallest class in which n bytes lie in no more than pieces pieces, or
// the largest one.
func Least(n, pieces int) Class {
	c := Class(0)
	for c < Largest && n > pieces*c.Bytes() {
		c++
	}
	return c
}
