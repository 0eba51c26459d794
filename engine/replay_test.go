package engine

import (
	"testing"

	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/layout"
)

// What a start remembers of the journals saves it reading them again, and changes nothing
// else: whether it remembers everything, a part, or nothing.
func TestWhatAStartRemembersOfTheJournalsChangesNothing(t *testing.T) {
	type found struct{ replayed, skipped, reads int }
	var all []found
	for _, keep := range []int64{0, 200 << 10, 1} {
		r := newRig(t, rigOptions{seed: 5, shards: 2, segment: 64 << 10, keep: keep, journal: 1 << 20})
		id := r.topic(1, ClassFlushed)
		sent := make([][]*produced, 6)
		write := func(rounds int) {
			for range rounds {
				for n := range sent {
					sent[n] = append(sent[n], r.sendWait(r.part(id, n), 2, 2000+700*n))
				}
			}
		}
		write(5)
		for shard := range r.shards { // as for reservations: the rings stay as they are
			s := r.shards[shard].store
			before := s.Stats().Checkpoints
			s.checkpoint.reserve = true
			r.until("checkpoint", func() bool { return s.Stats().Checkpoints > before })
		}
		write(15)
		r.w.Kill()
		var reads [2]*sim.Injection
		for shard := range reads {
			reads[shard] = r.w.Inject(sim.Fault{
				Filter: sim.Filter{Ops: sim.Reads, Path: layout.JournalPath(rigDir, shard)}, Times: sim.Always, Skip: 1 << 30,
			})
		}
		r.start()
		st := r.rec.Stats
		all = append(all, found{st.Replayed, st.Skipped, reads[0].Seen() + reads[1].Seen()})
		for n := range sent {
			r.mustHold(r.part(id, n), sent[n])
		}
	}
	none, some, everything := all[2], all[1], all[0]
	if everything.reads >= none.reads || some.reads < everything.reads || some.reads > none.reads {
		t.Errorf("reads: remembering all, some and nothing %+v", all)
	}
	for _, f := range all {
		if f.replayed != all[0].replayed || f.skipped != all[0].skipped || f.replayed == 0 || f.skipped == 0 {
			t.Errorf("replayed: remembering all, some and nothing %+v", all)
		}
	}
}
