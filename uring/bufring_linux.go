package uring

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/internal/invariant"
	"github.com/pawelgaczynski/giouring"
	"golang.org/x/sys/unix"
)

// maxRecvBuffers is the largest receive pool.
const maxRecvBuffers = 4096

// bufRing is the receive pool: buffers that are home lie in a ring from which
// the kernel takes one per receive. Both the ring and the buffers are mapped
// here. (giouring's ring multiplies an index in 16 bits, which goes wrong beyond
// 4096 entries, and is never unmapped.)
type bufRing struct {
	ringMem []byte
	bufMem  []byte
	span    span // of bufMem
	size    int  // of a buffer
	n       int
	mask    uint16
	tail    uint16
	// shown is the tail that the kernel has been shown.
	shown uint16
	// out has a mark for each buffer that a caller holds.
	out  []bool
	free int
}

func newBufRing(n, size int) (*bufRing, error) {
	b := &bufRing{size: size, n: n, mask: uint16(n - 1), out: make([]bool, n), free: n}
	var err error
	b.ringMem, err = mapAnon(n * bufSize)
	if err == nil {
		b.bufMem, err = mapAnon(n * size)
	}
	if err != nil {
		b.close()
		return nil, fmt.Errorf("uring: mapping %d receive buffers of %d bytes: %w", n, size, err)
	}
	b.span = span{addressOf(b.bufMem), uintptr(len(b.bufMem))}
	lend(b.span)
	for i := range n {
		b.put(uint16(i))
	}
	b.show()
	return b, nil
}

// entry is entry i of the ring. The first one's last field is the ring's tail.
func (b *bufRing) entry(i uint16) *giouring.BufAndRing {
	return (*giouring.BufAndRing)(unsafe.Pointer(&b.ringMem[int(i&b.mask)*bufSize]))
}

// put adds buffer id behind the tail.
func (b *bufRing) put(id uint16) {
	e := b.entry(b.tail)
	e.Addr = addrOf(unsafe.Pointer(&b.bufMem[int(id)*b.size]))
	e.Len = uint32(b.size)
	e.Bid = id
	b.tail++
}

// show publishes the tail. It is 16 bits beside the first entry's buffer number,
// which only we write, so the aligned word of both is stored at once.
func (b *bufRing) show() {
	if b.shown == b.tail {
		return
	}
	b.shown = b.tail
	first := b.entry(0)
	word := (*atomic.Uint32)(unsafe.Pointer(&first.Bid))
	word.Store(uint32(b.tail)<<16 | uint32(first.Bid))
}

// taken notes that the kernel has filled buffer id with n bytes, and returns
// them.
func (b *bufRing) taken(id uint16, n int) []byte {
	if int(id) >= b.n || b.out[id] || n > b.size {
		invariant.Violated("uring: the kernel receives into a buffer that is home")
	}
	b.out[id] = true
	b.free--
	at := int(id) * b.size
	return b.bufMem[at : at+n : at+b.size]
}

// release takes buffer id home.
func (b *bufRing) release(id aio.BufID) {
	if int(id) >= b.n || !b.out[id] {
		invariant.Violated("uring: a receive buffer that comes home was out")
	}
	b.out[id] = false
	b.free++
	b.put(uint16(id))
}

func (b *bufRing) close() {
	if b.ringMem != nil {
		_ = unix.Munmap(b.ringMem)
	}
	if b.bufMem != nil {
		unlend(b.span)
		_ = unix.Munmap(b.bufMem)
	}
}
