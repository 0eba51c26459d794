// Package options sizes the broker of a process and says who hears of its troubles.
package options

import (
	"errors"
	"fmt"
	"time"

	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/broker/classic"
	"github.com/mqd-broker/mqd/broker/group"
	"github.com/mqd-broker/mqd/engine/aio"
)

// Err: an option is out of its bounds.
var Err = errors.New("broker option out of range")

// PlainSmall is the size of the smaller buffers for converting plain batches, in bytes.
const PlainSmall = 64 << 10

// AutoCreate says what happens to metadata requests for topics that do not exist.
type AutoCreate uint8

const (
	// AutoCreateOff reports them as unknown.
	AutoCreateOff AutoCreate = iota
	// AutoCreateOn has the front door create them, with default settings, by an
	// broker.Admin request.
	AutoCreateOn
)

// Node sizes a node. Zero fields take the defaults.
type Node struct {
	// Dir is the data directory.
	Dir string
	// AutoCreate is off by default.
	AutoCreate AutoCreate
	// Partitions is the number of partitions of a topic whose creator does not
	// say. 1 to MaxTopicPartitions, default 1.
	Partitions uint32
	// MaxTopicPartitions bounds the partitions of a topic. 1 to
	// catalog.MaxPartitions, default catalog.MaxPartitions.
	MaxTopicPartitions uint32
	// MaxPartitions bounds the partitions of all topics together. At least 1,
	// default 1,000,000.
	MaxPartitions int
	// MaxBatch is the largest batch of any topic, in bytes: the engine's limit,
	// the upper bound of max.message.bytes. At least 4096, default 1 MiB.
	MaxBatch int
	// ProduceTimeout is how long a produce may wait for room before it is
	// refused with Busy. At least 1 ms, default 30 s.
	ProduceTimeout time.Duration
	// FetchBytes and FetchRecords bound the answer to a fetch that does not say.
	// Defaults 1 MiB and 500.
	FetchBytes, FetchRecords int
	// MaxFetchBytes bounds what a fetch may ask for. Default 16 MiB.
	MaxFetchBytes int
	// MaxFetchWait bounds how long a fetch may wait. Default 60 s.
	MaxFetchWait time.Duration
	// MaxFetches bounds the fetches from a shard's partitions, waiting or
	// answered and not yet released, about 2 KiB each; one more that does not wait is
	// refused with Busy. Those that wait leave a quarter to others, and those of
	// askers of very many another: above that who finds nothing waits without, at the
	// shard that asks, and is looked at again, 64,000 a second. Default 16,384.
	MaxFetches int
	// PinnedBytes is how much of a shard's memory answers may hold at a time
	// before the next fetch has to wait. Default half of the engine's chunks.
	PinnedBytes int64
	// PlainBytes is the memory of a shard for converting plain batches. Default
	// 8 MiB, at least enough for two batches of MaxBatch.
	PlainBytes int
	// MaxAdmin bounds the administrative requests that wait at the catalog; one
	// more is refused with Busy. Default 1024.
	MaxAdmin int
	// SnapshotEvery is the number of catalog records between two snapshots.
	// Default 256.
	SnapshotEvery int
	// GroupPartitions is the number of partitions of the internal topic in which groups
	// live, when it is made. 1 to 1024, default 16.
	GroupPartitions uint32
	// GroupLogBytes is by how much the log of each of those partitions may grow before
	// snapshots are written and it is cut. At least 64 KiB, default 8 MiB.
	GroupLogBytes int64
	// DeleteOnFull has topics with a retention limit lose their oldest segments before
	// their time while the disk is full; else producers are refused until there is room.
	DeleteOnFull bool
	// Groups bounds what the groups of each of those partitions may take; its Record is
	// set by MaxBatch.
	Groups group.Limits
	// Classic bounds the members that divide the work of their group among themselves, for
	// each of those partitions. Its Delay is 250 ms by default; a negative one is none.
	Classic classic.Limits
	// RetentionPause is the time between two looks at what has become too old or too
	// large. 1 ms to 1 h, default 2 s.
	RetentionPause time.Duration
	// Events hears of background trouble; nil for nobody.
	Events Events
}

