// Package options sizes the log of a shard and says who hears of its troubles.
package options

import (
	"sync/atomic"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/ballast"
	"github.com/mqd-broker/mqd/engine/checkpoint"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/engine/producers"
	"github.com/mqd-broker/mqd/engine/stage"
)

// ReadBufferBytes is the size of a buffer for reads from segment files. A batch
// that is larger is read into a buffer sized for the largest batch.
const ReadBufferBytes = 256 << 10

// Store sizes a store. Zero fields take the defaults.
type Store struct {
	Dir   string // the data directory
	Shard int
	// Term is this life's term, 31 bits; it is the leader epoch of batches.
	Term uint32
	Node [16]byte
	// Slots says which shard owns each slot; Shards is the number of shards.
	Slots  []uint16
	Shards int
	// ChunkBytes is the memory for the newest bytes of partitions. Default 64 MiB.
	ChunkBytes int64
	// ColdReads is the number of reads from segment files at a time, 256 KiB of
	// memory each. Default 16.
	ColdReads int
	// Writers is the number of partitions written at a time, most of them only for
	// checkpoints. Default 32.
	Writers int
	// IndexBytes is the memory that is kept for indexes that grow. Default 16 MiB.
	IndexBytes int64
	// OpenFiles bounds the segment files that are open. Default 512.
	OpenFiles int
	// MaxBatch is the largest batch of any topic. Default 1 MiB.
	MaxBatch int
	// MaxPending bounds the appends that wait for the journal. Default 65536.
	MaxPending int
	// ReserveOffsets is how many offsets a partition of class memory or written
	// reserves ahead. Default 2^26.
	ReserveOffsets int64
	// ProducerMax bounds the idempotent producers that are remembered, counted in each
	// partition to which they write, 192 bytes each; the one silent for longest goes
	// first. At least 1, default 65,536.
	ProducerMax int
	// ProducerExpiry is how long a silent one is remembered. Default 24 h.
	ProducerExpiry time.Duration
	// CompactionRate bounds what compaction reads in a second, in bytes. Default 32 MiB.
	CompactionRate int64
	// CompactionKeys is the memory for keys while a partition is compacted, in bytes, 24 for
	// each: at least compaction.MinKeyBytes. Default 32 MiB.
	CompactionKeys int64
	// CompactionPause is the time between two looks for what can be compacted. Default 5 s.
	CompactionPause time.Duration
	// Identity says where the data lives and which boot this is, for the
	// checkpoint.
	Identity aio.FSInfo
	// DeviceFailed is shared by all stores on one device: a failed flush of one
	// stops the acknowledgements of all.
	DeviceFailed *atomic.Bool
	Ballast      *ballast.Ballast // of the data directory, shared as well; nil: there is none
	Events       Events
	// Stages takes the times of batches; nil: a clock that nobody reads.
	Stages *stage.Clock
}

// Events tells what an operator should hear of. Calls come from the loop and must
// not block.
type Events interface {
	// StoreFailed: the log of a shard acknowledges nothing from now on.
	StoreFailed(shard int, err error)
	// SealFailed: the index of a sealed segment could not be written; it will
	// be rebuilt when it is needed.
	SealFailed(k layout.Key, base int64, err error)
	// SegmentsLeft: files of segments below the log start could not be removed
	// from the directory of a partition. It is tried again.
	SegmentsLeft(dir string, err error)
	// CompactionFailed: a partition in this directory could not be compacted. It is tried
	// again.
	CompactionFailed(dir string, err error)
	// DiskFull: the filesystem has no space for segments, with the error that says
	// so, or has some again.
	DiskFull(shard int, full bool, err error)
}

// WithDefaults returns o with its zero fields set.
func (o Store) WithDefaults() Store {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	if o.Stages == nil {
		o.Stages = new(stage.Clock)
	}
	def(&o.ColdReads, 16)
	def(&o.Writers, 32)
	def(&o.OpenFiles, 512)
	def(&o.MaxBatch, 1<<20)
	def(&o.MaxPending, 1<<16)
	def(&o.ProducerMax, producers.DefaultMax)
	if o.ProducerExpiry == 0 {
		o.ProducerExpiry = producers.DefaultExpiry
	}
	if o.ChunkBytes == 0 {
		o.ChunkBytes = 64 << 20
	}
	if o.IndexBytes == 0 {
		o.IndexBytes = 16 << 20
	}
	if o.CompactionRate == 0 {
		o.CompactionRate = 32 << 20
	}
	if o.CompactionKeys == 0 {
		o.CompactionKeys = 32 << 20
	}
	if o.CompactionPause == 0 {
		o.CompactionPause = 5 * time.Second
	}
	if o.ReserveOffsets == 0 {
		o.ReserveOffsets = 1 << 26
	}
	if o.DeviceFailed == nil {
		o.DeviceFailed = new(atomic.Bool)
	}
	return o
}

// AppendSlots appends the slots that the shard owns to dst, for a checkpoint. index is
// that of the entries which the journal takes next.
func (o *Store) AppendSlots(dst []checkpoint.Slot, index uint64) []checkpoint.Slot {
	for slot, owner := range o.Slots {
		if int(owner) == o.Shard {
			dst = append(dst, checkpoint.Slot{Slot: uint16(slot), Term: o.Term, Index: index})
		}
	}
	return dst
}

// ArenaBytes is the I/O memory that a store with these options takes from its
// driver, without the journal's.
func (o Store) ArenaBytes() int64 {
	o = o.WithDefaults()
	large := (int64(o.MaxBatch) + 2*aio.BlockSize - 1) &^ (aio.BlockSize - 1)
	return o.ChunkBytes + int64(o.ColdReads)*(ReadBufferBytes+large) + int64(o.Writers)*aio.BlockSize
}
