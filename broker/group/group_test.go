package group

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestAnOffsetNeverGoesBackUnlessSomebodySaysSo(t *testing.T) {
	r := newRig(t, Limits{})
	p := part("orders", 2)
	r.mustCommit(OK, "g", nil, p, 10)
	r.mustCommit(Backwards, "g", nil, p, 9)
	r.mustHave("g", p, 10)
	r.flush()
	r.mustCommit(OK, "g", nil, p, 10)
	if n := r.flush(); n != 0 {
		t.Fatalf("a commit that changes nothing has written %d records", n)
	}
	e := []Entry{{Partition: p, Next: 3, Epoch: -1}}
	if code := r.s.Reset(r.now, 0, []byte("g"), e); code != OK || e[0].Code != OK || e[0].Committed != 3 {
		t.Fatal(code, e)
	}
	r.mustHave("g", p, 3)
	r.flush()
	r.same(r.s, r.again(New(Limits{}, r.topics), 0))
}

func TestCommitsOutOfBoundsAreRefused(t *testing.T) {
	r := newRig(t, Limits{Metadata: 3, Offsets: 2, Groups: 1})
	c := Commit{Group: []byte("g"), Entries: []Entry{
		{Partition: part("orders", 0), Next: -1, Epoch: -1},
		{Partition: part("orders", 6), Next: 1, Epoch: -1},
		{Partition: part("nothing", 0), Next: 1, Epoch: -1},
		{Partition: part("orders", 1), Next: 1, Epoch: -2},
		{Partition: part("orders", 1), Next: 1, Epoch: -1, Metadata: []byte("long")},
	}}
	if code := r.s.Commit(r.now, 0, &c); code != OK {
		t.Fatal(code)
	}
	for i, e := range c.Entries {
		if e.Code != Invalid || e.Committed != -1 {
			t.Errorf("entry %d: %v, %d", i, e.Code, e.Committed)
		}
	}
	if r.s.Groups() != 0 || r.flush() != 0 {
		t.Error("a commit of nothing has made a group")
	}
	r.mustCommit(OK, "g", nil, part("orders", 0), 1)
	r.mustCommit(OK, "g", nil, part("orders", 1), 1)
	r.mustCommit(Limit, "g", nil, part("orders", 2), 1)
	r.mustCommit(OK, "g", nil, part("orders", 1), 2)
	r.mustCommit(Limit, "h", nil, part("orders", 1), 1)
	r.mustCommit(Invalid, "", nil, part("orders", 1), 1)
	r.mustCommit(Invalid, "a\nb", nil, part("orders", 1), 1)
}

// Only what moves stops, and it is given on when the one that had it says so.
func TestAMemberThatJoinsGetsItsShareWhenOthersHaveStopped(t *testing.T) {
	r := newRig(t, Limits{})
	a := r.join("g", 1, "orders")
	r.mustRead(a, 0, 1, 2, 3, 4, 5)
	r.settle("g")
	b := r.join("g", 2, "orders")
	r.mustRead(a, 0, 1, 2)
	r.mustRead(b)
	first := a.list[0].Since
	// It may commit what it is about to stop reading, and nobody else may.
	r.mustCommit(OK, "g", a, part("orders", 5), 50)
	r.mustCommit(Fenced, "g", b, part("orders", 5), 60)
	if _, got, changed, _ := r.s.Heartbeat(r.now, []byte("g"), a.id, a.epoch-1); !changed || len(got.List) != 3 {
		t.Fatalf("changed %v, %v", changed, got)
	}
	r.mustRead(b)
	if _, _, changed, _ := r.s.Heartbeat(r.now, []byte("g"), a.id, a.epoch); changed {
		t.Fatal("nothing has changed for the one that gave")
	}
	r.mustRead(b, 3, 4, 5)
	r.mustCommit(Fenced, "g", a, part("orders", 5), 70)
	r.mustCommit(OK, "g", b, part("orders", 5), 55)
	if a.list[0].Since != first {
		t.Error("what a member keeps is given to it again")
	}
}

