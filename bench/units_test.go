package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/bench/draw"
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
func finds(want Faults) func(*Result) bool {
	return func(r *Result) bool { return r.Faults == want }
}

func TestMessagesCarryTheirStampAndAnyChangeIsSeen(t *testing.T) {
	n := newNoise(1, 0)
	rapid.Check(t, func(t *rapid.T) {
		b := make([]byte, rapid.IntRange(MinSize, 600).Draw(t, "size"))
		want := stamp{
			run: rapid.Uint32().Draw(t, "run"), lane: rapid.Uint32().Draw(t, "lane"),
			seq: rapid.Uint64().Draw(t, "seq"), time: rapid.Int64().Draw(t, "time"),
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

func TestAnEvenRateIsExactForEver(t *testing.T) {
	s := Schedule{Rate: 3, Batch: 1}
	for i, want := range []int64{0, 333333333, 666666666, 1000000000} {
		if got := s.At(int64(i)); got != want {
			t.Errorf("message %d is due at %d, want %d", i, got, want)
		}
	}
	year := int64(365 * 24 * 3600)
	s = Schedule{Rate: 10_000_000, Batch: 1}
	if got := s.At(year * s.Rate); got != year*int64(time.Second) {
		t.Errorf("after a year: %d", got)
	}
	s = Schedule{Rate: 64_000, Batch: 64}
	if got := s.At(1000); got != int64(time.Second) {
		t.Errorf("1000 groups of 64 at 64,000/s are due at %d", got)
	}
}

func TestBurstsComeEvenlyAndThenNothing(t *testing.T) {
	s := Schedule{Batch: 1, Burst: Burst{Messages: 5, Length: 50 * time.Millisecond, Period: time.Second}}
	var got []time.Duration
	for i := range int64(11) {
		got = append(got, time.Duration(s.At(i)).Truncate(time.Millisecond))
	}
	ms := time.Millisecond
	want := []time.Duration{0, 10 * ms, 20 * ms, 30 * ms, 40 * ms, 1000 * ms, 1010 * ms, 1020 * ms, 1030 * ms, 1040 * ms, 2000 * ms}
	if !slices.Equal(got, want) {
		t.Errorf("due at %v, want %v", got, want)
	}
	if r := s.PerSecond(); r != 5 {
		t.Errorf("%v messages a second", r)
	}
	// A burst that is no multiple of the batch is rounded up to whole groups.
	s.Batch = 2
	if g, r := s.groups(), s.PerSecond(); g != 3 || r != 6 {
		t.Errorf("%d groups, %v messages a second", g, r)
	}
}

func TestTimesNeverGoBackAndStayWithinTheirBurst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Schedule{Rate: rapid.Int64Range(1, 20_000_000).Draw(t, "rate"), Batch: rapid.Int64Range(1, 1000).Draw(t, "batch")}
		if rapid.Bool().Draw(t, "bursts") {
			length := rapid.Int64Range(1, int64(time.Minute)).Draw(t, "length")
			s.Burst = Burst{Messages: rapid.Int64Range(1, 1e6).Draw(t, "messages"), Length: time.Duration(length), Period: time.Duration(length + rapid.Int64Range(0, int64(time.Minute)).Draw(t, "pause"))}
		}
		if err := s.Validate(); err != nil {
			t.Fatal(err)
		}
		i := rapid.Int64Range(0, 1<<20).Draw(t, "group")
		at := s.At(i)
		if next := s.At(i + 1); next < at {
			t.Fatalf("group %d at %d, the next at %d", i, at, next)
		}
		if s.Burst.Messages > 0 && at%int64(s.Burst.Period) >= int64(s.Burst.Length) {
			t.Fatalf("group %d at %d is after its burst", i, at)
		}
	})
}

func TestMergedHistogramsAreAsIfRecordedInOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := []*Latency{NewLatency(), NewLatency(), NewLatency()}
		whole, merged := NewLatency(), NewLatency()
		for range rapid.IntRange(1, 200).Draw(t, "records") {
			ns, n := rapid.Int64Range(0, 2*maxLatency).Draw(t, "ns"), rapid.Int64Range(1, 100).Draw(t, "n")
			parts[rapid.IntRange(0, 2).Draw(t, "part")].Record(ns, n)
			whole.Record(ns, n)
		}
		for _, p := range parts {
			merged.Merge(p)
		}
		if a, b := merged.Summary(), whole.Summary(); a != b || merged.above != whole.above {
			t.Fatalf("merged %+v, whole %+v", a, b)
		}
	})
}

func TestARunWhoseClientLagsIsInvalid(t *testing.T) {
	for _, c := range []struct {
		faults   Faults
		ack, lag int64
		want     Verdict
	}{
		{Faults{}, 1000, 100, Valid},
		{Faults{}, 1000, 101, Invalid},
		{Faults{}, 1000, 0, Valid},
		{Faults{Lost: 1}, 1000, 0, Failed},
		{Faults{Refused: 1}, 1000, 900, Failed},
		{Faults{Moved: 1}, 1000, 0, Failed},
	} {
		if got := verdict(c.faults, Summary{P99: c.ack}, Summary{P99: c.lag}); got != c.want {
			t.Errorf("%+v, latency %d, lag %d: %s, want %s", c.faults, c.ack, c.lag, got, c.want)
		}
	}
}

