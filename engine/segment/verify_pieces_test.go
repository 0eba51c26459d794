package segment

import (
	"bytes"
	"errors"
	"testing"
)

// TestVerifyingInPiecesFindsTheSame flips one random bit of a sealed log a thousand
// times, 200 in short, and holds what is found in small pieces against what is found in one go. The
// damage is found each time, and nothing else is called damaged.
func TestVerifyingInPiecesFindsTheSame(t *testing.T) {
	_, fs := newDisk(t)
	rng := newRand(t, 77)
	l := randomLog(t, testID, rng, 600_000)
	ix := sealed(t, fs, l)
	flips := 1000
	if testing.Short() {
		flips = 200
	}
	for range flips {
		at := rng.IntN(len(l.data))
		data := bytes.Clone(l.data)
		data[at] ^= 1 << rng.IntN(8)
		put(t, fs, testID.LogName(), data)
		whole := VerifyJob{Log: l.job(), Index: ix}
		if err := whole.Run(fs); err != nil || whole.More {
			t.Fatalf("%v, more %v", err, whole.More)
		}
		runs, spent := 0, int64(0)
		pieces := VerifyJob{Log: l.job(), Index: ix, Budget: 1}
		for pieces.More = true; pieces.More; runs++ {
			if err := pieces.Run(fs); err != nil {
				t.Fatal(err)
			}
			spent += pieces.Spent
		}
		if runs < 3 || spent < int64(len(data)) {
			t.Fatalf("%d runs read %d bytes of %d", runs, spent, len(data))
		}
		equal(t, "damage", pieces.Damage, whole.Damage)
		if pieces.Batches != whole.Batches || pieces.Fresh != whole.Fresh {
			t.Fatalf("%d batches and %d ranges, expected %d and %d", pieces.Batches, pieces.Fresh, whole.Batches, whole.Fresh)
		}
		hit := false
		for _, r := range whole.Damage {
			hit = hit || r.FromPos <= int64(at) && int64(at) < r.ToPos
		}
		if !hit || len(whole.Damage) > 1 && whole.Damage[0].Check != CheckRegion {
			t.Fatalf("a bit of byte %d flipped: damage %+v", at, whole.Damage)
		}
	}
}

// TestALogThatChangesBetweenPiecesIsNotJudged cuts a log while it is read.
func TestALogThatChangesBetweenPiecesIsNotJudged(t *testing.T) {
	_, fs := newDisk(t)
	l := randomLog(t, testID, newRand(t, 78), 600_000)
	sealed(t, fs, l)
	v := VerifyJob{Log: l.job(), Budget: 1}
	if err := v.Run(fs); err != nil || !v.More {
		t.Fatalf("%v, more %v", err, v.More)
	}
	put(t, fs, testID.LogName(), l.data[:500_000])
	if err := v.Run(fs); !errors.Is(err, ErrLogSize) || len(v.Damage) > 0 {
		t.Fatalf("%v, damage %+v", err, v.Damage)
	}
}
