package recovery

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/audit"
	"github.com/mqd-broker/mqd/engine/checkpoint"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/engine/segment"
)

// makeDurable flushes everything that has been written and lists every
// partition's segments.
func (r *recovery) makeDurable() error {
	for _, step := range []func() error{r.beginFresh, r.closeFiles, r.syncDirs} {
		if err := step(); err != nil {
			return err
		}
	}
	for _, p := range r.sorted() {
		if err := r.finishPartition(p); err != nil {
			return err
		}
	}
	return nil
}

func (r *recovery) finishPartition(p *replayed) error {
	st := &PartitionState{
		Key: p.key, Class: layout.Class(p.rec.Class), LogStart: p.rec.LogStart, NextOffset: p.next,
		MaxTimestamp: p.rec.MaxTimestamp, AppendTime: p.rec.NewestAppend,
	}
	if err := r.segments(p, st); err != nil {
		return err
	}
	p.state = st
	r.leave(p)
	return nil
}

// segments lists the segments of a partition. Files that begin at or above its end
// hold nothing that was acknowledged; they are set aside. Those that end at or below the
// log start are done without; see below.
func (r *recovery) segments(p *replayed, st *PartitionState) error {
	files, err := r.below(p, st)
	if err != nil {
		return err
	}
	for _, f := range files {
		if !p.has || f.Base > p.seg.Base {
			path := filepath.Join(p.dir, segment.LogName(f.Base))
			if err := r.fs.Rename(path, segment.Orphan(path)); err != nil {
				return err
			}
			r.out.Stats.Orphans++
			continue
		}
		s := SegmentState{Base: f.Base, Size: f.LogBytes, Allocated: f.LogBytes}
		if f.Base == p.seg.Base {
			s.Size = p.seg.Size
		}
		st.Segments = append(st.Segments, s)
	}
	if p.has && p.seg.Size > 0 && (len(st.Segments) == 0 || st.Segments[len(st.Segments)-1].Base != p.seg.Base) {
		return &layout.CorruptError{
			Path: filepath.Join(p.dir, segment.LogName(p.seg.Base)), Offset: p.seg.Base,
			Expected: fmt.Sprintf("a segment of %d bytes", p.seg.Size), Found: "no file",
		}
	}
	if len(st.Segments) > 0 {
		r.missing(p, st.LogStart, st.Segments[0].Base)
	}
	return nil
}

// below notes the segments that end at or below the log start, and what an earlier life has
// left of such, and returns the files of the others. What interrupted writes have left goes
// at once: there is not much of it.
func (r *recovery) below(p *replayed, st *PartitionState) ([]segment.File, error) {
	for _, name := range p.leftovers {
		if kind, base := segment.ParseName(name); kind == segment.KindDeleted {
			st.Below = append(st.Below, base)
		} else if err := r.fs.Remove(filepath.Join(p.dir, name)); err != nil {
			return nil, err
		}
	}
	files, newest := p.files, p.seg.Base
	if !p.has {
		newest = p.next
	}
	for len(files) > 0 && files[0].Base < newest {
		end := newest
		if len(files) > 1 {
			end = min(end, files[1].Base)
		}
		if end > st.LogStart {
			break
		}
		st.Below = append(st.Below, files[0].Base)
		files = files[1:]
	}
	for _, f := range p.indexes {
		if f.Base < st.LogStart && (len(files) == 0 || f.Base < files[0].Base) {
			st.Below = append(st.Below, f.Base)
		}
	}
	slices.Sort(st.Below)
	st.Below = slices.Compact(st.Below)
	return files, nil
}

// missing reports that the oldest segments are gone, if those that are there begin at
// offset first and the log at start. The log start stays where it was: a fetch below
// first is answered with an error.
func (r *recovery) missing(p *replayed, start, first int64) {
	if told := (p.told == [2]int64{start, first}); first > start && !told && !p.rec.Epochs.AllowsGap(start, first) {
		r.out.Stats.Losses++
		r.opts.Report(audit.Missing, p.info.Name, p.key.Partition, start, first-1)
	}
}

// leave leaves it to an audit behind the start whether one of the segments between the
// first and the last is gone: to know means to open them all.
func (r *recovery) leave(p *replayed) {
	if len(p.state.Segments) < 2 {
		return
	}
	l := audit.Log{
		Name: p.info.Name, Topic: p.key.Topic, Partition: p.key.Partition, Dir: p.dir,
		Segments: make([]segment.File, len(p.state.Segments)), Indexes: p.indexes, Chain: p.rec.Epochs.Clone(),
		Told: p.told,
	}
	for i, s := range p.state.Segments {
		l.Segments[i] = segment.File{Base: s.Base, LogBytes: s.Size}
	}
	r.out.Audit = append(r.out.Audit, l)
}

