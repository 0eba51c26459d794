package engine

import (
	"sort"

	"github.com/mqd-broker/mqd/engine/checkpoint"
	"github.com/mqd-broker/mqd/engine/chunks"
	"github.com/mqd-broker/mqd/engine/compaction"
	"github.com/mqd-broker/mqd/engine/dirsync"
	"github.com/mqd-broker/mqd/engine/filepool"
	"github.com/mqd-broker/mqd/engine/indexing"
	"github.com/mqd-broker/mqd/engine/journal"
	"github.com/mqd-broker/mqd/engine/order"
	"github.com/mqd-broker/mqd/engine/producers"
	"github.com/mqd-broker/mqd/engine/retention"
	"github.com/mqd-broker/mqd/engine/segment"
	"github.com/mqd-broker/mqd/engine/slab"
	"github.com/mqd-broker/mqd/internal/invariant"
)

// segfile is a segment of a partition as its shard knows it.
type segfile struct {
	part *Partition
	base int64 // offset of its first batch
	next *segfile

	chunks.Segment       // what is where of its bytes
	flushed        int64 // position up to which the file is durable

	// Offsets that belong to the positions Safe and flushed.
	safeOffset, flushedOffset int64

	file    filepool.File
	writing bool // a writer is at work on it
	entry   bool // its directory entry is durable
	found   bool // by the start
	closed  bool // no more appends: a later segment exists
	sealed  bool // truncated, synced, index written or being written

	index indexing.State

	gated    bool // it is being replaced by its compacted form: readers wait
	rewrites int  // how often it has been

	discarded int64 // bytes at its end that the journal will not get, because the partition is dropped

	maxTimestamp, appendTime int64
	reads                    int // cold reads in flight
}

// Partition is one ordered log. It belongs to the store of one shard and is
// touched by that shard's loop only.
type Partition struct {
	key   Key
	slot  uint16
	store *Store
	cfg   PartitionConfig
	dir   string

	class   Class
	shown   Class           // the weakest class under which anything may have been shown that is not as durable as class wants
	changes []classChange   // of class, the oldest first
	before  journal.Barrier // of what came under a stronger class

	inChanging bool // in the store's list of partitions with changes

	recorded   compaction.Recorded
	start      retention.LogStart
	isTrimming bool // in the store's queue of partitions whose log start moves

	next    int64 // the offset that the next batch gets: log end
	visible int64 // consumers read below it
	visSeg  *segfile
	visPos  int64

	first, active *segfile   // list by next
	bases         []*segfile // the same, for binary search
	unwritten     *segfile   // oldest segment that is not yet complete in its file

	mem chunks.List // the newest bytes

	newestLSN uint64                 // newest round with bytes of this partition
	dirtyLSN  uint64                 // oldest round with bytes that are not flushed to a segment; 0: none
	dirty     order.Node[*Partition] // in the store's list of dirty partitions, by dirtyLSN
	tailCost  int64                  // what a tail entry of this partition could take of the ring
	isReady   bool                   // in the store's list of partitions with something to write
	writer    *writer
	entries   dirsync.Dir // those that lead to dir, and dir
	memory    int         // entries of this partition that wait for the journal

	waiters    order.List[*Read]  // fetches that wait for new batches
	nextWaiter *order.Node[*Read] // that is looked at next, while they are woken

	isWoken   bool // in the store's list of partitions whose waiters may go on
	nextWoken *Partition

	producers producers.Log

	epochs  checkpoint.EpochTable
	reserve int64 // offsets below it may be served although a crash can take them back
	asked   int64 // what the newest checkpoint that was to raise it says
	renew   bool  // a larger reservation is wanted or being made durable

	askedClass Class // the class that goes with asked

	dropped  bool
	dropDone DropDone
}

// Key names the partition.
func (p *Partition) Key() Key { return p.key }

// Class is the durability class in force: what an append is acknowledged under.
func (p *Partition) Class() Class { return p.class }

// LogStart is the first offset that can be read.
func (p *Partition) LogStart() int64 { return p.start.At() }

// Durable is the end of what the class promises: consumers read below it.
func (p *Partition) Durable() int64 { return p.visible }

// End is the offset that the next batch will get.
func (p *Partition) End() int64 { return p.next }

// Missing is how many of the offsets from from up to to are known not to exist.
func (p *Partition) Missing(from, to int64) int64 { return p.epochs.Missing(from, to) }

// GivenUp reports whether anything of it was given up by a salvage.
func (p *Partition) GivenUp() bool { return p.epochs.HasGivenUp() }

