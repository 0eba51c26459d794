package broker

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/broker/group"
	"github.com/mqd-broker/mqd/engine/aio/sim"
)

// grouped is a request about a group and what came of it.
type grouped struct {
	Group
	done int
}

func (g *grouped) GroupDone(*Group) { g.done++ }

func (r *rig) beginGroup(at int, g *grouped) *grouped {
	g.Owner = g
	r.shards[at].Group(&g.Group)
	return g
}

func (r *rig) group(at int, g *grouped) *grouped {
	r.t.Helper()
	r.beginGroup(at, g)
	r.until("group", func() bool { return g.done > 0 })
	return g
}

// mustGroup is group, and must succeed.
func (r *rig) mustGroup(at int, g *grouped) *grouped {
	r.t.Helper()
	r.group(at, g)
	if g.Code != OK || g.Outcome != group.OK {
		r.t.Fatalf("request of kind %d: %v %v: %s", g.Kind, g.Code, g.Outcome, g.Message)
	}
	return g
}

func entryOf(topic TopicID, partition int32, next int64) group.Entry {
	return group.Entry{Partition: group.Partition{Topic: topic, Number: partition}, Next: next, Epoch: -1}
}

func commitOf(name string, entries ...group.Entry) *grouped {
	g := &grouped{}
	g.Kind, g.Name, g.Entries = GroupCommit, []byte(name), entries
	return g
}

// mustCommit commits for nobody, and must have codes.
func (r *rig) mustCommit(at int, name string, codes []group.Code, entries ...group.Entry) *grouped {
	r.t.Helper()
	g := r.mustGroup(at, commitOf(name, entries...))
	for i, e := range g.Entries {
		if e.Code != codes[i] {
			r.t.Fatalf("entry %d, offset %d: %v, expected %v", i, e.Next, e.Code, codes[i])
		}
	}
	return g
}

// committed is what is committed for a partition, -1 for nothing.
func (r *rig) committed(at int, name string, topic TopicID, partition int32) int64 {
	r.t.Helper()
	g := &grouped{}
	g.Kind, g.Name, g.Entries = GroupOffsets, []byte(name), []group.Entry{entryOf(topic, partition, 0)}
	r.group(at, g)
	if g.Code != OK {
		r.t.Fatalf("offsets: %v: %s", g.Code, g.Message)
	}
	if g.Outcome == group.Unknown {
		return -1
	}
	return g.Entries[0].Committed
}

// filled makes a topic with n records in each partition.
func (r *rig) filled(name string, partitions uint32, n int, settings ...catalog.Setting) *catalog.Topic {
	r.t.Helper()
	topic := r.create(name, partitions, settings...)
	for p := range int32(partitions) {
		r.mustProduce(0, topic.ID, p, testBatch(r.t, n, 10))
	}
	return topic
}

func TestCommitsSurviveAKillAndArriveAnywhere(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, rigOptions{shards: shards})
		topic := r.filled("t", 5, 20)
		for i := range 8 {
			name := fmt.Sprintf("group-%d", i)
			r.mustCommit(i%shards, name, []group.Code{group.OK, group.OK}, entryOf(topic.ID, int32(i%5), int64(i)), entryOf(topic.ID, int32((i+1)%5), 20))
		}
		check := func() {
			t.Helper()
			for i := range 8 {
				name := fmt.Sprintf("group-%d", i)
				for at := range r.shards {
					if n := r.committed(at, name, topic.ID, int32(i%5)); n != int64(i) {
						t.Fatalf("%s: %d is committed, expected %d", name, n, i)
					}
				}
			}
			if n := r.committed(0, "nobody", topic.ID, 0); n != -1 {
				t.Fatalf("an unknown group has committed %d", n)
			}
		}
		check()
		for next := shards; next <= shards+1; next++ { // the same shards, then one more
			r.w.Crash(sim.KeepNone)
			r.opts.shards = next
			r.start()
			check()
		}
		r.mustBeHome()
	})
}

