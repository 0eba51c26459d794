package scrub

import (
	"errors"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/segment"
	"github.com/mqd-broker/mqd/engine/shard"
)

const (
	// pieceBytes is how much of a log one job reads, in bytes: some milliseconds of a
	// helper.
	pieceBytes = 1 << 20
	// leastWait is the time before a pass, so that a start has its own, and so that there
	// are not many passes through nothing. It is no more than the interval.
	leastWait = time.Second
	// lookAtOnce is how many partitions a turn looks at for a segment.
	lookAtOnce = 64
	// yieldFor is how long a piece waits when the shard is busy, maxYields how often.
	yieldFor  = 100 * time.Millisecond
	maxYields = 100
	// maxTold bounds the places that are remembered because they have been told of.
	// Of more, nothing is told or counted.
	maxTold = 4096
)

// Source is what is scrubbed: the log of a shard. It is called on the shard's loop.
type Source interface {
	// Count is the number of partitions.
	Count() int
	// Sealed is the first sealed segment of partition i, from 0, that begins at offset
	// base or above, and its size in bytes. The numbers of partitions change when one
	// is dropped.
	Sealed(i int, base int64) (log segment.Log, size int64, ok bool)
	// Has reports whether a segment that Sealed has told of is still there, with the same log.
	Has(log *segment.Log) bool
	// MakeIndex has the index of a segment made from its log, and tells done later. It
	// reports false if there is no such segment any more.
	MakeIndex(id segment.ID, done IndexOwner) bool
}

// IndexOwner is told when an index has been made, or why not, on the loop.
type IndexOwner interface{ IndexLoaded(err error) }

// Finding is a damaged part of a log.
type Finding struct {
	segment.ID
	Dir   string // of the partition
	Range segment.Range
}

// Events tells what an operator should hear of. Calls come from the loop and must not
// block.
type Events interface {
	// ScrubDamage: what has been found cannot be read. It is told once in a life.
	ScrubDamage(f *Finding)
	// ScrubUnable: a segment could not be read, and nothing is known of it.
	ScrubUnable(id segment.ID, dir string, err error)
	// ScrubPassed: everything has been read once more.
	ScrubPassed(shard int, s *Stats)
}

// Options of a scrubber.
type Options struct {
	// Rate is the most that is read in a second, in bytes; more than 0.
	Rate int64
	// Interval is the least time from the beginning of one pass to that of the next.
	Interval time.Duration
	// Busy reports whether the shard has something better to do with the device.
	Busy   func() bool
	Events Events
}

// Scrubber goes through the sealed segments of one shard. It belongs to the shard's loop.
type Scrubber struct {
	loop *shard.Loop
	src  Source
	opts Options

	timer   shard.Timer
	began   int64 // of the pass; loop time, nanoseconds
	at      int   // partition that is looked at next
	base    int64 // and the least base of its segment
	left    int   // partitions of this pass that have not been looked at, this one included
	passing bool
	yields  int

	job    segment.VerifyJob
	size   int64 // of the segment, in bytes
	op     aio.JobOp
	active bool  // a segment is being verified
	second bool  // for the second time
	busy   bool  // something is under way
	stop   bool  // nothing more is begun
	since  int64 // when the piece began

	told  map[place]struct{}
	stats Stats
}

// place names a damaged range of a life.
type place struct {
	id   segment.ID
	from int64 // offset
}

// New makes a scrubber on a shard's loop.
func New(l *shard.Loop, src Source, opts Options) *Scrubber {
	s := &Scrubber{loop: l, src: src, opts: opts, told: map[place]struct{}{}}
	s.timer.Owner = s
	return s
}

// Begin begins the first pass, somewhere, a moment later.
func (s *Scrubber) Begin() {
	now := s.loop.Now()
	s.at = int(s.loop.Driver().Rand() >> 33)
	s.loop.Arm(&s.timer, now+s.leastWait())
}

// Stop ends the work with the piece that is under way, which Resting waits for.
func (s *Scrubber) Stop() {
	s.stop = true
	s.loop.Disarm(&s.timer)
}

// Resting reports whether nothing is under way.
func (s *Scrubber) Resting() bool { return !s.busy }

// Stats are the counters. The loop alone writes them; anyone may read.
func (s *Scrubber) Stats() *Stats { return &s.stats }

// Fire begins what is due.
func (s *Scrubber) Fire(_ *shard.Timer, now int64) {
	switch {
	case s.stop:
	case s.yields < maxYields && s.opts.Busy():
		s.yields++
		s.stats.Yields.Add(1)
		s.loop.Arm(&s.timer, now+int64(yieldFor))
	case s.active:
		s.piece(now)
	default:
		s.look(now)
	}
}

