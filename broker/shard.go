package broker

import (
	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/broker/plainpool"
	"github.com/mqd-broker/mqd/broker/retain"
	"github.com/mqd-broker/mqd/engine"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/shard"
	"github.com/mqd-broker/mqd/engine/stage"
	"github.com/mqd-broker/mqd/ringbuf"
)

// Bounds of the work in a turn.
const (
	drainBudget = 256 // messages of each kind
	retryBudget = 256 // produces that waited for room
	stepBudget  = 512 // partitions of administrative steps
	heldBudget  = 64  // fetches that waited for pinned memory
)

// shardSet is a set of shards.
type shardSet = ringbuf.ShardSet

// Shard is the broker's part of one shard. All methods are called on its loop.
type Shard struct {
	id    int
	node  *Node
	loop  *shard.Loop
	drv   aio.Driver
	store *engine.Store
	port  *ringbuf.Port[Message]

	lanes   []lane // by shard; its own is for its own partitions
	waiting shardSet
	plain   plainpool.Pool

	parts map[engine.Key]*partition
	busy  busyList // partitions with produces that wait for room

	readings readingPool
	held     fifo  // readings that wait for pinned memory to be released
	pinned   int64 // bytes of pieces lent

	heldShown int // what the node has been told

	crowd fifo        // fetches that are to be asked again
	looks shard.Timer // for that

	steps stepList

	keeper *keeper // of the catalog's shard; else nil
	retain *retain.Walker

	coordinators []*coordinator // of groups
	groupless    fifo           // groups' requests that wait for the internal topic
	making       bool           // the internal topic

	inFlight int
	reading  stage.Reading // of the clock, for batches that have been parsed
	expiry   shard.Timer
	stats    Stats
}

// Stats are a shard's counters, written by its loop alone.
type Stats struct {
	// Produced and ProducedBytes count what was acknowledged to callers of this
	// shard, Refused what was not.
	Produced, ProducedBytes, Refused uint64
	// Fetched and FetchedBytes count answers with pieces.
	Fetched, FetchedBytes uint64
	// CreditWaits counts messages that waited for a credit of the mesh,
	// PlainWaits produces that waited for memory to convert, RoomWaits produces
	// that waited for room in journal or memory, PinWaits fetches that waited for
	// pinned memory, CrowdWaits answers that a fetch is to be asked again for.
	CreditWaits, PlainWaits, RoomWaits, PinWaits, CrowdWaits uint64
	// Expired counts produces that waited too long.
	Expired uint64
}

// NewShard makes the broker's part of a shard and gives its store the partitions
// that recovery has found. It is called once for each shard, before the loops run.
func NewShard(n *Node, l *shard.Loop, st *engine.Store, port *ringbuf.Port[Message]) *Shard {
	b := &Shard{
		id: l.ID(), node: n, loop: l, drv: l.Driver(), store: st, port: port,
		lanes: make([]lane, n.Shards()), parts: map[engine.Key]*partition{},
	}
	for to := range b.lanes {
		if to != b.id {
			b.lanes[to].reserve = max(1, port.Credits(to)/reserveShare)
		}
	}
	b.reading = stage.NewReading(b.drv.Clock())
	b.plain.Init(b.drv, &n.opts)
	b.readings.limit = n.opts.MaxFetches
	b.expiry.Owner, b.looks.Owner = (*expiry)(b), (*looks)(b)
	if n.opts.PinnedBytes == 0 {
		b.readings.pinLimit = st.Usage().ChunkLimit / 2
	} else {
		b.readings.pinLimit = n.opts.PinnedBytes
	}
	n.restore(b)
	b.retain = retain.New(l, st, n.inForce, n.opts.RetentionPause, n.opts.DeleteOnFull)
	if b.id == n.catalogShard() {
		b.keeper = newKeeper(b)
	}
	n.loops[b.id] = l
	if t := n.Image().ByID(GroupsTopic); t != nil {
		for i := range t.Partitions {
			if n.ShardOf(GroupsTopic, int32(i)) == b.id {
				b.coordinator(i)
			}
		}
	}
	return b
}

// ID is the shard's number.
func (b *Shard) ID() int { return b.id }

// Node is what the shards have in common.
func (b *Shard) Node() *Node { return b.node }

// Image is the catalog as it is now. It is immutable.
func (b *Shard) Image() *catalog.Image { return b.node.Image() }

// Stats are the counters.
func (b *Shard) Stats() Stats { return b.stats }

// InFlight is the number of produces and administrative requests that have come
// in here and are not answered.
func (b *Shard) InFlight() int { return b.inFlight + b.retain.InFlight() }

// Drain takes what other shards have sent, a bounded amount, and returns how much
// that was. It is the first part of a turn; see shard.Worker.
func (b *Shard) Drain(int64) int {
	n := 0
	for range drainBudget {
		_, m, ok := b.port.NextReply()
		if !ok {
			break
		}
		b.reply(m)
		n++
	}
	for range drainBudget {
		from, m, ok := b.port.NextRequest()
		if !ok {
			break
		}
		if answer := b.request(from, m); answer.kind != 0 {
			b.port.Reply(from, answer)
		}
		n++
	}
	if !b.waiting.Empty() {
		n += b.pump()
	}
	n += b.work()
	if b.keeper != nil {
		n += b.keeper.turn()
	}
	for _, c := range b.coordinators {
		n += c.turn()
	}
	if b.canRetry() || b.canStartHeld() {
		n++ // Finish does some of it; no sleep before the next turn
	}
	return n
}

// Finish is the last part of a turn, after the front doors' own: it retries
// produces that wait for room, finishes the store's turn, and publishes what goes
// to other shards.
func (b *Shard) Finish(now int64) {
	if b.canRetry() {
		b.retry()
	}
	if !b.held.empty() {
		b.startHeld()
	}
	for _, c := range b.coordinators {
		c.finish()
	}
	if !b.waiting.Empty() {
		b.pump()
	}
	b.store.Finish(now)
	b.showHeld()
	b.port.Publish()
	for s := b.port.TakeSleepers(); !s.Empty(); {
		peer, rest := s.Next()
		s = rest
		b.node.loops[peer].Wake()
	}
}

// SpinHint is the time until which the loop had better poll; see shard.Worker.
func (b *Shard) SpinHint(now int64) int64 { return b.store.SpinHint(now) }
