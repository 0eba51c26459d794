package engine

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/recovery"
)

// checkpointLimit lets a recovery write some checkpoints and no more.
type checkpointLimit struct {
	aio.Driver
	left int
}

var errInterrupted = errors.New("interrupted")

// FS implements aio.Driver.
func (d *checkpointLimit) FS() aio.FS { return &limitedFS{d.Driver.FS(), d} }

type limitedFS struct {
	aio.FS
	d *checkpointLimit
}

// Rename implements aio.FS.
func (f *limitedFS) Rename(from, to string) error {
	if strings.Contains(to, "checkpoint-") {
		if f.d.left == 0 {
			return errInterrupted
		}
		f.d.left--
	}
	return f.FS.Rename(from, to)
}

// interrupt begins a start for a number of shards that dies behind so many
// checkpoints. It reports whether it got that far.
func (r *rig) interrupt(shards, checkpoints int) bool {
	r.t.Helper()
	r.w.Kill()
	d := r.w.Driver(aio.Options{ArenaBytes: 32 << 20, RecvBuffers: 2})
	_, err := recovery.Recover(&checkpointLimit{d, checkpoints}, recovery.Options{
		Dir: rigDir, Shards: shards, Topics: r.topics, Catalog: r.config(ClassFlushed),
	})
	if err != nil && !errors.Is(err, errInterrupted) {
		r.t.Fatalf("start for %d shards that ends after %d checkpoints: %v", shards, checkpoints, err)
	}
	return err != nil
}

// A recovery for more shards moves partitions to checkpoints of other shards. One
// that was killed between two of them had overwritten the only record of what
// moved.
func TestStartsThatDieBetweenCheckpointsForgetNoPartition(t *testing.T) {
	r := newRig(t, rigOptions{segment: 64 << 10})
	rng := rand.New(rand.NewPCG(r.opts.seed, 1))
	id := r.topic(1, ClassFlushed)
	var sent [12][]*produced
	for range 12 {
		for range 40 {
			n := rng.IntN(len(sent))
			sent[n] = append(sent[n], r.sendWait(r.part(id, n), 1+rng.IntN(3), 300))
		}
		for range 1 + rng.IntN(3) {
			r.interrupt(1+rng.IntN(4), rng.IntN(5))
		}
		r.w.Kill()
		r.opts.shards = 1 + rng.IntN(4)
		r.start()
		for n := range sent {
			r.mustHold(r.part(id, n), sent[n])
		}
	}
}

// A start makes a journal of another size and is killed, at any of its steps. The next one
// finds the new journal, with whose name a power cut would take away what it has
// acknowledged, unless it makes sure of it.
func TestAJournalOfAStartThatWasKilledStays(t *testing.T) {
	for steps, blown := 0, true; blown; steps++ {
		r := newRig(t, rigOptions{seed: uint64(steps + 1), journal: 256 << 10, chunks: 2 << 20})
		id := r.topic(1, ClassFlushed)
		sent := []*produced{r.sendWait(r.part(id, 0), 1, 300)}
		r.w.Kill()
		r.opts.journal = 384 << 10
		r.w.Light(sim.Fuse{Steps: steps})
		err := r.tryStart()
		if blown = r.w.Blown(); err != nil && !blown {
			t.Fatalf("start: %v", err)
		}
		r.w.Kill()
		r.start()
		sent = append(sent, r.sendWait(r.part(id, 0), 1, 300))
		r.w.Crash(sim.KeepNone)
		r.start()
		r.mustHold(r.part(id, 0), sent)
		r.w.End()
	}
}
