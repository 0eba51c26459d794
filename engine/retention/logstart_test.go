package retention

import (
	"errors"
	"testing"
)

// heard notes what it is told.
type heard struct {
	start int64
	err   error
	times int
}

func (h *heard) Trimmed(start int64, err error) { h.start, h.err = start, err; h.times++ }

func TestALogStartMovesWithItsCheckpoints(t *testing.T) {
	var l LogStart
	var first, second heard
	l.Restore(10)
	l.Ask(50, &first)
	l.Ask(30, &second) // on the way
	steps := []struct {
		next, recorded int64 // what is flushed, and what the checkpoint says
		at             int64 // afterwards
		first, second  int
	}{
		{20, 20, 20, 0, 0},
		{40, 40, 40, 0, 1},
		{90, 50, 50, 1, 1},
	}
	for i, s := range steps {
		if l.Settled() {
			t.Fatalf("step %d: settled with the log start at %d", i, l.At())
		}
		if at := l.Record(s.next); at != s.recorded || l.At() > at {
			t.Fatalf("step %d: recorded %d, expected %d", i, at, s.recorded)
		}
		l.Recorded()
		l.Answer(nil)
		if l.At() != s.at || first.times != s.first || second.times != s.second {
			t.Fatalf("step %d: at %d, told %d and %d times; expected %+v", i, l.At(), first.times, second.times, s)
		}
	}
	if !l.Settled() || first.start != 50 || second.start != 40 {
		t.Fatalf("settled %v, told %d and %d", l.Settled(), first.start, second.start)
	}
}

// A checkpoint that is not written has moved nothing, and the next one says it again.
func TestALogStartOutlivesACheckpointThatFails(t *testing.T) {
	var l LogStart
	l.Ask(5, nil)
	if l.Record(9); l.At() != 0 || l.Settled() {
		t.Fatalf("at %d before the checkpoint", l.At())
	}
	if l.Record(9) != 5 {
		t.Fatal("forgotten")
	}
}

func TestWhoCannotHaveALogStartIsTold(t *testing.T) {
	var l LogStart
	var there, never heard
	l.Restore(7)
	l.Ask(8, &never)
	l.Answer(nil)
	if never.times != 0 {
		t.Fatal("told before there was anything to tell")
	}
	boom := errors.New("boom")
	l.Ask(7, &there)
	l.Answer(boom)
	l.Answer(boom)
	if there.times != 1 || there.err != nil || never.times != 1 || never.err != boom || never.start != 7 {
		t.Fatalf("told %+v and %+v", there, never)
	}
}
