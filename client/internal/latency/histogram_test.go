package latency

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestEveryTimeIsInABucketThatIsBarelyWider(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Uint64Range(0, 1<<maxBits-1).Draw(t, "nanoseconds")
		i := Bucket(v)
		if up := uint64(Upper(i)); up < v || up-v > v/sub {
			t.Fatalf("%d ns is in bucket %d, up to %d", v, i, up)
		}
		if i > 0 && uint64(Upper(i-1)) >= v {
			t.Fatalf("%d ns belongs to a bucket before %d", v, i)
		}
	})
}

func TestTimesThatCannotBeAreAtTheEnds(t *testing.T) {
	var h Histogram
	h.Add(-time.Second)
	h.Add(math.MaxInt64)
	counts, n, _ := h.Copy()
	if len(counts) != Buckets || counts[0] != 1 || counts[Buckets-1] != 1 || n != 2 {
		t.Errorf("%d buckets, %d times", len(counts), n)
	}
}

func TestACopyEndsBehindTheLongestTime(t *testing.T) {
	var h Histogram
	if counts, n, sum := h.Copy(); len(counts) != 0 || n != 0 || sum != 0 {
		t.Errorf("empty: %v, %d, %d", counts, n, sum)
	}
	h.Add(3)
	h.Add(3)
	h.Add(5)
	counts, n, sum := h.Copy()
	if len(counts) != 6 || counts[3] != 2 || counts[5] != 1 || n != 3 || sum != 11 {
		t.Errorf("%v, %d, %d", counts, n, sum)
	}
}
