package compaction

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestTheNewestOffsetOfEachKeyIsKnownAsLongAsThereIsRoom(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, bytes := range []int64{MinKeyBytes, 64 << 10} {
		k, model, refused := NewKeys(bytes), map[string]int64{}, 0
		for offset := range int64(5000) {
			key := fmt.Sprint("key-", rng.IntN(1000))
			_, there := model[key]
			switch ok := k.Put([]byte(key), offset); {
			case ok:
				model[key] = offset
			case there:
				t.Fatalf("no room for %s, which is there", key)
			default:
				refused++
			}
		}
		if k.Len() != len(model) || (refused > 0) != (bytes == MinKeyBytes) {
			t.Fatalf("%d bytes: %d keys, expected %d; %d refused", bytes, k.Len(), len(model), refused)
		}
		for n := range 1000 {
			key := fmt.Sprint("key-", n)
			want, there := model[key]
			if at, ok := k.Newest([]byte(key)); ok != there || ok && at != want {
				t.Fatalf("%s at %d, %v; expected %d, %v", key, at, ok, want, there)
			}
		}
	}
}

// Only what both generations of the checkpoint have behind them is out of reach of a start.
func TestWhatOneGenerationGoesOnInIsNotSafe(t *testing.T) {
	var r Recorded
	steps := []struct {
		note   bool
		seq    uint64
		base   int64
		newest uint64
		safe   int64
	}{
		{false, 0, 0, 9, 0},    // recorded in another life
		{true, 10, 100, 9, 0},  // being made
		{false, 0, 0, 10, 0},   // the other generation is older than this life
		{true, 11, 200, 10, 0}, // being made
		{false, 0, 0, 11, 100},
		{true, 12, 300, 11, 100},
		{true, 12, 350, 11, 100}, // made again, because it failed
		{false, 0, 0, 12, 200},
		{false, 0, 0, 13, 0}, // one that did not have the partition
	}
	for i, s := range steps {
		if s.note {
			r.Note(s.seq, s.base)
		}
		if got := r.Safe(s.newest); got != s.safe {
			t.Errorf("step %d: safe below %d, expected %d", i, got, s.safe)
		}
	}
}
