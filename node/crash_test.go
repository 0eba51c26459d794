package node

import (
	"math/rand/v2"
	"testing"

	"github.com/mqd-broker/mqd/engine/aio/sim"
)

// keep drops from what is wanted the topics that promise less than needed.
func (l *load) keep(topics ...string) {
	for k := range l.acked {
		kept := false
		for _, topic := range topics {
			kept = kept || topic == k.topic
		}
		if !kept {
			delete(l.acked, k)
		}
	}
}

// TestWhatWasAcknowledgedIsThereAfterDeathsAndPowerCuts lets nodes die under load
// and come back with another number of shards. A death of the process keeps what
// was written, a power cut what was flushed.
func TestWhatWasAcknowledgedIsThereAfterDeathsAndPowerCuts(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		rng := rand.New(rand.NewPCG(seedOf(t), 0))
		cfg := small(shards)
		cfg.JournalBytes = 1 << 20 // so that it wraps
		r := newRig(t, cfg, func(o *sim.Options) {
			o.DSYNC = sim.DSYNC(rng.IntN(2))
			o.Latency = sim.DefaultLatency
		})
		topics := []string{"memory", "written", "flushed"}
		c := r.dial()
		for _, class := range topics {
			r.create(c, class, 5, class)
		}
		closeNow(c)
		all := newLoad(r)
		for life := range 4 {
			l := newLoad(r)
			l.acked = all.acked
			l.consume("flushed")
			for _, topic := range topics {
				l.produce(topic, 0)
				l.produce(topic, 0)
			}
			l.wait(int64(300 + rng.IntN(2500)))
			survives := topics[1:]
			if life%2 == 0 {
				r.w.Kill()
			} else {
				r.w.Crash([]sim.Keep{sim.KeepNone, sim.KeepRandom, sim.KeepPrefix, sim.KeepAll}[rng.IntN(4)])
				survives = topics[2:]
			}
			_ = r.end(t.Context())
			l.end()
			all.keep(survives...)
			r.cfg.Shards = 1 + rng.IntN(3)
			r.start()
			all.mustHave(topics...)
			if t.Failed() {
				t.Fatalf("after life %d", life)
			}
		}
		r.stop()
		r.start()
		all.mustHave(topics...)
		r.stop()
	})
}
