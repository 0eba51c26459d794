// Package retain removes what topics want to keep no longer.
//
// A [Walker] for each shard goes through its partitions, over and over, a few at a time by
// a timer. It closes segments that have been open for too long, and moves the log starts of
// partitions that have grown too large or too old; the engine removes whole segments then.
// The newest segment always stays. See early for what a full disk may change.
//
// Age is told by when the broker has appended, on the clock of the store, which goes on
// evenly whatever happens to that of the machine: neither the timestamps that producers
// give their records nor a jump of the clock keeps anything or takes it early. When the
// newest batch of a full segment was appended stands in its index. A helper reads it there,
// for the oldest segment of a partition, and it is remembered until that one has gone. Where
// the index is of no use it is made again, and until then the segment is as old as the one
// behind it.
package retain

import (
	"time"

	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/engine"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/retention"
	"github.com/mqd-broker/mqd/engine/segment"
	"github.com/mqd-broker/mqd/engine/shard"
)

const (
	// stepPartitions are looked at in one turn, stepPause is the time until the next ones.
	stepPartitions = 64
	stepPause      = 5 * time.Millisecond
	// mostSegments bounds the segments of a partition looked at in a pass.
	mostSegments = 64
)

// Walker looks after the partitions of one shard. It belongs to the shard's loop.
type Walker struct {
	store  *engine.Store
	loop   *shard.Loop
	topics func() *catalog.Image
	timer  shard.Timer
	pause  time.Duration
	at     int // the next partition, as the store numbers them
	oldest map[engine.Key]known
	key    engine.Key // of the partition that a helper reads for
	job    footers
	op     aio.JobOp
	busy   bool
	early  early
}

// known is the append time of the newest batch of a segment.
type known struct{ base, newest int64 }

// New makes a walker and begins. topics is asked for the catalog again and again; nil ends
// the work. pause is the time between two passes: what is due goes so much later at most.
// early has the oldest segments go before their time while the disk is full.
func New(l *shard.Loop, st *engine.Store, topics func() *catalog.Image, pause time.Duration, early bool) *Walker {
	w := &Walker{store: st, loop: l, topics: topics, pause: pause, oldest: map[engine.Key]known{}}
	w.early.allowed = early
	w.timer.Owner = w
	w.loop.Arm(&w.timer, w.loop.Now()+int64(pause))
	return w
}

// InFlight is 1 while a helper is at work, else 0.
func (w *Walker) InFlight() int {
	if w.busy {
		return 1
	}
	return 0
}

// Fire looks at the next partitions.
func (w *Walker) Fire(*shard.Timer, int64) {
	topics := w.topics()
	if topics == nil || w.store.Failed() != nil {
		return
	}
	if w.at == 0 {
		w.early.begin(w.store.DiskFull(), w.loop.Now())
	}
	for n := 0; n < stepPartitions && w.at < w.store.Count(); n++ {
		p := w.store.At(w.at)
		w.at++
		if w.look(p, topics.ByID(p.Key().Topic)) {
			return // goes on when the helper is done
		}
	}
	w.rest()
}

// rest arms the timer for the next step.
func (w *Walker) rest() {
	pause := stepPause
	if w.at >= w.store.Count() {
		w.at, pause = 0, w.pause
		w.early.end(w.store)
		if w.early.allowed && w.store.DiskFull() {
			pause = min(pause, earlyPause)
		}
		if len(w.oldest) > w.store.Count() { // of topics that have been deleted
			clear(w.oldest)
		}
	}
	w.loop.Arm(&w.timer, w.loop.Now()+int64(pause))
}

