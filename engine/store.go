// Package engine stores partitions: it appends batches through a shard's journal,
// serves them from memory or segment files, brings them to the segments in the
// background, makes checkpoints and recovers.
//
// [Store] is the log of one shard and runs on that shard's loop. [Recover] is what
// happens before any loop: it reads checkpoints and journals, makes the segments
// whole and durable, and says what each shard begins with.
package engine

import (
	"sync/atomic"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/checkpoint"
	"github.com/mqd-broker/mqd/engine/chunks"
	"github.com/mqd-broker/mqd/engine/compaction"
	"github.com/mqd-broker/mqd/engine/dirsync"
	"github.com/mqd-broker/mqd/engine/fifo"
	"github.com/mqd-broker/mqd/engine/filepool"
	"github.com/mqd-broker/mqd/engine/flushwindow"
	"github.com/mqd-broker/mqd/engine/indexing"
	"github.com/mqd-broker/mqd/engine/journal"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/engine/order"
	"github.com/mqd-broker/mqd/engine/producers"
	"github.com/mqd-broker/mqd/engine/retention"
	"github.com/mqd-broker/mqd/engine/segment"
	"github.com/mqd-broker/mqd/engine/shard"
	"github.com/mqd-broker/mqd/engine/slab"
	"github.com/mqd-broker/mqd/engine/stage"
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
	chunks  *chunks.Pool
	entries *segment.EntryPool
	parts   map[Key]*Partition
	list    []*Partition // all partitions, for walks in bounded steps

	producers *producers.Table

	submitted  uint64 // the newest round whose time is noted
	wallBase   int64  // wall minus loop clock, at start
	newestTime int64  // newest append time given out

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
	dirSyncs      dirsync.Syncs
	indexes       *indexing.Set

	files filepool.Pool

	coldFree     *coldRead
	coldQueue    fifo.Queue[*Read]
	waitingReads int
	pinned       int
	woken        *Partition

	changing fifo.Queue[*Partition] // with changes of class
	dropping fifo.Queue[*Partition]
	trimming fifo.Queue[*Partition] // whose log starts are moving
	remover  *retention.Remover     // of files of segments

	cleaner   *compaction.Cleaner
	replacing replacement
	gates     fifo.Queue[gated] // who waits for the end of that

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

// NewStore makes the store of a shard on a journal that OpenJournal has opened.
func NewStore(l *shard.Loop, opts StoreOptions) (*Store, error) {
	opts = opts.WithDefaults()
	s := &Store{
		opts: opts, loop: l, drv: l.Driver(), parts: map[Key]*Partition{},
		entries: segment.NewEntryPool(opts.IndexBytes), deviceFailed: opts.DeviceFailed,
		producers: producers.New(opts.ProducerMax, opts.ProducerExpiry),
	}
	s.wallBase = s.drv.Clock().Wall() - s.drv.Clock().Now()
	s.memoryTimer.Owner = (*memoryTimer)(s)
	s.flushTimer.Owner = (*flushTimer)(s)
	s.journalTimer.Owner, s.retryTimer.Owner = wakeTimer{}, wakeTimer{}
	s.slowTimer.Owner = (*slowTimer)(s)
	s.checkpoint.s, s.files = s, filepool.New(s.drv, opts.OpenFiles)
	s.remover = retention.NewRemover(l, func(dir string, err error) { s.opts.Events.SegmentsLeft(dir, err) }, s.ReleaseBallast)
	s.pieces = make([][]byte, opts.MaxBatch/slab.UnitBytes+2)
	var err error
	if s.chunks, err = chunks.New(s.drv, opts.ChunkBytes); err != nil {
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
	s.indexes = indexing.NewSet(s.drv, &s.stats, func(id segment.ID, err error) {
		s.opts.Events.SealFailed(Key{Topic: id.Topic, Partition: id.Partition}, id.Base, err)
	})
	s.cleaner = compaction.New(l, (*compacting)(s), compaction.Options{
		Rate: opts.CompactionRate, KeyBytes: opts.CompactionKeys, Pause: opts.CompactionPause,
		Failed: func(dir string, err error) { s.opts.Events.CompactionFailed(dir, err) },
	})
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
func (s *Store) Stats() StoreStats {
	c := s.cleaner.Stats()
	s.stats.CompactedSegments, s.stats.CompactedRecords, s.stats.CompactedBytes = c.Segments, c.Records, c.Bytes
	s.stats.CompactionErrors = c.Errors
	return s.stats
}

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
	wall := s.Time()
	s.journal.Kick(wall)
	if next := s.journal.Timer(now, wall); next > 0 {
		s.loop.Arm(&s.journalTimer, next)
	}
	s.timeRounds()
	s.changing.Pass(s.changeClass)
	s.dropping.Pass(s.finishDrop)
	s.trimming.Rotate(64, s.trimOn) // a bounded part of them
	s.replacing.turn()
	s.checkpoint.turn()
	s.writeback(now)
	if s.closing != closeNot {
		s.turnClose(now, wall)
	}
}

// timeRounds notes when rounds were submitted. Much may have happened since the turn
// began: the clock is read anew.
func (s *Store) timeRounds() {
	if last := s.journal.SubmittedLSN(); last != s.submitted {
		s.submitted = last
		s.opts.Stages.Submitted(last, s.drv.Clock().Now())
	}
}

// Stages is where the store's times go.
func (s *Store) Stages() *stage.Clock { return s.opts.Stages }

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
		ChunkBytes: s.chunks.Used(), ChunkLimit: s.chunks.Size(),
		PinnedPieces: s.pinned, WaitingReads: s.waitingReads,
		PendingAppends: s.written.Len() + s.flushing.Len(), DirtyPartitions: s.dirty.Len(),
		OpenFiles: s.files.Len(), MemoryBytes: s.memoryBytes,
		Compacting: !s.cleaner.Resting(), Replacing: s.replacing.swapping,
	}
}
