package retention

import "testing"

func TestWhatTheLimitsTake(t *testing.T) {
	seg := func(newest ...int64) (segs []Segment) {
		for i, n := range newest {
			segs = append(segs, Segment{End: int64(i+1) * 10, Bytes: 100, Newest: n})
		}
		return segs
	}
	for _, c := range []struct {
		name          string
		limits        Limits
		segs          []Segment
		total, newest int64
		start         int64
	}{
		{"no limit", Limits{Bytes: -1}, seg(1, 2, 3), 350, 4, 0},
		{"nothing there", Limits{Age: 1, Bytes: 0}, nil, 50, 4, 0},
		{"all are young", Limits{Age: 100, Bytes: -1}, seg(901, 902, 903), 350, 950, 0},
		{"some are old", Limits{Age: 100, Bytes: -1}, seg(800, 900, 901), 350, 950, 20},
		{"all are old", Limits{Age: 100, Bytes: -1}, seg(1, 2, 3), 350, 950, 30},
		{"of the future", Limits{Age: 100, Bytes: -1}, seg(5000, 6000), 250, 7000, 0},
		{"a time that is not known is that of the one behind", Limits{Age: 100, Bytes: -1}, seg(0, 850, 0, 0, 0), 550, 950, 20},
		{"never younger than the one behind", Limits{Age: 100, Bytes: -1}, seg(990, 850), 250, 950, 20},
		{"none is known and the newest is old", Limits{Age: 100, Bytes: -1}, seg(0, 0), 250, 900, 20},
		{"none is known at all", Limits{Age: 100, Bytes: -1}, seg(0, 0), 250, 0, 0},
		{"small enough", Limits{Bytes: 350}, seg(1, 2, 3), 350, 4, 0},
		{"less would be too little", Limits{Bytes: 251}, seg(1, 2, 3), 350, 4, 0},
		{"one goes", Limits{Bytes: 250}, seg(1, 2, 3), 350, 4, 10},
		{"all go", Limits{Bytes: 0}, seg(1, 2, 3), 350, 4, 30},
		{"either limit takes", Limits{Age: 100, Bytes: 150}, seg(990, 991, 992), 350, 993, 20},
	} {
		if got := c.limits.Cut(c.segs, c.total, c.newest, 1000); got != c.start {
			t.Errorf("%s: log start %d, expected %d", c.name, got, c.start)
		}
	}
}
