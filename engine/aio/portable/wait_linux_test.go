package portable

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestSignalsDoNotEndAWait storms the sleeping thread with signals; only the wake at
// the end may end its wait.
func TestSignalsDoNotEndAWait(t *testing.T) {
	for _, v := range []struct{ old, simple bool }{{}, {old: true}, {simple: true}} {
		noPwait2.Store(v.old)
		d := open(t, Config{Simple: v.simple})
		tid, pid := unix.Gettid(), unix.Getpid()
		done := make(chan int64)
		start := d.clock.Now()
		go func() {
			for range 200 {
				_ = unix.Tgkill(pid, tid, unix.SIGURG)
			}
			before := d.clock.Now()
			d.Wake()
			done <- before
		}()
		n, err := d.Poll(time.Hour)
		if n != 0 || err != nil {
			t.Fatal(n, err)
		}
		end, woken := d.clock.Now(), <-done
		if end < woken {
			t.Fatalf("the wait ended %v before the wake, after %v", time.Duration(woken-end), time.Duration(end-start))
		}
	}
	noPwait2.Store(false)
}

func TestAWaitEndsWithItsTime(t *testing.T) {
	for _, v := range []struct{ old, simple bool }{{}, {old: true}, {simple: true}} {
		noPwait2.Store(v.old)
		d := open(t, Config{Simple: v.simple})
		start := d.clock.Now()
		const wait = 2500 * time.Microsecond
		n, err := d.Poll(wait)
		if n != 0 || err != nil {
			t.Fatal(n, err)
		}
		if waited := d.clock.Now() - start; waited < int64(wait) {
			t.Fatalf("waited %v, less than asked", time.Duration(waited))
		}
	}
	noPwait2.Store(false)
}
