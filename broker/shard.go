package broker

import (
	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/engine"
	"github.com/mqd-broker/mqd/engine/shard"
	"github.com/mqd-broker/mqd/ringbuf"
)

// Shard is the broker's part of one shard. All methods are called on its loop.
type Shard struct {
	node  *Node
	loop  *shard.Loop
	store *engine.Store
	port  *ringbuf.Port[Message]
}

// NewShard makes the broker's part of a shard. It is called once for each shard,
// before the loops run.
func NewShard(n *Node, l *shard.Loop, st *engine.Store, port *ringbuf.Port[Message]) *Shard {
	return &Shard{node: n, loop: l, store: st, port: port}
}

// ID is the shard's number.
func (b *Shard) ID() int { return b.loop.ID() }

// Node is what the shards have in common.
func (b *Shard) Node() *Node { return b.node }

// Image is the catalog as it is now. It is immutable.
func (b *Shard) Image() *catalog.Image { return b.node.Image() }

// Produce appends a batch to a partition. r.Owner hears of the outcome once.
func (b *Shard) Produce(r *Produce) {}

// Fetch reads from a partition. r.Owner hears of the answer once.
func (b *Shard) Fetch(r *Fetch) {}

// Release gives back the memory of a fetch's pieces, after they have been sent.
// It is called exactly once for every Fetched. After it r is the caller's again
// and its pieces are gone.
func (b *Shard) Release(r *Fetch) {}

// CancelFetch ends a fetch early: its connection is gone. r.Owner.Fetched is still
// called exactly once, now or later, with whatever there is. A fetch that has
// been answered is left alone.
func (b *Shard) CancelFetch(r *Fetch) {}

// ListOffsets looks up an offset by time. r.Owner hears of the outcome once.
func (b *Shard) ListOffsets(r *ListOffsets) {}

// Admin creates, alters, deletes or describes a topic. r.Owner hears of the outcome
// once.
func (b *Shard) Admin(r *Admin) {}

// InFlight is the number of produces and administrative requests that have come
// in here and are not answered.
func (b *Shard) InFlight() int { return 0 }

// Drain takes what other shards have sent, a bounded amount, and returns how much
// that was. It is the first part of a turn; see shard.Worker.
func (b *Shard) Drain(now int64) int { return 0 }

// Finish is the last part of a turn, after the front doors' own: it retries
// produces that wait for room, finishes the store's turn, and publishes what goes
// to other shards.
func (b *Shard) Finish(now int64) {}

// SpinHint is the time until which the loop had better poll; see shard.Worker.
func (b *Shard) SpinHint(now int64) int64 { return b.store.SpinHint(now) }
