package recovery

import (
	"errors"
	"fmt"
	"slices"

	"github.com/mqd-broker/mqd/engine/checkpoint"
	"github.com/mqd-broker/mqd/engine/layout"
)

// shardCheckpoint is the newest checkpoint of a shard.
type shardCheckpoint struct {
	checkpoint.Choice
	sequence uint64 // of the newest one, also of those that recovery writes
}

// checkpointOf is the newest checkpoint of a shard: an empty one, if there is none.
func (r *recovery) checkpointOf(shard int) *shardCheckpoint {
	c := r.ckpts[shard]
	if c == nil {
		c = &shardCheckpoint{Choice: checkpoint.Choice{Snapshot: new(checkpoint.Snapshot)}}
	}
	return c
}

// readCheckpoints reads the newest checkpoint of every shard there has been, and
// takes each partition's newest record.
func (r *recovery) readCheckpoints() error {
	entries, err := r.fs.ReadDir(r.path(layout.CheckpointsDir))
	if err != nil {
		return err
	}
	r.clean, r.unlost = true, true
	r.ckpts = map[int]*shardCheckpoint{}
	for _, e := range entries {
		shard, ok := checkpoint.ParseFileName(e.Name)
		if _, read := r.ckpts[int(shard)]; !ok || read {
			continue
		}
		c, err := checkpoint.Load(r.fs, r.path(layout.CheckpointsDir), checkpoint.Identity{Node: r.out.Node.ID, Shard: shard})
		if err != nil {
			return fmt.Errorf("%w: no checkpoint of shard %d can be used, of two generations in %s: %w", layout.ErrBadDataDir, shard, r.path(layout.CheckpointsDir), err)
		}
		if c.Lost != nil {
			r.opts.Report("checkpoint of shard %d: one generation cannot be used, the other is: %v", shard, c.Lost)
		}
		r.useCheckpoint(int(shard), c)
	}
	return nil
}

func (r *recovery) useCheckpoint(shard int, c checkpoint.Choice) {
	h := &c.Header
	r.ckpts[shard] = &shardCheckpoint{Choice: c, sequence: h.Sequence}
	r.clean = r.clean && h.Flags&checkpoint.FlagClean != 0
	id := &r.out.Identity
	r.unlost = r.unlost && h.Boot == id.BootID && h.Mount == id.Mount && h.Device == id.Device
	own := r.slotsIn(shard)
	for i := range c.Partitions {
		rec := &c.Partitions[i]
		k := layout.Key{Topic: rec.Topic, Partition: rec.Partition}
		old := r.parts[k]
		// Of one term there may be two: the checkpoint of everything that a start
		// writes first knows less than those of the slot's own shard.
		if old == nil || rec.Term > old.rec.Term || rec.Term == old.rec.Term && own[rec.Slot] {
			r.parts[k] = newReplayed(k, rec)
			r.parts[k].shard = shard
		}
	}
}

// agree compares checkpoints and journals. A journal gives up rounds only when a
// checkpoint that does without them is durable. Where it has given up more than the
// checkpoint knows of, a newer checkpoint has been lost, and what stood in those
// rounds with it: to go on would be to lose it silently.
func (r *recovery) agree() error {
	found := map[int]*journalFile{}
	for _, j := range r.journals {
		found[j.shard] = j
		if err := r.agrees(j); err != nil {
			return fmt.Errorf("%w: %w", layout.ErrBadDataDir, err)
		}
	}
	if err := r.outlived(); err != nil {
		return fmt.Errorf("%w: %w", layout.ErrBadDataDir, err)
	}
	for shard, c := range r.ckpts {
		if found[shard] == nil && c.Flags&checkpoint.FlagForsaken != 0 {
			r.forsake(shard)
		}
		if found[shard] == nil && c.NeedsJournal() {
			return fmt.Errorf("%w: the checkpoint of shard %d needs rounds from %d on of journal %x, and there is no %s",
				layout.ErrBadDataDir, shard, c.LSN, c.Journal, layout.JournalPath(r.opts.Dir, shard))
		}
	}
	return nil
}

// outlived refuses a checkpoint in place of a lost one when it is of an earlier start
// than those of other shards. That start may have given the shard partitions of which
// the lost one was the only record. A checkpoint of everything, which a start writes
// first, has them all, and makes up for it.
func (r *recovery) outlived() error {
	newest, everything := uint32(0), uint32(0)
	for shard, c := range r.ckpts {
		if r.ofEverything(shard) {
			everything = max(everything, c.term())
		} else {
			newest = max(newest, c.term())
		}
	}
	if everything >= newest {
		return nil
	}
	for shard, c := range r.ckpts {
		if term := c.term(); c.Lost != nil && term < newest {
			return fmt.Errorf("%w: the older checkpoint of shard %d is of an earlier start, number %d; others are of number %d: %w",
				ErrDisagree, shard, term, newest, c.Lost)
		}
	}
	return nil
}

// ofEverything reports whether a shard's checkpoint has partitions of other shards.
func (r *recovery) ofEverything(shard int) bool {
	own := r.slotsIn(shard)
	return slices.ContainsFunc(r.checkpointOf(shard).Partitions, func(p checkpoint.Partition) bool { return !own[p.Slot] })
}

// term is the start that a checkpoint is of.
func (c *shardCheckpoint) term() (term uint32) {
	for i := range c.Slots {
		term = max(term, c.Slots[i].Term)
	}
	return term
}

// ErrDisagree: a checkpoint and a journal, or the checkpoints of two shards, are not of the
// same time.
var ErrDisagree = errors.New("checkpoint and journal do not agree")

func (r *recovery) agrees(j *journalFile) error {
	a := &j.result.Anchor
	c, ok := r.ckpts[j.shard]
	path := layout.JournalPath(r.opts.Dir, j.shard)
	switch {
	case int(a.Shard) != j.shard:
		return fmt.Errorf("%s: %w: it is the journal of shard %d", path, ErrDisagree, a.Shard)
	case !ok:
		return fmt.Errorf("%s: %w: there is no checkpoint of that shard", path, ErrDisagree)
	case c.Journal == a.UUID && a.HeadPrevLSN < c.LSN, c.Incarnation == 0 && a.HeadPrevLSN == 0:
		return nil
	case c.Journal != a.UUID && c.Incarnation > 0:
		return fmt.Errorf("%s: %w: it is journal %x, the checkpoint is of journal %x", path, ErrDisagree, a.UUID, c.Journal)
	}
	lost := c.Lost
	if lost == nil {
		lost = errors.New("the newer one is gone")
	}
	return fmt.Errorf("%s: %w: the journal has given up rounds to %d, the checkpoint %d knows of nothing behind round %d: %w",
		path, ErrDisagree, a.HeadPrevLSN, c.Sequence, c.LSN-1, lost)
}
