package journal

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// rotten is a journal with random damage, and what was in it.
type rotten struct {
	*bench
	before []found
	proven uint64 // by the headers that the damage has spared
}

func newRotten(t *testing.T, rng *rand.Rand) *rotten {
	// Often so small that rounds meet the limit of an anchor and the end of the ring.
	size := (40 + rng.IntN(60)) * BlockSize
	b := newBench(t, size, Options{MaxInFlight: 1 + rng.IntN(2), RoundBytes: (2 + rng.IntN(size/8/BlockSize-1)) * BlockSize, MaxBody: 4061})
	for range 60 + rng.IntN(60) {
		for range 1 + rng.IntN(4) {
			b.add(rng.IntN(4000), Need(1+rng.IntN(2)))
		}
		b.run()
		if b.j.Free() < b.j.Capacity()/3 {
			b.j.Release(b.j.WrittenLSN() - uint64(rng.IntN(8)))
			b.run()
		}
		if rng.IntN(40) == 0 {
			b.reopen()
		}
	}
	if rng.IntN(2) == 0 {
		b.silence(2)
	}
	r := &rotten{bench: b}
	res, list := b.scan()
	r.before = list
	for range 1 + rng.IntN(4) {
		at := RingStart + rng.Int64N(int64(size)-RingStart)
		switch rng.IntN(3) {
		case 0:
			b.rot(at)
		case 1:
			clear(b.region.data[at&^511:][:512])
		case 2:
			clear(b.region.data[at&^(BlockSize-1):][:BlockSize])
		}
	}
	r.proven = res.Anchor.FlushedLSN
	for _, l := range res.rounds {
		if h, err := DecodeHeader(b.region.data[l.pos:]); err == nil {
			if _, ok := h.VerifyHeader(b.region.data[l.pos:]); ok {
				r.proven = max(r.proven, h.FlushedLSN)
			}
		}
	}
	return r
}

// check holds a replay against what was there before the damage.
func (r *rotten) check(res *Result, after []found) error {
	i := 0
	for _, f := range r.before {
		if i < len(after) && after[i] == f {
			i++
			continue
		}
		if f.lsn <= r.proven && !reported(res, f) {
			return fmt.Errorf("batch %d of round %d is missing and not reported; proven %d", f.e.BaseOffset, f.lsn, r.proven)
		}
		if f.lsn > res.ProvenLSN && f.lsn <= res.LastLSN {
			return fmt.Errorf("batch %d of round %d is missing before round %d", f.e.BaseOffset, f.lsn, res.LastLSN)
		}
	}
	if i != len(after) {
		return fmt.Errorf("entry %d, batch %d of round %d, was not there before", i, after[i].e.BaseOffset, after[i].lsn)
	}
	return nil
}

func reported(res *Result, f found) bool {
	for _, d := range res.Damages {
		if d.Kind == DamageRound && d.FirstLSN <= f.lsn && f.lsn <= d.LastLSN {
			return true
		}
		if d.Kind == DamageBody && d.FirstLSN == f.lsn && d.Entry == f.e {
			return true
		}
	}
	return false
}

func TestNothingDurableVanishesSilently(t *testing.T) {
	seeds := uint64(120)
	if testing.Short() {
		seeds = 60
	}
	damaged := 0
	for seed := range seeds {
		r := newRotten(t, rand.New(rand.NewPCG(seed, 7)))
		res, after := r.scan()
		if err := r.check(res, after); err != nil {
			t.Fatalf("seed %d: %v\ndamage %v", seed, err, res.Damages)
		}
		damaged += len(res.Damages)
		// Another life and another replay tell the same.
		broken := bytes.Clone(r.region.data)
		r.reopen()
		r.base += 1000
		if _, err := r.try(10, NeedFlushed); err != nil {
			continue // no room
		}
		r.run()
		again, list := r.scan()
		if len(again.Damages) != len(res.Damages) || len(list) != len(after)+1 {
			t.Fatalf("seed %d: then %d entries and damage %v, now %d and %v", seed, len(after), res.Damages, len(list), again.Damages)
		}
		for _, d := range res.Damages {
			if d.End > d.Pos && !bytes.Equal(broken[d.Pos:d.End], r.region.data[d.Pos:d.End]) {
				t.Fatalf("seed %d: damage at %d was written over", seed, d.Pos)
			}
		}
	}
	if damaged < 30 {
		t.Fatalf("%d damages: the test does not test", damaged)
	}
}