// piece submits the next piece of a segment.
func (s *Scrubber) piece(now int64) {
	s.busy, s.yields, s.since = true, 0, now
	s.op = aio.JobOp{Job: (*reading)(s), Owner: s}
	s.loop.Driver().SubmitJob(&s.op)
}

// reading is the job of a piece.
type reading Scrubber

// Run implements aio.Job. Where the index tells the end of a sealed log, what may be
// missing behind it is not this segment's damage.
func (r *reading) Run(fs aio.FS) error {
	j := &r.job
	if !j.More {
		if end, ok := segment.SealedEnd(fs, j.Dir, j.ID, r.size); ok {
			j.EndOffset = end
		}
	}
	return j.Run(fs)
}

// look looks for the next segment, in a bounded number of partitions.
func (s *Scrubber) look(now int64) {
	n := s.src.Count()
	if !s.passing {
		s.passing, s.began, s.left, s.base = true, now, n, 0
	}
	for range lookAtOnce {
		if s.left <= 0 || n == 0 {
			s.passed(now)
			return
		}
		s.at %= n // one may have been dropped
		if log, size, ok := s.src.Sealed(s.at, s.base); ok {
			s.base, s.size = log.ID.Base+1, size
			s.verify(log)
			s.piece(now)
			return
		}
		s.at, s.base, s.left = s.at+1, 0, s.left-1
	}
	s.loop.Arm(&s.timer, now) // in the next turn
}

// passed ends a pass.
func (s *Scrubber) passed(now int64) {
	s.passing = false
	s.stats.Passes.Add(1)
	s.opts.Events.ScrubPassed(s.loop.ID(), &s.stats)
	s.loop.Arm(&s.timer, max(now+s.leastWait(), s.began+int64(s.opts.Interval)))
}

func (s *Scrubber) leastWait() int64 { return int64(min(leastWait, s.opts.Interval)) }

// verify begins with a segment.
func (s *Scrubber) verify(log segment.Log) {
	s.active, s.second = true, false
	s.job = segment.VerifyJob{Log: log, Budget: pieceBytes}
}

// CompleteJob goes on behind a piece.
func (s *Scrubber) CompleteJob(op *aio.JobOp) {
	s.busy = false
	j, spent := &s.job, s.job.Spent
	s.stats.Bytes.Add(uint64(spent))
	switch {
	case !s.src.Has(&j.Log):
		s.active = false // deleted or compacted meanwhile, and whatever was found does not matter
	case op.Err != nil:
		s.active = false
		s.unable(op.Err)
	case j.More:
	case !s.second && s.news():
		s.verify(j.Log)
		s.second = true
	default:
		s.active = false
		s.judge()
	}
	if !s.busy {
		s.rest(spent)
	}
}

// rest has what comes next begin when the bytes have been paid for.
func (s *Scrubber) rest(bytes int64) {
	if s.stop {
		return
	}
	pause := bytes * int64(time.Second) / s.opts.Rate
	s.loop.Arm(&s.timer, s.since+max(pause, 1))
}

// unable tells of a segment that could not be read, or has changed under the reading.
func (s *Scrubber) unable(err error) {
	if errors.Is(err, segment.ErrLogSize) || aio.IsNotExist(err) {
		s.stats.Changed.Add(1)
		return
	}
	s.stats.Errors.Add(1)
	s.opts.Events.ScrubUnable(s.job.ID, s.job.Dir, err)
}

// news reports whether there is damage of which nothing has been told.
func (s *Scrubber) news() bool {
	for i := range s.job.Damage {
		if _, known := s.told[place{s.job.ID, s.job.Damage[i].FromOffset}]; !known {
			return true
		}
	}
	return false
}

// judge tells what a segment's verification has found.
func (s *Scrubber) judge() {
	j := &s.job
	s.stats.Segments.Add(1)
	s.stats.Batches.Add(j.Batches)
	for i := range j.Damage {
		at := place{j.ID, j.Damage[i].FromOffset}
		if _, known := s.told[at]; known || len(s.told) >= maxTold {
			continue
		}
		s.told[at] = struct{}{}
		s.stats.Damaged.Add(1)
		s.opts.Events.ScrubDamage(&Finding{ID: j.ID, Dir: j.Dir, Range: j.Damage[i]})
	}
	// The checksums in an index are evidence as long as it can be read at all.
	lost := j.Index == nil || j.IndexFault != nil && len(j.Damage) == 0
	if lost && !s.stop && !errors.Is(j.IndexFault, segment.ErrUnsupported) {
		s.busy = s.src.MakeIndex(j.ID, s)
	}
}

// IndexLoaded goes on when an index has been made, for which the log has been read again.
func (s *Scrubber) IndexLoaded(err error) {
	s.busy = false
	if err == nil {
		s.stats.Indexes.Add(1)
	} else {
		s.unable(err)
	}
	s.since = s.loop.Now()
	s.rest(s.size)
}
