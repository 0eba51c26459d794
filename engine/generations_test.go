package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/checkpoint"
	"github.com/mqd-broker/mqd/engine/layout"
)

// generations are the paths of a shard's checkpoints that can be read, the newest first.
func (r *rig) generations(shard int) []string {
	r.t.Helper()
	var paths []string
	newest := uint64(0)
	for parity := range uint64(2) {
		path := layout.CheckpointPath(rigDir, shard, parity)
		b := r.contents(path)
		if b == nil {
			continue
		}
		s, err := checkpoint.Decode(b)
		if err != nil {
			r.t.Fatalf("%s: %v", path, err)
		}
		paths = append(paths, path)
		if s.Sequence < newest {
			paths[0], paths[1] = paths[1], paths[0]
		}
		newest = max(newest, s.Sequence)
	}
	return paths
}

// contents are those of a file, nil if it is not there.
func (r *rig) contents(path string) []byte {
	r.t.Helper()
	b, err := aio.ReadFile(r.w.FS(), path, 1<<30)
	if err != nil && !aio.IsNotExist(err) {
		r.t.Fatal(err)
	}
	return b
}

// write replaces a file.
func (r *rig) write(path string, b []byte) {
	r.t.Helper()
	if err := aio.WriteFileAtomic(r.w.FS(), path, b); err != nil {
		r.t.Fatal(err)
	}
}

// damageNewest damages the newest checkpoint of a shard, or takes it away.
func (r *rig) damageNewest(shard int, gone bool) {
	r.t.Helper()
	path := r.generations(shard)[0]
	if gone {
		r.remove(path)
	} else {
		r.corrupt(path)
	}
}

// However a life has ended, and the one before it, and however many checkpoints there were:
// the newest checkpoint of each shard may be damaged, and a start finds everything.
func TestDamageToTheNewestCheckpointsCostsNothing(t *testing.T) {
	for seed := uint64(1); seed <= 12; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			d := &damaging{rng: rand.New(rand.NewPCG(seed, 77))}
			d.rig = newRig(t, rigOptions{seed: seed, shards: 1 + int(seed%3), journal: 256 << 10, segment: 64 << 10, maxBatch: 16 << 10})
			d.id = d.topic(1, ClassFlushed)
			for life := range 12 {
				for range 1 + d.rng.IntN(25) {
					d.act()
				}
				d.end(life)
			}
		})
	}
}

// damaging is a node whose newest checkpoints are damaged again and again.
type damaging struct {
	*rig
	rng  *rand.Rand
	id   TopicID
	sent [6][]*produced
}

func (d *damaging) act() {
	n := d.rng.IntN(len(d.sent))
	switch p := d.part(d.id, n); d.rng.IntN(8) {
	case 0:
		d.checkpointAll()
	case 1: // one for reservations, which leaves the ring as it is
		p.store.checkpoint.reserve = true
		d.run(time.Duration(d.rng.IntN(3)) * time.Millisecond)
	case 2: // one that the end may interrupt
		p.store.checkpoint.begin()
		for range d.rng.IntN(60) {
			d.turn()
		}
	default:
		for range 1 + d.rng.IntN(8) {
			d.sent[n] = append(d.sent[n], d.sendWait(p, 1+d.rng.IntN(3), 1+d.rng.IntN(4000)))
		}
	}
}

// end ends a life, sometimes damages checkpoints, and begins the next one, which may need
// several starts.
func (d *damaging) end(life int) {
	switch d.rng.IntN(4) {
	case 0:
		d.w.Kill()
	case 1:
		d.close()
		d.w.Kill()
	default:
		d.w.Crash([]sim.Keep{sim.KeepNone, sim.KeepAll, sim.KeepRandom}[d.rng.IntN(3)])
	}
	if what := d.rng.IntN(3); what > 0 {
		one := d.rng.IntN(len(d.shards))
		for shard := range d.shards {
			if what == 2 || shard == one {
				d.damageNewest(shard, d.rng.IntN(4) == 0)
			}
		}
	}
	for range d.rng.IntN(3) {
		if d.rng.IntN(3) == 0 {
			d.opts.shards = 1 + d.rng.IntN(3)
		}
		d.fuse = &fuse{left: d.rng.IntN(400)}
		if err := d.tryStart(); err != nil && !d.fuse.blown() {
			d.t.Fatalf("life %d: a start that was to be interrupted: %v", life, err)
		}
		d.w.Crash(sim.KeepRandom)
	}
	d.fuse = nil
	d.start()
	if d.reported("LOSS") || d.reported("DAMAGED") {
		d.t.Fatalf("life %d: reported: %v", life, d.log)
	}
	for n, sent := range d.sent {
		d.mustHold(d.part(d.id, n), sent)
	}
}

// A start that found one of them damaged dies behind any of its own checkpoints. The next one
// finds shards of this start and of the one before, and the checkpoint of everything.
func TestAStartBehindADamagedCheckpointMayDie(t *testing.T) {
	for lost := range 3 {
		for checkpoints := range 5 {
			t.Run(fmt.Sprintf("shard %d, %d checkpoints", lost, checkpoints), func(t *testing.T) {
				r := newRig(t, rigOptions{shards: 3})
				id := r.topic(1, ClassFlushed)
				sent := make([]*produced, 12)
				for n := range sent {
					sent[n] = r.sendWait(r.part(id, n), 2, 300)
				}
				r.checkpointAll()
				r.w.Kill()
				r.damageNewest(lost, false)
				if died := r.interrupt(3, checkpoints); died != (checkpoints < 4) {
					t.Fatalf("died %v", died)
				}
				r.w.Kill()
				r.start()
				for n, a := range sent {
					r.mustHold(r.part(id, n), []*produced{a})
				}
			})
		}
	}
}
