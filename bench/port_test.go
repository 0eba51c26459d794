package bench

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mqd-broker/mqd/bench/ledger"
	"github.com/mqd-broker/mqd/bench/pace"
)

// fakePort keeps messages in memory and does a misdeed to the fifth.
type fakePort struct {
	do    misdeed
	stall time.Duration

	mu    sync.Mutex
	more  *sync.Cond
	sends int
	parts [][][]byte
	asked chan func()
}

func newFakePort(do misdeed) *fakePort {
	p := &fakePort{do: do, asked: make(chan func(), MaxDepth)}
	p.more = sync.NewCond(&p.mu)
	return p
}

func (p *fakePort) Open(_ context.Context, _ string, partitions int) error {
	p.parts = make([][][]byte, partitions)
	go func() {
		for answer := range p.asked {
			answer()
		}
	}()
	return nil
}

func (p *fakePort) Send(partition int32, key, value []byte, done func(int64, error)) {
	p.asked <- func() {
		p.mu.Lock()
		p.sends++
		do := p.do
		if p.sends != 5 {
			do = honest
		}
		stall := p.sends == 50
		value := slices.Clone(value)
		if do == corrupt {
			value[len(value)-1] ^= 1
		}
		at := int64(len(p.parts[partition]))
		if do != lose && do != refuse {
			p.parts[partition] = append(p.parts[partition], value)
		}
		if do == duplicate {
			p.parts[partition] = append(p.parts[partition], value)
		}
		p.more.Broadcast()
		p.mu.Unlock()
		if stall {
			time.Sleep(p.stall)
		}
		switch do {
		case refuse:
			done(-1, errors.New("full"))
		case misplace:
			done(at+1, nil)
		case keepSilent:
		default:
			done(at, nil)
		}
	}
}

func (p *fakePort) Read(ctx context.Context, each func(int32, int64, []byte)) error {
	defer context.AfterFunc(ctx, p.wake)()
	next := make([]int, len(p.parts))
	for {
		p.mu.Lock()
		for !p.any(next) && ctx.Err() == nil {
			p.more.Wait()
		}
		parts := slices.Clone(p.parts)
		p.mu.Unlock()
		if ctx.Err() != nil {
			return nil
		}
		for i := range parts {
			for ; next[i] < len(parts[i]); next[i]++ {
				each(int32(i), int64(next[i]), parts[i][next[i]])
			}
		}
	}
}

func (p *fakePort) any(next []int) bool {
	for i := range p.parts {
		if next[i] < len(p.parts[i]) {
			return true
		}
	}
	return false
}

func (p *fakePort) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.more.Broadcast()
}

func (p *fakePort) Close(context.Context) error { close(p.asked); return nil }

func runPort(t *testing.T, p *fakePort, load Load) *Result {
	t.Helper()
	load.Messages, load.Duration, load.Warmup, load.Durability = 600, time.Minute, -1, "fake"
	res, err := RunPort(t.Context(), p, load)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// A frame of a closed loop is a group of messages, here as with the own driver: who compares
// the two has as much in flight with each.
func TestAClosedLoopHasFramesInFlightAndNotMessages(t *testing.T) {
	for _, c := range []struct {
		load Load
		want int
	}{
		{Load{Depth: 8, BatchMessages: 20}, 160},
		{Load{BatchMessages: 20}, 20},
		{Load{Depth: 8}, 8},
		{Load{Rate: 1000, BatchMessages: 20}, 4096},
		{Load{Rate: 1000, Depth: 8, BatchMessages: 20}, 20},
	} {
		p, err := newPortRun(newFakePort(honest), c.load.withDefaults())
		if err != nil {
			t.Fatal(err)
		}
		if len(p.slots) != c.want {
			t.Errorf("%d messages of %+v in flight, expected %d", len(p.slots), c.load, c.want)
		}
	}
}

func TestAnHonestPortPassesUnderEveryLoad(t *testing.T) {
	for name, load := range map[string]Load{
		"closed":  {Depth: 4},
		"groups":  {BatchMessages: 20, Partitions: 3, Depth: 60},
		"open":    {Rate: 20_000, Partitions: 2},
		"poisson": {Rate: 20_000, Poisson: true, BatchMessages: 3},
		"bursts":  {Burst: pace.Burst{Messages: 100, Length: time.Millisecond, Period: 5 * time.Millisecond}},
		"after":   {Reading: After, Depth: 10},
		"by key":  {Spread: ByKey, Keys: 50, Partitions: 4, Depth: 8},
		"one":     {Spread: One, Keys: 50, Partitions: 4, Depth: 8, Sizes: "32-2000"},
	} {
		t.Run(name, func(t *testing.T) {
			res := runPort(t, newFakePort(honest), load)
			if res.Faults.Any() || res.Sent != 600 || res.Acked != 600 || res.Read != 600 || res.Ack.Count != 600 || res.Class != "fake" {
				t.Errorf("class %q\n%s", res.Class, res.Text())
			}
			if load.Open() != (res.Late.Count == 600) || (load.Reading == Live) != (res.EndToEnd.Count == 600) || res.EndToEndService.Count != res.EndToEnd.Count {
				t.Errorf("%d late, %d end to end", res.Late.Count, res.EndToEnd.Count)
			}
		})
	}
}

func TestEachMisdeedOfAPortIsFound(t *testing.T) {
	for do, want := range map[misdeed]ledger.Faults{
		lose: {Lost: 1}, duplicate: {Duplicated: 1}, corrupt: {Lost: 1, Corrupted: 1}, misplace: {Moved: 1}, refuse: {Refused: 1}, keepSilent: {Refused: 1},
	} {
		res := withPatience(t, func() *Result { return runPort(t, newFakePort(do), Load{Depth: 1000, Reading: After}) }, finds(want))
		if res.Faults != want || res.Verdict != Failed {
			t.Errorf("misdeed %d: %s, want %s", do, res.Faults, want)
		}
	}
}

func TestAPortThatStallsIsNotTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		port := newFakePort(honest)
		port.stall = 300 * time.Millisecond
		load := Load{Rate: 4000, Depth: 8, Messages: 600, Duration: time.Minute, Warmup: -1, Durability: "fake"}
		p, err := newPortRun(port, load.withDefaults())
		if err != nil {
			t.Fatal(err)
		}
		p.yield = func() { time.Sleep(nap / 2) } // or the bubble's time would stand still
		if err := p.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		notBlamed(t, p.result())
	})
}

func TestAPortHasOneGeneratorAndSaysWhatItGuarantees(t *testing.T) {
	for _, load := range []Load{{}, {Durability: "x", Connections: 2}, {Durability: "x", Size: 1}} {
		if _, err := RunPort(t.Context(), newFakePort(honest), load); !errors.Is(err, ErrConfig) {
			t.Errorf("%+v: error %v", load, err)
		}
	}
}

func TestARunThroughAPortEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := newFakePort(honest)
	go func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for p.sends < 10 {
			p.more.Wait()
		}
		cancel()
	}()
	if _, err := RunPort(ctx, p, Load{Duration: time.Hour, Warmup: -1, Durability: "fake"}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