// A commit that a member made before it lost a partition, and that arrives after it got
// it back, is refused.
func TestALateCommitOfAFormerOwnerIsRefused(t *testing.T) {
	r := newRig(t, Limits{})
	a := r.join("g", 1, "orders")
	p, old := part("orders", 5), a.epoch
	b := r.join("g", 2, "orders")
	r.settle("g")
	if b.owns(p) == nil {
		t.Fatalf("%v", b.list)
	}
	if code := r.s.Leave(r.now, []byte("g"), b.id); code != OK {
		t.Fatal(code)
	}
	r.settle("g")
	if code := r.commit("g", a, old, p, 7); code != Fenced {
		t.Fatalf("a commit of generation %d: %v", old, code)
	}
	if code := r.commit("g", b, b.epoch, p, 7); code != UnknownMember {
		t.Fatalf("a commit of one that has left: %v", code)
	}
	r.mustCommit(OK, "g", a, p, 7)
	r.mustCommit(Active, "g", nil, p, 8)
}

func TestASilentMemberLosesItsPartitions(t *testing.T) {
	r := newRig(t, Limits{})
	a, b := r.join("g", 1, "orders"), r.join("g", 2, "orders")
	r.settle("g")
	r.now += int64(9 * time.Second)
	r.s.Heartbeat(r.now, []byte("g"), b.id, b.epoch)
	r.now += int64(time.Second)
	r.s.Tick(r.now)
	if !a.Gone() || b.Gone() {
		t.Fatalf("gone: %v, %v", a.Gone(), b.Gone())
	}
	r.mustRead(b, 0, 1, 2, 3, 4, 5)
	if _, _, _, code := r.s.Heartbeat(r.now, []byte("g"), a.id, a.epoch); code != UnknownMember {
		t.Fatal(code)
	}
}

// After a start members have the time of a session to be heard of again, and go on with
// what they had.
func TestMembersSurviveAStart(t *testing.T) {
	r := newRig(t, Limits{})
	a, b := r.join("g", 1, "orders"), r.join("g", 2, "orders")
	r.settle("g")
	r.mustCommit(OK, "g", a, part("orders", 0), 5)
	r.flush()
	r.now += int64(time.Hour)
	s := r.again(New(Limits{}, r.topics), 0)
	s.Begin(r.now)
	for s.Tick(r.now) {
	}
	if s.Out.Len() != 0 {
		t.Fatal("a start changes groups")
	}
	r.s = s
	for _, m := range []*Member{a, b} {
		if _, _, changed, code := s.Heartbeat(r.now, []byte("g"), m.id, m.epoch); changed || code != OK {
			t.Fatalf("changed %v, %v", changed, code)
		}
	}
	r.mustCommit(OK, "g", a, part("orders", 0), 6)
}

// The process that an instance is started in again takes over without moving anything,
// and the one before it is told that it is over.
func TestAnInstanceIsTakenOver(t *testing.T) {
	r := newRig(t, Limits{})
	join := func(n byte) *Member {
		m, _, code := r.s.Join(r.now, &Join{Group: []byte("g"), ID: id(n), Mode: ModeAuto, Instance: fmt.Sprintf("i%d", n%2), Session: int64(time.Minute), Topics: []string{"orders"}})
		if code != OK {
			t.Fatal(code)
		}
		return m
	}
	a, b := join(1), join(2)
	r.settle("g")
	kept := slices.Clone(b.list)
	list, old := numbers(a.list), a.epoch
	again := join(3)
	if !slices.Equal(numbers(again.list), list) || !slices.Equal(b.list, kept) {
		t.Fatalf("%v became %v; the other one has %v", list, again.list, b.list)
	}
	if code := r.commit("g", a, old, again.list[0].Partition, 1); code != Fenced {
		t.Fatal(code)
	}
	if _, _, _, code := r.s.Heartbeat(r.now, []byte("g"), a.id, old); code != Fenced {
		t.Fatal(code)
	}
	r.mustCommit(OK, "g", again, again.list[0].Partition, 1)
}

