package bench

import (
	"errors"
	"testing"
	"time"
)

func TestAConsumerPausesAndReadsEverything(t *testing.T) {
	p := newSimPlatform()
	b := startFake(t, p, honest)
	load := Load{Rate: 2000, Duration: 400 * time.Millisecond, Warmup: 50 * time.Millisecond, Pause: 200 * time.Millisecond, Client: Block, Partitions: 2}
	res, err := Run(t.Context(), p, Target{Addr: b.addr}, load)
	if err != nil {
		t.Fatal(err)
	}
	if res.Faults.Any() || res.Read != res.Acked || res.Pause == nil {
		t.Fatalf("%s", res.Text())
	}
	drained := res.Series.BeforeDrained
	for _, q := range res.Series.Points {
		drained += q.Drained
	}
	if drained > res.Acked {
		t.Errorf("%d messages drained, %d acknowledged", drained, res.Acked)
	}
	// What it has lost counts as what the other has lost.
	lost := withPatience(t, func() *Result {
		p := newSimPlatform()
		res, err := Run(t.Context(), p, Target{Addr: startFake(t, p, lose).addr}, load)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}, func(r *Result) bool { return r.Faults.Lost == 2 })
	if lost.Faults.Lost != 2 {
		t.Errorf("%s, want one lost for each of the two consumers", lost.Faults)
	}
}

func TestAPauseNeedsALoadThatGoesOn(t *testing.T) {
	good := Load{Rate: 1, Duration: time.Second, Pause: time.Second / 2}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]func(*Load){
		"closed loop": func(l *Load) { l.Rate = 0 }, "as long as all": func(l *Load) { l.Pause = l.Duration }, "below zero": func(l *Load) { l.Pause = -1 },
		"read after": func(l *Load) { l.Reading = After }, "a number of messages": func(l *Load) { l.Messages = 1 },
	} {
		l := good
		if bad(&l); !errors.Is(l.Validate(), ErrConfig) {
			t.Errorf("%s: error %v", name, l.Validate())
		}
	}
}
