package memory

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/mqd-broker/mqd/batch"
)

// The memory that packers know of is the memory that is there, and what is kept
// stays within the limit.
func TestPackersCountTheirMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Packers{MaxBatch: 1 << 20, Limit: rapid.IntRange(0, 256<<10).Draw(t, "limit")}
		var out []*Packer
		check := func() {
			total, kept := 0, 0
			for _, k := range out {
				total += k.size
			}
			for class, list := range s.free {
				for _, k := range list {
					kept += k.size
					if cap(k.Frame) != k.size || class < packerClasses-1 && k.size < minCharge<<class {
						t.Fatalf("%d bytes in class %d, counted as %d", cap(k.Frame), class, k.size)
					}
				}
			}
			if s.made != total+kept || kept > s.Limit {
				t.Fatalf("counts %d bytes, %d are in use and %d kept of %d", s.made, total, kept, s.Limit)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) { check() },
			"get": func(t *rapid.T) {
				k := s.Get(Load(rapid.IntRange(0, 1).Draw(t, "load")))
				if k.Builder.Count() != 0 || k.Frame != nil {
					t.Fatal("memory that is still in use")
				}
				out = append(out, k)
			},
			"put": func(t *rapid.T) {
				if len(out) == 0 {
					t.Skip("nothing is in use")
				}
				i := rapid.IntRange(0, len(out)-1).Draw(t, "which")
				k := out[i]
				out = slices.Delete(out, i, i+1)
				if n := rapid.IntRange(0, 40<<10).Draw(t, "bytes"); n > 0 {
					if err := k.Builder.Append(&batch.Record{Value: make([]byte, n)}); err != nil {
						t.Fatal(err)
					}
					k.Frame = k.Builder.Finish(batch.CodecNone)
				}
				s.Put(k)
			},
		})
	})
}

func TestAChargeCoversTheFrame(t *testing.T) {
	for _, n := range []int{0, 1, minCharge - Room, minCharge - Room + 1, 64 << 10, 1 << 20} {
		if c := ChargeFor(n); c < int64(n+Room) || c < minCharge || c > int64(max(minCharge, 2*(n+Room))) {
			t.Errorf("%d bytes are charged %d", n, c)
		}
	}
}
