package figure

import (
	"strings"
	"testing"
	"time"
)

// paused is a series of ten intervals of 100 ms at 1,000 messages/s, of which a consumer
// that was at the end reads none in the first four, and then 300 in each.
func paused(t *testing.T, drained ...int64) *Series {
	t.Helper()
	s := NewSeries(time.Second)
	s.Interval, s.Points = 100*time.Millisecond, s.Points[:10]
	s.BeforeDone, s.BeforeRead, s.BeforeDrained = 50, 49, 48
	for i := range s.Points {
		p := &s.Points[i]
		p.Done, p.Read = 100, 100
		if i < len(drained) {
			p.Drained = drained[i]
		}
		for range 100 {
			_ = p.endToEnd.RecordValue(int64(i+1) * 1000)
		}
	}
	return s
}

func TestAPauseHasItsBacklogAndItsDrain(t *testing.T) {
	s := paused(t, 2, 0, 0, 0, 300, 300, 98, 100, 100, 100)
	got := PauseOf(s, 400*time.Millisecond)
	// Behind by 450 - 50 at the end of the pause; 700 of 750 read in two more intervals,
	// which is where all were an interval before.
	want := Pause{
		Length: 400 * time.Millisecond, Backlog: 400, Produced: 1000, Drained: 3000, Parity: 200 * time.Millisecond,
		TailPaused: 4000, TailDraining: 6000,
	}
	within := func(a, b int64) bool { return a >= b && a < b+b/50 }
	if got == nil || !within(got.TailPaused, want.TailPaused) || !within(got.TailDraining, want.TailDraining) {
		t.Fatalf("%+v, want %+v", got, want)
	}
	want.TailPaused, want.TailDraining = got.TailPaused, got.TailDraining
	if *got != want {
		t.Errorf("%+v, want %+v", *got, want)
	}
	if text := got.String(); !strings.Contains(text, "400 messages behind after a pause of 400ms") || !strings.Contains(text, "after 200ms") {
		t.Error(text)
	}
}

func TestAConsumerThatDoesNotCatchUpHasNoParity(t *testing.T) {
	got := PauseOf(paused(t, 0, 0, 0, 0, 90, 90, 90, 90, 90, 90), 350*time.Millisecond)
	if got == nil || got.Parity != 0 || got.Drained != 900 || got.Backlog != 402 || !strings.Contains(got.String(), "not within the measurement") {
		t.Errorf("%+v", got)
	}
	if PauseOf(paused(t), 0) != nil || PauseOf(paused(t), time.Second) != nil {
		t.Error("a pause of nothing, or of everything")
	}
}

func TestASeriesCountsWhatWasReadWhenItWas(t *testing.T) {
	s := NewSeries(time.Second)
	at := func(i int) int64 { return int64(i)*int64(s.Interval) + 1 }
	s.Done(-1, 3)
	s.Done(at(2), 5)
	s.Done(int64(time.Minute), 7)
	s.ReadOne(-5, -1)
	s.ReadOne(-5, at(1))
	s.ReadOne(at(1), at(4))
	s.ReadOne(at(1), int64(time.Minute))
	s.Drain(-1)
	s.Drain(at(3))
	s.Summarize()
	if s.BeforeDone != 3 || s.BeforeRead != 1 || s.BeforeDrained != 1 || s.Points[2].Done != 5 || s.Points[1].Read != 1 || s.Points[4].Read != 1 || s.Points[3].Drained != 1 {
		t.Errorf("%+v", s)
	}
	// Of two messages, one took three intervals; it lies where it was meant to be sent.
	if p := s.Points[1]; p.EndToEndP50 < 3*int64(s.Interval) || p.EndToEndP50 > 3*int64(s.Interval)*102/100 || p.EndToEndMax < int64(59*time.Second) {
		t.Errorf("%+v", p)
	}
}
