package link

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// Buffer classes are powers of two, 4 KiB to 64 MiB.
const (
	minBufferBits = 12
	maxBufferBits = 26
)

// Buffer is pooled memory for one answer. Several batches may point into it; it
// goes home with the last reference. One that is never released is left to the
// garbage collector.
type Buffer struct {
	B    []byte
	refs atomic.Int32
	home *sync.Pool
}

// BufferPool holds buffers by class. Its zero value is ready.
type BufferPool struct {
	classes [maxBufferBits - minBufferBits + 1]sync.Pool
	// Reuses and Makes count where buffers came from.
	Reuses, Makes atomic.Uint64
}

// Get returns a buffer of n bytes, at most 64 MiB, with one reference.
func (p *BufferPool) Get(n int) *Buffer {
	class := max(bits.Len(uint(max(n, 1)-1)), minBufferBits)
	home := &p.classes[class-minBufferBits]
	b, ok := home.Get().(*Buffer)
	if ok {
		p.Reuses.Add(1)
	} else {
		p.Makes.Add(1)
		b = &Buffer{B: make([]byte, 1<<class), home: home}
	}
	b.B = b.B[:n]
	b.refs.Store(1)
	return b
}

// Retain adds a reference.
func (b *Buffer) Retain() { b.refs.Add(1) }

// Release gives a reference back.
func (b *Buffer) Release() {
	if b.refs.Add(-1) == 0 {
		b.B = b.B[:cap(b.B)]
		b.home.Put(b)
	}
}