// look looks at a partition of topic t, and reports whether a helper reads for it.
func (w *Walker) look(p *engine.Partition, t *catalog.Topic) bool {
	if t == nil {
		return false
	}
	roll, since := int64(t.Config.SegmentTime()), p.Since()
	if roll > 0 && since > 0 && w.store.Time()-since >= roll {
		w.store.Roll(p)
	}
	l := limits(t)
	if l.Age <= 0 && l.Bytes < 0 {
		return false
	}
	logs, segs := w.full(p)
	if len(segs) == 0 {
		return false
	}
	if (l.Age > 0 || w.early.now) && !w.times(p, l, logs, segs) {
		return true
	}
	w.cut(p, l, segs)
	return false
}

// limits are what a topic wants.
func limits(t *catalog.Topic) retention.Limits {
	if !t.Config.CleanupPolicy().Deletes() {
		return retention.Limits{Bytes: catalog.Unlimited}
	}
	return retention.Limits{Age: t.Config.RetentionTime(), Bytes: t.Config.RetentionBytes()}
}

// full are the oldest full segments of p that are not going already, up to the first one
// that is busy: nothing behind it can go before it does.
func (w *Walker) full(p *engine.Partition) (logs []segment.Log, segs []retention.Segment) {
	base := p.Oldest()
	for len(segs) < mostSegments {
		log, size, ok := w.store.Sealed(w.at-1, base)
		if !ok || log.ID.Base != base {
			break
		}
		if log.EndOffset > p.LogStart() {
			logs = append(logs, log)
			segs = append(segs, retention.Segment{End: log.EndOffset, Bytes: size})
		}
		base = log.EndOffset
	}
	return logs, segs
}

// times fills in when segments got their newest batches. It reports false when a helper has
// to read that first: unless the oldest is known and too young, or has no age to go at.
func (w *Walker) times(p *engine.Partition, l retention.Limits, logs []segment.Log, segs []retention.Segment) bool {
	if k := w.oldest[p.Key()]; k.newest > 0 && k.base == logs[0].ID.Base && (l.Age <= 0 || w.store.Time()-k.newest < int64(l.Age)) {
		segs[0].Newest = k.newest
		return true
	}
	w.key, w.busy = p.Key(), true
	w.job = footers{logs: logs, segs: segs}
	w.op = aio.JobOp{Job: &w.job, Owner: w}
	w.loop.Driver().SubmitJob(&w.op)
	return false
}

// CompleteJob goes on with the partition whose times have been read.
func (w *Walker) CompleteJob(*aio.JobOp) {
	w.busy = false
	topics := w.topics()
	if topics == nil {
		return
	}
	p, t := w.store.Partition(w.key), topics.ByID(w.key.Topic)
	if p != nil && t != nil && w.store.Failed() == nil {
		id, newest := w.job.logs[0].ID, w.job.segs[0].Newest
		w.oldest[w.key] = known{id.Base, newest}
		if newest == 0 {
			w.store.MakeIndex(id, ignore{})
		}
		w.cut(p, limits(t), w.job.segs)
	}
	w.job = footers{}
	w.rest()
}

// cut moves the log start if the limits ask for it. What stays may go all the same when
// the disk is full.
func (w *Walker) cut(p *engine.Partition, l retention.Limits, segs []retention.Segment) {
	if start := l.Cut(segs, p.Bytes(), p.NewestAppendTime(), w.store.Time()); start > 0 {
		w.store.Trim(p, start, nil)
		return
	}
	w.early.offer(p.Key(), segs, p.NewestAppendTime())
}

// ignore does not wait for an index that is made: the next pass sees it.
type ignore struct{}

// IndexLoaded implements scrub.IndexOwner.
func (ignore) IndexLoaded(error) {}

// footers is a job that reads when segments got their newest batches.
type footers struct {
	logs []segment.Log
	segs []retention.Segment
}

// Run implements aio.Job. What cannot be read stays unknown.
func (j *footers) Run(fs aio.FS) error {
	for i := range j.logs {
		if t, ok := segment.SealedAppend(fs, j.logs[i].Dir, j.logs[i].ID, j.segs[i].Bytes); ok {
			j.segs[i].Newest = t
		}
	}
	return nil
}
