package throttle

import (
	"testing"
	"time"
)

func TestNobodyWaitsBelowTheThreshold(t *testing.T) {
	var th Throttle
	if until := th.Charge(1000, 1<<20, From); until != 0 || th.Waits(1000) {
		t.Fatalf("a wait until %d", until)
	}
}

func TestTheWaitGrowsWithTheBytesAndWithTheFill(t *testing.T) {
	wait := func(n int, fill int64) time.Duration {
		var th Throttle
		return time.Duration(th.Charge(5000, n, fill) - 5000)
	}
	if full := wait(4096, 100); full != 4*Slowest {
		t.Fatalf("4 KiB of a full space: %v, expected %v", full, 4*Slowest)
	}
	for fill := int64(From + 1); fill < 100; fill++ {
		if wait(4096, fill) >= wait(4096, fill+1) || wait(4096, fill) >= wait(8192, fill) {
			t.Fatalf("at %d %%: %v for 4 KiB, %v for 8, %v a percent later", fill, wait(4096, fill), wait(8192, fill), wait(4096, fill+1))
		}
	}
}

func TestWaitsAddUpAndEnd(t *testing.T) {
	var th Throttle
	th.Charge(0, 1024, 100)
	until := th.Charge(0, 1024, 100)
	if until != int64(2*Slowest) || th.Left(0) != 2*Slowest || th.Left(until+1) != 0 || !th.Waits(until-1) || th.Waits(until) {
		t.Fatalf("a wait until %d, expected %d", until, 2*Slowest)
	}
}

func TestASpaceCountsAsFullForAWhile(t *testing.T) {
	var f Full
	if f.Is(0) || f.Over(0) {
		t.Fatal("a space is full before anybody found it so")
	}
	if !f.Found(0) || f.Found(1) {
		t.Fatal("it is news once")
	}
	if end := 1 + int64(fullFor); !f.Is(end) || f.Over(end) || f.Is(end+1) || !f.Over(end+1) || f.Over(end+1) {
		t.Fatal("it is over once, and not early")
	}
	if !f.Found(10) {
		t.Fatal("it is news again")
	}
}

func TestMoreWorkersAreAtWorkTheFullerTheSpaceIs(t *testing.T) {
	for _, c := range []struct {
		fill int64
		want int
	}{{0, 1}, {25, 1}, {31, 1}, {33, 2}, {50, 4}, {74, 7}, {75, 8}, {100, 8}} {
		if n := Workers(c.fill, 25, 75, 8); n != c.want {
			t.Errorf("at %d %%: %d workers, expected %d", c.fill, n, c.want)
		}
	}
	if n := Workers(60, 25, 75, 1); n != 1 {
		t.Errorf("%d of 1 worker", n)
	}
}
