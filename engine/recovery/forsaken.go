package recovery

import (
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/checkpoint"
	"github.com/mqd-broker/mqd/engine/journal"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/engine/segment"
	"github.com/mqd-broker/mqd/internal/invariant"
)

// JumpBehindLoss is how far the offsets of a partition jump whose journal is lost, which
// was accepted: more than any journal has room for, however many records its batches say
// that they have.
const JumpBehindLoss = 1 << 54

const (
	// mostJournal is the largest journal that can be asked for, in bytes.
	mostJournal = 64 << 30
	// leastBatch is the least that a batch takes in a journal, in bytes.
	leastBatch = journal.EntrySize + batch.HeaderSize
)

// The jump is as wide as it has to be.
var _ = uint(JumpBehindLoss - mostJournal/leastBatch*batch.MaxRecords)

// MayJump reports whether a partition whose next offset is next can go on behind the loss
// of its journal.
func MayJump(next int64) bool { return next < math.MaxInt64-2*JumpBehindLoss }

// forsake notes that the journal of a shard is lost, and whose batches it had: those of the
// partitions of which the shard's checkpoint has the newest record. A start that died
// between its checkpoints may have written newer ones, and those need nothing of it.
func (r *recovery) forsake(shard int) {
	r.forsaken = append(r.forsaken, shard)
	slices.Sort(r.forsaken)
	for _, p := range r.parts {
		p.forsaken = p.forsaken || p.shard == shard
	}
}

// keepTails takes what stands in the segments behind the ends that the checkpoints give
// them, for the partitions whose journals are lost, and finds those of which no checkpoint
// knows yet.
func (r *recovery) keepTails() error {
	for _, shard := range r.forsaken {
		before := map[*replayed]bool{}
		for _, p := range r.parts {
			before[p] = true
		}
		if err := r.knowAll(shard); err != nil {
			return err
		}
		for _, p := range r.parts {
			p.forsaken = p.forsaken || !before[p]
		}
		r.opts.Report("%s is lost, which was accepted: what it alone had is given up", layout.JournalPath(r.opts.Dir, shard))
	}
	for _, p := range r.sorted() {
		if !p.forsaken || p.key.Topic == layout.CatalogTopic {
			continue
		}
		if err := r.keepTail(p); err != nil {
			return err
		}
	}
	return nil
}

// keepTail takes the batches behind a partition's end as they stand in its files. They are
// not written again: one that a crash interrupts would leave less than there was.
func (r *recovery) keepTail(p *replayed) error {
	if !MayJump(max(p.next, p.rec.Reserved)) {
		return fmt.Errorf("%w: topic %s partition %d is at offset %d and cannot go on behind the loss of a journal", layout.ErrBadDataDir, p.info.Name, p.key.Partition, p.next)
	}
	now := max(r.d.Clock().Wall(), p.rec.NewestAppend) // nobody knows when it was: rather keep it too long
	t := Tail{FS: r.fs, Dir: p.dir, Files: slices.Clone(p.files), Base: p.seg.Base, Pos: p.seg.Size, Next: p.next, Term: r.checkpointOf(p.shard).term()}
	if !p.has {
		t.Base = p.next
	}
	return t.Each(func(h *batch.Header, base, end int64) error {
		if !p.has || base != p.seg.Base {
			if p.has {
				if err := r.closeSegment(p); err != nil {
					return err
				}
			}
			p.seg, p.has = SegmentState{Base: base}, true
		}
		if err := r.openFile(p); err != nil {
			return err
		}
		p.seg.Size, p.next = end, h.NextOffset()
		if last, ok := p.rec.Epochs.Last(); !ok || last.Epoch < h.LeaderEpoch {
			p.rec.Epochs.Begin(h.LeaderEpoch, h.BaseOffset, checkpoint.ReasonStart)
		}
		r.noteProducer(p, h, now)
		p.rec.MaxTimestamp, p.rec.NewestAppend = max(p.rec.MaxTimestamp, h.MaxTimestamp), now
		r.out.Stats.Replayed++
		r.out.Stats.ReplayedBytes += int64(h.Size())
		return nil
	})
}

