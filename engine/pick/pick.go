// Package pick chooses from a piece of a log the whole batches that answer a fetch. It
// believes nothing that the bytes say of themselves: a length that leads nowhere ends
// the answer.
package pick

import (
	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine/segment"
)

// Gaps says where offsets may jump; checkpoint.EpochTable does.
type Gaps interface {
	AllowsGap(from, to int64) bool
}

// Checking says whether batches are held against their own CRCs.
type Checking uint8

const (
	// CheckNothing: somebody has checked the bytes already.
	CheckNothing Checking = iota
	// CheckBatches: nobody has.
	CheckBatches
)

// Want is what is asked for.
type Want struct {
	Offset     int64 // the first offset
	Below      int64 // only batches that begin below this offset
	MaxBytes   int   // no more than this, but at least one batch
	MaxRecords int   // no more than this, but at least one batch; 0: no limit
	Gaps       Gaps
	Check      Checking
}

// Answer is what there is. Without batches (From == To) one of the other fields says
// why, or the bytes end before the offset that is wanted.
type Answer struct {
	From, To int   // the batches, in bytes of the piece
	Next     int64 // the offset behind them
	Passed   int   // bytes of whole batches that lie before what is wanted
	Missing  int64 // the first batch at or behind Offset begins here, and no gap explains it; -1: nothing is missing
	Size     int   // of a batch that the piece does not hold whole; 0 for none
	Fault    error // a batch does not check
}

// Batches chooses from b, at whose start a batch begins.
func Batches(b []byte, w *Want) Answer {
	a := Answer{Missing: -1}
	records, at, begun := 0, 0, false
	for at+batch.HeaderSize <= len(b) {
		h, err := batch.ParseHeader(b[at:])
		if err != nil {
			return a.stop(begun, err)
		}
		size := h.Size()
		if h.LastOffset() < w.Offset {
			if at+size > len(b) {
				break
			}
			at += size
			a.Passed = at
			continue
		}
		if h.BaseOffset >= w.Below {
			break
		}
		if at+size > len(b) {
			if !begun {
				a.Size = size
			}
			break
		}
		if begun && (at+size-a.From > w.MaxBytes || w.MaxRecords > 0 && records+int(h.Count) > w.MaxRecords) {
			break
		}
		if w.Check == CheckBatches {
			if _, err := batch.CheckStored(b[at : at+size]); err != nil {
				return a.stop(begun, err)
			}
		}
		expected := w.Offset
		if begun {
			expected = a.Next
		}
		if h.BaseOffset > expected && !w.Gaps.AllowsGap(expected, h.BaseOffset) {
			if !begun {
				a.Missing = h.BaseOffset
			}
			break
		}
		if !begun {
			a.From, begun = at, true
		}
		at += size
		a.To, a.Next = at, h.NextOffset()
		records += int(h.Count)
	}
	return a
}

// stop ends the answer at a batch that does not check: it is no answer if nothing
// comes before.
func (a Answer) stop(begun bool, err error) Answer {
	if !begun {
		a.Fault = err
	}
	return a
}

// Place is where to read, around what is damaged.
type Place struct {
	Pos    int64 // from here on
	Stop   int64 // and no further
	Inside *segment.Range
}

// Around finds the way to an offset. Without damage it leads from pos to end: from the
// batch at pos everything can be walked. Ranges are in log order. Inside is the one
// that the offset lies in, if there is one.
func Around(damage []segment.Range, offset, pos, end int64) Place {
	p := Place{Pos: pos, Stop: end}
	for i := range damage {
		d := &damage[i]
		switch {
		case d.ToOffset <= offset:
			p.Pos = max(p.Pos, d.ToPos)
		case d.FromOffset <= offset:
			p.Inside = d
			return p
		default:
			p.Stop = min(p.Stop, d.FromPos)
			return p
		}
	}
	return p
}
