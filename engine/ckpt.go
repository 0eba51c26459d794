package engine

import (
	"errors"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/checkpoint"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/engine/producers"
)

// A checkpoint begins when the ring is filled up to latestFill percent, one percent
// earlier for every fillStep dirty partitions, but not before earliestFill: late, so
// that there are few of them, and early enough to be over before producers are
// slowed. Its target is everything written by then.
const (
	latestFill   = 40
	earliestFill = 25
	fillStep     = 32
)

// capturePerTurn is the number of partitions and producers recorded in a turn.
const capturePerTurn = 256

// checkpointStage says what a checkpoint is doing.
type checkpointStage uint8

const (
	checkpointIdle    checkpointStage = iota
	checkpointFlush                   // partitions with bytes up to the target are flushed
	checkpointCapture                 // their state is recorded
	checkpointWrite                   // its files are written
)

// checkpointer makes the checkpoints of a shard, one at a time. It first has the
// partitions flushed whose oldest unflushed bytes are at or below the target,
// then records every partition, a few each turn. A record says how much of the
// partition is flushed at the moment of recording; it need not be of the same
// moment as another's, because recovery takes each partition from its own
// record on.
//
// One that frees the ring or moves a log start is written twice, as two generations, and does
// so when both are durable: a start that finds one of them damaged can do with the other. One
// for reservations leaves the ring as it is, and what the generation before it needs is there.
type checkpointer struct {
	s       *Store
	stage   checkpointStage
	target  uint64 // LSN; 0: none
	at      int    // next partition to record
	walking bool   // the producers of the one before are being recorded
	end     int64  // what is recorded as the end of that
	seq     uint64 // of the newest one; one that fails has none, and leaves both generations
	release uint64 // newest LSN that is not needed after it
	enc     checkpoint.Writer
	file    aio.FileOp
	twice   bool            // it is to be written as both generations
	second  bool            // the second generation is being written
	reserve bool            // a partition waits for a larger reservation
	pressed bool            // appends are refused until partitions are flushed
	clean   bool            // the last one, at an orderly end
	done    func(err error) // told when the present checkpoint has ended
	granted []*Partition
	trims   []*Partition // with a log start that is to move
}

// turn does a bounded piece of work. After a failed flush other flushes succeed and prove
// nothing: what relies on them is not recorded.
func (c *checkpointer) turn() {
	if c.stage != checkpointIdle && c.s.deviceFailed.Load() {
		c.s.fail(ErrStorage)
	}
	if c.s.failed != nil {
		c.abandon()
		return
	}
	switch c.stage {
	case checkpointIdle:
		due := c.reserve || c.ringIsDue() || c.pressed && !c.s.writingBack()
		if due {
			c.begin()
		}
	case checkpointFlush:
		if c.reserve && !c.clean && c.s.DiskFull() {
			c.target = 0 // nothing gets flushed, and trims would make room
		}
		c.flushedOne()
	case checkpointCapture:
		c.capture()
	case checkpointWrite:
	}
}

// ringIsDue reports whether the ring is so full that a checkpoint has to free it.
func (c *checkpointer) ringIsDue() bool {
	due := max(earliestFill, latestFill-c.s.dirty.Len()/fillStep)
	return c.s.fillPercent() >= int64(due)
}

// begin starts a checkpoint unless one is under way.
func (c *checkpointer) begin() {
	if c.stage != checkpointIdle || c.s.failed != nil {
		return
	}
	c.target = c.s.journal.WrittenLSN()
	if c.reserve && !c.clean && !c.pressed && !c.ringIsDue() {
		c.target = 0 // only the reservations are wanted: nothing has to be flushed
	}
	c.pressed = false
	c.stage = checkpointFlush
	c.s.stats.CheckpointBegan = c.s.loop.Now()
	c.flushedOne()
}

