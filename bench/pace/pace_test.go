package pace

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

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
	if g, r := s.Groups(), s.PerSecond(); g != 3 || r != 6 {
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

func TestPoissonArrivalsAreTheSameEveryTimeAndHaveTheirRate(t *testing.T) {
	s := Schedule{Rate: 100_000, Batch: 2, Poisson: true}
	const groups, conns = 50_000, 4
	for conn := range conns {
		a, again := New(s, conn, conns, 7), New(s, conn, conns, 7)
		last, longer := int64(0), 0
		for range groups {
			if a.Due() != again.Due() {
				t.Fatalf("connection %d: %d and %d with the same seed", conn, a.Due(), again.Due())
			}
			if a.Due() < last {
				t.Fatalf("connection %d: %d comes before %d", conn, a.Due(), last)
			}
			if a.Due()-last > 80_000 {
				longer++
			}
			last = a.Due()
			a.Advance()
			again.Advance()
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

func TestADayHasItsMeanItsPeaksAndItsNight(t *testing.T) {
	// Ten billion messages a day, in a day of half a minute.
	s := Schedule{Rate: 115_741, Batch: 1, Day: 28_800 * time.Millisecond}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	all := s.dayGroups()
	if want := int64(115_741 * 288 / 10); all != want {
		t.Fatalf("%d messages a day, want %d", all, want)
	}
	counts, last := make([]int64, perDay), int64(0)
	for i := range all {
		at := s.At(i)
		if at < last || at >= int64(s.Day) {
			t.Fatalf("message %d is due at %d, the one before at %d", i, at, last)
		}
		last = at
		counts[at*perDay/int64(s.Day)]++
	}
	rate := func(piece int) float64 { return float64(counts[piece]) / (s.Day.Seconds() / perDay) }
	peak := slices.Max(counts)
	if got := float64(peak) / (s.Day.Seconds() / perDay) / float64(s.Rate); math.Abs(got-PeakOfDay()) > 0.01 || counts[20*inHour] != peak {
		t.Errorf("the peak is %.2f times the mean, want %.2f at eight in the evening", got, PeakOfDay())
	}
	if rate(20*inHour) < 2.5e6 || rate(12*inHour) < 2e6 || rate(3*inHour) > 40_000 {
		t.Errorf("evening %.0f, noon %.0f, three at night %.0f messages a second", rate(20*inHour), rate(12*inHour), rate(3*inHour))
	}
	// The next day is the same, and no message falls between two days.
	for _, i := range []int64{0, 1, all / 3, all - 1} {
		if a, b := s.At(i), s.At(i+2*all); b != a+2*int64(s.Day) {
			t.Errorf("message %d is due at %d, two days later at %d", i, a, b)
		}
	}
}

func TestTimesOfADayNeverGoBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Schedule{
			Rate: rapid.Int64Range(1, 20_000_000).Draw(t, "rate"), Batch: rapid.Int64Range(1, 1000).Draw(t, "batch"),
			Day: time.Duration(rapid.Int64Range(int64(shortestDay), int64(longestDay)).Draw(t, "day")),
		}
		if err := s.Validate(); err != nil {
			t.Fatal(err)
		}
		i := rapid.Int64Range(0, 1<<20).Draw(t, "group")
		at, next := s.At(i), s.At(i+1)
		if at < 0 || next < at {
			t.Fatalf("group %d at %d, the next at %d", i, at, next)
		}
		day, all := int64(s.Day), s.dayGroups()
		if from := i / all * day; at < from || at >= from+day {
			t.Fatalf("group %d at %d is not in its day", i, at)
		}
	})
}

func TestADayGoesWithNothingElse(t *testing.T) {
	good := Schedule{Rate: 1, Batch: 1, Day: time.Second}
	for name, bad := range map[string]func(*Schedule){
		"bursts": func(s *Schedule) { s.Burst = Burst{1, 1, 1} }, "Poisson": func(s *Schedule) { s.Poisson = true },
		"short": func(s *Schedule) { s.Day = shortestDay - 1 }, "long": func(s *Schedule) { s.Day = longestDay + 1 },
		"no rate": func(s *Schedule) { s.Rate = 0 },
	} {
		s := good
		if bad(&s); !errors.Is(s.Validate(), ErrSchedule) {
			t.Errorf("%s: error %v", name, s.Validate())
		}
	}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
}
