// Package memory is the memory of a producer: how much its batches may take, and the
// pieces in which they are built and which are used again.
package memory

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/net/wire"
)

// Room is what stands before the batch in a produce frame.
const Room = wire.HeaderSize + wire.ProduceRequestFixed

// minCharge is the memory that a batch has at least, in bytes.
const minCharge = 2 << 10

// ChargeFor is what a batch of n bytes is charged: its memory grows in powers
// of two.
func ChargeFor(n int) int64 {
	return max(minCharge, int64(1)<<bits.Len(uint(n+Room-1)))
}

// Packer is the memory in which a batch is built, and its builder. It goes back
// to the producer when the frame is written; the rest of a batch's life needs
// none of it.
type Packer struct {
	Builder *batch.Builder
	Frame   []byte // Room bytes and the batch, once finished
	size    int    // of the memory when it was last seen
	load    Load   // under which its batch was begun
	Charged int64  // to the producer's space

	// Key and Value are those of an open claim, in this memory.
	Key, Value []byte
	users      atomic.Int32
}

// Hold keeps the memory for a claim, beside its batch.
func (k *Packer) Hold(key, value []byte) {
	k.Key, k.Value = key, value
	k.users.Add(1)
}

// Leave ends one use of the memory, and reports whether that was the last.
func (k *Packer) Leave() bool { return k.users.Add(-1) == 0 }

// Load says whether a batch is begun under pressure, and will get large.
type Load uint8

const (
	// Relaxed is a batch that goes soon.
	Relaxed Load = iota
	// Pressed is a batch that waits behind others.
	Pressed
)

// Packers keeps memory for batches to use again, up to a limit. It is no
// sync.Pool because that forgets at every garbage collection, and memory that
// has grown to the size of a batch is worth keeping. Memory is kept by size, and
// a new batch gets what the last one under the same load has needed: else, in
// time, every piece would have grown to the largest batch there ever was.
type Packers struct {
	MaxBatch int // bytes of the largest batch
	Limit    int // bytes of all packers

	mu   sync.Mutex
	free [packerClasses][]*Packer
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

// Get returns memory with an empty batch, which is its one user.
func (s *Packers) Get(ld Load) *Packer {
	k := s.get(ld)
	k.users.Store(1)
	return k
}

func (s *Packers) get(ld Load) *Packer {
	s.mu.Lock()
	want := int(ChargeFor(s.last[ld]))
	class := classOf(want)
	if len(s.free[class]) == 0 && s.made+want > s.Limit {
		for class = packerClasses - 1; class > 0 && len(s.free[class]) == 0; class-- {
		}
		want = minCharge
	}
	var k *Packer
	if n := len(s.free[class]); n > 0 {
		k = s.free[class][n-1]
		s.free[class][n-1] = nil
		s.free[class] = s.free[class][:n-1]
	} else {
		s.made += want
	}
	s.mu.Unlock()
	if k == nil {
		room := make([]byte, Room, want)
		return &Packer{Builder: batch.NewBuilder(room, s.MaxBatch), size: want, load: ld}
	}
	k.Builder.Reset(k.Frame[:Room])
	k.Frame, k.load = nil, ld
	return k
}

// Put takes memory back. That of a batch which never was finished stays with its
// builder and is left to the garbage collector.
func (s *Packers) Put(k *Packer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k.Frame == nil {
		s.made -= k.size
		return
	}
	s.made += cap(k.Frame) - k.size
	k.size = cap(k.Frame)
	if len(k.Frame) > Room { // else it was not needed
		s.last[k.load] = len(k.Frame)
	}
	if s.made > s.Limit {
		s.made -= k.size
		return
	}
	class := classOf(k.size)
	s.free[class] = append(s.free[class], k)
}
