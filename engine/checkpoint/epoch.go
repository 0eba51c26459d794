package checkpoint

import (
	"slices"
	"sort"

	"github.com/mqd-broker/mqd/internal/invariant"
)

// MaxEpochs bounds an epoch table.
const MaxEpochs = 1024

// NoEpoch and NoOffset answer a question about an epoch that never was.
const (
	NoEpoch  int32 = -1
	NoOffset int64 = -1
)

// Reason says why an epoch began.
type Reason uint8

const (
	// ReasonStart: the node started.
	ReasonStart Reason = 1
	// ReasonMove: the partition's slot moved to another shard.
	ReasonMove Reason = 2
	// ReasonCrash: a crash may have lost what had been served, so offsets go on
	// above those that were reserved.
	ReasonCrash Reason = 3
	// ReasonAccepted: an operator accepted a loss.
	ReasonAccepted Reason = 4
	// ReasonSalvage: not an epoch of its own. What the epoch before, which goes on behind
	// the gap, had written there was damaged, and an operator has given it up.
	ReasonSalvage Reason = 5
)

// Epoch is one entry of an [EpochTable].
type Epoch struct {
	Epoch int32
	// Start is the first offset that batches of this epoch can have.
	Start int64
	// GapFrom is where the epoch before ends. The offsets from there up to
	// Start, if any, do not exist and never will.
	GapFrom int64
	Reason  Reason
}

// Gap is the number of offsets that do not exist before the epoch.
func (e *Epoch) Gap() int64 { return e.Start - e.GapFrom }

// EpochTable records which epoch wrote which offsets of a partition, and which
// offsets nobody ever wrote. Offsets are dense but for these gaps.
//
// Epochs and starts grow from entry to entry, but for what [EpochTable.GiveUp] adds. An
// epoch in which nothing was
// written leaves no trace but its gap, so that a crash loop does not fill the
// table. A full table forgets its oldest entry; below that point every jump of
// offsets counts as recorded.
//
// The zero EpochTable is empty. It satisfies segment.Chain.
type EpochTable struct {
	version uint32
	coarse  int64 // below it history is not exact
	list    []Epoch
}

// Version grows with every change, and wraps.
func (t *EpochTable) Version() uint32 { return t.version }

// Len is the number of entries.
func (t *EpochTable) Len() int { return len(t.list) }

// At returns entry i, the oldest first.
func (t *EpochTable) At(i int) Epoch { return t.list[i] }

// Coarse is the offset below which history is no longer exact, 0 if all is.
func (t *EpochTable) Coarse() int64 { return t.coarse }

// Last returns the newest entry.
func (t *EpochTable) Last() (Epoch, bool) {
	if len(t.list) == 0 {
		return Epoch{}, false
	}
	return t.list[len(t.list)-1], true
}

// Begin records that epoch begins at offset start, the next of the partition.
func (t *EpochTable) Begin(epoch int32, start int64, why Reason) {
	t.add(Epoch{Epoch: epoch, Start: start, GapFrom: start, Reason: why})
}

// BeginAfterGap records that the offsets from from, the next of the partition, up
// to start do not exist, and that epoch begins at start.
func (t *EpochTable) BeginAfterGap(epoch int32, from, start int64, why Reason) {
	if from >= start {
		invariant.Violated("checkpoint: a gap has offsets")
	}
	t.add(Epoch{Epoch: epoch, Start: start, GapFrom: from, Reason: why})
}

func (t *EpochTable) add(e Epoch) {
	if e.Epoch < 0 || e.GapFrom < 0 {
		invariant.Violated("checkpoint: epochs and offsets are not negative")
	}
	t.version++
	if n := len(t.list); n > 0 {
		last := &t.list[n-1]
		if e.Epoch <= last.Epoch || e.GapFrom < last.Start {
			invariant.Violated("checkpoint: epochs and their offsets grow")
		}
		if e.GapFrom == last.Start { // nothing was written in the last one
			if last.Reason != ReasonSalvage && (e.Gap() > 0 || last.Gap() == 0) {
				last.Reason = e.Reason
			}
			last.Epoch, last.Start = e.Epoch, e.Start
			return
		}
	}
	if len(t.list) == MaxEpochs {
		t.coarse = t.list[1].Start
		t.list = slices.Delete(t.list, 0, 1)
	}
	t.list = append(t.list, e)
}

