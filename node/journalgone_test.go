package node

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/salvage"
)

// lostJournal is a node that was killed with what it has acknowledged in two lives, and one
// of whose journals has been removed then.
type lostJournal struct {
	*rig
	shard  int
	before [4]map[int64][]byte // what stood in every partition at the orderly end
	had    [4]map[int64][]byte // when it was killed
	shards [4]int              // whose the partitions are
}

// loseJournal makes one. Partition 3 has no message before the orderly end.
func loseJournal(t *testing.T, shards, shard int, seed uint64) *lostJournal {
	t.Helper()
	l := &lostJournal{rig: newMachine(t, small(shards), func(o *sim.Options) { o.Seed = seed }), shard: shard}
	l.start()
	c := l.dial()
	spec := client.TopicSpec{Name: "t", Partitions: 4, Configs: map[string]string{"segment.bytes": "16384"}}
	if _, err := c.Admin().CreateTopic(l.context(), spec); err != nil {
		t.Fatal(err)
	}
	for p := range 3 {
		l.more(int32(p), 3)
		l.before[p] = l.drain("t", int32(p))
	}
	closeNow(c)
	l.stop()
	l.start()
	d, err := l.dial().Admin().DescribeTopic(l.context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	for p := range l.had {
		l.shards[p] = int(d.Partitions[p].Shard)
		l.more(int32(p), 5)
		l.had[p] = l.drain("t", int32(p))
	}
	l.group()
	l.die()
	path := layout.JournalPath(rigDir, shard)
	if err := errors.Join(l.w.FS().Remove(path), l.w.FS().SyncDir(rigDir+"/"+layout.JournalsDir)); err != nil {
		t.Fatal(err)
	}
	return l
}

// more sends messages to a partition.
func (l *lostJournal) more(p int32, n int) (last int64) {
	l.t.Helper()
	c := l.dial()
	defer closeNow(c)
	out, err := c.Producer("t", client.WithPartition(p))
	if err != nil {
		l.t.Fatal(err)
	}
	for i := range n {
		at, err := out.Send(l.context(), client.Record{Value: stamp(int(p), i, 3<<10)})
		if err != nil {
			l.t.Fatal(err)
		}
		last = at.Offset
	}
	return last
}

// group reads some messages as a consumer group, and commits.
func (l *lostJournal) group() (first int64) {
	l.t.Helper()
	c := l.dial()
	defer closeNow(c)
	in, err := c.Consumer(client.Group("g"), client.Topics("t"), client.From(client.Start()))
	if err != nil {
		l.t.Fatal(err)
	}
	b, err := in.Poll(l.context())
	if err != nil {
		l.t.Fatal(err)
	}
	defer b.Release()
	for rec := range b.Records() {
		first = rec.Offset
		break
	}
	if err := b.Commit(l.context()); err != nil {
		l.t.Fatal(err)
	}
	return first
}

// refused checks that no node starts without the journal.
func (l *lostJournal) refused() {
	l.t.Helper()
	if err := l.tryStart(); err == nil || !strings.Contains(err.Error(), "and there is no "+layout.JournalPath(rigDir, l.shard)) {
		l.t.Fatalf("start without the journal: %v", err)
	}
}

// goesOn checks what every partition has, behind a salvage and a start, and that it goes on
// above everything that it can have given out.
func (l *lostJournal) goesOn() {
	l.t.Helper()
	for p := range l.had {
		got := l.drain("t", int32(p))
		for at, v := range got {
			if had, ok := l.had[p][at]; ok && !bytes.Equal(had, v) {
				l.t.Errorf("partition %d offset %d has another content", p, at)
			}
			if _, ok := l.had[p][at]; !ok && at < l.end(p) {
				l.t.Errorf("partition %d: offset %d was not there", p, at)
			}
		}
		must := l.before[p]
		if l.shards[p] != l.shard {
			must = l.had[p]
		}
		for at := range must {
			if _, ok := got[at]; !ok {
				l.t.Errorf("partition %d offset %d is not there", p, at)
			}
		}
		at := l.more(int32(p), 1)
		if lost := l.shards[p] == l.shard; lost != (at >= 1<<54) || at <= l.end(p) {
			l.t.Errorf("partition %d of shard %d goes on at %d, had up to %d", p, l.shards[p], at, l.end(p))
		}
	}
}

// end is the last offset that a partition had given out.
func (l *lostJournal) end(p int) (end int64) {
	for at := range l.had[p] {
		end = max(end, at+1) // a mark follows
	}
	return end
}

// A journal that is gone is given up on an order: everything up to the checkpoint is there,
// what the other journals have too, and no offset gets two contents.
func TestALostJournalIsGivenUp(t *testing.T) {
	for _, c := range []struct{ shards, shard int }{{1, 0}, {2, 0}, {2, 1}} {
		t.Run(fmt.Sprintf("shard %d of %d", c.shard, c.shards), func(t *testing.T) {
			l := loseJournal(t, c.shards, c.shard, seedOf(t))
			l.refused()
			plan, planned, err := l.salvageRun(false)
			if err != nil || plan.Journals != 1 || plan.Losses+plan.Rewrites != 0 {
				t.Fatalf("%v: %+v %+v", err, plan, planned)
			}
			l.refused() // looking has changed nothing
			sum, notes, err := l.salvageRun(true)
			if plan.Accepted = true; err != nil || sum != plan || fmt.Sprint(notes) != fmt.Sprint(planned) {
				t.Fatalf("%v: %+v %+v, planned %+v %+v", err, sum, notes, plan, planned)
			}
			l.w.Crash(sim.KeepNone)
			if n := l.verified(); n != 0 {
				t.Errorf("%d damaged places behind the salvage", n)
			}
			again, notesAgain, err := l.salvageRun(true)
			if err != nil || again.Journals != 0 {
				t.Fatalf("%v: %+v %+v", err, again, notesAgain)
			}
			l.start()
			l.mustPlan(planned)
			l.goesOn()
			l.group()
			l.die() // one life later nothing is lost any more
			if n := l.verified(); n != 0 {
				t.Errorf("%d damaged places behind a life", n)
			}
			l.start()
			l.goesOn()
			l.stop()
			if n := l.verified(); n != 0 {
				t.Errorf("%d damaged places behind the second life", n)
			}
		})
	}
}

// mustPlan compares where partitions go on with what was told before.
func (l *lostJournal) mustPlan(planned []salvage.Note) {
	l.t.Helper()
	d, err := l.dial().Admin().DescribeTopic(l.context(), "t")
	if err != nil {
		l.t.Fatal(err)
	}
	told := 0
	for _, n := range planned {
		if n.Kind != salvage.Journal || n.Topic != "t" {
			continue
		}
		told++
		if p := d.Partitions[n.Partition]; p.End != n.EndOffset {
			l.t.Errorf("partition %d goes on at %d, told was %v", n.Partition, p.End, &n)
		}
	}
	want := 0
	for p, s := range l.shards {
		if s == l.shard && len(l.before[p]) > 0 {
			want++
		}
	}
	if told != want {
		l.t.Errorf("told of %d partitions, expected %d", told, want)
	}
}

// Power cuts at each step of a salvage that gives a journal up: it can be run again, or has
// been done.
func TestASalvageOfALostJournalMayDieAtEveryStep(t *testing.T) {
	t.Parallel()
	for steps := 0; ; steps += 3 {
		l := loseJournal(t, 2, 1, uint64(steps+1))
		l.w.Light(sim.Fuse{Steps: steps, PowerCut: true, Keep: []sim.Keep{sim.KeepNone, sim.KeepAll}[steps%2]})
		_, _, err := l.salvageRun(true)
		blown := l.w.Blown()
		if !blown && err != nil {
			t.Fatalf("%d steps: %v", steps, err)
		}
		if blown && err != nil && !errors.Is(err, aio.ErrClosed) {
			t.Logf("step %d: %v", steps, err)
		}
		if _, _, err := l.salvageRun(true); err != nil {
			t.Fatalf("step %d: %v", steps, err)
		}
		l.start()
		l.goesOn()
		l.stop()
		if n := l.verified(); n != 0 {
			t.Errorf("%d damaged places", n)
		}
		if t.Failed() {
			t.Fatalf("power cut at step %d", steps)
		}
		if !blown {
			t.Logf("a salvage takes at most %d steps", steps)
			return
		}
	}
}
