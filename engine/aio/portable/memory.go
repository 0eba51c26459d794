package portable

import (
	"fmt"
	"unsafe"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/internal/invariant"
	"golang.org/x/sys/unix"
)

// mapAnon maps n bytes of zeroed memory, which begin at a page.
func mapAnon(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("%w: portable: mapping %d bytes of I/O memory: %w", aio.ErrMapping, n, err)
	}
	return b, nil
}

// aligned reports whether b begins and ends at a block.
func aligned(b []byte) bool {
	const mask = aio.BlockSize - 1
	return (uintptr(unsafe.Pointer(unsafe.SliceData(b)))|uintptr(len(b)))&mask == 0
}

// roundUp is n rounded up to whole blocks.
func roundUp[T int | int64](n T) T { return (n + aio.BlockSize - 1) &^ (aio.BlockSize - 1) }

// arena is the memory that Alloc hands out: one mapping, from its start.
type arena struct {
	mem  []byte
	used int
}

func newArena(size int64) (*arena, error) {
	mem, err := mapAnon(int(roundUp(size)))
	if err != nil {
		return nil, err
	}
	offerHugePages(mem)
	return &arena{mem: mem}, nil
}

func (a *arena) alloc(n int) ([]byte, error) {
	left := len(a.mem) - a.used
	if n < 0 || n > left {
		return nil, fmt.Errorf("%w: %d bytes asked, %d of %d left", aio.ErrNoMemory, n, left, len(a.mem))
	}
	b := a.mem[a.used : a.used+n : a.used+n]
	a.used += roundUp(n)
	return b, nil
}

func (a *arena) close() { _ = unix.Munmap(a.mem) }

// recvPool are the receive buffers. The one that came home last, which is in the
// caches, is filled next.
type recvPool struct {
	mem  []byte
	size int // of a buffer
	free []aio.BufID
	out  []bool // by buffer: a caller holds it
}

func newRecvPool(n, size int) (*recvPool, error) {
	mem, err := mapAnon(n * size)
	if err != nil {
		return nil, err
	}
	p := &recvPool{mem: mem, size: size, free: make([]aio.BufID, n), out: make([]bool, n)}
	for i := range p.free {
		p.free[i] = aio.BufID(n - 1 - i)
	}
	return p, nil
}

// next is the buffer to be filled next. There must be one.
func (p *recvPool) next() []byte { return p.bytes(p.free[len(p.free)-1], p.size) }

// take gives away the first n bytes of the next buffer.
func (p *recvPool) take(n int) (aio.BufID, []byte) {
	id := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	p.out[id] = true
	return id, p.bytes(id, n)
}

func (p *recvPool) bytes(id aio.BufID, n int) []byte {
	at := int(id) * p.size
	return p.mem[at : at+n : at+p.size]
}

// release takes a buffer home.
func (p *recvPool) release(id aio.BufID) {
	if int(id) >= len(p.out) || !p.out[id] {
		invariant.Violated("portable: a receive buffer that comes home was out")
	}
	p.out[id] = false
	p.free = append(p.free, id)
}

func (p *recvPool) close() { _ = unix.Munmap(p.mem) }
