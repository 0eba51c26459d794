package engine

import (
	"sync/atomic"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/ballast"
	"github.com/mqd-broker/mqd/engine/checkpoint"
	"github.com/mqd-broker/mqd/engine/fifo"
	"github.com/mqd-broker/mqd/engine/flushwindow"
	"github.com/mqd-broker/mqd/engine/journal"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/engine/order"
	"github.com/mqd-broker/mqd/engine/segment"
	"github.com/mqd-broker/mqd/engine/shard"
	"github.com/mqd-broker/mqd/engine/slab"
	"github.com/mqd-broker/mqd/engine/throttle"
)

// Store is the log of one shard: its partitions, their memory, its journal and
// the background work between them. Everything is called on the shard's loop.
//
// A batch goes two ways at once: into the partition's chunks, from where
// consumers and the writers take it, and into the journal round that fills. When
// the round has reached what the topic's class asks for, the batch becomes
// visible and its owner is told. Writers bring chunks to segment files later; a
// checkpoint records how far they have come, flushed, and frees the ring.
type Store struct {
	opts    StoreOptions
	loop    *shard.Loop
	drv     aio.Driver
	journal *journal.Journal
	chunks  *chunkPool
	entries *segment.EntryPool
	parts   map[Key]*Partition
	list    []*Partition // all partitions, for walks in bounded steps

	wallBase   int64 // wall minus loop clock, at start
	newestTime int64 // newest append time given out

	// Scratch, so that nothing is allocated per batch. A batch of class memory
	// lies in at most as many pieces as chunks of the smallest size hold it.
	entry   journal.Entry
	indexed segment.Batch
	pieces  [][]byte
	tailPos [layout.TailPosBytes]byte
	slotBuf []checkpoint.Slot

	written  fifo.Queue[pending] // appends whose round is not written
	flushing fifo.Queue[pending] // appends whose round is written and not flushed

	memory      fifo.Queue[unjournaled]
	memoryBytes int64
	memoryDue   bool
	memoryTimer shard.Timer

	unflushed    flushwindow.Window
	flushTimer   shard.Timer
	journalTimer shard.Timer
	retryTimer   shard.Timer // of writers

	dirty         order.List[*Partition] // with bytes that are not flushed to a segment, the oldest round first: checkpoints begin there
	ready         fifo.Queue[*Partition] // with something to write, first come first served
	writing       int                    // writers at work
	writersFree   *writer
	writersParked *writer
	writeAfter    int64
	seals         fifo.Queue[*sealing] // the first is at work
	indexes       fifo.Queue[*segfile] // sealed ones with their index in memory
	indexBytes    int64

	opens   int                  // opens in progress
	files   order.List[*segfile] // open ones, the one unused for longest first
	fileUse uint64

	coldFree     *coldRead
	coldQueue    fifo.Queue[*Read]
	waitingReads int
	pinned       int
	woken        *Partition

	changing  []*Partition // with changes of class
	inChanges bool         // somebody goes through them
	dropping  []*Partition
	inDrops   bool // somebody goes through them

	checkpoint   checkpointer
	deviceFailed *atomic.Bool
	failed       error
	closing      closeStage
	fullDisk     bool // the newest write to a segment found no space
	cutShort     bool // the end did without the last checkpoint
	noSpace      throttle.Full
	starved      bool // somebody was refused with ErrBusy since room was last made
	tailDebt     int64
	throttle     throttle.Throttle
	slowTimer    shard.Timer

	stats StoreStats
}

// StoreOptions sizes a store. Zero fields take the defaults.
type StoreOptions struct {
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
	// Identity says where the data lives and which boot this is, for the
	// checkpoint.
	Identity aio.FSInfo
	// DeviceFailed is shared by all stores on one device: a failed flush of one
	// stops the acknowledgements of all.
	DeviceFailed *atomic.Bool
	Ballast      *ballast.Ballast // of the data directory, shared as well; nil: there is none
	Events       Events
}

// Events tells what an operator should hear of. Calls come from the loop and must
// not block.
type Events interface {
	// StoreFailed: the log of a shard acknowledges nothing from now on.
	StoreFailed(shard int, err error)
	// SealFailed: the index of a sealed segment could not be written; it will
	// be rebuilt when it is needed.
	SealFailed(k Key, base int64, err error)
	// DiskFull: the filesystem has no space for segments, with the error that says
	// so, or has some again.
	DiskFull(shard int, full bool, err error)
}

func (o StoreOptions) withDefaults() StoreOptions {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	def(&o.ColdReads, 16)
	def(&o.Writers, 32)
	def(&o.OpenFiles, 512)
	def(&o.MaxBatch, 1<<20)
	def(&o.MaxPending, 1<<16)
	if o.ChunkBytes == 0 {
		o.ChunkBytes = 64 << 20
	}
	if o.IndexBytes == 0 {
		o.IndexBytes = 16 << 20
	}
	if o.ReserveOffsets == 0 {
		o.ReserveOffsets = 1 << 26
	}
	if o.DeviceFailed == nil {
		o.DeviceFailed = new(atomic.Bool)
	}
	return o
}