// TestTrackerCountsWhatWasDoneToALane does known things to a lane and expects them
// counted.
func TestTrackerCountsWhatWasDoneToALane(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 200).Draw(t, "messages")
		sent := sentLane{sent: uint64(n)}
		type event struct{ seq, offset int }
		var events []event
		var want Faults
		lost := map[int]bool{}
		for i := range n {
			sent.acked++
			sent.offsets += fold(uint64(i), int64(i))
			switch rapid.IntRange(0, 9).Draw(t, "fate") {
			case 0:
				lost[i] = true
				want.Lost++
			case 1:
				events = append(events, event{i, i}, event{i, i})
				want.Duplicated++
			default:
				events = append(events, event{i, i})
			}
		}
		for i := 0; i+1 < len(events); i++ {
			a, b := events[i], events[i+1]
			if a.seq+1 == b.seq && (i+2 >= len(events) || events[i+2].seq > b.seq) && (i == 0 || events[i-1].seq < a.seq) &&
				rapid.IntRange(0, 9).Draw(t, "swap") == 0 {
				events[i], events[i+1] = b, a
				want.Reordered++
				i++
			}
		}
		var tr tracker
		for _, e := range events {
			tr.take(uint64(e.seq), int64(e.offset))
		}
		if got := tr.compare(&sent); got != want {
			t.Fatalf("found %s; done %s", got, want)
		}
		// What was refused may be missing.
		for i := range n {
			if lost[i] {
				sent.refused = append(sent.refused, span{uint64(i), uint64(i + 1)})
			}
		}
		want.Lost = 0
		if got := tr.compare(&sent); got != want {
			t.Fatalf("with refusals: found %s; done %s", got, want)
		}
	})
}

func TestTrackerForgetsNoLoss(t *testing.T) {
	var tr tracker
	const n = 3 * maxSpans
	for i := range uint64(n) {
		tr.take(2*i+1, int64(i)) // every even one is missing
	}
	if got := tr.compare(&sentLane{sent: 2 * n}); got.Lost != n || len(tr.missing) > maxSpans {
		t.Fatalf("found %s, %d gaps kept", got, len(tr.missing))
	}
}

func TestTrackerSeesMovedAndUnsentMessages(t *testing.T) {
	var tr tracker
	sent := sentLane{sent: 2, acked: 2, offsets: fold(0, 0) + fold(1, 1)}
	tr.take(0, 1) // the two offsets are exchanged
	tr.take(1, 0)
	if got := tr.compare(&sent); got != (Faults{Moved: 1}) {
		t.Errorf("moved: %s", got)
	}
	tr.take(2, 2)
	if got := tr.compare(&sent); got.Corrupted != 1 {
		t.Errorf("unsent: %s", got)
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
	var tr tracker
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
			if !ok || !tr.take(s.seq, int64(s.seq)) {
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

func TestPoissonArrivalsAreTheSameEveryTimeAndHaveTheirRate(t *testing.T) {
	s := Schedule{Rate: 100_000, Batch: 2, Poisson: true}
	const groups, conns = 50_000, 4
	for conn := range conns {
		a, again := newArrivals(s, conn, conns, 7), newArrivals(s, conn, conns, 7)
		last, longer := int64(0), 0
		for range groups {
			if a.due() != again.due() {
				t.Fatalf("connection %d: %d and %d with the same seed", conn, a.due(), again.due())
			}
			if a.due() < last {
				t.Fatalf("connection %d: %d comes before %d", conn, a.due(), last)
			}
			if a.due()-last > 80_000 {
				longer++
			}
			last = a.due()
			a.advance()
			again.advance()
		}
		// 12,500 groups a second for each connection: gaps of 80 µs, one in e longer.
		if mean := float64(last) / groups; math.Abs(mean-80_000) > 1_600 {
			t.Errorf("connection %d: mean gap %.0f ns, want 80,000", conn, mean)
		}
		if share := float64(longer) / groups; math.Abs(share-1/math.E) > 0.02 {
			t.Errorf("connection %d: %.3f of the gaps are longer than the mean, want 1/e", conn, share)
		}
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
		return &Result{Series: newSeries(time.Second), ack: NewLatency(), service: NewLatency(), lag: NewLatency(), late: NewLatency(), endToEnd: NewLatency()}, nil
	}
	_, err := Interleave(t.Context(), run, []Load{{Name: "a"}, {Name: "b"}, {Name: "c"}}, 3)
	if want := []string{"a1", "b1", "c1", "c2", "b2", "a2", "a3", "b3", "c3"}; !errors.Is(err, failing) || !slices.Equal(order, want) {
		t.Errorf("%v, order %q, want %q", err, order, want)
	}
}