func TestInstancesClaimAndAnAdministratorMoves(t *testing.T) {
	r := newRig(t, Limits{})
	o := func(n int32) Partition { return part("orders", n) }
	a := r.claim("g", 1, "a", o(0), o(1))
	b := r.claim("g", 2, "b", o(1), o(2))
	r.mustRead(a, 0, 1)
	r.mustRead(b, 2)
	if code := r.s.Assign(r.now, []byte("g"), []Entry{{Partition: o(1)}}, "b"); code != OK {
		t.Fatal(code)
	}
	r.mustRead(a, 0)
	r.mustRead(b, 2)
	r.settle("g")
	r.mustRead(b, 1, 2)
	// What belongs to one that is away waits for it.
	r.s.Leave(r.now, []byte("g"), b.id)
	r.mustRead(a, 0)
	d, _ := r.s.Describe(r.now, []byte("g"))
	if len(d.Table) != 3 || d.Table[0].Away || !d.Table[1].Away || d.Table[1].Instance != "b" {
		t.Fatalf("%+v", d.Table)
	}
	r.s.Assign(r.now, []byte("g"), []Entry{{Partition: o(2)}}, "a")
	r.mustRead(a, 0, 2)
	b = r.claim("g", 3, "b")
	r.mustRead(b, 1)
	if _, _, code := r.s.Join(r.now, &Join{Group: []byte("g"), ID: id(9), Mode: ModeAuto, Session: int64(time.Second), Topics: []string{"orders"}}); code != WrongMode {
		t.Fatal(code)
	}
	// A table keeps its group.
	r.s.Leave(r.now, []byte("g"), a.id)
	r.s.Leave(r.now, []byte("g"), b.id)
	r.now += int64(30 * 24 * time.Hour)
	r.s.Tick(r.now)
	if r.s.Groups() != 1 {
		t.Fatal("a group with a table is forgotten")
	}
}

func TestOffsetsOfAGroupInUseAreNotReset(t *testing.T) {
	r := newRig(t, Limits{})
	a := r.join("g", 1, "orders")
	r.mustCommit(OK, "g", a, part("orders", 1), 10)
	e := []Entry{{Partition: part("orders", 1), Next: 1, Epoch: -1}, {Partition: part("ticks", 0), Next: 4, Epoch: -1}}
	r.s.Reset(r.now, 0, []byte("g"), e)
	codes := make([]Code, 2)
	r.s.Forget([]byte("g"), []Partition{part("orders", 1), part("ticks", 0)}, codes, nil)
	if e[0].Code != Active || e[1].Code != OK || codes[0] != Active || codes[1] != OK || r.s.Remove([]byte("g")) != Active {
		t.Fatal(e, codes)
	}
	r.mustHave("g", part("orders", 1), 10)
	r.mustHave("g", part("ticks", 0), -1)
	r.s.Leave(r.now, []byte("g"), a.id)
	if code := r.s.Remove([]byte("g")); code != OK {
		t.Fatal(code)
	}
	r.mustHave("g", part("orders", 1), -1)
}

// The time that counts is that without members, and a start does not begin it anew.
func TestAGroupIsForgottenWhenItHasBeenEmptyForLong(t *testing.T) {
	r := newRig(t, Limits{Retention: time.Hour})
	tick := func(d time.Duration) {
		for range 10 {
			r.now += int64(d) / 10
			for _, m := range r.s.list[0].members {
				r.s.Heartbeat(r.now, []byte("g"), m.id, m.epoch)
			}
			r.s.Tick(r.now)
			if r.s.Groups() == 0 {
				return
			}
		}
	}
	m, _, _ := r.s.Join(r.now, &Join{Group: []byte("g"), ID: id(1), Mode: ModeAuto, Session: int64(30 * time.Minute), Topics: []string{"orders"}})
	r.mustCommit(OK, "g", m, part("orders", 1), 10)
	tick(4 * time.Hour)
	r.mustHave("g", part("orders", 1), 10)
	r.s.Leave(r.now, []byte("g"), m.id)
	tick(50 * time.Minute)
	r.mustHave("g", part("orders", 1), 10)
	w := r.s.Write(Snapshot{Block: blockOf("g")}, nil)
	for w.Step(1, r.now) {
	}
	var z Snapshot
	s := New(r.s.limits, r.topics)
	if err := z.Load(s, w.End()); err != nil {
		t.Fatal(err)
	}
	r.now = int64(time.Minute) // another life, another clock
	s.Begin(r.now)
	r.s = s
	tick(8 * time.Minute)
	r.mustHave("g", part("orders", 1), 10)
	tick(5 * time.Minute)
	r.mustHave("g", part("orders", 1), -1)
	if r.s.Groups() != 0 {
		t.Fatal("the group is still there")
	}
}

