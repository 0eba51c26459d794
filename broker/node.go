package broker

import (
	"sync/atomic"

	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/engine"
	"github.com/mqd-broker/mqd/engine/recovery"
	"github.com/mqd-broker/mqd/engine/shard"
)

// Node is what the shards of a process share. Its exported methods may be called
// from any goroutine.
type Node struct {
	opts   Options
	id     [16]byte
	term   int32
	shards int
	owner  []uint16      // by slot
	loops  []*shard.Loop // set before they run

	image    atomic.Pointer[catalog.Image]
	quiesced atomic.Bool
	held     atomic.Int64
	answers  atomic.Int64 // bytes of answers about groups, see maxGroupAnswers

	// From recovery, until the shards have taken it.
	topics    *Topics
	recovered [][]*recovery.PartitionState
	deleted   []string // directories that the start has left for the cleaner
}

// NewNode makes the node of what recovery has found. topics is what recovery was
// given. The error is [ErrOptions] or [ErrCatalog].
func NewNode(o Options, rec *recovery.Recovered, topics *Topics) (*Node, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	if err := topics.Fits(rec); err != nil {
		return nil, err
	}
	n := &Node{
		opts: o.WithDefaults(), id: rec.Node.ID, term: int32(rec.Term), shards: len(rec.Partitions), owner: rec.Slots,
		loops: make([]*shard.Loop, len(rec.Partitions)), topics: topics, recovered: rec.Partitions,
		deleted: rec.Deleted,
	}
	n.image.Store(topics.State().Image())
	return n, nil
}

// restore gives a shard's store the partitions that recovery has found.
func (n *Node) restore(b *Shard) {
	for _, st := range n.recovered[b.id] {
		if st.Key.Topic == engine.CatalogTopic {
			b.store.Restore(st, engine.CatalogName, CatalogConfig())
			continue
		}
		if t := n.image.Load().ByID(st.Key.Topic); t != nil {
			b.store.Restore(st, t.Name, n.config(t))
		}
	}
	n.recovered[b.id] = nil
}

// ID is the node's identity for life.
func (n *Node) ID() [16]byte { return n.id }

// Term is the number of this life of the node, which is the leader epoch of what is written
// in it.
func (n *Node) Term() int32 { return n.term }

// Shards is the number of shards.
func (n *Node) Shards() int { return n.shards }

// ShardOf is the number of the shard that owns a partition.
func (n *Node) ShardOf(topic TopicID, partition int32) int {
	k := engine.Key{Topic: topic, Partition: uint32(partition)}
	return int(n.owner[engine.SlotOf(k, len(n.owner))])
}

// catalogShard is the shard that owns the catalog's partition.
func (n *Node) catalogShard() int { return int(n.owner[engine.CatalogSlot]) }

// Image is the catalog as it is now. It is immutable; a change makes another.
func (n *Node) Image() *catalog.Image { return n.image.Load() }

// inForce is the catalog, nil when the end has begun.
func (n *Node) inForce() *catalog.Image {
	if n.quiesced.Load() {
		return nil
	}
	return n.image.Load()
}

// AutoCreate reports whether unknown topics are to be created.
func (n *Node) AutoCreate() AutoCreate { return n.opts.AutoCreate }

// Options are the node's options, with their defaults.
func (n *Node) Options() Options { return n.opts }

// Held is the number of fetches, on all shards, that wait for memory which answers
// keep that have not been released: above 0, peers that do not take their answers
// hold up others. Any goroutine may ask.
func (n *Node) Held() int { return int(n.held.Load()) }

// Quiesce begins the end: from now on produces and changes to topics are refused
// with ShuttingDown; what is in flight is finished. See [Shard.InFlight].
func (n *Node) Quiesce() { n.quiesced.Store(true) }
