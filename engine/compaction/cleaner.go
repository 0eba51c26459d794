// Package compaction takes out of the logs of partitions what later records with the same
// key have superseded.
//
// A [Cleaner] for each shard goes through its partitions. When enough of one is new since it
// was last compacted, a pass is made through it: a helper notes the newest offset of each key
// in what is new ([Keys], within bounded memory), and then the compacted form of one segment
// after the other is written, the oldest first, each put in the place of the old one as soon
// as it is complete. Segments keep their bases and their end, records their offsets.
//
// Where all records of a batch have gone an empty batch stands for its offsets, and one for
// neighbours with the same epoch. So a compacted log has no holes: its offsets follow each
// other as those of any log do, and whoever looks for damage needs to know nothing of
// compaction. Readers pass empty batches.
//
// Only complete segments are touched that both generations of the checkpoint have behind
// them: no start replays anything into them.
//
// A record without a value, a tombstone, stays for some time after all that it supersedes has
// gone, so that a reader that has seen the old value gets to see that it was deleted. The
// time at which it may go stands in its batch (its delete horizon). Records without a key
// stay.
//
// How far a partition has been compacted is not stored: the first pass of a life reads all of
// it, and writes only where something is to go.
package compaction

import (
	"errors"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/engine/segment"
	"github.com/mqd-broker/mqd/engine/shard"
)

const (
	// lookAtOnce is how many partitions a turn looks at.
	lookAtOnce = 64
	// lookPart is the part of a pause between two looks whether the shard is still busy.
	lookPart = 50
	// failPause is how long a partition rests after a pass that has failed, in pauses
	// between two looks.
	failPause = 12
)

// Segment is a complete segment.
type Segment struct {
	Log   segment.Log
	Bytes int64 // of the log
}

// State is a partition as far as it matters whether a pass is due.
type State struct {
	Key    layout.Key
	Config layout.Compaction
	// Bytes are those of the segments that can be compacted, Dirty those of them that reach
	// above the offset that was asked about, End is where they end.
	Bytes, Dirty int64
	End          int64
}

// Source is what is compacted: the log of a shard. It is called on the shard's loop.
type Source interface {
	// Count is the number of partitions.
	Count() int
	// Compactable tells of partition i, of which clean tells where compaction has got to.
	Compactable(i int, clean func(layout.Key) int64) State
	// CompactableSegments are the segments of a partition that can be compacted.
	CompactableSegments(k layout.Key) (segs []Segment, c layout.Compaction)
	// Stands reports whether a log still is what it was, and its partition is to be compacted.
	Stands(log *segment.Log) bool
	// Replace puts the compacted form of a segment, which stands beside it, in its place, and
	// tells done. It may wait for readers.
	Replace(log *segment.Log, bytes int64, ix *segment.Index, done Replaced)
	// Now is the broker's time, nanoseconds since 1970.
	Now() int64
	// Slow is by how much slower than its rate compaction is to be, because the shard has
	// something better to do with the device; 1: not at all.
	Slow() int64
	// FlushFailed is told of a failed flush.
	FlushFailed(err error)
}

// By how much slower compaction is while others wait for the device, and while the disk is
// full, so that it would take what producers wait for.
const (
	SlowBehindOthers = 8
	SlowOnFullDisk   = 256
)

// Slow is by how much slower than its rate compaction is to be; 1: not at all.
func Slow(others, full bool) int64 {
	switch {
	case full:
		return SlowOnFullDisk
	case others:
		return SlowBehindOthers
	}
	return 1
}

// ErrGone is told of a segment that is not to be replaced after all.
var ErrGone = errors.New("the segment is not to be compacted any more")

// Replaced is told what came of a replacement, on the loop.
type Replaced interface{ SegmentReplaced(err error) }

// Options of a cleaner.
type Options struct {
	// Rate is the most that is read in a second, in bytes; more than 0.
	Rate int64
	// KeyBytes is the memory for keys during a pass, in bytes; at least MinKeyBytes.
	KeyBytes int64
	// Pause is the time between two looks at the same partition; more than 0.
	Pause time.Duration
	// Failed is told when a partition could not be compacted; it is tried again later.
	Failed func(dir string, err error)
}

// Stats are a cleaner's counters, written by the loop alone.
type Stats struct {
	Passes, Segments uint64 // completed, replaced
	Records, Bytes   uint64 // that have gone
	Errors           uint64
}

// progress is what is known of a partition.
type progress struct {
	clean   int64 // offset up to which it has been compacted
	horizon int64 // when the first tombstone may go, milliseconds since 1970; 0: there is none
	rests   int64 // loop time until which it rests
	// blind is the offset, and one, from which tombstones stay in this life: a segment there
	// could not be read, now or once. It can be read at another time, and what it kept or
	// hides is not looked for again. 0: none.
	blind int64
}

// stage says what a cleaner does.
type stage uint8

const (
	looking stage = iota
	mappingKeys
	rewritingSegments
	replacing
)