// flushedOne goes on when no partition has unflushed bytes up to the target.
func (c *checkpointer) flushedOne() {
	if c.stage != checkpointFlush {
		return
	}
	if p := c.s.oldestDirty(); p != nil && p.dirtyLSN <= c.target {
		return
	}
	c.stage = checkpointCapture
	c.at, c.walking = 0, false
	c.twice, c.second = c.target > 0 || c.clean || c.s.trimming.Len() > 0, false
	c.reserve, c.trims = false, c.trims[:0]
	c.s.producers.Expire(c.s.loop.Now(), capturePerTurn)
	c.release = c.releasable()
	c.s.slotBuf = c.s.opts.AppendSlots(c.s.slotBuf[:0], c.s.journal.FillingLSN())
	c.enc.Begin(c.s.slotBuf)
}

// header is the checkpoint's header.
func (c *checkpointer) header() checkpoint.Header {
	s := c.s
	h := checkpoint.Header{
		Node: s.opts.Node, Journal: s.journal.UUID(), Shard: uint16(s.opts.Shard), Shards: uint16(s.opts.Shards),
		Sequence: c.seq + 1, LSN: c.release + 1, Incarnation: s.journal.Incarnation(),
		Wall: s.drv.Clock().Wall(), AppendTime: s.newestTime,
		Boot: s.opts.Identity.BootID, Mount: s.opts.Identity.Mount, Device: s.opts.Identity.Device,
	}
	if c.clean {
		h.Flags |= checkpoint.FlagClean
	}
	return h
}

// releasable is the newest LSN up to which nothing is needed from the journal.
func (c *checkpointer) releasable() uint64 {
	lsn := c.s.journal.WrittenLSN()
	if p := c.s.oldestDirty(); p != nil {
		lsn = min(lsn, p.dirtyLSN-1)
	}
	return lsn
}

// capture records some partitions and producers.
func (c *checkpointer) capture() {
	var st producers.State
	for range capturePerTurn {
		switch {
		case c.walking && c.s.producers.Walking():
			if c.s.producers.Step(c.end, c.s.loop.Now(), &st) {
				c.enc.AddProducer(&st)
			}
		case c.at < len(c.s.list):
			c.walking = c.record(c.s.list[c.at])
			c.at++
		default:
			h := c.header()
			c.write(c.enc.Finish(&h))
			return
		}
	}
}

// write has a file written, the next generation.
func (c *checkpointer) write(data []byte) {
	c.stage = checkpointWrite
	c.file = aio.FileOp{
		Kind: aio.FileWriteAtomic, Owner: c, Data: data,
		Path:   layout.CheckpointPath(c.s.opts.Dir, c.s.opts.Shard, c.seq+1),
		Unless: c.s.deviceFailed,
	}
	c.s.drv.SubmitFile(&c.file)
}

// record adds one partition, and reports whether it has been added. The walk through its
// producers begins.
func (c *checkpointer) record(p *Partition) bool {
	if p.dropped || p.first == nil && p.next == 0 && p.shown == ClassFlushed {
		return false
	}
	r := checkpoint.Partition{
		Topic: p.key.Topic, Partition: p.key.Partition, Slot: p.slot, Class: uint8(p.shown),
		Term: c.s.opts.Term, NextOffset: p.next,
		Epochs: p.epochs, Reserved: c.reservation(p),
	}
	if seg := p.durableSegment(); seg != nil {
		r.SegmentBase, r.End, r.NextOffset = seg.base, seg.flushed, seg.flushedOffset
		r.MaxTimestamp, r.NewestAppend = seg.maxTimestamp, seg.appendTime
	}
	p.recorded.Note(c.seq+1, r.SegmentBase)
	if c.twice {
		p.recorded.Note(c.seq+2, r.SegmentBase)
	}
	r.LogStart = c.logStart(p, r.NextOffset)
	c.enc.Add(&r)
	c.end = r.NextOffset
	c.s.producers.Walk(&p.producers)
	return true
}