// TrimTo forgets what lies wholly below logStart, the lowest offset that the
// partition still has. It reports whether that changed anything. The segment in which the
// log starts may hold more, so that below what is left every jump counts as recorded.
func (t *EpochTable) TrimTo(logStart int64) bool {
	n := 0
	for n+1 < len(t.list) && t.list[n+1].Start <= logStart {
		n++
	}
	if n == 0 {
		return false
	}
	t.list = slices.Delete(t.list, 0, n)
	t.coarse = t.list[0].Start
	t.version++
	return true
}

// after is the index of the first entry that begins above offset.
func (t *EpochTable) after(offset int64) int {
	return sort.Search(len(t.list), func(i int) bool { return t.list[i].Start > offset })
}

// EpochAt is the epoch that wrote offset, or would have; ok is false below the
// first entry.
func (t *EpochTable) EpochAt(offset int64) (epoch int32, ok bool) {
	i := t.after(offset)
	if i == 0 {
		return NoEpoch, false
	}
	return t.list[i-1].Epoch, true
}

// EndOffsetFor answers Kafka's OffsetForLeaderEpoch: the largest epoch that is at
// most the one asked for, and the offset behind its last record; logEnd is the
// partition's next offset. An epoch above all gives NoEpoch and NoOffset; one
// below all gives itself and where the first one begins.
//
// A client whose position in that epoch is past the answer has seen records that
// a crash took back.
func (t *EpochTable) EndOffsetFor(epoch int32, logEnd int64) (int32, int64) {
	i := sort.Search(len(t.list), func(i int) bool { return t.list[i].Epoch > epoch })
	switch {
	case epoch < 0 || len(t.list) == 0:
		return NoEpoch, NoOffset
	case i == len(t.list):
		if last := t.list[i-1]; last.Epoch == epoch {
			return epoch, logEnd
		}
		return NoEpoch, NoOffset
	case i == 0:
		return epoch, t.list[0].Start
	}
	return t.list[i-1].Epoch, t.list[i].GapFrom
}

// SkipGap returns offset, or the offset behind the gap that it lies in.
func (t *EpochTable) SkipGap(offset int64) int64 {
	for i := t.after(offset); i < len(t.list) && t.list[i].GapFrom <= offset; i++ {
		offset = t.list[i].Start
	}
	return offset
}

// InGap reports whether offset does not exist and never will.
func (t *EpochTable) InGap(offset int64) bool { return t.SkipGap(offset) != offset }

// Missing is how many of the offsets from from up to to are in gaps.
func (t *EpochTable) Missing(from, to int64) (n int64) {
	for i := t.after(from); i < len(t.list) && t.list[i].GapFrom < to; i++ {
		n += max(0, min(t.list[i].Start, to)-max(t.list[i].GapFrom, from))
	}
	return n
}

// AllowsGap reports whether the offset behind from, the next one, may be to.
func (t *EpochTable) AllowsGap(from, to int64) bool {
	return from == to || from < to && (to <= t.coarse || t.gapsFill(from, to))
}

// gapsFill reports whether a gap, or several that follow each other, lead from from to to.
func (t *EpochTable) gapsFill(from, to int64) bool {
	for i := t.after(from); from < to && i < len(t.list) && t.list[i].GapFrom <= from; i++ {
		from = t.list[i].Start
	}
	return from == to
}

// Clone returns a copy, for a job that reads it elsewhere.
func (t *EpochTable) Clone() *EpochTable {
	c := *t
	c.list = slices.Clone(t.list)
	return &c
}