// Cleaner compacts the partitions of one shard. It belongs to the shard's loop.
type Cleaner struct {
	loop  *shard.Loop
	src   Source
	opts  Options
	known map[layout.Key]progress
	stats Stats

	timer  shard.Timer
	at     int // the partition that is looked at next
	stop   bool
	busy   bool  // a helper is at work, or a segment is being replaced
	since  int64 // when the newest piece began
	unpaid int64 // bytes read, for which no pause has been made yet
	paid   int64 // the length of the newest pause, nanoseconds

	stage stage
	key   layout.Key
	conf  layout.Compaction
	segs  []Segment
	next  int // segment to be rewritten
	maps  mapping
	write rewriting
	rules rules
	first int64 // the earliest horizon met in this pass
	blind int64 // as in progress

	unfinished bool // a segment was passed over in this pass

	op aio.JobOp
}

// New makes a cleaner and begins.
func New(l *shard.Loop, src Source, opts Options) *Cleaner {
	c := &Cleaner{loop: l, src: src, opts: opts, known: map[layout.Key]progress{}}
	c.timer.Owner = c
	l.Arm(&c.timer, l.Now()+int64(opts.Pause))
	return c
}

// Stats are the counters.
func (c *Cleaner) Stats() Stats { return c.stats }

// Passes is the number of passes that have been made to their end.
func (c *Cleaner) Passes() uint64 { return c.stats.Passes }

// Stop ends the work with what is under way, which Resting waits for.
func (c *Cleaner) Stop() {
	c.stop = true
	c.loop.Disarm(&c.timer)
}

// Resting reports whether nothing is under way.
func (c *Cleaner) Resting() bool { return !c.busy }

// Forget forgets a partition that is gone.
func (c *Cleaner) Forget(k layout.Key) { delete(c.known, k) }

// Fire begins what is due.
func (c *Cleaner) Fire(_ *shard.Timer, now int64) {
	if c.stop || c.busy {
		return
	}
	if until := c.givesWay(); now < until {
		c.loop.Arm(&c.timer, min(until, now+int64(c.opts.Pause)/lookPart))
		return
	}
	if c.stage == looking {
		c.look(now)
		return
	}
	c.piece(now)
}

// givesWay is the time until which others come first. They do not come first for ever: what
// is read from files all the time is compacted too, at a part of the rate.
func (c *Cleaner) givesWay() int64 {
	slow := c.src.Slow()
	if slow == 1 {
		return 0
	}
	return c.since + max(slow*c.paid, int64(c.opts.Pause)/lookPart)
}

// look looks for a partition that is due.
func (c *Cleaner) look(now int64) {
	for range lookAtOnce {
		if c.at >= c.src.Count() {
			c.at = 0
			c.loop.Arm(&c.timer, now+int64(c.opts.Pause))
			return
		}
		s := c.src.Compactable(c.at, c.Clean)
		c.at++
		if s.Config.On && c.due(&s, now) {
			c.begin(&s, now)
			return
		}
	}
	c.loop.Arm(&c.timer, now) // in the next turn
}

// Clean is the offset up to which a partition has been compacted in this life.
func (c *Cleaner) Clean(k layout.Key) int64 { return c.known[k].clean }

// due reports whether a partition is to be compacted now.
func (c *Cleaner) due(s *State, now int64) bool {
	p := c.known[s.Key]
	switch {
	case s.Bytes == 0 || now < p.rests:
		return false
	case p.horizon > 0 && c.src.Now()/1e6 >= p.horizon:
		return true
	}
	return s.Dirty > 0 && s.Dirty >= s.Bytes/1000*int64(s.Config.Dirty)
}

// begin begins a pass.
func (c *Cleaner) begin(s *State, now int64) {
	c.key = s.Key
	c.segs, c.conf = c.src.CompactableSegments(s.Key)
	if len(c.segs) == 0 {
		c.rest(0)
		return
	}
	c.stage, c.next, c.first, c.unfinished = mappingKeys, 0, 0, false
	// No more keys than there can be records.
	keys := min(c.opts.KeyBytes, MinKeyBytes+s.Dirty*slotBytes)
	c.maps = mapping{segs: c.segs, from: c.Clean(s.Key), lag: int64(c.conf.MinLag), now: c.src.Now(), budget: keys}
	c.piece(now)
}

// piece has a helper do the next piece.
func (c *Cleaner) piece(now int64) {
	c.since, c.busy = now, true
	c.op = aio.JobOp{Owner: c}
	switch {
	case c.stage == mappingKeys:
		c.op.Job = &c.maps
	default:
		c.op.Job = &c.write
	}
	c.loop.Driver().SubmitJob(&c.op)
}

// CompleteJob goes on behind a piece.
func (c *Cleaner) CompleteJob(op *aio.JobOp) {
	c.busy = false
	switch op.Job.(type) {
	case *mapping:
		c.mapped(op.Err)
	case *rewriting:
		c.written(op.Err)
	default:
		c.nextSegment() // discarded
	}
}

