package flushwindow

import (
	"testing"

	"pgregory.net/rapid"
)

// TestTheWindowNeverSaysLessThanIsNotFlushed compares it with a list of all that was
// added.
func TestTheWindowNeverSaysLessThanIsNotFlushed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w Window
		type added struct {
			round uint64
			n     int64
		}
		var all []added
		filling, submitted, flushed := uint64(1), uint64(0), uint64(0)
		wanted := uint64(0) // newest round with bytes when a flush was made due
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				n := rapid.Int64Range(1, 100).Draw(t, "bytes")
				all = append(all, added{filling, n})
				before := w.Due()
				w.Add(filling, n, 300)
				if w.Due() && !before {
					wanted = filling
				}
			case 1:
				if len(all) > 0 && all[len(all)-1].round > flushed {
					w.Want()
					wanted = all[len(all)-1].round
				}
			case 2:
				submitted, filling = filling, filling+1
			case 3:
				w.Submitted(submitted)
				if w.Due() && submitted >= wanted {
					t.Fatalf("a flush up to %d was submitted and one up to %d is still due", submitted, wanted)
				}
				if !w.Due() && wanted > submitted && wanted > flushed {
					t.Fatalf("a flush up to %d counts as one up to %d", submitted, wanted)
				}
			default:
				flushed = rapid.Uint64Range(flushed, submitted).Draw(t, "flushed")
				w.Flushed(flushed)
			}
			rest := int64(0)
			for _, a := range all {
				if a.round > flushed {
					rest += a.n
				}
			}
			if w.Bytes() < rest || rest == 0 && len(all) > 0 && flushed >= all[len(all)-1].round && w.Bytes() != 0 {
				t.Fatalf("the window says %d bytes, %d are not flushed", w.Bytes(), rest)
			}
		}
	})
}
