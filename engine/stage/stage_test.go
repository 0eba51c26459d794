package stage

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestBucketsHoldValuesWithinAThirtySecond(t *testing.T) {
	if Upper(Buckets-1) != 1<<maxBits-1 || bucket(1<<maxBits-1) != Buckets-1 {
		t.Fatalf("the last bucket ends at %d, %d is in bucket %d of %d", Upper(Buckets-1), int64(1<<maxBits-1), bucket(1<<maxBits-1), Buckets)
	}
	for i := 1; i < Buckets; i++ {
		if Upper(i) <= Upper(i-1) || bucket(uint64(Upper(i))) != i || bucket(uint64(Upper(i-1))+1) != i {
			t.Fatalf("bucket %d, from %d to %d", i, Upper(i-1)+1, Upper(i))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Uint64Range(0, 1<<maxBits-1).Draw(t, "v")
		if up := Upper(bucket(v)); up < int64(v) || up-int64(v) > int64(v)/sub {
			t.Errorf("%d is counted as %d", v, up)
		}
	})
	for _, v := range []int64{1 << maxBits, math.MaxInt64} {
		if bucket(uint64(v)) != Buckets-1 {
			t.Errorf("%d is in bucket %d", v, bucket(uint64(v)))
		}
	}
}

func TestQuantilesAreThoseOfTheSamples(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		samples := rapid.SliceOfN(rapid.Int64Range(0, 10_000_000), 1, 500).Draw(t, "samples")
		var h Histogram
		sum := uint64(0)
		for _, v := range samples {
			h.add(v)
			sum += uint64(v)
		}
		slices.Sort(samples)
		for _, q := range []float64{0.5, 0.99, 1} {
			exact := samples[max(int(q*float64(len(samples))+0.5), 1)-1]
			if got := h.Quantile(q); got < exact || got-exact > exact/sub {
				t.Errorf("quantile %v is %d, exactly %d", q, got, exact)
			}
		}
		if h.Total != uint64(len(samples)) || h.Sum != sum || h.Below(math.MaxInt64) != h.Total || h.Below(-1) != 0 {
			t.Errorf("total %d, sum %d", h.Total, h.Sum)
		}
	})
	if (&Histogram{}).Quantile(0.5) != 0 {
		t.Error("nothing has a quantile")
	}
}

func TestDifferencesAreTheNewSamples(t *testing.T) {
	var h Histogram
	h.add(5)
	earlier := h
	h.add(1000)
	h.add(-7) // the clock of another shard
	h.Sub(&earlier)
	if h.Total != 2 || h.Quantile(1) < 1000 || h.Counts[0] != 1 || h.Counts[5] != 0 || h.Sum != 1000 {
		t.Errorf("%d samples, sum %d", h.Total, h.Sum)
	}
	var anew Histogram // of a shard that has begun anew
	anew.add(7)
	anew.Sub(&earlier)
	if anew.Total != 1 || anew.Counts[5] != 0 {
		t.Errorf("%d samples", anew.Total)
	}
}

func TestABatchIsTimedByItsRound(t *testing.T) {
	var c Clock
	c.Submitted(10, 100)
	c.Submitted(12, 200) // rounds 11 and 12
	c.Durable(10, 90, 150)
	c.Durable(11, 100, 250)
	c.Durable(12, 170, 250)
	c.Durable(10, 90, 150) // an earlier one again: flushed behind those that are written
	c.Durable(13, 0, 1000) // not submitted
	var s Snapshot
	c.Copy(&s)
	if r, d := s[Round], s[Device]; r.Total != 4 || r.Sum != 10+100+30+10 || d.Total != 4 || d.Sum != 50+50+50+50 {
		t.Errorf("round %d of %d, device %d of %d", r.Sum, r.Total, d.Sum, d.Total)
	}
}

func TestForgottenRoundsGiveNoSamples(t *testing.T) {
	var c Clock
	for i := range uint64(3 * keptRounds) {
		c.Submitted(i+1, int64(i))
	}
	c.Durable(5, 0, 1)
	c.Durable(2*keptRounds+1, 0, 1) // the oldest that is left: it may stand for more
	c.Durable(2*keptRounds+2, 0, 2*keptRounds+5)
	var s Snapshot
	c.Copy(&s)
	if d := s[Device]; d.Total != 1 || d.Sum != 4 {
		t.Errorf("%d samples of %d ns", d.Total, d.Sum)
	}
}

