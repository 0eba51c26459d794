package sim

import (
	"bytes"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/fifo"
	"github.com/mqd-broker/mqd/internal/invariant"
)

// poison fills receive buffers that have gone home, so that whoever still reads
// one reads nonsense.
const poison = 0xDB

var poisoned = bytes.Repeat([]byte{poison}, 64<<10)

// pool is a driver's receive buffers. Its memory is made at the first receive.
type pool struct {
	mem  []byte
	size int
	free fifo.Queue[aio.BufID] // first in, first out: poison is seen for long
	lent []int32               // bytes delivered in the buffer; home when negative
}

const home = -1

func (p *pool) init(n, size int) {
	p.size = size
	p.lent = make([]int32, n)
	for i := range p.lent {
		p.lent[i] = home
		p.free.Push(aio.BufID(i))
	}
}

// take lends a buffer out.
func (p *pool) take(d *Driver) (aio.BufID, []byte, bool) {
	if p.mem == nil {
		p.mem = d.memory.get(len(p.lent) * p.size)
	}
	if p.free.Len() == 0 {
		return 0, nil, false
	}
	id := p.free.Take()
	return id, p.buffer(id), true
}

func (p *pool) buffer(id aio.BufID) []byte {
	return p.mem[int(id)*p.size : int(id+1)*p.size : int(id+1)*p.size]
}

// ReleaseBuf gives a receive buffer home.
func (d *Driver) ReleaseBuf(id aio.BufID) {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	p := &d.pool
	if int(id) >= len(p.lent) || p.lent[id] == home {
		invariant.Violated("sim: a receive buffer was released that is home")
	}
	b := p.buffer(id)[:p.lent[id]]
	for len(b) > 0 {
		b = b[copy(b, poisoned):]
	}
	p.lent[id] = home
	p.free.Push(id)
}

// FreeBufs is the number of receive buffers that are home.
func (d *Driver) FreeBufs() int {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	return d.pool.free.Len()
}
