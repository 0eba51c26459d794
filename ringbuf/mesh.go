package ringbuf

import (
	"sync/atomic"

	"github.com/mqd-broker/mqd/internal/invariant"
)

// Mesh joins N shards: for every ordered pair a→b it has a ring of requests from
// a to b and a ring of their replies from b to a, both with room for K messages,
// and K credits in the hands of a.
//
// # Credits
//
// A request costs its sender one credit; taking the reply gives it back. Hence
// of each pair at most K requests are anywhere between "pushed" and "reply
// taken", which is what makes two things certain:
//
//   - A request that has a credit finds room in the request ring. The answering
//     shard releases the slots of the requests it took before it publishes
//     replies (Publish does both, in this order), so whoever has seen a reply
//     also sees the slot of its request free: the slots still in use belong to
//     requests whose credits are still out, and those are fewer than K.
//   - A reply finds room in the reply ring. The asking shard likewise releases
//     the slots of the replies it took before it publishes the requests that
//     reuse their credits, so the slots still in use belong to requests whose
//     credits are still out as well, and the one about to be answered makes at
//     most K.
//
// So only Send can be refused, and only at the place where there is somebody to
// push back on: the connection the request came from. Replies and returns of
// lent memory always go through, no shard ever waits for another, and no cycle
// of full rings can form. A shard that stands still costs each peer K requests;
// all other pairs go on.
//
// If a reply does not fit, the accounting is broken and memory would be lost:
// that is an invariant violation, not an error.
type Mesh[T any] struct {
	ports []*Port[T]
}

// link is what one shard keeps about one peer. All of it is touched only by that
// shard, except refused, which others may read, and the rings' far ends.
type link[T any] struct {
	_ linePad

	requestsOut *SPSC[T] // ours to the peer
	repliesIn   *SPSC[T] // the peer's, to requestsOut
	requestsIn  *SPSC[T] // the peer's to us
	repliesOut  *SPSC[T] // ours, to requestsIn

	credits int // requests that we may still send
	owed    int // requests of the peer that we took and did not answer

	refused atomic.Uint64 // sends refused for want of a credit
	_       linePad
}

// NewMesh joins the given number of shards, 1 to [MaxShards], with the given
// number of credits for each ordered pair: a power of two from [MinCapacity] to
// [MaxCapacity]. Other numbers are a bug of the caller.
func NewMesh[T any](shards, credits int) *Mesh[T] {
	if shards < 1 || shards > MaxShards {
		invariant.Violated("ringbuf: a mesh has 1 to MaxShards shards")
	}
	m := &Mesh[T]{ports: make([]*Port[T], shards)}
	for i := range m.ports {
		m.ports[i] = newPort[T](m, i, shards)
	}
	for a := range shards {
		for b := range shards {
			if a != b {
				m.join(m.ports[a], m.ports[b], credits)
			}
		}
	}
	return m
}

// Shards returns the number of shards.
func (m *Mesh[T]) Shards() int { return len(m.ports) }

// Port returns the one and only port of a shard. Its methods belong to that
// shard's thread, unless they say otherwise.
func (m *Mesh[T]) Port(shard int) *Port[T] { return m.ports[shard] }

// join makes the two rings and the credits of the ordered pair asking→answering.
func (m *Mesh[T]) join(asking, answering *Port[T], credits int) {
	requests, replies := NewSPSC[T](credits), NewSPSC[T](credits)

	from := &asking.links[answering.shard]
	from.requestsOut, from.repliesIn = requests, replies
	from.credits = credits

	to := &answering.links[asking.shard]
	to.requestsIn, to.repliesOut = requests, replies
}
