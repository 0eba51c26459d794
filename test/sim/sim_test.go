package sim

import (
	"flag"
	"fmt"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	seeds = flag.Int("sim.seeds", 60, "number of seeds")
	seed  = flag.Uint64("sim.seed", 0, "the one seed that is run; 0: sim.seeds of them, from sim.from on")
	from  = flag.Uint64("sim.from", 1, "the first seed")
	// always helps to hunt: see fault.draw for the numbers.
	always = flag.Int("sim.fault", -1, "the fault of every life, by its number; negative: drawn")
	rotten = flag.Bool("sim.rot", false, "every run ends with damage to a journal")
	limit  = flag.Duration("sim.for", 0, "no more seeds after this time; 0: all of them")
)

// commit names the tree that a failure is of.
func commit() string {
	out, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// TestSim runs nodes in simulated machines and holds them to what they promise.
func TestSim(t *testing.T) {
	first, count := *from, uint64(*seeds)
	if *seed != 0 {
		first, count = *seed, 1
	}
	all := runAll(t, first, count, nil)
	t.Logf("%v", all)
	if missing := all.missing(); len(missing) > 0 && count >= 1000 {
		t.Errorf("states that no run has reached: %s", strings.Join(missing, "; "))
	}
}

// runAll runs seeds, one on each CPU at a time.
func runAll(t *testing.T, first, count uint64, harm sabotage) *table {
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // much memory is short-lived
	next := make(chan uint64)
	all := newTable()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for s := range next {
				r, err := simulate(s, harm)
				mu.Lock()
				if err != nil {
					t.Errorf("%s", report(r, err))
				}
				all.add(r)
				mu.Unlock()
			}
		})
	}
	began := time.Now()
	for s := first; s < first+count && !t.Failed(); s++ {
		if *limit > 0 && time.Since(began) > *limit {
			t.Logf("seeds %d to %d were not run: the time is over", s, first+count-1)
			break
		}
		next <- s
	}
	close(next)
	wg.Wait()
	return all
}

// report is what is told of a run that failed.
func report(r *run, err error) string {
	var b strings.Builder
	last := r.history[max(0, len(r.history)-40):]
	fmt.Fprintf(&b, "seed %d, commit %s, life %d, %d operations: %v\n", r.seed, commit(), r.lives, r.total, err)
	fmt.Fprintf(&b, "again: go test ./test/sim -run 'TestSim$' -sim.seed=%d\n", r.seed)
	fmt.Fprintf(&b, "shards %d, journal %d, cache %d, batch %d\n", r.cfg.Shards, r.cfg.JournalBytes, r.cfg.CacheBytes, r.cfg.MaxMessageBytes)
	for _, line := range last {
		b.WriteString("  " + line + "\n")
	}
	return b.String()
}

// TestARunRepeatsByItsSeed runs a seed two times and compares every completion.
func TestARunRepeatsByItsSeed(t *testing.T) {
	var hashes [2]uint64
	for i := range hashes {
		r, err := simulate(7, nil)
		if err != nil {
			t.Fatal(report(r, err))
		}
		hashes[i] = r.w.TraceHash()
	}
	if hashes[0] != hashes[1] {
		t.Fatalf("traces %016x and %016x", hashes[0], hashes[1])
	}
}
