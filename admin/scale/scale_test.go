package scale

import (
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/stage"
)

// load is a broker's counters, and a judge that looks at them.
type load struct {
	Judge
	clock stage.Clock
	look  Look
}

func newLoad() *load {
	l := &load{look: Look{At: time.Unix(1_800_000_000, 0), Of: new(int)}}
	l.FetchP99, l.ProduceRate = 500*time.Microsecond, 1_000_000
	return l
}

// step has fetches sent and bytes produced until the next look.
func (l *load) step(fetches int, took time.Duration, bytes uint64) Signals {
	for range fetches {
		l.clock.Add(stage.FetchSend, int64(took))
	}
	var s stage.Snapshot
	l.clock.Copy(&s)
	l.look.Send, l.look.Read = s[stage.FetchSend], s[stage.ColdRead]
	l.look.Produced += bytes
	l.look.At = l.look.At.Add(LookEvery)
	l.Take(&l.look)
	return l.Signals()
}

func TestTooMuchForAWhileIsASignal(t *testing.T) {
	l := newLoad()
	for i := range 1 + 6 { // the first look has nothing to compare with
		s := l.step(200, time.Millisecond, 6_000_000)
		if want := i >= 6; s.Fetch != want || s.Produce != want {
			t.Errorf("look %d: %+v", i, s)
		}
		if i > 0 && (s.FetchP99 < time.Millisecond || s.FetchP99 > 1033*time.Microsecond || s.ProduceRate != 1_200_000) {
			t.Errorf("look %d: %+v", i, s)
		}
	}
	// One look that is well begins it anew.
	if s := l.step(200, 400*time.Microsecond, 5_000_000); s.Fetch || s.Produce {
		t.Errorf("what is within its limit: %+v", s)
	}
	for i := range 6 {
		if s := l.step(200, time.Millisecond, 6_000_000); s.Fetch != (i == 5) || s.Produce != (i == 5) {
			t.Errorf("look %d behind a pause: %+v", i, s)
		}
	}
	// Fetches that stop, or are few, say nothing.
	if s := l.step(leastSamples-1, time.Second, 6_000_000); s.Fetch || s.FetchP99 != 0 || !s.Produce {
		t.Errorf("few fetches: %+v", s)
	}
}

func TestReadsFromTheDriveCount(t *testing.T) {
	l := newLoad()
	for range 7 {
		for range leastSamples {
			l.clock.Add(stage.ColdRead, int64(time.Second))
		}
		l.step(leastSamples, 0, 0)
	}
	if s := l.Signals(); !s.Fetch || s.Produce || s.FetchP99 < time.Second {
		t.Errorf("%+v", s)
	}
}

func TestAnotherNodeBeginsAnew(t *testing.T) {
	l := newLoad()
	for range 7 {
		l.step(200, time.Second, 1<<30)
	}
	if s := l.Signals(); !s.Fetch || !s.Produce {
		t.Fatalf("%+v", s)
	}
	for name, change := range map[string]func(){
		"another node": func() { l.look.Of = new(int) }, "no node": func() { l.look.Of = nil }, "less than before": func() { l.look.Produced = 0 },
	} {
		before := l.look
		change()
		if s := l.step(200, time.Second, 1); s != (Signals{}) {
			t.Errorf("%s: %+v", name, s)
		}
		l.look.Of, l.look.Produced = before.Of, before.Produced
		l.step(0, 0, 0)
	}
}

func TestWithoutLimitsThereIsNoSignal(t *testing.T) {
	l := newLoad()
	l.Limits = Limits{}
	for range 9 {
		if s := l.step(200, time.Second, 1<<40); s.Fetch || s.Produce {
			t.Fatalf("%+v", s)
		}
	}
	if s := l.Signals(); s.FetchP99 == 0 || s.ProduceRate == 0 {
		t.Errorf("it is not measured either: %+v", s)
	}
}
