package recovery

import (
	"fmt"
	"path/filepath"

	"github.com/mqd-broker/mqd/engine/audit"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/engine/segment"
)

// whatNext is what an operator does about messages that are gone from the files.
const whatNext = "put the file back from a copy with the broker stopped, or give up what it had: mqd verify names everything that is damaged, mqd salvage gives it up"

// leaveNewest looks whether a partition's newest segment has what its checkpoint says. If
// it has not, what it had is lost, and nothing else: the partition goes on in a segment of
// its own, at the end that the checkpoint gives it, so that no offset is given out twice.
// The journals have what came behind. What is lost is not given up: it is no recorded gap,
// and fetches of it are answered with an error and the offset to go on at.
//
// A start that dies behind this does the same again: the checkpoints, which come last, are
// what forgets the segment. The catalog cannot go on without a part of it.
func (r *recovery) leaveNewest(p *replayed) error {
	if !p.has || p.seg.Size == 0 {
		return nil
	}
	found, first := "no file", p.seg.Base
	at, ok := p.find(p.seg.Base)
	if ok {
		found = fmt.Sprintf("%d bytes", p.files[at].LogBytes)
		if p.files[at].LogBytes >= p.seg.Size {
			return nil
		}
	} else if at == 0 {
		first = p.rec.LogStart // nothing older is there either
	}
	lost := &layout.CorruptError{
		Path: filepath.Join(p.dir, segment.LogName(p.seg.Base)), Offset: p.seg.Base,
		Expected: fmt.Sprintf("a segment of %d bytes, which were flushed", p.seg.Size), Found: found,
	}
	if p.key.Topic == layout.CatalogTopic {
		return fmt.Errorf("%w: the catalog's newest segment is not whole, and without it nobody knows which topics there are: %w", layout.ErrBadDataDir, lost)
	}
	first = max(first, p.rec.LogStart)
	if first < p.next && !p.rec.Epochs.AllowsGap(first, p.next) {
		r.out.Stats.Losses++
		form := audit.Missing
		if ok {
			form = "LOSS DETECTED: topic %s partition %d: not all is there of offsets %d to %d"
		} else {
			p.told = [2]int64{first, p.next}
		}
		r.opts.Report(form+": %s: expected %s, found %s; everything else is served, and the partition goes on at offset %d; "+whatNext,
			p.info.Name, p.key.Partition, first, p.next-1, lost.Path, lost.Expected, lost.Found, p.next)
	}
	p.seg, p.fresh = SegmentState{Base: p.next}, true
	return nil
}

// beginFresh makes the empty segments in which partitions go on whose newest one is not
// whole, unless the journals have filled them.
func (r *recovery) beginFresh() error {
	for _, p := range r.sorted() {
		if !p.fresh || p.seg.Size > 0 {
			continue
		}
		if err := r.openFile(p); err != nil {
			return err
		}
	}
	return nil
}
