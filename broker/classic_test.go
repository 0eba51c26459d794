package broker

import (
	"fmt"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/broker/classic"
	"github.com/mqd-broker/mqd/broker/group"
	"github.com/mqd-broker/mqd/engine/aio/sim"
)

// callOf is a call of a member.
func callOf(name string, k classic.Call) *grouped {
	g := &grouped{}
	g.Kind, g.Name, g.Call = GroupClassic, []byte(name), k
	return g
}

// enter makes the only member of a group and returns its id; the generation is 1.
func (r *rig) enter(at int, name string, session time.Duration) string {
	r.t.Helper()
	j := r.mustGroup(at, callOf(name, classic.Call{
		Kind: classic.Join, Type: "consumer", Client: "c", Session: int64(session), Rebalance: 30e9, Protocols: []classic.Protocol{{Name: "p"}},
	}))
	s := r.mustGroup(at, callOf(name, classic.Call{Kind: classic.Sync, Member: j.Call.Member, Generation: 1}))
	if j.Call.Code != classic.OK || s.Call.Code != classic.OK || j.Call.Generation != 1 {
		r.t.Fatalf("join %+v, sync %+v", j.Call, s.Call)
	}
	return j.Call.Member
}

func (r *rig) beats(at int, name, id string) classic.Code {
	r.t.Helper()
	return r.mustGroup(at, callOf(name, classic.Call{Kind: classic.Heartbeat, Member: id, Generation: 1})).Call.Code
}

// classicCommit commits for a member, or for nobody.
func (r *rig) classicCommit(at int, name, id string, generation int32, e group.Entry) *grouped {
	r.t.Helper()
	g := callOf(name, classic.Call{Kind: classic.Commit, Member: id, Generation: generation})
	g.Entries = []group.Entry{e}
	return r.group(at, g)
}

// Members are kept beside the state of groups: when that is thrown away and read again
// they stay, and the group stays theirs.
func TestMembersStayWhenTheStateIsReadAgain(t *testing.T) {
	r := newRig(t, rigOptions{broker: Options{GroupPartitions: 1, ProduceTimeout: 10 * time.Millisecond, Classic: classic.Limits{Delay: -1}}})
	topic := r.filled("t", 1, 20)
	id := r.enter(0, "crew", 30*time.Second)
	if g := r.classicCommit(0, "crew", id, 1, entryOf(topic.ID, 0, 5)); g.Code != OK || g.Call.Code != classic.OK || g.Entries[0].Code != group.OK {
		t.Fatalf("commit: %v %v %v", g.Code, g.Call.Code, g.Entries[0].Code)
	}
	c := r.shards[0].coordinators[0]
	hold := r.w.Hold(sim.Filter{Ops: sim.Writes, Path: "journal-*"})
	var refused []*grouped
	for i := 0; c.stage == coordinatorServes; i++ {
		g := callOf(fmt.Sprintf("g%d", i), classic.Call{Kind: classic.Commit, Generation: -1})
		e := entryOf(topic.ID, 0, 1)
		e.Metadata = make([]byte, 1000)
		g.Entries = []group.Entry{e}
		refused = append(refused, r.beginGroup(0, g))
		r.turn()
	}
	hold.Release()
	if code := r.beats(0, "crew", id); code != classic.OK {
		t.Errorf("a heartbeat after the state was read again: %v", code)
	}
	join := &grouped{}
	join.Kind, join.Name, join.Join = GroupJoin, []byte("crew"), group.Join{Mode: group.ModeAuto, Session: 30e9}
	if r.group(0, join); join.Outcome != group.WrongMode {
		t.Errorf("a member of another kind: %v", join.Outcome)
	}
	if n := r.committed(0, "crew", topic.ID, 0); n != 5 {
		t.Errorf("%d is committed, expected 5", n)
	}
	r.until("answers", func() bool {
		for _, g := range refused {
			if g.done == 0 {
				return false
			}
		}
		return true
	})
	if last := refused[len(refused)-1]; last.Code != Busy {
		t.Errorf("the commit without room: %v", last.Code)
	}
	r.mustBeHome()
}