// keepCatalog is keepTail for the catalog, of which the first checkpoint may not know.
func (r *recovery) keepCatalog(p *replayed) error {
	for _, shard := range r.forsaken {
		if p.rec.Term == 0 && r.slotsIn(shard)[layout.CatalogSlot] {
			p.forsaken, p.shard = true, shard
		}
	}
	if !p.forsaken {
		return nil
	}
	return r.keepTail(p)
}

// goOn has a partition whose journal is lost go on above everything that can have been in
// it.
func (r *recovery) goOn(p *replayed) error {
	if p.key.Topic == layout.CatalogTopic {
		return r.goOnAfter(p, r.opts.Topics.Next())
	}
	to := max(p.next, p.rec.Reserved) + JumpBehindLoss
	r.producers.Lost(&p.producers)
	p.rec.Epochs.BeginAfterGap(int32(r.out.Term), p.next, to, checkpoint.ReasonSalvage)
	r.opts.Report("topic %s partition %d: what its lost journal had from offset %d on is given up; it goes on at %d",
		p.info.Name, p.key.Partition, p.next, to)
	p.next = to
	r.out.Stats.Gaps++
	return nil
}

// goOnAfter has the catalog go on where its commands end: those that are lost nobody has
// seen by their offsets. Its table says that there may have been some, for whoever has to
// leave out what they took.
func (r *recovery) goOnAfter(p *replayed, next int64) error {
	if next < p.next {
		invariant.Violated("engine: the catalog is as long as its log")
	}
	if next > p.next { // a snapshot has them
		p.rec.Epochs.BeginAfterGap(int32(r.out.Term), p.next, next, checkpoint.ReasonSalvage)
	} else {
		p.rec.Epochs.Begin(int32(r.out.Term), next, checkpoint.ReasonSalvage)
	}
	r.opts.Report("catalog: changes from number %d on that only its lost journal had are given up", next)
	p.next = next
	return nil
}

// Tail is what stands in the segments of a partition behind the end that its checkpoint
// gives it: bytes that were written and that only a journal vouched for.
type Tail struct {
	FS    aio.FS
	Dir   string
	Files []segment.File // of the partition
	Base  int64          // of the segment that holds the end
	Pos   int64          // the end in it, bytes
	Next  int64          // the end, an offset
	// Term is the start whose batches count. What an earlier one has left there was
	// dropped then, and its offsets may have been given out again since.
	Term uint32
}

// errNotWhole ends a walk.
var errNotWhole = errors.New("not of this life")

// Each calls f for each batch that follows the one before without a gap and is whole, with
// the base of its segment and the position behind it there. Next is then behind the last.
func (t *Tail) Each(f func(h *batch.Header, base, end int64) error) error {
	for {
		if err := t.walk(f); err != nil {
			return err
		}
		follows := slices.ContainsFunc(t.Files, func(s segment.File) bool { return s.Base == t.Next })
		if t.Next == t.Base || !follows {
			return nil
		}
		t.Base, t.Pos = t.Next, 0
	}
}

// walk goes through one segment.
func (t *Tail) walk(f func(h *batch.Header, base, end int64) error) error {
	if !slices.ContainsFunc(t.Files, func(s segment.File) bool { return s.Base == t.Base }) {
		return nil
	}
	path := filepath.Join(t.Dir, segment.LogName(t.Base))
	file, err := t.FS.Open(path, 0)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // read only
	size, err := file.Size()
	if err != nil || size <= t.Pos {
		return err
	}
	head := make([]byte, batch.HeaderSize)
	_, err = segment.Scan(file, segment.ScanOptions{Path: path, From: t.Pos, To: size, Offset: t.Next}, func(b *segment.Batch) error {
		if uint32(b.Epoch) != t.Term {
			return errNotWhole
		}
		if n, err := file.ReadAt(head, b.Pos); n < len(head) && err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		h, err := batch.ParseHeader(head)
		if err != nil {
			return errNotWhole
		}
		t.Pos, t.Next = b.End(), h.NextOffset()
		return f(&h, t.Base, t.Pos)
	})
	var corrupt *segment.CorruptError
	if errors.Is(err, errNotWhole) || errors.As(err, &corrupt) || aio.IsUnreadable(err) {
		return nil
	}
	return err
}
