package recovery

import (
	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine/checkpoint"
	"github.com/mqd-broker/mqd/engine/journal"
	"github.com/mqd-broker/mqd/engine/layout"
)

// lossJump is how far a partition's offsets jump that may have lost an unknown number
// of batches. It is more than any journal holds, and leaves room for millions of such
// jumps.
const lossJump = 1 << 40

// lossLines bounds the partitions that are reported by name for one damage.
const lossLines = 16

// findLosses works out what damage below the durable mark has cost where no later
// batch of a partition shows it. No offset may be given out again that somebody can
// have seen, so such partitions go on above all that may have been lost.
//
// Where the body of one batch is damaged it is known whose it was: fetches there are
// answered with an error. Where a round cannot be read, it may have held batches of
// any partition of the shard of which nothing later is there. Most of them will have
// lost nothing; a gap is recorded for each.
//
// A checkpoint that is lost may have been the first to name a partition that shows what
// it can lose: such partitions are made known here, for closeGaps.
func (r *recovery) findLosses() error {
	for _, j := range r.journals {
		if r.checkpointOf(j.shard).Lost != nil {
			if err := r.knowAll(j.shard); err != nil {
				return err
			}
		}
		for _, d := range j.result.Damages {
			if d.LastLSN == 0 || d.LastLSN < r.needed(j) {
				continue // nothing is missing, or a checkpoint has it
			}
			var err error
			if d.Kind == journal.DamageRound {
				err = r.mayHaveLost(j, d)
			} else {
				err = r.hasLost(d)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// needed is the oldest round of a journal that the checkpoint does not cover.
func (r *recovery) needed(j *journalFile) uint64 {
	if c := r.checkpointOf(j.shard); c.Journal == j.result.Anchor.UUID {
		return c.LSN
	}
	return 0
}

// hasLost handles a batch whose body is damaged.
func (r *recovery) hasLost(d *journal.Damage) error {
	e := &d.Entry
	if e.Kind != journal.KindBatch {
		return nil // the old content of a block, which the file has too
	}
	p, err := r.known(e)
	if p == nil || err != nil || e.BaseOffset < p.next {
		return err // deleted; or there, or found missing, already
	}
	r.lost(p, p.next, e.BaseOffset)
	p.next = e.BaseOffset + batch.MaxRecords
	return nil
}

// mayHaveLost handles rounds that cannot be read.
func (r *recovery) mayHaveLost(j *journalFile, d *journal.Damage) error {
	if err := r.knowAll(j.shard); err != nil {
		return err
	}
	slots, n := r.slotsIn(j.shard), 0
	for _, p := range r.sorted() {
		moved := p.heard != nil && p.heard != j
		later := p.heard == j && p.heardLSN > d.LastLSN
		internal := p.key.Topic == layout.CatalogTopic
		if !slots[layout.SlotOf(p.key, len(r.out.Slots))] || moved || later || internal || p.jumps {
			continue
		}
		p.jumps = true
		if n++; n <= lossLines {
			r.opts.Report("topic %s partition %d: may have lost batches from offset %d on; it goes on at %d",
				p.info.Name, p.key.Partition, p.next, p.next+lossJump)
		}
	}
	r.out.Stats.Losses++
	r.opts.Report("LOSS DETECTED: %s: rounds %d to %d were durable and cannot be read: %d partitions may have lost their newest batches",
		layout.JournalPath(r.opts.Dir, j.shard), d.FirstLSN, d.LastLSN, n)
	return nil
}

// slotsIn are the slots that a shard had by its checkpoint.
func (r *recovery) slotsIn(shard int) map[uint16]bool {
	slots := map[uint16]bool{}
	for _, s := range r.checkpointOf(shard).Slots {
		slots[s.Slot] = true
	}
	return slots
}

// knowAll makes the partitions of a shard known that neither a checkpoint nor a journal
// names: the first batches of one may have been in what is lost.
func (r *recovery) knowAll(shard int) (err error) {
	slots := r.slotsIn(shard)
	r.opts.Topics.Partitions(func(k layout.Key) {
		if err != nil || r.parts[k] != nil || !slots[layout.SlotOf(k, len(r.out.Slots))] {
			return
		}
		var p *replayed
		if p, err = r.known(&journal.Entry{Topic: k.Topic, Partition: k.Partition}); p != nil {
			p.shard = shard
		}
	})
	return err
}

// lost reports offsets that were durable and are gone; last is the base of the last
// batch among them, or the offset behind them.
func (r *recovery) lost(p *replayed, first, last int64) {
	r.producers.Lost(&p.producers)
	r.out.Stats.Losses++
	r.opts.Report("LOSS DETECTED: topic %s partition %d: offsets from %d up to %d were durable and cannot be read",
		p.info.Name, p.key.Partition, first, last)
}

// closeGaps gives partitions that may have served what is lost a new place above
// everything they can have served.
func (r *recovery) closeGaps() error {
	for _, p := range r.sorted() {
		to := p.next
		if !r.clean && r.losesServed(p) {
			to = max(to, p.rec.Reserved)
			if r.checkpointOf(p.shard).Lost != nil { // it may have reserved more
				to += lossJump
			}
		}
		if p.jumps {
			to += lossJump
		}
		if p.forsaken {
			if err := r.goOn(p); err != nil {
				return err
			}
			continue
		}
		if to == p.next {
			continue
		}
		r.producers.Lost(&p.producers)
		p.rec.Epochs.BeginAfterGap(int32(r.out.Term), p.next, to, checkpoint.ReasonCrash)
		r.opts.Report("topic %s partition %d (class %v): offsets %d to %d may have been served and are lost; recorded as a gap",
			p.info.Name, p.key.Partition, layout.Class(p.rec.Class), p.next, to-1)
		p.next = to
		r.out.Stats.Gaps++
	}
	return nil
}

// losesServed reports whether a partition's class lets consumers see what the end of
// the last run can have taken back.
func (r *recovery) losesServed(p *replayed) bool {
	class, now := layout.Class(p.rec.Class), p.info.Config.Class
	// In no checkpoint, or perhaps in a lost one that spoke of a weaker class.
	if class == layout.ClassNone || r.checkpointOf(p.shard).Lost != nil && now < class {
		class = now
	}
	return class == layout.ClassMemory || class == layout.ClassWritten && !r.unlost
}