// A group is not forgotten while it has members, however long they commit nothing; and
// what is committed for it outlives them, and a kill.
func TestAGroupWithMembersIsKept(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, rigOptions{shards: shards, broker: Options{
			Groups: group.Limits{Retention: 400 * time.Millisecond}, Classic: classic.Limits{Delay: -1, MinSession: time.Millisecond},
		}})
		topic := r.filled("t", 2, 20)
		id := r.enter(0, "crew", 600*time.Millisecond)
		r.classicCommit(shards-1, "crew", id, 1, entryOf(topic.ID, 1, 99)) // behind the end
		r.classicCommit(0, "crew", id, 1, entryOf(topic.ID, 1, 7))
		for range 4 {
			r.run(300 * time.Millisecond)
			if code := r.beats(shards-1, "crew", id); code != classic.OK {
				t.Fatalf("heartbeat: %v", code)
			}
		}
		if n := r.committed(0, "crew", topic.ID, 1); n != 7 {
			t.Fatalf("%d is committed, expected 7", n)
		}
		r.w.Crash(sim.KeepNone)
		r.start()
		if n := r.committed(0, "crew", topic.ID, 1); n != 7 {
			t.Fatalf("%d is committed after a kill, expected 7", n)
		}
		if code := r.beats(0, "crew", id); code != classic.OK {
			t.Errorf("a heartbeat behind a kill: %v", code)
		}
		if g := r.classicCommit(0, "crew", id, 1, entryOf(topic.ID, 1, 8)); g.Call.Code != classic.OK || g.Entries[0].Code != group.OK {
			t.Errorf("a commit behind a kill: %v", g.Call.Code)
		}
		if g := r.classicCommit(0, "crew", "", -1, entryOf(topic.ID, 1, 9)); g.Call.Code != classic.UnknownMember {
			t.Errorf("a commit of nobody: %v", g.Call.Code)
		}
		r.run(620 * time.Millisecond) // the session ends
		if code := r.beats(0, "crew", id); code != classic.UnknownMember {
			t.Errorf("a heartbeat of a member that is forgotten: %v", code)
		}
		if g := r.classicCommit(0, "crew", "", -1, entryOf(topic.ID, 1, 9)); g.Call.Code != classic.OK {
			t.Errorf("a commit of nobody: %v", g.Call.Code)
		}
		r.w.Crash(sim.KeepNone)
		r.start()
		if code := r.beats(0, "crew", id); code != classic.UnknownMember {
			t.Errorf("a heartbeat of a member that was forgotten before the kill: %v", code)
		}
		id = r.enter(0, "idle", time.Second) // which commits nothing
		leave := r.mustGroup(0, callOf("idle", classic.Call{Kind: classic.Leave, Leaving: []classic.Leaver{{Member: id}}}))
		if leave.Call.Leaving[0].Code != classic.OK {
			t.Errorf("leave: %v", leave.Call.Leaving[0].Code)
		}
		list := &grouped{}
		list.Kind = GroupList
		if r.mustGroup(0, list); len(list.Listed) != 1 || list.Listed[0].Name != "crew" {
			t.Errorf("listed are %+v", list.Listed)
		}
		r.mustBeHome()
	})
}

// What members are told of a generation, and that one has the place of another, they are told
// when it is durable: else a power cut would let those go on who had been fenced.
func TestMembersAreToldWhatLasts(t *testing.T) {
	r := newRig(t, rigOptions{broker: Options{GroupPartitions: 1, Classic: classic.Limits{Delay: -1}}})
	join := classic.Call{
		Kind: classic.Join, Type: "consumer", Instance: "i", Session: 30e9, Rebalance: 30e9, Protocols: []classic.Protocol{{Name: "p"}},
	}
	held := func(what string, k classic.Call) *grouped {
		hold := r.w.Hold(sim.Filter{Ops: sim.Writes, Path: "journal-*"})
		g := r.beginGroup(0, callOf("crew", k))
		if r.run(20 * time.Millisecond); g.done != 0 {
			t.Errorf("a %s is answered before it is durable", what)
		}
		hold.Release()
		r.until(what, func() bool { return g.done == 1 })
		if g.Call.Code != classic.OK {
			t.Fatalf("%s: %v", what, g.Call.Code)
		}
		return g
	}
	first := r.mustGroup(0, callOf("crew", join)).Call.Member
	held("sync", classic.Call{Kind: classic.Sync, Member: first, Instance: "i", Generation: 1})
	second := held("join in the place of another", join).Call.Member
	r.w.Crash(sim.KeepNone)
	r.start()
	for id, want := range map[string]classic.Code{first: classic.Fenced, second: classic.OK} {
		beat := classic.Call{Kind: classic.Heartbeat, Member: id, Instance: "i", Generation: 1}
		if code := r.mustGroup(0, callOf("crew", beat)).Call.Code; code != want {
			t.Errorf("a heartbeat behind a power cut: %v, expected %v", code, want)
		}
	}
	r.mustBeHome()
}