func TestSamplesThatAreTooLongAreTold(t *testing.T) {
	var c Clock
	c.Add(Device, math.MaxInt64) // there is no limit
	if n, _, _ := c.Slow().Newest(); n != 0 {
		t.Errorf("%d samples are too long without a limit", n)
	}
	c.SetLimits(Limits{Round: 50, Device: 100})
	c.Submitted(1, 100)
	c.Durable(1, 51, 199)
	c.Add(Append, 1000)
	c.Add(Device, -5)
	if n, _, _ := c.Slow().Newest(); n != 0 {
		t.Errorf("%d samples are too long, and none was", n)
	}
	c.Submitted(2, 100)
	c.Durable(2, 50, 150)
	if n, s, took := c.Slow().Newest(); n != 1 || s != Round || took != 50 {
		t.Errorf("%d samples, the newest in stage %d with %d ns", n, s, took)
	}
	c.Durable(2, 90, 270)
	c.Add(ColdRead, math.MaxInt64)
	if n, s, took := c.Slow().Newest(); n != 2 || s != Device || took != 170 {
		t.Errorf("%d samples, the newest in stage %d with %d ns", n, s, took)
	}
	c.Add(Device, math.MaxInt64) // longer than is told
	if n, s, took := c.Slow().Newest(); n != 3 || s != Device || took != 1<<stageShift-1 {
		t.Errorf("%d samples, the newest in stage %d with %d ns", n, s, took)
	}
}

func TestSamplesTakeNoMemory(t *testing.T) {
	c, lsn := new(Clock), uint64(0)
	if n := testing.AllocsPerRun(1000, func() {
		lsn++
		c.Submitted(lsn, int64(lsn))
		c.Durable(lsn, int64(lsn)-7, int64(lsn)+9000)
		c.Add(AckSend, int64(lsn))
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestTimesOfTheKernelThatCannotBeAreOnlyCounted(t *testing.T) {
	var c Clock
	const now = int64(1) << 50
	for _, stamp := range []int64{0, now - 7, now, 0, now - mostSocket + 1, now - mostSocket, now + 1, -1, math.MaxInt64} {
		c.Received(stamp, now)
	}
	var s Snapshot
	c.Copy(&s)
	if h := s[Socket]; h.Total != 3 || h.Sum != 7+mostSocket-1 || c.Unsound() != 4 {
		t.Errorf("%d samples of %d ns, %d are unsound", h.Total, h.Sum, c.Unsound())
	}
}

// ticks is a clock that a reading takes on by one.
type ticks int64

func (c *ticks) Now() int64 { *c++; return int64(*c) }

func TestOneReadingServesWhatFollowsClosely(t *testing.T) {
	clock := ticks(100)
	r := NewReading(&clock)
	for i, x := range []struct {
		turn, began int64
		bytes       int
		want        int64
	}{
		{100, 50, 10, 101},        // the first of a turn
		{100, 50, 10, 101},        // close behind it
		{100, 50, readBytes, 102}, // behind many bytes
		{100, 102, 10, 102},       // began as the clock was read
		{100, 103, 10, 103},       // began later
		{104, 50, 10, 104},        // another turn
		{104, 50, readBytes/2 - 1, 104},
		{104, 50, readBytes/2 + 1, 105},
	} {
		if got := r.Now(x.turn, x.began, x.bytes); got != x.want {
			t.Errorf("reading %d is %d, want %d", i, got, x.want)
		}
	}
	for i := range int64(20) { // the readings before were the first of their eights
		if got, want := r.Now(104, 50, 1), 105+(i+1)/readSamples; got != want {
			t.Errorf("reading %d of many is %d, want %d", i, got, want)
		}
	}
}

func TestTheTableIsInOrder(t *testing.T) {
	for i, info := range Table {
		if int(info.Stage) != i || info.Name == "" || info.Help == "" {
			t.Errorf("row %d: %+v", i, info)
		}
	}
}

func BenchmarkAdd(b *testing.B) {
	c := new(Clock)
	c.SetLimits(Limits{Device: 50_000_000})
	for i := range b.N {
		c.Add(Device, int64(i)&0xfffff)
	}
}

func BenchmarkParse(b *testing.B) {
	c, r := new(Clock), NewReading(wall{time.Now()})
	for range b.N {
		c.Add(Parse, r.Now(1, 1, 200))
	}
}

type wall struct{ start time.Time }

func (w wall) Now() int64 { return int64(time.Since(w.start)) }

func BenchmarkDurable(b *testing.B) {
	c := new(Clock)
	for i := range b.N {
		if i&63 == 0 {
			c.Submitted(uint64(i), int64(i))
		}
		c.Durable(uint64(i)&^63, int64(i), int64(i)+100_000)
	}
}
