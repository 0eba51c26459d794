package signals

import (
	"os"
	"syscall"
	"testing"
	"time"
)

func TestEqualSignalsInAMomentAreOne(t *testing.T) {
	const ms = time.Millisecond
	type arrival struct {
		sig   os.Signal
		at    time.Duration
		again bool
	}
	for name, arrivals := range map[string][]arrival{
		"a process and its group":       {{syscall.SIGTERM, 0, false}, {syscall.SIGTERM, ms, true}},
		"three of them":                 {{syscall.SIGTERM, 0, false}, {syscall.SIGTERM, ms, true}, {syscall.SIGTERM, 99 * ms, true}},
		"a person who insists":          {{syscall.SIGINT, 0, false}, {syscall.SIGINT, 100 * ms, false}},
		"echoes do not add up":          {{syscall.SIGINT, 0, false}, {syscall.SIGINT, 60 * ms, true}, {syscall.SIGINT, 120 * ms, false}},
		"different ones":                {{syscall.SIGTERM, 0, false}, {syscall.SIGINT, ms, false}},
		"each change is to be read":     {{syscall.SIGHUP, 0, false}, {syscall.SIGHUP, ms, false}},
		"a reload between does no harm": {{syscall.SIGTERM, 0, false}, {syscall.SIGHUP, ms, false}, {syscall.SIGTERM, 2 * ms, true}},
	} {
		var r repeats
		began := time.Now()
		for i, a := range arrivals {
			if got := r.again(a.sig, began.Add(a.at)); got != a.again {
				t.Errorf("%s: signal %d (%v at %v) repeats another: %v, want %v", name, i, a.sig, a.at, got, a.again)
			}
		}
	}
}

func TestSignalsArriveUntilListeningStops(t *testing.T) {
	signals, stop := Listen(syscall.SIGUSR1, syscall.SIGHUP)
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for _, sig := range []os.Signal{syscall.SIGUSR1, syscall.SIGHUP} {
		if err := self.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if got := <-signals; got != sig {
			t.Errorf("%v arrived as %v", sig, got)
		}
	}
	stop()
}
