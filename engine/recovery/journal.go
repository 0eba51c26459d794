package recovery

import (
	"errors"
	"path/filepath"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/checkpoint"
	"github.com/mqd-broker/mqd/engine/journal"
	"github.com/mqd-broker/mqd/engine/layout"
)

// OpenJournal opens the journal of a shard for a new life, or makes it. Everything
// in an existing one has been brought to the segments and the checkpoints by
// Recover, so that one of another size is replaced. It blocks, on the driver that
// the shard's loop will use.
func OpenJournal(d aio.Driver, rec *Recovered, dir string, shard int, size int64, o journal.Options) (*journal.Journal, error) {
	region, res, err := journalRegion(d, rec, dir, shard, size)
	if err != nil {
		return nil, err
	}
	return openRegion(d, region, res, o)
}

// OpenProbedJournal is OpenJournal with the method that makes small writes durable
// fastest on this device, whatever o.Method says. It returns what the probe found,
// which waits as journal.ProbeMethod says.
func OpenProbedJournal(d aio.Driver, rec *Recovered, dir string, shard int, size int64, o journal.Options, yield func()) (*journal.Journal, journal.Timing, error) {
	var t journal.Timing
	region, res, err := journalRegion(d, rec, dir, shard, size)
	if err != nil {
		return nil, t, err
	}
	if o.Method, t, err = journal.ProbeMethod(d, region, yield); err != nil {
		return nil, t, err
	}
	j, err := openRegion(d, region, res, o)
	return j, t, err
}

// journalRegion opens or makes the file of a shard's journal.
func journalRegion(d aio.Driver, rec *Recovered, dir string, shard int, size int64) (*journal.FileRegion, *journal.Result, error) {
	path := layout.JournalPath(dir, shard)
	if _, err := lock(d, layout.JournalLockPath(dir, shard), ""); err != nil {
		return nil, nil, errors.Join(layout.ErrBadDataDir, err)
	}
	res := rec.Journals[shard]
	if res != nil && res.Anchor.Size != size {
		if err := restate(d, rec, dir, shard, func(h *checkpoint.Header) { h.Flags |= checkpoint.FlagClean }); err != nil {
			return nil, nil, err
		}
		if err := d.FS().Remove(path); err != nil {
			return nil, nil, err
		}
		res = nil
	}
	if res != nil {
		region, err := journal.OpenFileRegion(d, path)
		return region, res, err
	}
	id := journal.Identity{Shard: uint32(shard), Created: d.Clock().Wall()}
	region, err := journal.CreateFile(d, path, size, id)
	if err != nil {
		return nil, nil, errors.Join(layout.ErrBadDataDir, err)
	}
	if res, err = journal.Scan(d, region, nil); err != nil {
		return region, nil, err
	}
	return region, res, restate(d, rec, dir, shard, func(h *checkpoint.Header) {
		h.Journal, h.LSN, h.Flags = res.Anchor.UUID, 1, h.Flags&^checkpoint.FlagClean
	})
}

// restate writes the checkpoint that a start has written of a shard once more, as both
// generations, with what has changed about the journal. One that names a journal refuses a
// start without it: so it is to name none before that goes, and the new one before
// anything is in it.
func restate(d aio.Driver, rec *Recovered, dir string, shard int, change func(*checkpoint.Header)) error {
	c, err := checkpoint.Load(d.FS(), filepath.Join(dir, layout.CheckpointsDir), checkpoint.Identity{Node: rec.Node.ID, Shard: uint16(shard)})
	if err != nil {
		return errors.Join(layout.ErrBadDataDir, err)
	}
	h := c.Header
	change(&h)
	for range 2 {
		h.Sequence++
		if err := aio.WriteFileAtomic(d.FS(), layout.CheckpointPath(dir, shard, h.Sequence), c.Encode(&h)); err != nil {
			return err
		}
	}
	rec.Sequence[shard] = h.Sequence
	return nil
}

// openRegion opens the journal in a region. Nothing in it is needed any more.
func openRegion(d aio.Driver, region *journal.FileRegion, res *journal.Result, o journal.Options) (*journal.Journal, error) {
	j, err := journal.Open(d, region, res, o)
	if err != nil {
		return nil, err
	}
	// Before anybody forgets what those rounds speak of (a deleted topic), no start
	// may find them again.
	j.Release(res.LastLSN)
	for j.Released() < res.LastLSN {
		if _, err := d.Poll(groupWait); err != nil {
			return nil, err
		}
		if err := j.Err(); err != nil {
			return nil, err
		}
	}
	return j, nil
}