// NewestAppendTime is the broker's time of the newest batch, in Unix
// nanoseconds; 0 for an empty partition.
func (p *Partition) NewestAppendTime() int64 {
	if p.active == nil {
		return 0
	}
	return p.active.appendTime
}

// Bytes is the size in bytes of all segments that are not below the log start.
func (p *Partition) Bytes() int64 {
	var n int64
	for s := p.first; s != nil; s = s.next {
		if s.next == nil || s.next.base > p.LogStart() {
			n += s.Size
		}
	}
	return n
}

// ExposedBytes is what has been acknowledged and could be lost by a power cut now,
// counted in bytes of the log; 0 for class flushed.
func (p *Partition) ExposedBytes() int64 {
	if p.class == ClassFlushed || p.active == nil {
		return 0
	}
	return p.store.exposed(p)
}

// Epoch is the newest epoch in the partition's table.
func (p *Partition) Epoch() uint32 {
	e, ok := p.epochs.Last()
	if !ok {
		return 0
	}
	return uint32(e.Epoch)
}

// EpochAt is the epoch in which the record at an offset was written, or [checkpoint.NoEpoch] where
// nobody knows it any more.
func (p *Partition) EpochAt(offset int64) int32 {
	e, _ := p.epochs.EpochAt(offset)
	return e
}

// EpochEnd is the newest epoch up to the one that is asked for in which something was
// written, and the offset behind its last record that may be read. For this life's it is
// the end of all that may be read, and so for an earlier one after which nothing was
// written. One that is below all that are known is answered with itself and where the
// first of those found the log. One that is not yet has no answer: [checkpoint.NoEpoch] and -1.
//
// Whoever has read further in the epoch than the answer has read what was lost.
func (p *Partition) EpochEnd(epoch int32) (int32, int64) {
	term := int32(p.store.opts.Term)
	last, ok := p.epochs.Last()
	switch {
	case epoch < 0 || epoch > term:
		return checkpoint.NoEpoch, -1
	case epoch == term || !ok:
		return epoch, p.Durable()
	case epoch >= last.Epoch:
		return last.Epoch, p.Durable()
	case epoch < p.epochs.At(0).Epoch:
		return epoch, p.epochs.At(0).GapFrom
	}
	return p.epochs.EndOffsetFor(epoch, p.Durable())
}

// addSegment appends an empty segment that begins at offset base.
func (p *Partition) addSegment(base int64) *segfile {
	s := &segfile{part: p, base: base, file: filepool.Closed(false, 0), safeOffset: base, flushedOffset: base}
	s.index.Tail = segment.NewIndex(p.segmentID(base), int(p.cfg.IndexInterval), p.store.entries)
	p.linkSegment(s)
	return s
}

func (p *Partition) linkSegment(s *segfile) {
	if p.active != nil {
		if s.base <= p.active.base {
			invariant.Violated("engine: segments of a partition begin at rising offsets")
		}
		p.active.next = s
		p.active.closed = true
		s.appendTime, s.maxTimestamp = p.active.appendTime, p.active.maxTimestamp
	} else {
		p.first = s
	}
	p.active = s
	p.bases = append(p.bases, s)
	if p.unwritten == nil {
		p.unwritten = s
	}
}

// segmentOf is the segment whose offsets include offset.
func (p *Partition) segmentOf(offset int64) *segfile {
	i := sort.Search(len(p.bases), func(i int) bool { return p.bases[i].base > offset })
	if i == 0 {
		return nil
	}
	return p.bases[i-1]
}

// room makes sure that memory can take n more bytes of the active segment; see
// [chunks.List.Room]. What dirty partitions hold may all be unwritten at the same time:
// each has its share of two thirds of the memory.
func (p *Partition) room(n int, urgent bool) (last *chunks.Chunk, ok bool) {
	s := p.store
	w := chunks.Want{
		Bytes: n, Least: slab.Least(n, MaxPieces/2), Urgent: urgent,
		Share: s.chunks.Size() * 2 / 3 / int64(1+s.dirty.Len()), Now: s.loop.Now(),
	}
	return p.mem.Room(&p.active.Segment, &w)
}

// setVisible moves the visible end to offset, which lies at pos of seg.
func (p *Partition) setVisible(offset int64, seg *segfile, pos int64) {
	if offset < p.visible {
		invariant.Violated("engine: the durable offset never goes back")
	}
	p.visible, p.visSeg, p.visPos = offset, seg, pos
	if p.waiters.Len() > 0 && !p.isWoken {
		p.isWoken, p.nextWoken, p.store.woken = true, p.store.woken, p
	}
}
