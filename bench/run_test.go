package bench

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/bench/draw"
	"github.com/mqd-broker/mqd/bench/ledger"
	"github.com/mqd-broker/mqd/bench/pace"
	"github.com/mqd-broker/mqd/net/wire"
)

// brief is a load of some messages, however long they take.
func brief() Load {
	return Load{Messages: 500, Duration: time.Minute, Warmup: -1, Client: Block, Depth: 4}
}

func runFake(t *testing.T, do misdeed, load Load) *Result {
	t.Helper()
	p := newSimPlatform()
	b := startFake(t, p, do)
	res, err := Run(context.Background(), p, Target{Addr: b.addr}, load)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestAnHonestBrokerPassesUnderEveryLoad(t *testing.T) {
	loads := map[string]Load{
		"one in flight": {Depth: 1},
		"batches":       {BatchMessages: 64, Depth: 8},
		"partitions":    {Partitions: 7, Depth: 16, BatchMessages: 3},
		"one of many":   {Partitions: 7, Depth: 16, Spread: One},
		"read after":    {Reading: After, Depth: 8, BatchMessages: 16},
		"threads":       {Partitions: 4, Connections: 3, Threads: 2, Depth: 4},
		"polling":       {Client: Poll, Depth: 2},
		"fixed size":    {Size: 4096, Depth: 2, BatchMessages: 5},
		"large":         {Size: 200_000, Depth: 2, BatchMessages: 2},
		"open loop":     {Rate: 20_000},
		"open, batches": {Rate: 50_000, BatchMessages: 10, Partitions: 3, Connections: 2},
		"bursts":        {Burst: pace.Burst{Messages: 200, Length: 2 * time.Millisecond, Period: 10 * time.Millisecond}},
		"memory":        {Class: wire.ClassMemory},
		"poisson":       {Rate: 20_000, Poisson: true, Connections: 3, BatchMessages: 2},
		"sizes":         {Sizes: "lognormal:180:1:32-9000", Depth: 4, BatchMessages: 7},
		"keys":          {Keys: 100, KeySkew: 0.5, Depth: 4, BatchMessages: 7},
		"by key":        {Keys: 100, Spread: ByKey, Partitions: 5, Depth: 4, BatchMessages: 3},
		"compressed":    {Plain: 0.5, Codec: batch.CodecZstd, Depth: 4, BatchMessages: 32, Keys: 10},
	}
	for name, load := range loads {
		t.Run(name, func(t *testing.T) {
			b := brief()
			load.Messages, load.Duration, load.Warmup = b.Messages, b.Duration, b.Warmup
			res := runFake(t, honest, load)
			if res.Faults.Any() || res.Sent == 0 || res.Acked != res.Sent || res.Read != res.Acked {
				t.Fatalf("%s", res.Text())
			}
			if res.Ack.Count == 0 || res.Err() != nil {
				t.Fatalf("nothing recorded: %s", res.Text())
			}
			if live := load.Reading == Live; live != (res.EndToEnd.Count > 0) {
				t.Errorf("reading %s, %d end to end times", load.Reading, res.EndToEnd.Count)
			}
			if load.Open() != (res.Lag.Count > 0) {
				t.Errorf("open %v, %d send lags", load.Open(), res.Lag.Count)
			}
		})
	}
}

func TestEachMisdeedOfABrokerIsFound(t *testing.T) {
	cases := []struct {
		name  string
		do    misdeed
		count func(ledger.Faults) int64
	}{
		{"lost", lose, func(f ledger.Faults) int64 { return f.Lost }},
		{"duplicated", duplicate, func(f ledger.Faults) int64 { return f.Duplicated }},
		{"reordered", reorder, func(f ledger.Faults) int64 { return f.Reordered }},
		{"corrupted", corrupt, func(f ledger.Faults) int64 { return f.Corrupted }},
		{"not ours", foreignBatch, func(f ledger.Faults) int64 { return f.Corrupted }},
		{"moved", misplace, func(f ledger.Faults) int64 { return f.Moved }},
		{"refused", refuse, func(f ledger.Faults) int64 { return f.Refused }},
	}
	for _, reading := range []Reading{Live, After} {
		for _, c := range cases {
			if c.do == lose || c.do == corrupt {
				continue // readers wait for what is missing: see below
			}
			t.Run(c.name+" "+reading.String(), func(t *testing.T) {
				load := brief()
				load.Reading = reading
				res := runFake(t, c.do, load)
				if c.count(res.Faults) != 1 {
					t.Errorf("found %s", res.Faults)
				}
				if res.Verdict != Failed || !errors.Is(res.Err(), ErrFailed) {
					t.Errorf("verdict %q, error %v", res.Verdict, res.Err())
				}
			})
		}
	}
}

func TestWhatIsMissingIsFoundWhenNothingMoreComes(t *testing.T) {
	for do, want := range map[misdeed]ledger.Faults{lose: {Lost: 1}, corrupt: {Lost: 1, Corrupted: 1}} {
		load := brief()
		load.Reading = After
		if res := withPatience(t, func() *Result { return runFake(t, do, load) }, finds(want)); res.Faults != want || res.Err() == nil {
			t.Errorf("misdeed %d: %s", do, res.Faults)
		}
	}
}

func TestAnUnansweredRequestCountsAsRefused(t *testing.T) {
	res := withPatience(t, func() *Result { return runFake(t, keepSilent, brief()) }, finds(ledger.Faults{Refused: 1}))
	if res.Faults != (ledger.Faults{Refused: 1}) || !strings.Contains(res.Reason, "no answer") {
		t.Fatalf("%s", res.Text())
	}
}

func TestABrokerWithAWeakerClassIsRefused(t *testing.T) {
	p := newSimPlatform()
	b := startFake(t, p, honest)
	b.class = wire.ClassMemory
	_, err := Run(context.Background(), p, Target{Addr: b.addr}, brief())
	if !errors.Is(err, ErrBroker) || !strings.Contains(err.Error(), "memory") {
		t.Fatalf("error %v", err)
	}
}

func TestARunEndsWithItsContext(t *testing.T) {
	p := newSimPlatform()
	b := startFake(t, p, honest)
	ctx, cancel := context.WithCancel(context.Background())
	load := brief()
	load.Messages, load.Duration = 0, time.Hour
	go func() {
		for b.produced.Load() == 0 {
			p.Yield()
		}
		cancel()
	}()
	if _, err := Run(ctx, p, Target{Addr: b.addr}, load); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
}

func TestARunWithoutABrokerFails(t *testing.T) {
	p := newSimPlatform()
	if _, err := Run(context.Background(), p, Target{Addr: "127.0.0.1:1"}, brief()); !errors.Is(err, ErrConnection) {
		t.Fatalf("error %v", err)
	}
}

func TestBadLoadsAreRefused(t *testing.T) {
	for name, load := range map[string]Load{
		"partitions": {Partitions: MaxPartitions + 1},
		"batch":      {BatchMessages: -1},
		"depth":      {Depth: MaxDepth + 1},
		"size":       {Size: MinSize - 1},
		"frame":      {Size: draw.MaxSize, BatchMessages: 1000},
		"burst":      {Burst: pace.Burst{Messages: 10, Length: time.Second, Period: time.Millisecond}},
		"duration":   {Duration: -1},
		"sizes":      {Sizes: "512-50"},
		"keys":       {Keys: draw.MaxKeys + 1},
		"no keys":    {Spread: ByKey},
		"skew":       {Keys: 1, KeySkew: -1},
		"plain":      {Plain: 1.5},
		"poisson":    {Poisson: true},
		"both":       {Poisson: true, Rate: 1, Burst: pace.Burst{Messages: 1, Length: 1, Period: 1}},
	} {
		if _, err := Run(context.Background(), newSimPlatform(), Target{}, load); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// measures repeats a measurement with more time every time, until it has found
// something in each of its cases: a machine may stand still for all of a short one.
func measures(t *testing.T, d time.Duration, cases int, measure func(d time.Duration, found func(int64)) error) {
	t.Helper()
	for ; ; d *= 8 {
		n, empty := 0, 0
		if err := measure(d, func(count int64) {
			if n++; count == 0 {
				empty++
			}
		}); err != nil || n != cases {
			t.Fatalf("%d cases of %d, error %v", n, cases, err)
		}
		if empty == 0 {
			return
		}
		if d > 5*time.Second {
			t.Fatalf("%d of %d cases have measured nothing in %v", empty, cases, d)
		}
	}
}

func TestPingPongMeasuresTheEchoServer(t *testing.T) {
	p := newSimPlatform()
	measures(t, 100*time.Millisecond, 4, func(d time.Duration, found func(int64)) error {
		o := NetOptions{
			Server: []Idle{Adaptive, Block}, Client: []Idle{Poll, Block}, Depths: []int{8},
			Duration: d, ServerCPU: NoCPU, ClientCPU: NoCPU,
		}
		return Network(context.Background(), p, o, func(r NetResult) {
			if r.Rate == 0 {
				r.RTT.Count = 0
			}
			found(r.RTT.Count)
		})
	})
}

func TestDiskMeasuresEveryCaseAndLeavesNothingBehind(t *testing.T) {
	p := newSimPlatform()
	drv, err := p.NewDriver(simDisk)
	if err != nil {
		t.Fatal(err)
	}
	if err := drv.FS().Mkdir("/d"); err != nil {
		t.Fatal(err)
	}
	measures(t, 50*time.Millisecond, 12, func(d time.Duration, found func(int64)) error {
		o := DiskOptions{
			Dir: "/d", FileBytes: 2 << 20, Ops: []DiskOp{Write, DSYNC, Read}, Sizes: []int{4096}, Depths: []int{1, 8},
			Idle: []Idle{Poll, Block}, Duration: d, CPU: NoCPU,
		}
		return Disk(context.Background(), p, o, func(r DiskResult) { found(r.Latency.Count) })
	})
	left, err := drv.FS().ReadDir("/d")
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, error %v", left, err)
	}
}

func TestJitterFindsGaps(t *testing.T) {
	j, err := MeasureJitter(context.Background(), newSimPlatform(), NoCPU, 20*time.Millisecond)
	if err != nil || j.Stolen < 0 || j.Stolen > 1 {
		t.Fatalf("%s, error %v", j, err)
	}
}
