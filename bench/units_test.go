package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/bench/draw"
	"github.com/mqd-broker/mqd/bench/figure"
	"github.com/mqd-broker/mqd/bench/ledger"
	"github.com/mqd-broker/mqd/engine/aio"
)

// simDisk sizes a driver that only serves files.
var simDisk = aio.Options{ArenaBytes: 1 << 16, RecvBuffers: 2}

// withPatience repeats a measurement in which something never comes until it gives
// what is wanted. It has readers and producers give up soon, and later every time: on
// a busy machine what does come may take longer than the first waits.
func withPatience(t *testing.T, measure func() *Result, want func(*Result) bool) *Result {
	t.Helper()
	read, answer := readWait, answerWait
	defer func() { readWait, answerWait = read, answer }()
	for wait := 50 * time.Millisecond; ; wait *= 8 {
		readWait, answerWait = wait, wait
		if res := measure(); want(res) || wait > 10*time.Second {
			return res
		}
	}
}

// finds is what withPatience waits for in tests of faults.
func finds(want ledger.Faults) func(*Result) bool {
	return func(r *Result) bool { return r.Faults == want }
}

func TestMessagesCarryTheirStampAndAnyChangeIsSeen(t *testing.T) {
	n := newNoise(1, 0)
	rapid.Check(t, func(t *rapid.T) {
		b := make([]byte, rapid.IntRange(MinSize, 600).Draw(t, "size"))
		want := stamp{
			run: rapid.Uint32().Draw(t, "run"), lane: rapid.Uint32().Draw(t, "lane"),
			seq: rapid.Uint64().Draw(t, "seq"), time: rapid.Int64().Draw(t, "time"), late: rapid.Uint32().Draw(t, "late"),
		}
		n.write(b, want)
		if got, ok := readStamp(b); !ok || got != want {
			t.Fatalf("read %+v, %v, wrote %+v", got, ok, want)
		}
		b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if _, ok := readStamp(b); ok {
			t.Fatal("a changed message was taken")
		}
	})
	if _, ok := readStamp(make([]byte, MinSize-1)); ok {
		t.Error("a short message was taken")
	}
}

func TestARunWhoseClientLagsIsInvalid(t *testing.T) {
	for _, c := range []struct {
		faults   ledger.Faults
		ack, lag int64
		want     Verdict
	}{
		{ledger.Faults{}, 1000, 100, Valid},
		{ledger.Faults{}, 1000, 101, Invalid},
		{ledger.Faults{}, 1000, 0, Valid},
		{ledger.Faults{Lost: 1}, 1000, 0, Failed},
		{ledger.Faults{Refused: 1}, 1000, 900, Failed},
		{ledger.Faults{Moved: 1}, 1000, 0, Failed},
	} {
		if got := verdict(c.faults, Summary{P99: c.ack}, Summary{P99: c.lag}); got != c.want {
			t.Errorf("%+v, latency %d, lag %d: %s, want %s", c.faults, c.ack, c.lag, got, c.want)
		}
	}
}

// resultOf has messages with these times, in nanoseconds, and faults.
func resultOf(messages, latency, late int64, faults ledger.Faults) *Result {
	res := assemble(Load{Rate: 1, Duration: time.Second}.withDefaults(), nil, nil)
	res.ack.Record(latency, messages)
	res.late.Record(late, messages)
	res.lag.Record(late, messages)
	res.Faults = faults
	if faults.Any() {
		res.Reason = "first refusal: full"
	}
	res.summarize()
	return res
}

func TestARepetitionThatDoesNotCountIsNotTheReasonOfAllOfThem(t *testing.T) {
	late := func() *Result { return resultOf(100, 1000, 900, ledger.Faults{}) }
	fine := func() *Result { return resultOf(50_000, 1000, 10, ledger.Faults{}) }
	failed := func() *Result { return resultOf(100, 1000, 10, ledger.Faults{Refused: 1}) }
	if r := late(); r.Verdict != Invalid || r.Reason == "" {
		t.Fatalf("%s: %q", r.Verdict, r.Reason)
	}
	for _, c := range []struct {
		rounds []*Result
		want   Verdict
		reason string
	}{
		{[]*Result{late(), fine(), fine()}, Valid, ""},
		{[]*Result{late(), failed()}, Failed, "first refusal: full"},
		{[]*Result{failed(), late()}, Failed, "first refusal: full"},
	} {
		var all Case
		for _, r := range c.rounds {
			all.Add(r)
		}
		all.Finish()
		if got := all.Result; got.Verdict != c.want || got.Reason != c.reason {
			t.Errorf("%s: %q, want %s: %q", got.Verdict, got.Reason, c.want, c.reason)
		}
	}
}