// Events tells what an operator should hear of. Calls come from a loop and must not
// block.
type Events interface {
	// SnapshotFailed: a snapshot of the catalog was not written. The catalog is
	// safe in its log; the next start reads more of it.
	SnapshotFailed(err error)
	// FilesLeft: the files of a deleted topic were not removed. The next start
	// tries again.
	FilesLeft(dir string, err error)
	// GroupsDamaged: a snapshot of groups, of one partition of their topic, is damaged
	// and was passed over.
	GroupsDamaged(partition uint32, err error)
}

// noEvents is for nobody.
type noEvents struct{}

func (noEvents) SnapshotFailed(error)        {}
func (noEvents) FilesLeft(string, error)     {}
func (noEvents) GroupsDamaged(uint32, error) {}

// WithDefaults returns o with its zero fields set.
func (o Node) WithDefaults() Node {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	def(&o.MaxPartitions, 1_000_000)
	def(&o.MaxBatch, 1<<20)
	def(&o.FetchBytes, 1<<20)
	def(&o.FetchRecords, 500)
	def(&o.MaxFetchBytes, 16<<20)
	def(&o.MaxFetches, 1<<14)
	def(&o.PlainBytes, 8<<20)
	def(&o.MaxAdmin, 1024)
	def(&o.SnapshotEvery, 256)
	if o.Partitions == 0 {
		o.Partitions = 1
	}
	if o.MaxTopicPartitions == 0 {
		o.MaxTopicPartitions = catalog.MaxPartitions
	}
	if o.GroupLogBytes == 0 {
		o.GroupLogBytes = 8 << 20
	}
	if o.Classic.Delay == 0 {
		o.Classic.Delay = 250 * time.Millisecond
	}
	if o.GroupPartitions == 0 {
		o.GroupPartitions = 16
	}
	if o.ProduceTimeout == 0 {
		o.ProduceTimeout = 30 * time.Second
	}
	if o.RetentionPause == 0 {
		o.RetentionPause = 2 * time.Second
	}
	if o.MaxFetchWait == 0 {
		o.MaxFetchWait = 60 * time.Second
	}
	if o.Events == nil {
		o.Events = noEvents{}
	}
	o.PlainBytes = max(o.PlainBytes, 2*o.PlainLarge())
	return o
}

// ArenaBytes is the I/O memory that a shard takes from its driver, beside the
// engine's.
func (o Node) ArenaBytes() int64 { return int64(o.WithDefaults().PlainBytes) }

// PlainLarge is the size of a buffer for a plain batch of MaxBatch, in bytes.
func (o Node) PlainLarge() int {
	return (max(o.MaxBatch, PlainSmall) + aio.BlockSize - 1) &^ (aio.BlockSize - 1)
}

// Check reports whether the options are within their bounds. The error is
// [Err].
func (o Node) Check() error {
	o = o.WithDefaults()
	for _, c := range [...]struct {
		name             string
		value, low, high int64
	}{
		{"partitions", int64(o.Partitions), 1, int64(o.MaxTopicPartitions)},
		{"max topic partitions", int64(o.MaxTopicPartitions), 1, catalog.MaxPartitions},
		{"max partitions", int64(o.MaxPartitions), 1, 1 << 31},
		{"max batch", int64(o.MaxBatch), 4096, catalog.MaxMaxMessageBytes},
		{"produce timeout", int64(o.ProduceTimeout), int64(time.Millisecond), int64(time.Hour)},
		{"fetch bytes", int64(o.FetchBytes), 1, int64(o.MaxFetchBytes)},
		{"fetch records", int64(o.FetchRecords), 1, 1 << 31},
		{"max fetch bytes", int64(o.MaxFetchBytes), 1, 1 << 30},
		{"max fetch wait", int64(o.MaxFetchWait), 0, int64(time.Hour)},
		{"max fetches", int64(o.MaxFetches), 1, 1 << 24},
		{"pinned bytes", o.PinnedBytes, 0, 1 << 40},
		{"retention pause", int64(o.RetentionPause), int64(time.Millisecond), int64(time.Hour)},
		{"max admin", int64(o.MaxAdmin), 1, 1 << 20},
		{"group partitions", int64(o.GroupPartitions), 1, 1024},
		{"group log bytes", o.GroupLogBytes, 64 << 10, 1 << 40},
		{"snapshot every", int64(o.SnapshotEvery), 1, 1 << 20},
	} {
		if c.value < c.low || c.value > c.high {
			return fmt.Errorf("%w: %s is %d, expected %d to %d", Err, c.name, c.value, c.low, c.high)
		}
	}
	return nil
}
