package uring

import (
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// span is a range of mapped memory.
type span struct{ start, size uintptr }

func (s span) holds(b []byte) bool {
	at := addressOf(b) - s.start
	return at < s.size && uintptr(len(b)) <= s.size-at
}

// addressOf is where b lies. b is memory that does not move.
func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// addrOf is the address of memory outside the Go heap, for a field of a struct
// of the kernel.
func addrOf(p unsafe.Pointer) uint64 { return uint64(uintptr(p)) }

// mapAnon maps n bytes of zeroed memory.
func mapAnon(n int) ([]byte, error) {
	return unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
}

// lent is the I/O memory of all drivers of the process. Shards lend each other
// memory: a connection may send what another shard's partition holds. What is
// in none of it may be Go memory, which must not go to the kernel.
var lent struct {
	mu    sync.Mutex // for changes
	spans atomic.Pointer[[]span]
}

func lend(s span) {
	lent.mu.Lock()
	defer lent.mu.Unlock()
	var list []span
	if old := lent.spans.Load(); old != nil {
		list = slices.Clone(*old)
	}
	list = append(list, s)
	lent.spans.Store(&list)
}

func unlend(s span) {
	lent.mu.Lock()
	defer lent.mu.Unlock()
	old := lent.spans.Load()
	if old == nil {
		return
	}
	list := slices.DeleteFunc(slices.Clone(*old), func(o span) bool { return o == s })
	lent.spans.Store(&list)
}

// isLent reports whether b is I/O memory of some driver.
func isLent(b []byte) bool {
	list := lent.spans.Load()
	return list != nil && slices.ContainsFunc(*list, func(s span) bool { return s.holds(b) })
}