func TestMediansAndPairs(t *testing.T) {
	same := func(n int64) int64 { return n }
	for _, c := range []struct {
		in   []int64
		want int64
	}{{nil, 0}, {[]int64{5}, 5}, {[]int64{9, 1, 5}, 5}, {[]int64{4, 2}, 3}} {
		if got := Median(c.in, same); got != c.want {
			t.Errorf("median of %v is %d, want %d", c.in, got, c.want)
		}
	}
	var a, b []Round
	for i := range int64(9) {
		a, b = append(a, Round{P50: 200 + i}), append(b, Round{P50: 100 + i})
	}
	p := Compare(a, b, P50)
	if p.Count != 9 || p.Median < 1.9 || p.Median > 2 || p.Low > p.Median || p.High < p.Median {
		t.Errorf("%+v", p)
	}
	if again := Compare(a, b, P50); again != p {
		t.Errorf("the same rounds give %+v and %+v", p, again)
	}
}

func TestARoundWithoutAnyAnswerIsNotTheBest(t *testing.T) {
	if r := NewRound(Summary{}, time.Second); r.P50 != int64(time.Second) || r.P99 != int64(time.Second) {
		t.Errorf("%+v", r)
	}
	if r := NewRound(Summary{Count: 1, P50: 5, P99: 7}, time.Second); r.P50 != 5 || r.P99 != 7 {
		t.Errorf("%+v", r)
	}
}

func TestBuildingAndCheckingMessagesAllocatesNothing(t *testing.T) {
	n, sizes := newNoise(1, 0), draw.MixedSizes(1)
	value := make([]byte, draw.MixMax)
	buf := make([]byte, 64<<10)
	builder := batch.NewBuilder(nil, len(buf))
	lat := NewLatency()
	var tr ledger.Tracker
	var seq uint64
	if a := testing.AllocsPerRun(100, func() {
		builder.Reset(buf[:36])
		rec := batch.Record{}
		for range 16 {
			rec.Value = value[:sizes.Next()]
			n.write(rec.Value, stamp{seq: seq})
			if builder.Append(&rec) != nil {
				t.Fatal("full")
			}
			s, ok := readStamp(rec.Value)
			if !ok || !tr.Take(s.seq, int64(s.seq)) {
				t.Fatal("not taken")
			}
			seq++
		}
		builder.Finish(batch.CodecNone)
		lat.Record(int64(seq), 16)
	}); a != 0 {
		t.Fatalf("%v allocations", a)
	}
}

func TestNamesAreReadAsTheyAreWritten(t *testing.T) {
	for _, i := range []Idle{Poll, Block, Adaptive} {
		if got, err := ParseIdle(i.String()); err != nil || got != i {
			t.Errorf("%s: %v, %v", i, got, err)
		}
	}
	for _, s := range []Spread{RoundRobin, One, ByKey} {
		if got, err := ParseSpread(s.String()); err != nil || got != s {
			t.Errorf("%s: %v, %v", s, got, err)
		}
	}
	for _, r := range []Reading{Live, After} {
		if got, err := ParseReading(r.String()); err != nil || got != r {
			t.Errorf("%s: %v, %v", r, got, err)
		}
	}
	for _, o := range []DiskOp{Write, DSYNC, Read} {
		if got, err := ParseDiskOp(o.String()); err != nil || got != o {
			t.Errorf("%s: %v, %v", o, got, err)
		}
	}
	_, err := ParseIdle("never")
	if !errors.Is(err, ErrConfig) {
		t.Errorf("error %v", err)
	}
}

// Two processes that begin in the same second share neither clock nor count.
func TestRunsOfOneMomentHaveIDsOfTheirOwn(t *testing.T) {
	upper := map[uint32]bool{}
	for range 100 {
		upper[newID()>>12] = true
	}
	if len(upper) < 50 {
		t.Fatalf("100 ids differ in their lower bits only, but for %d", len(upper))
	}
}

func TestPlainMessagesCompressByTheirShare(t *testing.T) {
	b := make([]byte, 100_000)
	newNoise(1, 0.75).write(b, stamp{})
	if _, ok := readStamp(b); !ok {
		t.Error("it is no message")
	}
	if n := len(batch.Compress(nil, batch.CodecZstd, b)); n < 24_000 || n > 27_000 {
		t.Errorf("a message of %d bytes, three quarters of it plain, compresses to %d", len(b), n)
	}
}

func TestNoLoadAlwaysComesFirst(t *testing.T) {
	var order []string
	failing := errors.New("no more")
	run := func(_ context.Context, load Load) (*Result, error) {
		order = append(order, fmt.Sprint(load.Name, load.Seed))
		if len(order) == 9 {
			return nil, failing
		}
		return &Result{Series: figure.NewSeries(time.Second), ack: NewLatency(), service: NewLatency(), lag: NewLatency(), late: NewLatency(), endToEnd: NewLatency(), endToEndService: NewLatency()}, nil
	}
	_, err := Interleave(t.Context(), run, []Load{{Name: "a"}, {Name: "b"}, {Name: "c"}}, 3)
	if want := []string{"a1", "b1", "c1", "c2", "b2", "a2", "a3", "b3", "c3"}; !errors.Is(err, failing) || !slices.Equal(order, want) {
		t.Errorf("%v, order %q, want %q", err, order, want)
	}
}
