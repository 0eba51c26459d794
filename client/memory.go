package client

import (
	"context"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/net/wire"
)

// produceRoom is what stands before the batch in a produce frame.
const produceRoom = wire.HeaderSize + wire.ProduceRequestFixed

// minCharge is the memory that a batch has at least, in bytes.
const minCharge = 2 << 10

// chargeFor is what a batch of n bytes is charged: its memory grows in powers
// of two.
func chargeFor(n int) int64 {
	return max(minCharge, int64(1)<<bits.Len(uint(n+produceRoom-1)))
}

// space counts the memory of a producer's queued batches against its bound.
type space struct {
	limit int64
	gauge *atomic.Int64 // the client's total

	mu    sync.Mutex
	used  int64
	freed chan struct{} // closed and forgotten when memory comes back; nil if nobody waits
}

// take charges n bytes, or does nothing and returns false.
func (s *space) take(n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used+n > s.limit {
		return false
	}
	s.used += n
	s.gauge.Add(n)
	return true
}

// give returns n bytes and wakes who waits for them.
func (s *space) give(n int64) {
	s.mu.Lock()
	s.used -= n
	freed := s.freed
	s.freed = nil
	s.mu.Unlock()
	s.gauge.Add(-n)
	if freed != nil {
		close(freed)
	}
}

// wait returns when n bytes may be free, ctx ends, or closed is closed. The
// caller tries again: others wait too.
func (s *space) wait(ctx context.Context, n int64, closed <-chan struct{}) error {
	s.mu.Lock()
	if s.used+n <= s.limit {
		s.mu.Unlock()
		return nil
	}
	if s.freed == nil {
		s.freed = make(chan struct{})
	}
	freed := s.freed
	s.mu.Unlock()
	select {
	case <-freed:
		return nil
	case <-closed:
		return ErrClosed
	case <-ctx.Done():
		return contextError(ctx)
	}
}

// packer is the memory in which a batch is built, and its builder. It goes back
// to the producer when the frame is written; the rest of a batch's life needs
// none of it.
type packer struct {
	builder *batch.Builder
	frame   []byte // produceRoom bytes and the batch, once finished
	size    int    // of the memory when it was last seen
	load    load   // under which its batch was begun
	charged int64  // to the producer's space
}

// load says whether a batch is begun under pressure, and will get large.
type load uint8

const (
	relaxed load = iota
	pressed
)

// packers keeps memory for batches to use again, up to a limit. It is no
// sync.Pool because that forgets at every garbage collection, and memory that
// has grown to the size of a batch is worth keeping. Memory is kept by size, and
// a new batch gets what the last one under the same load has needed: else, in
// time, every piece would have grown to the largest batch there ever was.
type packers struct {
	maxBatch int // bytes
	limit    int // bytes of all packers

	mu   sync.Mutex
	free [packerClasses][]*packer
	made int    // bytes of all packers, free or in use
	last [2]int // bytes of the last frame, by load
}

// packerClasses are powers of two from minCharge on; the last is open.
const packerClasses = 8

// classOf is the class of memory of n bytes: that in which all have at least
// as much as the class says.
func classOf(n int) int {
	return min(max(bits.Len(uint(n/minCharge))-1, 0), packerClasses-1)
}

// get returns memory with an empty batch.
func (s *packers) get(ld load) *packer {
	s.mu.Lock()
	want := int(chargeFor(s.last[ld]))
	class := classOf(want)
	if len(s.free[class]) == 0 && s.made+want > s.limit {
		for class = packerClasses - 1; class > 0 && len(s.free[class]) == 0; class-- {
		}
		want = minCharge
	}
	var k *packer
	if n := len(s.free[class]); n > 0 {
		k = s.free[class][n-1]
		s.free[class][n-1] = nil
		s.free[class] = s.free[class][:n-1]
	} else {
		s.made += want
	}
	s.mu.Unlock()
	if k == nil {
		room := make([]byte, produceRoom, want)
		return &packer{builder: batch.NewBuilder(room, s.maxBatch), size: want, load: ld}
	}
	k.builder.Reset(k.frame[:produceRoom])
	k.frame, k.load = nil, ld
	return k
}

// put takes memory back. That of a batch which never was finished stays with its
// builder and is left to the garbage collector.
func (s *packers) put(k *packer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k.frame == nil {
		s.made -= k.size
		return
	}
	s.made += cap(k.frame) - k.size
	k.size = cap(k.frame)
	s.last[k.load] = len(k.frame)
	if s.made > s.limit {
		s.made -= k.size
		return
	}
	class := classOf(k.size)
	s.free[class] = append(s.free[class], k)
}

// slabBatches is how many batches are made at a time.
const slabBatches = 32

// slab hands out new batches.
type slab struct {
	mu   sync.Mutex
	free []sendBatch
}

func (s *slab) next() *sendBatch {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.free) == 0 {
		s.free = make([]sendBatch, slabBatches)
	}
	b := &s.free[0]
	s.free = s.free[1:]
	return b
}