// ArenaBytes is the I/O memory that a store with these options takes from its
// driver, without the journal's.
func (o StoreOptions) ArenaBytes() int64 {
	o = o.withDefaults()
	large := roundUp(int64(o.MaxBatch)+aio.BlockSize, aio.BlockSize)
	return o.ChunkBytes + int64(o.ColdReads)*(ReadBufferBytes+large) + int64(o.Writers)*aio.BlockSize
}

// NewStore makes the store of a shard on a journal that OpenJournal has opened.
func NewStore(l *shard.Loop, opts StoreOptions) (*Store, error) {
	opts = opts.withDefaults()
	s := &Store{
		opts: opts, loop: l, drv: l.Driver(), parts: map[Key]*Partition{},
		entries: segment.NewEntryPool(opts.IndexBytes), deviceFailed: opts.DeviceFailed,
	}
	s.wallBase = s.drv.Clock().Wall() - s.drv.Clock().Now()
	s.memoryTimer.Owner = (*memoryTimer)(s)
	s.flushTimer.Owner = (*flushTimer)(s)
	s.journalTimer.Owner, s.retryTimer.Owner = wakeTimer{}, wakeTimer{}
	s.slowTimer.Owner = (*slowTimer)(s)
	s.checkpoint.s = s
	s.pieces = make([][]byte, opts.MaxBatch/slab.UnitBytes+2)
	var err error
	if s.chunks, err = newChunkPool(s.drv, opts.ChunkBytes); err != nil {
		return nil, err
	}
	for i := 0; i < opts.Writers; i++ {
		w := &writer{s: s, next: s.writersFree}
		if w.bounce, err = s.drv.Alloc(aio.BlockSize); err != nil {
			return nil, err
		}
		s.writersFree = w
	}
	for i := 0; i < opts.ColdReads; i++ {
		c := &coldRead{s: s, next: s.coldFree}
		if c.buf, err = s.drv.Alloc(ReadBufferBytes); err != nil {
			return nil, err
		}
		s.coldFree = c
	}
	return s, nil
}

// SetJournal gives the store its journal, whose observer it is, and the sequence
// number of the newest checkpoint.
func (s *Store) SetJournal(j *journal.Journal, checkpoint uint64) {
	s.journal, s.checkpoint.seq = j, checkpoint
}

// SpinHint is the time until which the loop had better poll; see journal.PollUntil.
func (s *Store) SpinHint(now int64) int64 { return s.journal.PollUntil(now) }

// Stats returns the counters.
func (s *Store) Stats() StoreStats { return s.stats }

// Failed is the error that stopped the log, or nil.
func (s *Store) Failed() error { return s.failed }

// Partition is the store's partition k, or nil.
func (s *Store) Partition(k Key) *Partition { return s.parts[k] }

// Finish ends a turn: rounds go, background work is given out.
func (s *Store) Finish(now int64) {
	s.wakeAll()
	if s.memoryDue {
		s.flushMemory()
	}
	if s.memory.Len() > 0 {
		s.fillSpare()
	}
	s.flushWritten()
	wall := s.appendTime()
	s.journal.Kick(wall)
	if next := s.journal.Timer(now, wall); next > 0 {
		s.loop.Arm(&s.journalTimer, next)
	}
	if len(s.changing) > 0 {
		s.changeClasses()
	}
	if len(s.dropping) > 0 {
		s.finishDrops()
	}
	s.checkpoint.turn()
	s.writeback(now)
	if s.closing != closeNot {
		s.turnClose(now, wall)
	}
}

// fillPercent is how full the journal's ring is.
func (s *Store) fillPercent() int64 { return 100 * s.journal.Fill() / s.journal.Capacity() }

type memoryTimer Store

// Fire begins the journal write of what class memory has acknowledged.
func (t *memoryTimer) Fire(*shard.Timer, int64) { t.memoryDue = t.memory.Len() > 0 }

// wakeTimer only ends the loop's sleep: the journal and the writers look at the time
// in every turn.
type wakeTimer struct{}

// Fire does nothing; Finish follows.
func (wakeTimer) Fire(*shard.Timer, int64) {}

// Usage returns what the store holds.
func (s *Store) Usage() Usage {
	return Usage{
		ChunkBytes: s.chunks.used(), ChunkLimit: s.chunks.size(),
		PinnedPieces: s.pinned, WaitingReads: s.waitingReads,
		PendingAppends: s.written.Len() + s.flushing.Len(), DirtyPartitions: s.dirty.Len(),
		OpenFiles: s.files.Len(), MemoryBytes: s.memoryBytes,
	}
}
