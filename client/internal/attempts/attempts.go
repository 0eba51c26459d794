// Package attempts counts how often the records of a partition have been handed to the
// application.
package attempts

import (
	"slices"
	"sync/atomic"
)

// maxSteps bounds what is remembered of a partition. Where more places than that were read
// again, those with the lowest offsets are forgotten.
const maxSteps = 64

// History is what is remembered of one partition: how often its records were handed out
// since the last commit behind them, as steps in order of their offsets. Its owner has a
// lock.
//
// Reading from one seek to the next is a [Stretch], which passes every offset once. What a
// stretch has passed becomes part of the steps when the next one begins, and not when it
// ends: whoever seeks does so in the midst of a batch, and the record that made him is to
// count.
type History struct {
	steps []Step
	ended []*Stretch // not in the steps yet
	now   *Stretch   // nil before the next one begins
}

// Step is a run of offsets that were handed out equally often: From up to To, N times.
type Step struct {
	From, To int64
	N        int32
}

// Stretch is reading without a seek. Reach may be called by any goroutine.
type Stretch struct {
	from  int64
	seen  atomic.Int64 // behind the last record that the application has seen
	prior []Step       // never changed
}

// Stretch returns the one that is going on. If there is none, one begins at an offset, and
// what lies before committed is forgotten: it has been dealt with.
func (h *History) Stretch(from, committed int64) *Stretch {
	if h.now != nil {
		return h.now
	}
	for _, s := range h.ended {
		h.steps = raise(h.steps, s.from, s.seen.Load())
	}
	h.ended = nil
	h.steps = cut(h.steps, committed)
	h.now = &Stretch{from: from, prior: h.steps}
	return h.now
}

// End ends the stretch that is going on, if any.
func (h *History) End() {
	if h.now != nil {
		h.ended = append(h.ended, h.now)
		h.now = nil
	}
	if n := len(h.ended); n > maxSteps {
		h.ended = slices.Delete(h.ended, 0, n-maxSteps)
	}
}

// Forget forgets everything: the offsets mean other records now.
func (h *History) Forget() { *h = History{} }

// Reach says that the application has seen the records before next.
func (s *Stretch) Reach(next int64) {
	for {
		seen := s.seen.Load()
		if seen >= next || s.seen.CompareAndSwap(seen, next) {
			return
		}
	}
}

// Prior are the steps of the stretches before, which nobody changes.
func (s *Stretch) Prior() []Step { return s.prior }

// Of is how often a record is handed out with this delivery. Offsets come in ascending
// order: it returns the steps that are left for the next one.
func Of(prior []Step, offset int64) (n int32, left []Step) {
	for len(prior) > 0 && prior[0].To <= offset {
		prior = prior[1:]
	}
	if len(prior) == 0 || offset < prior[0].From {
		return 1, prior
	}
	return prior[0].N + 1, prior
}

// raise counts the offsets from one up to another once more. It leaves the old steps as
// they are.
func raise(steps []Step, from, to int64) []Step {
	if from >= to {
		return steps
	}
	next := make([]Step, 0, len(steps)+3)
	for _, s := range steps {
		if s.From < from { // what is in front
			next = push(next, Step{s.From, min(s.To, from), s.N})
		}
		if s.To <= from || from >= to {
			if s.To > from {
				next = push(next, Step{max(s.From, from), s.To, s.N})
			}
			continue
		}
		if end := min(s.From, to); from < end { // nothing was known up to here
			next = push(next, Step{from, end, 1})
			from = end
		}
		if end := min(s.To, to); from < end {
			next = push(next, Step{from, end, s.N + 1})
			from = end
		}
		if s.To > from {
			next = push(next, Step{max(s.From, from), s.To, s.N})
		}
	}
	if from < to {
		next = push(next, Step{from, to, 1})
	}
	if n := len(next); n > maxSteps {
		next = next[n-maxSteps:]
	}
	return next
}

// push appends a step, or makes the last one longer.
func push(steps []Step, s Step) []Step {
	if n := len(steps); n > 0 && steps[n-1].To == s.From && steps[n-1].N == s.N {
		steps[n-1].To = s.To
		return steps
	}
	return append(steps, s)
}

// cut leaves away what lies before an offset.
func cut(steps []Step, at int64) []Step {
	for len(steps) > 0 && steps[0].To <= at {
		steps = steps[1:]
	}
	if len(steps) > 0 && steps[0].From < at {
		steps = slices.Clone(steps)
		steps[0].From = at
	}
	return steps
}
