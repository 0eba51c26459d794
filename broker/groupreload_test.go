package broker

import (
	"fmt"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/broker/group"
	"github.com/mqd-broker/mqd/engine/aio/sim"
)

// refuse has appends of a coordinator refused, by a journal that stands still, until it
// has begun to read its state again.
func (c *crowd) refuse(at *coordinator) {
	c.t.Helper()
	hold := c.w.Hold(sim.Filter{Ops: sim.Writes, Path: "journal-*"})
	for i := 0; at.stage == coordinatorServes; i++ {
		e := entryOf(c.topic, 0, 1)
		e.Metadata = make([]byte, 1000)
		c.beginGroup(0, commitOf(fmt.Sprintf("refused-%d", i), e))
		c.turn()
	}
	hold.Release()
}

// While the state is read again, the log may be cut off where it is read. The snapshots have
// what is gone, but the part that has been read has made them old again.
func TestAStateIsReadAgainWhileItsLogIsTrimmed(t *testing.T) {
	c := newCrowd(t, rigOptions{journal: 2 << 20, broker: Options{
		GroupPartitions: 1, GroupLogBytes: 400 << 10, ProduceTimeout: 10 * time.Millisecond,
	}})
	for i := range 1000 { // less than a snapshot is made for
		c.commit(fmt.Sprintf("g%d", i%20))
		if i%8 == 0 {
			c.until("answers", func() bool { c.gather(); return len(c.open) == 0 })
		}
	}
	c.until("answers", func() bool { c.gather(); return len(c.open) == 0 })
	c.w.Crash(sim.KeepNone)
	c.opts.broker.GroupLogBytes = 128 << 10
	c.start()
	at := c.shards[0].coordinators[0]
	checkpoints := c.w.Hold(sim.Filter{Path: "checkpoint-*"})
	c.until("the beginning of a snapshot", at.snapshots.Active)
	c.until("a snapshot", func() bool { return !at.snapshots.Active() })
	reads := c.w.Hold(sim.Filter{Ops: sim.Reads, Path: "*.log"})
	c.refuse(at)
	c.until("the log to be read", func() bool { return at.stage == coordinatorLog && !at.load.due })
	checkpoints.Release()
	c.until("the trim", func() bool { return at.part.LogStart() > 0 })
	reads.Release()
	c.until("the state", func() bool { return at.stage == coordinatorServes || at.stage == coordinatorUnusable })
	if at.stage != coordinatorServes {
		t.Fatalf("the coordinator is at stage %d: %v", at.stage, at.why)
	}
	c.check()
	c.w.Crash(sim.KeepNone)
	c.start()
	c.check()
}

// Behind an append that was refused nobody is told of a state that has it: what comes next
// may find room, and wait for the log, but the state that it was answered by is thrown away.
func TestNothingIsToldOfWhatWasRefused(t *testing.T) {
	const wait = 80 * time.Millisecond
	r := newRig(t, rigOptions{broker: Options{GroupPartitions: 1, ProduceTimeout: wait}})
	topic := r.filled("t", 1, 20)
	r.mustCommit(0, "before", []group.Code{group.OK}, entryOf(topic.ID, 0, 5))
	b := r.shards[0]
	commit := func(name string) *grouped {
		e := entryOf(topic.ID, 0, 7)
		e.Metadata = make([]byte, 1000)
		g := r.beginGroup(0, commitOf(name, e))
		r.turn()
		return g
	}
	hold := r.w.Hold(sim.Filter{Ops: sim.Writes, Path: "journal-*"})
	var refused *grouped // the first for which there is no room
	for i := 0; b.busy.Len() == 0; i++ {
		refused = commit(fmt.Sprintf("g%d", i))
	}
	r.run(wait / 2)
	behind := commit("behind")
	read := commitOf(string(refused.Name), entryOf(topic.ID, 0, 0))
	read.Kind = GroupOffsets
	r.beginGroup(0, read)
	r.until("the refusal", func() bool { return b.coordinators[0].stage == coordinatorDrains })
	hold.Release()
	r.until("answers", func() bool { return behind.done > 0 && read.done > 0 })
	if refused.Code != Busy || behind.Code != Busy || read.Code != Busy {
		t.Errorf("codes %v, %v, %v", refused.Code, behind.Code, read.Code)
	}
	if n := r.committed(0, string(refused.Name), topic.ID, 0); n != -1 {
		t.Errorf("%d is committed by what was refused", n)
	}
	if n := r.committed(0, "behind", topic.ID, 0); n != 7 {
		t.Errorf("%d is committed behind it", n)
	}
	r.mustCommit(0, "behind", []group.Code{group.OK}, entryOf(topic.ID, 0, 8))
	r.mustBeHome()
}
