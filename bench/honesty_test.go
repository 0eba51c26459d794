package bench

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// In a bubble, whose time passes only while everybody waits, nothing but the broker holds
// anybody up.
func TestAnOpenLoopFindsAStallThatAClosedOneHides(t *testing.T) {
	synctest.Test(t, anOpenLoopFindsAStallThatAClosedOneHides)
}

func anOpenLoopFindsAStallThatAClosedOneHides(t *testing.T) {
	const stall, found = 500 * time.Millisecond, 200 * time.Millisecond
	measure := func(load Load) *Result {
		p := newSimPlatform()
		b := startFake(t, p, honest)
		b.stall = stall
		load.Messages, load.Duration, load.Warmup, load.Client = 300, time.Minute, -1, Block
		res, err := Run(context.Background(), p, Target{Addr: b.addr}, load)
		if err != nil || res.Faults.Any() {
			t.Fatalf("error %v: %s", err, res.Text())
		}
		return res
	}
	// 4,000 messages a second: 250 of the 300 are due while nothing is answered.
	open := measure(Load{Rate: 4000})
	if got := time.Duration(open.ack.At(95)); got < found {
		t.Errorf("open loop: 95 of 100 are answered within %v of their time, though the broker stalled for %v", got, stall)
	}
	closed := measure(Load{Depth: 1})
	if closed.Ack.Max < int64(stall) {
		t.Errorf("closed loop: the longest wait is %v, the broker stalled for %v", time.Duration(closed.Ack.Max), stall)
	}
	if closed.Ack.P99 >= int64(found) { // one message of 300 has met it
		t.Errorf("the closed loop shows the stall as well: then the test shows nothing")
	}
}

// sluggishPlatform lets its client sleep where it should only yield.
type sluggishPlatform struct{ simPlatform }

func (sluggishPlatform) Yield() { time.Sleep(50 * time.Millisecond) }

func TestARunOfAStarvedClientIsInvalid(t *testing.T) {
	p := newSimPlatform()
	b := startFake(t, p, honest)
	load := Load{Rate: 1000, Messages: 400, Duration: time.Minute, Warmup: -1, Client: Poll, Reading: Live}
	res, err := Run(context.Background(), sluggishPlatform{p}, Target{Addr: b.addr}, load)
	if err != nil {
		t.Fatal(err)
	}
	if res.Verdict != Invalid || res.Reason == "" {
		t.Errorf("a client that sleeps 50 ms at a time gave a result that counts:\n%s", res.Text())
	}
	// What is left of the latency is without the 25 ms that a message waits for this client on
	// average, and without no more than it was late.
	if less := res.EndToEnd.Mean - res.EndToEndService.Mean; res.EndToEndService.Count != 400 || less < int64(time.Millisecond) || less > res.Late.Mean*21/20 {
		t.Errorf("end to end %s, %s without what the client was late:\n%s", res.EndToEnd, res.EndToEndService, res.Text())
	}
}

func TestWhatTheBrokerHoldsUpIsNotBlamedOnTheClient(t *testing.T) {
	for _, load := range []Load{{Rate: 4000, Depth: 8}, {Rate: 4000, Depth: 8, Poisson: true, Connections: 2}} {
		synctest.Test(t, func(t *testing.T) {
			p := newSimPlatform()
			b := startFake(t, p, honest)
			b.stall = 500 * time.Millisecond
			load.Messages, load.Duration, load.Warmup, load.Client = 1000, time.Minute, -1, Block
			res, err := Run(context.Background(), p, Target{Addr: b.addr}, load)
			if err != nil {
				t.Fatal(err)
			}
			notBlamed(t, res)
		})
	}
}

// notBlamed holds a result to what the broker held up: 8 messages are in flight when it
// stalls, all others are due until it is over.
func notBlamed(t *testing.T, res *Result) {
	t.Helper()
	if res.Late.Count != res.Ack.Count {
		t.Errorf("%d messages acknowledged, the client came to %d", res.Ack.Count, res.Late.Count)
	}
	if res.Late.Mean > res.Lag.Mean/2 {
		t.Errorf("the broker stalled, and the client is blamed:\n%s", res.Text())
	}
}

func TestTheSeriesHasEveryMessageInTheIntervalOfItsTime(t *testing.T) {
	p := newSimPlatform()
	b := startFake(t, p, honest)
	load := Load{Rate: 10_000, Messages: 1000, Duration: 5 * time.Second, Warmup: -1, Client: Block}
	res, err := Run(context.Background(), p, Target{Addr: b.addr}, load)
	if err != nil {
		t.Fatal(err)
	}
	if res.Series.Interval != 50*time.Millisecond || len(res.Series.Points) != 100 {
		t.Fatalf("%d intervals of %v", len(res.Series.Points), res.Series.Interval)
	}
	for i, p := range res.Series.Points {
		want := int64(0)
		if i < 2 {
			want = 500
		}
		if p.Acked != want || (p.Acked > 0) != (p.Histogram != "") || p.P50 > p.Max {
			t.Errorf("interval %d: %+v", i, p)
		}
	}
}
