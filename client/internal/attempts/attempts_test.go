package attempts

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// counts reads offsets 0 to n-1 with this stretch and returns what each record would tell.
func counts(s *Stretch, n int64) []int32 {
	var all []int32
	prior := s.Prior()
	for o := range n {
		var c int32
		c, prior = Of(prior, o)
		all = append(all, c)
	}
	return all
}

// TestHistoryCountsWhatAMapWould compares random seeks, readings and commits with a count for
// each offset.
func TestHistoryCountsWhatAMapWould(t *testing.T) {
	const n = 24
	rapid.Check(t, func(t *rapid.T) {
		var h History
		naive := make([]int32, n)
		at, committed := int64(0), int64(0)
		s := h.Stretch(at, committed)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0, 1:
				to := min(n, at+rapid.Int64Range(0, 5).Draw(t, "records"))
				for o := at; o < to; o++ {
					naive[o]++
				}
				at = to
				s.Reach(at)
			case 2:
				committed = max(committed, rapid.Int64Range(0, at).Draw(t, "committed"))
			default:
				h.End()
				at = rapid.Int64Range(0, n-1).Draw(t, "seek")
				for o := range committed {
					naive[o] = 0
				}
				s = h.Stretch(at, committed)
				want := slices.Clone(naive)
				for i := range want {
					want[i]++
				}
				if got := counts(s, n); !slices.Equal(got, want) {
					t.Fatalf("at %d, %d committed: %v, want %v", at, committed, got, want)
				}
			}
		}
	})
}

func TestARecordSeenWhileSeekingCounts(t *testing.T) {
	var h History
	s := h.Stretch(0, -1)
	h.End()    // the seek, in the midst of a batch
	s.Reach(4) // the end of the loop over it
	if got := counts(h.Stretch(3, -1), 6); !slices.Equal(got, []int32{2, 2, 2, 2, 1, 1}) {
		t.Errorf("%v", got)
	}
}

func TestTheSamePlaceAgainAndAgainNeedsNoMemory(t *testing.T) {
	var h History
	for i := range int32(1000) {
		s := h.Stretch(7, -1)
		if n, _ := Of(s.Prior(), 7); n != i+1 {
			t.Fatalf("attempt %d, want %d", n, i+1)
		}
		s.Reach(8)
		h.End()
	}
	if len(h.steps) > 1 || len(h.ended) > 1 {
		t.Errorf("%d steps, %d stretches", len(h.steps), len(h.ended))
	}
}

func TestTheLowestPlacesAreForgottenFirst(t *testing.T) {
	var h History
	for i := range int64(2 * maxSteps) {
		h.Stretch(10*i, -1).Reach(10*i + 1)
		h.End()
	}
	prior := h.Stretch(0, -1).Prior()
	if len(prior) != maxSteps || prior[0].From != 10*maxSteps {
		t.Errorf("%d steps from %d on", len(prior), prior[0].From)
	}
	for range 2 * maxSteps { // nobody reads between seeks
		h.End()
		h.Stretch(0, -1)
	}
	if len(h.steps) > maxSteps || len(h.ended) > maxSteps {
		t.Errorf("%d steps, %d stretches", len(h.steps), len(h.ended))
	}
}