// reservation is what the checkpoint says a partition may have served.
func (c *checkpointer) reservation(p *Partition) int64 {
	if p.shown == ClassFlushed || c.clean {
		return 0
	}
	if p.renew {
		p.asked, p.askedClass = p.next+c.s.opts.ReserveOffsets, p.shown
		c.granted = append(c.granted, p)
		return p.asked
	}
	return p.reserve
}

// durableSegment is the newest segment with flushed bytes, or that this life has begun with,
// or the first one, of those that are to stay. One that is empty since the start stands
// behind a segment that is missing: what is behind the one before is not its end.
func (p *Partition) durableSegment() *segfile {
	best := p.first
	for best != nil && best.next != nil && best.next.base <= p.start.Wanted() {
		best = best.next
	}
	for seg := best; seg != nil; seg = seg.next {
		if seg.flushed > 0 || seg.found {
			best = seg
		}
	}
	return best
}

// CompleteFile goes on when a generation is written. The first one puts reservations in force.
func (c *checkpointer) CompleteFile(op *aio.FileOp) {
	if op.Err != nil {
		c.notWritten(op.Err)
		return
	}
	c.seq++
	c.grant()
	if c.twice && !c.second && c.s.failed == nil {
		c.second = true
		h := c.header()
		c.write(c.enc.Again(&h))
		return
	}
	c.stage = checkpointIdle
	c.s.stats.Checkpointed(c.s.loop.Now())
	if c.second {
		c.trimmed()
		c.s.journal.Release(c.release) // the ring is free once the journal has noted it
	}
	c.target = 0
	c.s.roomMade()
	c.finished(nil)
}

// notWritten ends a checkpoint of which a generation could not be written. If that is the
// second one, the first says what it says, but the ring stays as it is.
func (c *checkpointer) notWritten(err error) {
	s := c.s
	c.stage = checkpointIdle
	if !layout.MayPass(err) {
		if !errors.Is(err, aio.ErrCanceled) { // else another flush has failed
			s.stats.FlushErrors++
		}
		s.deviceFailed.Store(true)
		s.fail(err)
	} else if aio.IsNoSpace(err) {
		s.opts.Ballast.Release()
	}
	c.target = 0
	c.reserve = c.reserve || len(c.granted)+len(c.trims) > 0
	c.granted = c.granted[:0]
	if c.second && layout.MayPass(err) {
		err = nil
	}
	c.finished(err)
}

// grant puts the reservations of a checkpoint, which is durable now, in force.
func (c *checkpointer) grant() {
	for _, p := range c.granted {
		switch {
		case !p.renew:
		case p.askedClass <= p.shown: // a weaker class promises less
			p.renew, p.reserve = false, max(p.reserve, p.asked)
		default:
			c.reserve = true // it was made weaker meanwhile
		}
	}
	c.granted = c.granted[:0]
}

// next is what the count of checkpoints will be when one has been made that begins
// to record after now.
func (c *checkpointer) next() uint64 {
	n := c.s.stats.Checkpoints + 1
	if c.stage >= checkpointCapture {
		n++
	}
	return n
}

// recording reports whether partitions are being recorded, during which the list
// of partitions must not change.
func (c *checkpointer) recording() bool { return c.stage == checkpointCapture }

// abandon gives the present checkpoint up, unless its file is being written.
func (c *checkpointer) abandon() {
	if c.stage != checkpointWrite {
		c.stage, c.target, c.done = checkpointIdle, 0, nil
		c.granted = c.granted[:0]
	}
}

func (c *checkpointer) finished(err error) {
	if c.done != nil {
		done := c.done
		c.done = nil
		done(err)
	}
}

// wantReservation asks for a larger reservation with the next checkpoint.
func (s *Store) wantReservation(p *Partition) {
	if p.renew {
		return
	}
	p.renew = true
	s.checkpoint.reserve = true
}
