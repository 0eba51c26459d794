package draw

import (
	"errors"
	"math"
	"slices"
	"testing"
)

func TestTheMixHasItsMeanAndBounds(t *testing.T) {
	for _, seed := range []uint64{1, 2, 99} {
		s := MixedSizes(seed)
		sum, least, most := 0, math.MaxInt, 0
		const draws = 3 * sizeSteps
		for range draws {
			n := s.Next()
			sum, least, most = sum+n, min(least, n), max(most, n)
		}
		mean := float64(sum) / draws
		if math.Abs(mean-MixMean) > MixMean/100.0 || least != MixMin || most > MixMax || most < MixMax-8 || s.Max() != MixMax {
			t.Errorf("seed %d: mean %.2f, from %d to %d", seed, mean, least, most)
		}
	}
	a, b := MixedSizes(1), MixedSizes(2)
	if slices.Equal(a.table, b.table) {
		t.Error("two seeds give the same order")
	}
}

func TestSizesAreReadFromText(t *testing.T) {
	for text, want := range map[string]struct{ mean, low, high float64 }{
		"":                             {MixMean, MixMin, MixMax},
		"mix":                          {MixMean, MixMin, MixMax},
		"180":                          {180, 180, 180},
		"100-300":                      {200, 100, 300},
		"lognormal:200:0.5:28-1000000": {200 * math.Exp(0.125), 28, 1000000},
	} {
		s, err := ParseSizes(text, 28, 3)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := s.Mean(); math.Abs(got-want.mean) > want.mean/100 {
			t.Errorf("%q: mean %.1f, want %.1f", text, got, want.mean)
		}
		for range sizeSteps {
			if n := float64(s.Next()); n < want.low || n > want.high {
				t.Fatalf("%q: %v is outside", text, n)
			}
		}
	}
	for _, bad := range []string{"x", "27", "300-100", "10-300", "1-2-3", "lognormal:1:1", "lognormal:0:1:50-60", "lognormal:NaN:1:50-60", "lognormal:1:Inf:50-60", "50-2000000"} {
		if _, err := ParseSizes(bad, 28, 1); !errors.Is(err, ErrSizes) {
			t.Errorf("%q: error %v", bad, err)
		}
	}
}

func TestKeysHaveTheirNumberAndSkew(t *testing.T) {
	count := func(skew float64) map[string]int {
		k, seen := NewKeys(50, skew, 1), map[string]int{}
		for range keyDraws {
			seen[string(k.Text(k.Next()))]++
		}
		return seen
	}
	even, uneven := count(0), count(1)
	if len(even) != 50 || len(uneven) > 50 {
		t.Errorf("%d and %d keys, want 50", len(even), len(uneven))
	}
	if first := "00000000"; even[first] > 2*keyDraws/50 || uneven[first] < keyDraws/4 {
		t.Errorf("the first key came %d times even, %d times uneven, of %d", even[first], uneven[first], keyDraws)
	}
	if NewKeys(0, 0, 1) != nil {
		t.Error("keys without keys")
	}
}
