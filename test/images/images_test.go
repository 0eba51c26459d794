package images

import (
	"flag"
	"fmt"
	"os/exec"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mqd-broker/mqd/engine/aio"
)

var (
	seed   = flag.Uint64("images.seed", 1, "the first seed, from which times, places and choices are drawn")
	seeds  = flag.Int("images.seeds", 2, "how often each workload is run, with a seed each")
	only   = flag.String("images.only", "", "the one workload that is run, by its name; empty: all")
	most   = flag.Int("images.subsets", 20, "images at a moment; where there are no more subsets of what can be lost, all are made")
	nested = flag.Int("images.nested", 2, "images at each step of a start that is crashed")
	whole  = flag.Int("images.whole", 300, "of so many images one is started as a whole node, read, and its start crashed at each step; 0: none")
	deep   = flag.Int("images.deep", 600, "the same for images of crashed starts")
)

func commit() string {
	out, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// TestImages goes through all workloads.
func TestImages(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // much memory is short-lived
	var all figures
	var mu sync.Mutex
	var failed atomic.Bool
	t.Run("all", func(t *testing.T) {
		for _, w := range workloads {
			for n := range uint64(*seeds) {
				if *only != "" && *only != w.name {
					continue
				}
				t.Run(fmt.Sprintf("%s, seed %d", w.name, *seed+n), func(t *testing.T) {
					t.Parallel()
					if failed.Load() {
						t.Skip("another workload was objected to")
					}
					fig, err := run(&w, *seed+n, bounds{*most, *nested, *whole, *deep}, nil)
					t.Logf("%v", fig)
					if err != nil {
						failed.Store(true)
						t.Errorf("seed %d, commit %s: %v\nagain: go test ./test/images -run TestImages -images.only='%s' -images.seed=%d -images.seeds=1",
							*seed+n, commit(), err, w.name, *seed+n)
					}
					mu.Lock()
					defer mu.Unlock()
					all.add(fig)
				})
			}
		}
	})
	t.Logf("%v", all)
	if *only == "" && (all.torn == 0 || all.replayed == 0 || all.gaps == 0 || all.wholes == 0) {
		t.Error("something was never come to")
	}
}

// dropsDSYNC is a broker that takes a write for durable that is not: it acknowledges
// before anything is flushed.
type dropsDSYNC struct{ aio.Driver }

func (d dropsDSYNC) Submit(op *aio.Op) {
	op.Flags &^= aio.FlagDSYNC
	d.Driver.Submit(op)
}

// skipsFlushes is one that reports a flush that it has not asked for.
type skipsFlushes struct{ aio.Driver }

func (d skipsFlushes) Submit(op *aio.Op) {
	if op.Kind == aio.KindFdatasync {
		op.Kind, op.Buf = aio.KindRead, nil
	}
	d.Driver.Submit(op)
}

func TestBrokenBrokersAreObjectedTo(t *testing.T) {
	for name, h := range map[string]harm{
		"acknowledges before it flushes": func(d aio.Driver) aio.Driver { return dropsDSYNC{d} },
		"does not flush":                 func(d aio.Driver) aio.Driver { return skipsFlushes{d} },
	} {
		t.Run(name, func(t *testing.T) {
			for _, w := range workloads {
				fig, err := run(&w, 1, bounds{subsets: 8}, h)
				if err != nil {
					t.Logf("%s, after %d images: %.300v", w.name, fig.images, err)
					return
				}
			}
			t.Fatal("nothing was objected to")
		})
	}
}