// readLog reads a partition's batches from the one that contains offset from on.
func (r *recovery) readLog(p *replayed, from int64, each func(b []byte) error) error {
	files := p.files
	if at, ok := p.find(p.seg.Base); p.has && !ok {
		files = slices.Insert(slices.Clone(files), at, segment.File{Base: p.seg.Base}) // gone, which opening it tells
	}
	for i, f := range files {
		if !p.has || f.Base > p.seg.Base || (i+1 < len(files) && files[i+1].Base <= from) {
			continue
		}
		if err := r.readSegment(p, f.Base, from, each); err != nil {
			return err
		}
	}
	return nil
}

func (r *recovery) readSegment(p *replayed, base, from int64, each func(b []byte) error) error {
	path := filepath.Join(p.dir, segment.LogName(base))
	f, err := r.fs.Open(path, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	size, err := f.Size()
	if err != nil {
		return err
	}
	if base == p.seg.Base {
		size = p.seg.Size
	}
	var buf []byte
	_, err = segment.Scan(f, segment.ScanOptions{
		Path: path, To: size, Offset: base, Chain: &p.rec.Epochs,
	}, func(b *segment.Batch) error {
		if b.LastOffset < from {
			return nil
		}
		if int64(cap(buf)) < b.Size {
			buf = make([]byte, b.Size)
		}
		buf = buf[:b.Size]
		if _, err := f.ReadAt(buf, b.Pos); err != nil {
			return err
		}
		return each(buf)
	})
	return err
}

// writeCheckpoints writes a checkpoint for each shard, so that nothing in the
// journals is needed any more, and hands the partitions out.
//
// A partition that moves has its only record in the checkpoint of the shard that
// it leaves, and shards may exchange partitions. So the first to be written is one
// of everything, as the first shard's, and the first shard's own is written last:
// whenever a start dies, the newest checkpoints of all shards together know every
// partition, and the first shard's knows it as this start does.
func (r *recovery) writeCheckpoints() error {
	r.out.Partitions = make([][]*PartitionState, r.opts.Shards)
	r.out.Sequence = make([]uint64, r.opts.Shards)
	var all checkpoint.Writer
	all.Begin(r.slotsOf(0))
	own := make([]checkpoint.Writer, r.opts.Shards)
	for shard := range own {
		own[shard].Begin(r.slotsOf(shard))
	}
	for _, p := range r.sorted() {
		slot := layout.SlotOf(p.key, len(r.out.Slots))
		shard := int(r.out.Slots[slot])
		st := p.state
		st.NextOffset, st.Epochs, st.Producers = p.next, p.rec.Epochs, r.producers.States(&p.producers)
		r.out.Partitions[shard] = append(r.out.Partitions[shard], st)
		rec := p.rec
		rec.Slot, rec.Term, rec.NextOffset, rec.LogStart = slot, r.out.Term, p.next, st.LogStart
		rec.SegmentBase, rec.End, rec.Reserved = p.seg.Base, p.seg.Size, 0
		rec.Class, rec.Producers = uint8(p.info.Config.Class), st.Producers
		own[shard].Add(&rec)
		all.Add(&rec)
	}
	if r.opts.Shards > 1 {
		if err := r.writeCheckpoint(0, all.Finish); err != nil {
			return err
		}
	}
	for shard := r.opts.Shards - 1; shard >= 0; shard-- {
		if err := r.writeCheckpoint(shard, own[shard].Finish); err != nil {
			return err
		}
	}
	if err := r.emptyStale(); err != nil {
		return err
	}
	return r.writeAgain(own)
}

// stale are the shards of earlier runs that no longer exist.
func (r *recovery) stale() []int {
	var list []int
	for shard := range r.ckpts {
		if shard >= r.opts.Shards {
			list = append(list, shard)
		}
	}
	slices.Sort(list)
	return list
}

// emptyStale writes checkpoints without partitions for shards that no longer exist:
// their old ones need their journals, and a start that dies while it removes both
// must not leave one that misses the other.
func (r *recovery) emptyStale() error {
	for _, shard := range r.stale() {
		var none checkpoint.Writer
		none.Begin(nil)
		if err := r.writeCheckpoint(shard, none.Finish); err != nil {
			return err
		}
	}
	return nil
}

// writeAgain writes the checkpoint of every shard as the other generation too, all at a time.
// The journals are about to give everything up, and the catalog to forget topics that were
// deleted: what an earlier life has left would be no help to a start that finds the newer
// generation damaged.
func (r *recovery) writeAgain(own []checkpoint.Writer) error {
	ops := make([]aio.FileOp, len(own))
	for shard := range own {
		path, file := r.nextCheckpoint(shard, own[shard].Again)
		ops[shard] = aio.FileOp{Kind: aio.FileWriteAtomic, Path: path, Data: file}
	}
	return r.doAll(ops)
}

// writeCheckpoint writes the next checkpoint of a shard.
func (r *recovery) writeCheckpoint(shard int, finish func(*checkpoint.Header) []byte) error {
	path, file := r.nextCheckpoint(shard, finish)
	return aio.WriteFileAtomic(r.fs, path, file)
}

// nextCheckpoint makes the next checkpoint of a shard. It belongs to the shard's
// journal, if there is one, and needs nothing of what that holds: it has no incarnation.
// That of a shard which no longer exists does without the journal itself.
func (r *recovery) nextCheckpoint(shard int, finish func(*checkpoint.Header) []byte) (path string, file []byte) {
	c := r.checkpointOf(shard)
	c.sequence++
	r.ckpts[shard] = c
	flags := checkpoint.FlagClean
	if shard < r.opts.Shards {
		r.out.Sequence[shard], flags = c.sequence, 0
	}
	h := checkpoint.Header{
		Node: r.out.Node.ID, Shard: uint16(shard), Shards: uint16(r.opts.Shards), Flags: flags,
		Sequence: c.sequence, LSN: 1, Wall: r.d.Clock().Wall(),
		Boot: r.out.Identity.BootID, Mount: r.out.Identity.Mount, Device: r.out.Identity.Device,
	}
	for _, j := range r.journals {
		if j.shard == shard {
			h.Journal, h.LSN = j.result.Anchor.UUID, j.result.LastLSN+1
		}
	}
	return layout.CheckpointPath(r.opts.Dir, shard, c.sequence), finish(&h)
}

func (r *recovery) slotsOf(shard int) []checkpoint.Slot {
	var slots []checkpoint.Slot
	for slot, owner := range r.out.Slots {
		if int(owner) == shard {
			slots = append(slots, checkpoint.Slot{Slot: uint16(slot), Term: r.out.Term})
		}
	}
	return slots
}

// removeStale removes checkpoints and journals of shards that no longer exist,
// and leftovers. The newest checkpoint of a shard goes last: it alone does without
// the journal.
func (r *recovery) removeStale() error {
	for _, j := range r.journals {
		if err := j.region.Close(); err != nil {
			return err
		}
	}
	for _, shard := range r.stale() {
		seq := r.ckpts[shard].sequence
		for _, path := range []string{
			layout.JournalPath(r.opts.Dir, shard), layout.JournalLockPath(r.opts.Dir, shard),
			layout.CheckpointPath(r.opts.Dir, shard, seq-1), layout.CheckpointPath(r.opts.Dir, shard, seq),
		} {
			if err := r.fs.Remove(path); err != nil {
				return err
			}
			if err := r.fs.SyncDir(filepath.Dir(path)); err != nil {
				return err
			}
		}
	}
	for _, sub := range []string{layout.CheckpointsDir, layout.JournalsDir, layout.TopicsDir} {
		if err := r.removeLeftovers(r.path(sub)); err != nil {
			return err
		}
	}
	return nil
}

// removeLeftovers removes what interrupted writes have left. Interrupted removals, which
// may be of very many files, are left for later.
func (r *recovery) removeLeftovers(dir string) error {
	entries, err := r.fs.ReadDir(dir)
	if err != nil {
		return err
	}
	removed := false
	for _, e := range entries {
		if segment.IsDeleted(e.Name) {
			r.out.Deleted = append(r.out.Deleted, filepath.Join(dir, e.Name))
			continue
		}
		if !aio.IsTemp(e.Name) {
			continue
		}
		removed = true
		if err := r.fs.RemoveAll(filepath.Join(dir, e.Name)); err != nil {
			return err
		}
	}
	if !removed {
		return nil
	}
	return r.fs.SyncDir(dir)
}