func TestCommitsAreHeldAgainstTheLogs(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, rigOptions{shards: shards})
		topic := r.filled("t", 3, 20)
		r.mustCommit(0, "g", []group.Code{group.OK, group.Beyond, group.Invalid, group.Invalid},
			entryOf(topic.ID, 0, 20), entryOf(topic.ID, 1, 21), entryOf(topic.ID, 7, 0), entryOf(TopicID{1, 2, 3}, 0, 0))
		r.mustCommit(0, "g", []group.Code{group.Backwards}, entryOf(topic.ID, 0, 19))
		if n := r.committed(0, "g", topic.ID, 1); n != -1 {
			t.Fatalf("%d is committed", n)
		}
		g := commitOf("g", entryOf(topic.ID, 0, 3))
		g.Kind = GroupReset
		if r.mustGroup(0, g); g.Entries[0].Code != group.OK || r.committed(shards-1, "g", topic.ID, 0) != 3 {
			t.Fatal("an administrator cannot take a group back")
		}
		r.mustBeHome()
	})
}

// An answer leaves when what it says is durable, so that nobody reads a commit that a
// power cut takes back.
func TestACommitIsSeenWhenItIsDurable(t *testing.T) {
	r := newRig(t, rigOptions{})
	topic := r.filled("t", 1, 20)
	r.mustCommit(0, "g", []group.Code{group.OK}, entryOf(topic.ID, 0, 5))
	hold := r.w.Hold(sim.Filter{Ops: sim.Writes, Path: "journal-*"})
	late := r.beginGroup(0, commitOf("g", entryOf(topic.ID, 0, 9)))
	read := &grouped{}
	read.Kind, read.Name, read.Entries = GroupOffsets, []byte("g"), []group.Entry{entryOf(topic.ID, 0, 0)}
	r.beginGroup(0, read)
	r.run(50 * time.Millisecond)
	if late.done+read.done != 0 {
		t.Fatal("an answer has left before its commit was durable")
	}
	hold.Release()
	r.until("answers", func() bool { return late.done == 1 && read.done == 1 })
	if read.Entries[0].Committed != 9 {
		t.Fatalf("%d is committed", read.Entries[0].Committed)
	}
}

// pass lets a longer time pass: where no loop has anything to do, up to 20 ms at a time.
func (r *rig) pass(d time.Duration) {
	r.t.Helper()
	for end := r.w.Now() + int64(d); r.w.Now() < end; {
		worked := 0
		for _, b := range r.shards {
			n, err := b.loop.Turn()
			if err != nil {
				r.t.Fatal(err)
			}
			worked += n
		}
		if worked > 0 {
			continue
		}
		for _, b := range r.shards { // all have to say that they can wait
			if _, err := b.drv.Poll(20 * time.Millisecond); err != nil {
				r.t.Fatal(err)
			}
		}
	}
}

func join(name string, topics ...string) *grouped {
	g := &grouped{}
	g.Kind, g.Name = GroupJoin, []byte(name)
	g.Join = group.Join{Mode: group.ModeAuto, Session: int64(10 * time.Second), Topics: topics}
	return g
}

// beat begins a heartbeat of a member that works by the newest list it has been told.
func (r *rig) beat(at int, m *grouped, wait time.Duration) *grouped {
	g := &grouped{}
	g.Kind, g.Name, g.Member, g.Generation, g.Wait = GroupHeartbeat, m.Name, m.Member, m.Generation, int64(wait)
	return r.beginGroup(at, g)
}

func numbersOf(list []group.Grant) []int32 {
	var n []int32
	for _, g := range list {
		n = append(n, g.Number)
	}
	return n
}