func TestOffsetsOfTopicsThatAreGoneGo(t *testing.T) {
	r := newRig(t, Limits{})
	a := r.join("g", 1, "orders", "ticks")
	r.mustCommit(OK, "g", a, part("orders", 1), 10)
	r.mustCommit(OK, "g", a, part("ticks", 1), 10)
	delete(r.topics, "ticks")
	r.topics["orders"] = 8
	r.s.TopicsChanged()
	for r.s.Tick(r.now) {
	}
	r.mustHave("g", part("ticks", 1), -1)
	r.mustHave("g", part("orders", 1), 10)
	r.mustRead(a, 0, 1, 2, 3, 4, 5, 6, 7)
	r.flush()
	r.same(r.s, r.again(New(Limits{}, r.topics), 0))
}

// Members with the same topics have the same number of partitions, give or take one,
// and no more move than have to.
func TestDivisionsAreEvenAndMoveLittle(t *testing.T) {
	r := newRig(t, Limits{})
	r.topics["orders"], r.topics["ticks"] = 40, 23
	for n := byte(1); n <= 12; n++ {
		before := map[Partition]MemberID{}
		if g := r.s.groups["g"]; g != nil {
			for _, m := range g.members {
				for _, grant := range m.list {
					before[grant.Partition] = m.id
				}
			}
		}
		fresh := r.join("g", n, "orders", "ticks")
		r.settle("g")
		least, most, moved := 64, 0, 0
		for _, m := range r.s.groups["g"].members {
			least, most = min(least, len(m.list)), max(most, len(m.list))
			for _, grant := range m.list {
				if owner, ok := before[grant.Partition]; ok && owner != m.id {
					moved++
				}
			}
		}
		if most-least > 1 || moved > len(fresh.list) {
			t.Fatalf("%d members: %d to %d partitions, %d have moved to one with %d", n, least, most, moved, len(fresh.list))
		}
	}
	r.mustBeWhole(r.s)
}

func TestNobodyGetsWhatItDoesNotSubscribeTo(t *testing.T) {
	r := newRig(t, Limits{})
	a, b := r.join("g", 1, "orders"), r.join("g", 2, "ticks", "nothing")
	r.settle("g")
	r.mustRead(a, 0, 1, 2, 3, 4, 5)
	r.mustRead(b, 0, 1, 2)
	c := r.join("g", 3, "orders", "ticks")
	r.settle("g")
	if len(a.list) != 3 || len(b.list) != 3 || len(c.list) != 3 {
		t.Fatalf("%v, %v, %v", a.list, b.list, c.list)
	}
}

func TestJoinsOutOfBoundsAreRefused(t *testing.T) {
	r := newRig(t, Limits{Members: 1, Groups: 1})
	good := Join{Group: []byte("g"), ID: id(1), Mode: ModeAuto, Session: int64(time.Minute), Topics: []string{"orders"}}
	for what, spoil := range map[string]func(j *Join){
		"no mode":               func(j *Join) { j.Mode = ModeNone },
		"a short session":       func(j *Join) { j.Session = int64(time.Millisecond) },
		"a long session":        func(j *Join) { j.Session = int64(time.Hour) },
		"a topic without name":  func(j *Join) { j.Topics = []string{""} },
		"many topics":           func(j *Join) { j.Topics = make([]string, MaxTopics+1) },
		"claims in mode auto":   func(j *Join) { j.Claims = []Partition{part("orders", 1)} },
		"manual, no instance":   func(j *Join) { j.Mode, j.Topics = ModeManual, nil },
		"a wrong instance":      func(j *Join) { j.Instance = "a\x00" },
		"no name":               func(j *Join) { j.Group = nil },
		"topics in mode manual": func(j *Join) { j.Mode, j.Instance = ModeManual, "a" },
	} {
		j := good
		spoil(&j)
		if m, _, code := r.s.Join(r.now, &j); code != Invalid || m != nil || r.flush() != 0 {
			t.Errorf("%s: %v", what, code)
		}
	}
	if _, _, code := r.s.Join(r.now, &good); code != OK {
		t.Fatal(code)
	}
	again := good
	again.ID = id(2)
	if _, _, code := r.s.Join(r.now, &again); code != Limit {
		t.Error(code)
	}
	again.Group = []byte("h")
	if _, _, code := r.s.Join(r.now, &again); code != Limit {
		t.Error(code)
	}
}

