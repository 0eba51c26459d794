// Package plainpool keeps the memory in which a shard converts plain batches.
package plainpool

import (
	"github.com/mqd-broker/mqd/broker/options"
	"github.com/mqd-broker/mqd/engine/aio"
)

// Pool is a shard's memory for converting plain batches: buffers of two sizes,
// taken from the driver when they are first needed and never more than the limit.
type Pool struct {
	drv   aio.Driver
	large int // size of the larger buffers
	left  int // bytes that may still be taken from the driver
	free  [2][][]byte
}

// Init makes the pool, empty.
func (p *Pool) Init(drv aio.Driver, o *options.Node) {
	p.drv, p.large, p.left = drv, o.PlainLarge(), o.PlainBytes
}

// Get returns a buffer of at least n bytes, n no more than the larger size; nil
// when there is none.
func (p *Pool) Get(n int) []byte {
	class, size := 0, options.PlainSmall
	if n > options.PlainSmall {
		class, size = 1, p.large
	}
	if free := p.free[class]; len(free) > 0 {
		buf := free[len(free)-1]
		p.free[class] = free[:len(free)-1]
		return buf
	}
	// Small buffers leave room for a large one, so that none is ever impossible.
	keep := 0
	if class == 0 && len(p.free[1]) == 0 && p.left < 2*p.large {
		keep = p.large
	}
	if p.left-keep < size {
		return nil
	}
	buf, err := p.drv.Alloc(size)
	if err != nil {
		p.left = 0
		return nil
	}
	p.left -= size
	return buf
}

// Put takes a buffer back.
func (p *Pool) Put(buf []byte) {
	class := 0
	if len(buf) > options.PlainSmall {
		class = 1
	}
	p.free[class] = append(p.free[class], buf)
}

// Large is the size of the larger buffers, in bytes.
func (p *Pool) Large() int { return p.large }

// Out is how much of the memory taken from the driver is not home, in bytes. limit is the
// most that may be taken.
func (p *Pool) Out(limit int) int {
	out := limit - p.left
	for class, free := range p.free {
		out -= len(free) * [...]int{options.PlainSmall, p.large}[class]
	}
	return out
}
