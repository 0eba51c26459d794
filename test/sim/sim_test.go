package sim

import (
	"flag"
	"fmt"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio/sim"
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
	defer debug.SetGCPercent(debug.SetGCPercent(200)) // much memory is short-lived
	next := make(chan uint64)
	all := newTable()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			mem := sim.NewMemory()
			defer mem.Free()
			for s := range next {
				r, err := simulate(s, mem, harm)
				mu.Lock()
				if err != nil {
					t.Errorf("%s%s", report(r, err), alone(s, harm))
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

// alone says whether a run that failed does so in a new world too.
func alone(seed uint64, harm sabotage) string {
	if _, err := simulate(seed, nil, harm); err == nil {
		return "it does not fail in new memory: something reads what it has not written\n"
	}
	return ""
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

// TestARunRepeatsByItsSeed makes a run in a new world and again in one made of what
// another run has left, and compares every completion and all that was noted. So
// nothing in a run may depend on memory that it has not written.
func TestARunRepeatsByItsSeed(t *testing.T) {
	mem := sim.NewMemory()
	defer mem.Free()
	for _, s := range []uint64{7, 12} {
		fresh := mustRun(t, s, nil)
		mustRun(t, s+1, mem)
		again := mustRun(t, s, mem)
		if fresh.w.TraceHash() != again.w.TraceHash() {
			t.Fatalf("seed %d: traces %016x and %016x", s, fresh.w.TraceHash(), again.w.TraceHash())
		}
		if !slices.Equal(fresh.history, again.history) {
			t.Fatalf("seed %d: one trace and two histories", s)
		}
	}
}

func mustRun(t *testing.T, seed uint64, mem *sim.Memory) *run {
	r, err := simulate(seed, mem, nil)
	if err != nil {
		t.Fatal(report(r, err))
	}
	return r
}