// mapped goes on behind a piece of the keys.
func (c *Cleaner) mapped(err error) {
	switch {
	case aio.IsNotExist(err) && !c.src.Stands(&c.maps.segs[c.maps.at].Log):
		c.end() // it has been removed meanwhile
	case err != nil:
		c.giveUp(err)
	case c.maps.more:
		c.rest(c.maps.bytes)
	case c.maps.to == c.maps.from && c.known[c.key].horizon == 0:
		c.known[c.key] = progress{clean: c.maps.to, rests: c.loop.Now() + int64(c.opts.Pause), blind: c.known[c.key].blind}
		c.end() // all of it is too young
	default:
		now := c.src.Now() / 1e6
		c.rules = rules{keys: c.maps.keys, to: c.maps.to, now: now, stay: c.conf.Tombstones.Milliseconds()}
		c.stage = rewritingSegments
		c.blind = c.known[c.key].blind
		if c.maps.blind > 0 {
			c.blindFrom(c.maps.blind - 1)
		}
		c.nextSegment()
	}
}

// blindFrom has tombstones stay from the segment on that begins at base, in later passes too.
func (c *Cleaner) blindFrom(base int64) {
	if c.blind == 0 || base+1 < c.blind {
		c.blind = base + 1
	}
}

// nextSegment begins with the next segment, or ends the pass.
func (c *Cleaner) nextSegment() {
	for ; c.next < len(c.segs); c.next++ {
		s := &c.segs[c.next]
		if s.Log.ID.Base >= c.rules.to {
			break
		}
		if c.src.Stands(&s.Log) {
			c.rules.keepTombstones = c.rules.keepTombstones || c.blind > 0 && s.Log.ID.Base+1 >= c.blind
			c.write = rewriting{rules: c.rules, seg: s}
			c.next++
			c.rest(0)
			return
		}
		c.passOver() // removed, or somebody is at work on it
	}
	c.stats.Passes++
	if c.unfinished {
		c.pause()
	} else {
		c.known[c.key] = progress{clean: c.rules.to, horizon: c.first, blind: c.blind}
	}
	c.end()
}

// written goes on behind a piece of a segment.
func (c *Cleaner) written(err error) {
	w := &c.write
	switch {
	case errors.Is(err, segment.ErrCorrupt):
		c.rules.keepTombstones = true // it stays as it is
		c.blindFrom(w.seg.Log.ID.Base)
		c.nextSegment()
	case errors.Is(err, segment.ErrLogSize) || aio.IsNotExist(err):
		c.passOver()
		c.nextSegment()
	case err != nil:
		c.giveUp(err)
	case w.more:
		c.rest(w.read)
	default:
		c.unpaid += w.read
		c.rules.keepTombstones = c.rules.keepTombstones || w.unsound
		if w.horizon > 0 && (c.first == 0 || w.horizon < c.first) {
			c.first = w.horizon
		}
		if !w.changed {
			c.nextSegment()
			return
		}
		if c.stop || !c.src.Stands(&w.seg.Log) {
			c.discard()
			return
		}
		c.stage, c.busy = replacing, true
		c.src.Replace(&w.seg.Log, w.bytes, w.index, c)
	}
}

// discard has a new log removed that is not wanted.
func (c *Cleaner) discard() {
	c.passOver()
	c.busy = true
	c.op = aio.JobOp{Job: &discarding{c.write.seg.Log}, Owner: c}
	c.loop.Driver().SubmitJob(&c.op)
}

// SegmentReplaced goes on when a segment has been replaced.
func (c *Cleaner) SegmentReplaced(err error) {
	c.busy, c.stage = false, rewritingSegments
	switch {
	case errors.Is(err, ErrGone):
		c.discard()
		return
	case err != nil:
		c.giveUp(err)
		return
	}
	c.stats.Segments++
	c.stats.Records += c.write.removed
	if gone := c.write.seg.Bytes - c.write.bytes; gone > 0 {
		c.stats.Bytes += uint64(gone)
	}
	c.nextSegment()
}

// giveUp ends a pass that has failed. What it has replaced stays so.
func (c *Cleaner) giveUp(err error) {
	var flush *FlushError
	if errors.As(err, &flush) {
		c.src.FlushFailed(err)
	}
	c.stats.Errors++
	c.opts.Failed(c.segs[0].Log.Dir, err)
	c.pause()
	c.end()
}

// passOver leaves a segment to a later pass, which does all of this one again.
func (c *Cleaner) passOver() { c.unfinished, c.rules.keepTombstones = true, true }

// pause has the partition rest, as far as it was compacted before.
func (c *Cleaner) pause() {
	p := c.known[c.key]
	p.rests = c.loop.Now() + failPause*int64(c.opts.Pause)
	c.known[c.key] = p
}

// end ends a pass, and gives its memory back.
func (c *Cleaner) end() {
	c.stage = looking
	c.segs, c.maps, c.write, c.rules = nil, mapping{}, rewriting{}, rules{}
	c.rest(0)
}

// rest has what comes next begin when the bytes have been paid for.
func (c *Cleaner) rest(bytes int64) {
	if c.stop {
		return
	}
	c.paid = (c.unpaid + bytes) * int64(time.Second) / c.opts.Rate
	c.unpaid = 0
	c.loop.Arm(&c.timer, max(c.since+c.paid, c.loop.Now()))
}
