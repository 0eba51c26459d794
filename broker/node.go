package broker

import (
	"sync/atomic"
	"time"

	"github.com/mqd-broker/mqd/broker/catalog"
)

// AutoCreate says what happens to metadata requests for topics that do not exist.
type AutoCreate uint8

const (
	// AutoCreateOff reports them as unknown.
	AutoCreateOff AutoCreate = iota
	// AutoCreateOn has the front door create them, with default settings, by an
	// [Admin] request.
	AutoCreateOn
)

// Options of a node. Zero fields take the defaults.
type Options struct {
	// Dir is the data directory.
	Dir string
	// ID is the node's.
	ID [16]byte
	// Slots is the number of slots of the data directory. Default 64.
	Slots int
	// AutoCreate is off by default.
	AutoCreate AutoCreate
	// Partitions is the number of partitions of a topic whose creator does not
	// say. 1 to MaxTopicPartitions, default 1.
	Partitions uint32
	// MaxTopicPartitions bounds the partitions of a topic. 1 to
	// catalog.MaxPartitions, default catalog.MaxPartitions.
	MaxTopicPartitions uint32
	// MaxPartitions bounds the partitions of all topics together. Default
	// 1,000,000.
	MaxPartitions int
	// MaxBatch is the largest batch of any topic, in bytes: the engine's limit,
	// the upper bound of max.message.bytes. Default 1 MiB.
	MaxBatch int
	// ProduceTimeout is how long a produce may wait for room before it is
	// refused with Busy. Default 30 s.
	ProduceTimeout time.Duration
	// FetchBytes and FetchRecords bound the answer to a fetch that does not say.
	// Defaults 1 MiB and 500.
	FetchBytes, FetchRecords int
	// MaxFetchBytes bounds what a fetch may ask for. Default 16 MiB.
	MaxFetchBytes int
	// MaxFetchWait bounds how long a fetch may wait. Default 60 s.
	MaxFetchWait time.Duration
	// MaxFetches bounds the fetches that a shard holds, waiting or answered and
	// not yet released; one more is refused with Busy. Default 65,536.
	MaxFetches int
	// PlainBytes is the memory of a shard for converting plain batches. Default
	// 8 MiB, at least enough for one batch of MaxBatch.
	PlainBytes int
	// MaxAdmin bounds the administrative requests that wait at the catalog; one
	// more is refused with Busy. Default 1024.
	MaxAdmin int
	// SnapshotEvery is the number of catalog records between two snapshots.
	// Default 256.
	SnapshotEvery int
}

// Node is what the shards of a process share. Its methods may be called from any
// goroutine.
type Node struct {
	opts  Options
	owner []uint16 // by slot

	image    atomic.Pointer[catalog.Image]
	quiesced atomic.Bool
}

// Shards is the number of shards.
func (n *Node) Shards() int { return 0 }

// ShardOf is the number of the shard that owns a partition.
func (n *Node) ShardOf(topic TopicID, partition int32) int { return 0 }

// Image is the catalog as it is now. It is immutable; a change makes another.
func (n *Node) Image() *catalog.Image { return n.image.Load() }

// AutoCreate reports whether unknown topics are to be created.
func (n *Node) AutoCreate() AutoCreate { return n.opts.AutoCreate }

// Quiesce begins the end: from now on produces and changes to topics are refused
// with ShuttingDown; what is in flight is finished. See [Shard.InFlight].
func (n *Node) Quiesce() { n.quiesced.Store(true) }