func TestMembersAreToldWhenTheirListChanges(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, rigOptions{shards: shards})
		topic := r.filled("t", 4, 20)
		short := func() *grouped {
			g := join("g", "t")
			g.Join.Session = int64(time.Second)
			return g
		}
		a := r.mustGroup(0, short())
		if got := numbersOf(a.Grants); !slices.Equal(got, []int32{0, 1, 2, 3}) {
			t.Fatalf("the first member reads %v", got)
		}
		held := r.beat(0, a, 100*time.Millisecond)
		r.pass(50 * time.Millisecond)
		if held.done != 0 {
			t.Fatal("a heartbeat was answered although nothing has changed")
		}
		r.pass(400 * time.Millisecond)
		if held.done != 1 || held.Generation != a.Generation || len(held.Grants) != 4 {
			t.Fatalf("a heartbeat that has waited: %d answers, generation %d of %d", held.done, held.Generation, a.Generation)
		}
		held = r.beat(0, a, 5*time.Second)
		b := r.mustGroup(shards-1, short())
		r.until("the first hears of the second", func() bool { return held.done == 1 })
		if len(b.Grants) != 0 || len(held.Grants) != 2 {
			t.Fatalf("lists %v and %v", held.Grants, b.Grants)
		}
		second := r.beat(shards-1, b, 5*time.Second)
		r.run(10 * time.Millisecond)
		if second.done != 0 {
			t.Fatal("the second was given what the first has not stopped")
		}
		late := commitOf("g", entryOf(topic.ID, 3, 7))
		late.Member, late.Generation = a.Member, a.Generation
		if r.mustGroup(0, late); late.Entries[0].Code != group.OK {
			t.Fatalf("a commit of what is about to be given up: %v", late.Entries[0].Code)
		}
		a.Generation = held.Generation
		third := r.beat(0, a, 100*time.Millisecond) // it has stopped
		r.until("the second hears of it", func() bool { return second.done == 1 })
		if got := numbersOf(second.Grants); !slices.Equal(got, []int32{2, 3}) {
			t.Fatalf("the second reads %v", got)
		}
		late = commitOf("g", entryOf(topic.ID, 3, 8))
		late.Member, late.Generation = a.Member, a.Generation
		if r.mustGroup(0, late); late.Entries[0].Code != group.Fenced {
			t.Fatalf("a late commit: %v", late.Entries[0].Code)
		}
		// A member that falls silent loses what it has.
		r.pass(1500 * time.Millisecond)
		last := r.beat(0, a, 0)
		r.until("the last heartbeat", func() bool { return last.done == 1 })
		if third.done != 1 || third.Outcome != group.OK || last.Outcome != group.UnknownMember {
			t.Fatalf("%d answers, %v, %v", third.done, third.Outcome, last.Outcome)
		}
		r.mustBeHome()
	})
}

// A member that waits for news and hears only that it is unknown would join again, and
// take the instance back from the one that has taken it over.
func TestAWaitingMemberHearsThatItsInstanceWasTakenOver(t *testing.T) {
	r := newRig(t, rigOptions{shards: 1})
	r.filled("t", 2, 1)
	first := join("g", "t")
	first.Join.Instance = "pump"
	r.mustGroup(0, first)
	held := r.beat(0, first, 5*time.Second)
	r.run(10 * time.Millisecond)
	second := join("g", "t")
	second.Join.Instance = "pump"
	r.mustGroup(0, second)
	r.until("the first is told", func() bool { return held.done == 1 })
	if held.Outcome != group.Fenced || len(second.Grants) != 2 {
		t.Fatalf("the first is told %v, the second has %v", held.Outcome, second.Grants)
	}
	r.mustBeHome()
}

// Members go on after a kill of the broker with what they had.
func TestMembersSurviveAKill(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, rigOptions{shards: shards})
		topic := r.filled("t", 4, 20)
		a := r.mustGroup(0, join("g", "t"))
		r.w.Crash(sim.KeepNone)
		r.start()
		g := commitOf("g", entryOf(topic.ID, 1, 3))
		g.Member, g.Generation = a.Member, a.Generation
		if r.mustGroup(shards-1, g); g.Entries[0].Code != group.OK {
			t.Fatal(g.Entries[0].Code)
		}
		beat := r.beat(0, a, 0)
		r.until("heartbeat", func() bool { return beat.done == 1 })
		if beat.Outcome != group.OK || len(beat.Grants) != 4 {
			t.Fatalf("%v, %v", beat.Outcome, beat.Grants)
		}
	})
}

func TestGroupsAreListedDescribedAndDeleted(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, rigOptions{shards: shards})
		list := func() []string {
			g := &grouped{}
			g.Kind = GroupList
			r.mustGroup(shards-1, g)
			var names []string
			for _, l := range g.Listed {
				if l.Offsets != 1 || l.Members != 0 || l.Mode != group.ModeNone {
					t.Errorf("%+v", l)
				}
				names = append(names, l.Name)
			}
			slices.Sort(names)
			return names
		}
		if names := list(); len(names) != 0 {
			t.Fatalf("groups %v", names)
		}
		topic := r.filled("t", 2, 20)
		for i := range 20 {
			r.mustCommit(0, fmt.Sprintf("g%02d", i), []group.Code{group.OK}, entryOf(topic.ID, 1, 20))
		}
		if names := list(); len(names) != 20 || names[19] != "g19" {
			t.Fatalf("groups %v", names)
		}
		d := &grouped{}
		d.Kind, d.Name = GroupDescribe, []byte("g07")
		if r.mustGroup(0, d); len(d.Description.Offsets) != 1 || d.Description.Offsets[0].Next != 20 {
			t.Fatalf("%+v", d.Description)
		}
		d.Kind, d.done = GroupDelete, 0
		r.mustGroup(shards-1, d)
		d.done = 0
		if r.group(0, d); d.Outcome != group.Unknown {
			t.Fatalf("a group is deleted twice: %v", d.Outcome)
		}
		if names := list(); len(names) != 19 {
			t.Fatalf("groups %v", names)
		}
		// A start reads the groups of a partition when somebody asks for one; a list
		// asks for all.
		r.w.Crash(sim.KeepNone)
		r.start()
		if names := list(); len(names) != 19 {
			t.Fatalf("groups %v after a restart", names)
		}
	})
}

