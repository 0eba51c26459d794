package pull

import (
	"math/rand/v2"
	"testing"
)

func policy() *Policy {
	return &Policy{Near: Size{1 << 20, 500}, Far: Size{4 << 20, 65536}, Least: 1, Budget: 64 << 20, Feeds: 1}
}

// Near the end a fetch is small; it grows with what there is to get, up to its bound, and
// shrinks with it.
func TestAFetchIsAsLargeAsTheLag(t *testing.T) {
	p, f := policy(), &Feed{}
	for _, step := range []struct {
		lag           int64
		bytes, record int // of the fetch that follows
	}{
		{0, 1 << 20, 500},
		{400, 1 << 20, 500},
		{8000, 1800 * 1000, 9000},
		{1 << 40, 4 << 20, 65536},
		{16000, 18000 * 200, 18000},
		{3, 1 << 20, 500},
	} {
		ask, ok := p.Next(f)
		if !ok {
			t.Fatalf("before lag %d: nothing is asked for", step.lag)
		}
		p.Ask(f, ask)
		p.Answered(f, 199*1000, 1000, step.lag)
		p.Taken(f, 199*1000)
		ask, ok = p.Next(f)
		if step.lag == 8000 {
			step.bytes = 9000 * 200
		}
		if !ok || ask != (Size{step.bytes, step.record}) {
			t.Fatalf("lag %d: asked for %+v, %v", step.lag, ask, ok)
		}
	}
}

// At the end two answers may wait; far behind as many as hold what a fetch asks for.
func TestMoreAnswersWaitWhenThereIsMoreToGet(t *testing.T) {
	for _, c := range []struct {
		lag  int64
		want int
	}{{0, 2}, {1 << 30, 16}} {
		p, f := policy(), &Feed{}
		n := 0
		for ; n < 100; n++ {
			ask, ok := p.Next(f)
			if !ok {
				break
			}
			p.Ask(f, ask)
			p.Answered(f, 256<<10, 1300, c.lag)
		}
		if n != c.want {
			t.Fatalf("lag %d: %d answers wait, expected %d", c.lag, n, c.want)
		}
	}
}

// Whatever comes: what waits and what is asked for stays within the budget, but for two
// small answers of each partition; every partition may always have those; and when
// everything has been taken nothing is in use.
func TestTheBudgetHolds(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 7))
		p := policy()
		p.Budget = 1 + rng.IntN(8<<20)
		feeds := make([]Feed, 1+rng.IntN(40))
		p.Feeds = len(feeds)
		waiting := make([][]int, len(feeds))
		flying := make([]bool, len(feeds))
		for range 2000 {
			i := rng.IntN(len(feeds))
			f := &feeds[i]
			switch {
			case flying[i] && rng.IntN(10) == 0:
				p.Unask(f)
				flying[i] = false
			case flying[i]:
				n := rng.IntN(f.asked + 1)
				p.Answered(f, n, n/100, rng.Int64N(1<<20))
				if flying[i] = false; n > 0 {
					waiting[i] = append(waiting[i], n)
				}
			case len(waiting[i]) > 0 && rng.IntN(3) == 0:
				p.Taken(f, waiting[i][0])
				waiting[i] = waiting[i][1:]
			default:
				ask, ok := p.Next(f)
				if !ok && len(waiting[i]) < minWaiting {
					t.Fatalf("seed %d: a partition with %d answers may not fetch", seed, len(waiting[i]))
				}
				if ok {
					p.Ask(f, ask)
					flying[i] = true
				}
			}
			if most := p.Budget + minWaiting*minAsk*len(feeds); p.used > most {
				t.Fatalf("seed %d: %d bytes are in use, at most %d should be", seed, p.used, most)
			}
		}
		for i := range feeds {
			if p.Unask(&feeds[i]); !flying[i] && feeds[i].asked != 0 {
				t.Fatalf("seed %d: asked", seed)
			}
			for _, n := range waiting[i] {
				p.Taken(&feeds[i], n)
			}
		}
		if p.used != 0 {
			t.Fatalf("seed %d: %d bytes in use at the end", seed, p.used)
		}
	}
}

func TestCommitsAreAsRareAsFetchesAreLarge(t *testing.T) {
	p, f := policy(), &Feed{}
	for _, c := range []struct {
		lag         int64
		least, want int
	}{{0, 1000, 1000}, {500, 10, 10}, {8000, 1000, 9000}, {1 << 40, 1000, 65536}, {1 << 40, 100_000, 100_000}, {1 << 40, 0, 0}} {
		p.Answered(f, 0, 0, c.lag)
		if got := p.Commit(f, c.least); got != c.want {
			t.Fatalf("lag %d, at least %d: after %d records, expected %d", c.lag, c.least, got, c.want)
		}
	}
}
