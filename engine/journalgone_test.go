package engine

import (
	"testing"

	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/layout"
)

// A journal that had been removed behind a crash passed for one that was still to be made,
// if the shard had not written a checkpoint of its own since its start: what had been
// acknowledged was gone, and its offsets were given out again.
func TestAJournalThatIsGoneIsMissedFromTheFirstMessageOn(t *testing.T) {
	for _, test := range []struct {
		name  string
		begin func(r *rig) // what comes before the life that loses its journal
	}{
		{"first life", func(*rig) {}},
		{"second life", func(r *rig) { r.w.Kill(); r.start() }},
		{"another size", func(r *rig) {
			r.w.Kill()
			r.opts.journal = 384 << 10
			r.start()
		}},
		{"more shards", func(r *rig) {
			r.w.Kill()
			r.opts.shards = 3
			r.start()
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, rigOptions{journal: 256 << 10, chunks: 2 << 20})
			test.begin(r)
			id := r.topic(1, ClassFlushed)
			p := r.part(id, 5)
			sent := []*produced{r.sendWait(p, 1, 300)}
			path := layout.JournalPath(rigDir, p.store.opts.Shard)
			r.w.Crash(sim.KeepNone)
			if err := r.w.FS().Rename(path, "/kept"); err != nil {
				t.Fatal(err)
			}
			r.mustRefuse("and there is no " + path)
			r.w.Kill()
			if err := r.w.FS().Rename("/kept", path); err != nil {
				t.Fatal(err)
			}
			r.start()
			r.mustHold(r.part(id, 5), sent)
		})
	}
}

// A start that makes journals of another size, for more shards or for fewer, and is killed
// at one of its steps, leaves nothing that refuses the next one. Nor does a power cut there.
func TestNoJournalIsMissedThatAStartHasReplaced(t *testing.T) {
	for _, shards := range []int{1, 3} {
		for _, cut := range []bool{false, true} {
			stride := 2 // between any two files that count more steps are taken
			if cut {
				stride = 5
			}
			for steps, blown := 0, true; blown; steps += stride {
				r := newRig(t, rigOptions{seed: uint64(steps + 1), shards: 2, journal: 256 << 10, chunks: 2 << 20})
				id := r.topic(1, ClassFlushed)
				var sent [4][]*produced
				for n := range sent {
					sent[n] = append(sent[n], r.sendWait(r.part(id, n), 1, 300))
				}
				r.checkpointAll()
				r.w.Kill()
				r.opts.shards, r.opts.journal = shards, 384<<10
				r.w.Light(sim.Fuse{Steps: steps})
				err := r.tryStart()
				if blown = r.w.Blown(); err != nil && !blown {
					t.Fatalf("%d shards, step %d: %v", shards, steps, err)
				}
				if cut {
					r.w.Crash(sim.KeepRandom)
				} else {
					r.w.Kill()
				}
				r.start()
				for n := range sent {
					r.mustHold(r.part(id, n), sent[n])
				}
				r.w.End()
			}
		}
	}
}