// Offsets of a topic go with the topic, and the broker's own topics are nobody's to
// change.
func TestGroupsFollowTheirTopics(t *testing.T) {
	r := newRig(t, rigOptions{shards: 2})
	topic := r.filled("t", 2, 20)
	r.mustCommit(0, "g", []group.Code{group.OK}, entryOf(topic.ID, 1, 20))
	r.admin(0, &Admin{Kind: DeleteTopic, Name: "t"})
	r.pass(100 * time.Millisecond)
	d := &grouped{}
	d.Kind, d.Name = GroupDescribe, []byte("g")
	if r.mustGroup(0, d); len(d.Description.Offsets) != 0 {
		t.Fatalf("%+v", d.Description.Offsets)
	}
	if p := r.produce(0, GroupsTopic, 0, testBatch(t, 1, 10)); p.Code != InvalidTopic {
		t.Errorf("a message into the broker's own topic: %v", p.Code)
	}
	for _, kind := range []AdminKind{CreateTopic, AlterTopic, DeleteTopic} {
		if a := r.admin(0, &Admin{Kind: kind, Name: GroupsName}); a.Code != InvalidTopic {
			t.Errorf("administration of kind %d of the broker's own topic: %v", kind, a.Code)
		}
	}
}

// Where there is no room, commits are refused and nothing half done stays.
func TestACommitThatFindsNoRoomIsRefusedWhole(t *testing.T) {
	r := newRig(t, rigOptions{broker: Options{ProduceTimeout: 10 * time.Millisecond}})
	topic := r.filled("t", 1, 20)
	r.mustCommit(0, "g", []group.Code{group.OK}, entryOf(topic.ID, 0, 5))
	hold := r.w.Hold(sim.Filter{Ops: sim.Writes, Path: "journal-*"})
	// The first waits in the journal, which is full soon.
	var late []*grouped
	for i := range 1500 {
		late = append(late, r.beginGroup(0, commitOf(fmt.Sprintf("g%d", i), group.Entry{
			Partition: group.Partition{Topic: topic.ID}, Next: 7, Epoch: -1, Metadata: make([]byte, 1000),
		})))
		r.turn()
	}
	r.pass(100 * time.Millisecond)
	hold.Release()
	r.until("answers", func() bool {
		return !slices.ContainsFunc(late, func(g *grouped) bool { return g.done == 0 })
	})
	refused := 0
	for i, g := range late {
		want := int64(7)
		switch {
		case g.Code == Busy:
			refused++
			want = -1
		case g.Code != OK:
			t.Fatalf("commit %d: %v: %s", i, g.Code, g.Message)
		}
		if n := r.committed(0, string(g.Name), topic.ID, 0); n != want && (want != -1 || n != 7) {
			t.Fatalf("commit %d, %v: %d is committed", i, g.Code, n)
		}
	}
	if refused == 0 {
		t.Fatal("all commits have found room")
	}
	r.mustCommit(0, "g", []group.Code{group.OK}, entryOf(topic.ID, 0, 9))
	r.mustBeHome()
}

func TestTheEndLetsNoHeartbeatWait(t *testing.T) {
	r := newRig(t, rigOptions{shards: 2})
	r.filled("t", 4, 1)
	a := r.mustGroup(0, join("g", "t"))
	held := r.beat(1, a, 5*time.Second)
	r.run(100 * time.Millisecond)
	r.node.Quiesce()
	r.until("the answer", func() bool { return held.done == 1 })
	if g := r.group(0, commitOf("g")); g.Code != ShuttingDown {
		t.Errorf("a commit during the end: %v", g.Code)
	}
	for _, b := range r.shards {
		if b.InFlight() != 0 {
			t.Errorf("%d requests in flight", b.InFlight())
		}
	}
}