// Whoever waits for a change of a member's list is found by it.
func TestMembersWhoseListChangesAreNamed(t *testing.T) {
	r := newRig(t, Limits{})
	a := r.join("g", 1, "orders")
	r.s.Changed()
	a.Waiter = "a"
	b := r.join("g", 2, "orders")
	if c := r.s.Changed(); !slices.Contains(c, a) {
		t.Fatal("the one that gives is not named")
	}
	b.Waiter = "b"
	r.s.Heartbeat(r.now, []byte("g"), a.id, a.epoch)
	if c := r.s.Changed(); !slices.Equal(c, []*Member{b}) {
		t.Fatalf("%d are named", len(c))
	}
	r.s.Leave(r.now, []byte("g"), a.id)
	if c := r.s.Changed(); !slices.Contains(c, a) || !a.Gone() {
		t.Fatal("one that leaves is not named")
	}
}

func TestACommitAllocatesNothing(t *testing.T) {
	r := newRig(t, Limits{})
	a := r.join("g", 1, "orders")
	c := Commit{Group: []byte("g"), Member: a.id, Generation: a.epoch, Entries: make([]Entry, 6)}
	next := int64(0)
	meta := []byte("where I was")
	commit := func() {
		next++
		for i := range c.Entries {
			c.Entries[i] = Entry{Partition: part("orders", int32(i)), Next: next, Epoch: 3, Metadata: meta}
		}
		if code := r.s.Commit(r.now, next, &c); code != OK || c.Entries[5].Code != OK {
			t.Fatal(code, c.Entries[5].Code)
		}
		r.s.Out.Clear()
	}
	commit()
	if n := testing.AllocsPerRun(100, commit); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Whatever is asked for, a record fits into a batch.
func TestNoRecordIsLargerThanTheLimit(t *testing.T) {
	r := newRig(t, Limits{Record: 2048})
	r.topics["orders"] = 100
	c := Commit{Group: []byte("g")}
	for n := range int32(100) {
		c.Entries = append(c.Entries, Entry{Partition: part("orders", n), Next: 1, Epoch: -1, Metadata: make([]byte, n*3)})
	}
	r.s.Commit(r.now, 0, &c)
	r.s.Forget([]byte("g"), []Partition{part("orders", 3)}, make([]Code, 1), nil)
	for n := range int32(100) {
		r.s.Assign(r.now, []byte("table"), []Entry{{Partition: part("orders", n)}}, fmt.Sprint("instance-", n))
	}
	limited := false
	for n := range byte(100) {
		j := Join{Group: []byte("m"), ID: id(n), Mode: ModeAuto, Session: int64(time.Minute), Client: "a client", Topics: []string{"orders", "ticks"}}
		_, _, code := r.s.Join(r.now, &j)
		limited = limited || code == Limit
	}
	for name := range r.s.groups {
		r.settle(name)
	}
	delete(r.topics, "orders")
	r.s.TopicsChanged()
	for r.s.Tick(r.now) {
	}
	r.flush()
	for i, b := range r.log {
		if len(b) > 2048 {
			t.Fatalf("record %d of kind %d has %d bytes", i, b[0], len(b))
		}
	}
	if !limited || r.s.Offsets() != 0 {
		t.Fatalf("limited %v, %d offsets", limited, r.s.Offsets())
	}
	r.same(r.s, r.again(New(Limits{}, r.topics), 0))
}

func TestGroupsAreSpreadOverPartitionsAndBlocks(t *testing.T) {
	type place struct {
		partition uint32
		block     int
	}
	seen := map[place]int{}
	for i := range 16 * Blocks * 10 {
		name := fmt.Sprintf("group-%d", i)
		seen[place{PartitionOf(name, 16), blockOf(name)}]++
	}
	if len(seen) < 16*Blocks*9/10 {
		t.Errorf("%d of %d places are used", len(seen), 16*Blocks)
	}
	if p := PartitionOf("risk", 16); p != PartitionOf([]byte("risk"), 16) || p != 14 {
		t.Errorf("group risk lives in partition %d", p)
	}
}
