package checkpoint

import (
	"fmt"
	"slices"

	"github.com/mqd-broker/mqd/internal/invariant"
)

// GiveUp records that offsets from from up to to, which were written and cannot be read
// any more, do not exist from now on. Those of them that are in gaps already stay there.
// The epochs that wrote them go on behind: where a range lies within one epoch, the entry
// that records it has the epoch of the entry before. ErrHistory: the table does not say
// who wrote them, or has no room. Then it is as it was.
func (t *EpochTable) GiveUp(from, to int64) error {
	if from < 0 || from >= to {
		invariant.Violated("checkpoint: what is given up has offsets")
	}
	var lost []Epoch
	for at := from; at < to; {
		if next := t.SkipGap(at); next > at {
			at = next
			continue
		}
		i := t.after(at)
		if i == 0 {
			return fmt.Errorf("%w: the epoch of offset %d is not recorded", ErrHistory, at)
		}
		end := to
		if i < len(t.list) {
			end = min(to, t.list[i].GapFrom)
		}
		lost = append(lost, Epoch{Epoch: t.list[i-1].Epoch, Start: end, GapFrom: at, Reason: ReasonSalvage})
		at = end
	}
	if n := len(t.list) + len(lost); n > MaxEpochs {
		return fmt.Errorf("%w: %d entries, expected at most %d", ErrHistory, n, MaxEpochs)
	}
	for _, e := range lost {
		t.list = slices.Insert(t.list, t.after(e.GapFrom), e)
		t.version++
	}
	return nil
}

// HasGivenUp reports whether anything in the table was given up.
func (t *EpochTable) HasGivenUp() bool {
	return slices.ContainsFunc(t.list, func(e Epoch) bool { return e.Reason == ReasonSalvage })
}

// follows says what is wrong with an entry behind another: the field of the epoch or that
// of the gap, and the least that it may be; field is "" if nothing is.
func (e *Epoch) follows(last *Epoch) (field string, pos int, least, found int64) {
	lost := e.Reason == ReasonSalvage && e.Gap() > 0
	epoch, from := int64(last.Epoch)+1, last.Start+1
	if lost {
		epoch = int64(last.Epoch)
	}
	if lost || last.Reason == ReasonSalvage {
		from = last.Start
	}
	switch {
	case int64(e.Epoch) < epoch:
		return "epoch", eEpoch, epoch, int64(e.Epoch)
	case e.GapFrom < from:
		return "gap from", eGapFrom, from, e.GapFrom
	}
	return "", 0, 0, 0
}
