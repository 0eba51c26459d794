package uring

import (
	"errors"
	"fmt"

	"github.com/mqd-broker/mqd/engine/aio"
	"golang.org/x/sys/unix"
)

const (
	// maxPiece is the largest piece of memory that can be registered, in
	// bytes: the kernel's limit.
	maxPiece = 1 << 30
	// minRegistered is what the registered part is halved down to when
	// locked memory is short, in bytes, before nothing is registered.
	minRegistered = 1 << 20
	// hugePage is the alignment of the arena, so that it can consist of huge
	// pages: fewer entries in the TLB and in the device's gather lists.
	hugePage = 2 << 20
)

// noBuffer is the index of memory that is not registered.
const noBuffer = -1

// arena is the memory that Alloc hands out: one mapping, registered from its
// start in pieces of the same size, the last one shorter.
type arena struct {
	mapping    []byte
	mem        []byte
	span       span
	piece      int // size of a registered piece
	used       int
	registered int // bytes from the start
}

// newArena maps size bytes, to be registered in pieces (for tests shorter than
// maxPiece) that are a multiple of a page.
func newArena(size int64, piece int) (*arena, error) {
	n := int(size+aio.BlockSize-1) &^ (aio.BlockSize - 1)
	mapping, err := unix.Mmap(-1, 0, n+hugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("%w: uring: mapping %d bytes of I/O memory: %w", aio.ErrMapping, n, err)
	}
	skip := int(-addressOf(mapping) & (hugePage - 1))
	a := &arena{mapping: mapping, piece: piece, mem: mapping[skip : skip+n : skip+n]}
	a.span = span{addressOf(a.mem), uintptr(n)}
	lend(a.span)
	// Huge pages are an offer that the kernel may turn down.
	_ = unix.Madvise(a.mem, unix.MADV_HUGEPAGE)
	return a, nil
}

// register pins as much of the arena as the limit of locked memory allows.
func (a *arena) register(r *ring) error {
	for n := len(a.mem); n >= min(minRegistered, len(a.mem)); n = n / 2 &^ (aio.BlockSize - 1) {
		err := r.registerBuffers(a.pieces(n))
		if err == nil {
			a.registered = n
			return nil
		}
		if !errors.Is(err, unix.ENOMEM) {
			return fmt.Errorf("uring: registering %d bytes of I/O memory: %w", n, err)
		}
		if n == len(a.mem) {
			// A huge page counts as a whole wherever a part of it is
			// registered, and the attempt has just made some.
			_ = unix.Madvise(a.mem, unix.MADV_NOHUGEPAGE)
			_ = unix.Madvise(a.mem, unix.MADV_DONTNEED)
		}
	}
	return nil
}

func (a *arena) pieces(n int) [][]byte {
	var list [][]byte
	for at := 0; at < n; at += a.piece {
		list = append(list, a.mem[at:min(n, at+a.piece)])
	}
	return list
}

// alloc hands out n bytes that do not straddle two pieces.
func (a *arena) alloc(n int) ([]byte, error) {
	size := (n + aio.BlockSize - 1) &^ (aio.BlockSize - 1)
	at := a.used
	if at/a.piece != (at+size-1)/a.piece {
		at = (at + a.piece - 1) / a.piece * a.piece
	}
	if n <= 0 || n > a.piece || at+size > len(a.mem) {
		return nil, fmt.Errorf("%w: %d bytes asked, %d of %d left", aio.ErrNoMemory, n, len(a.mem)-a.used, len(a.mem))
	}
	a.used = at + size
	return a.mem[at : at+n : at+n], nil
}

// buffer returns the number of the registered piece that holds all of b, or
// noBuffer.
func (a *arena) buffer(b []byte) int {
	if !a.span.holds(b) {
		return noBuffer
	}
	at := int(addressOf(b) - a.span.start)
	end := at + len(b)
	if end > a.registered || at/a.piece != (end-1)/a.piece {
		return noBuffer
	}
	return at / a.piece
}

func (a *arena) close() {
	unlend(a.span)
	_ = unix.Munmap(a.mapping)
}
