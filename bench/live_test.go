package bench

import (
	"testing"
	"time"

	"github.com/mqd-broker/mqd/bench/figure"
)

// A run that is looked at all the time loses nothing of what it shows.
func TestARunCanBeLookedAt(t *testing.T) {
	p := newSimPlatform()
	b := startFake(t, p, honest)
	load := brief()
	load.Live = &figure.Live{}
	type end struct {
		res *Result
		err error
	}
	done := make(chan end, 1)
	go func() {
		res, err := Run(t.Context(), p, Target{Addr: b.addr}, load)
		done <- end{res, err}
	}()
	for seen := int64(0); ; {
		g := load.Live.Look()
		seen += g.Acked
		select {
		case e := <-done:
			seen += load.Live.Look().Acked
			if e.err != nil || e.res.Faults.Any() || seen > e.res.Acked {
				t.Errorf("error %v, %d messages seen: %s", e.err, seen, e.res.Text())
			}
			return
		default:
			time.Sleep(time.Millisecond)
		}
	}
}
