package group

import "testing"

// A group that others have members of is theirs; when they are gone it is as it was.
func TestAGroupOfOthers(t *testing.T) {
	r := newRig(t, Limits{})
	name := []byte("crew")
	if code := r.s.MayOccupy(name); code != OK {
		t.Fatalf("an unknown group: %v", code)
	}
	r.s.Occupy(r.now, name, 2)
	if _, _, code := r.s.Join(r.now, &Join{Group: name, ID: MemberID{1}, Mode: ModeAuto, Session: 30e9}); code != WrongMode {
		t.Errorf("a join: %v", code)
	}
	if code := r.s.Assign(r.now, name, []Entry{{}}, "one"); code != WrongMode {
		t.Errorf("a row of the table: %v", code)
	}
	if code := r.s.Remove(name); code != Active {
		t.Errorf("a deletion: %v", code)
	}
	e := []Entry{{}}
	if code := r.s.Commit(r.now, 0, &Commit{Group: name, Anywhere: true, Entries: e}); code != Active {
		t.Errorf("a commit of nobody: %v", code)
	}
	if d, _ := r.s.Describe(r.now, name); d.Mode != ModeClassic {
		t.Errorf("described as %v", d.Mode)
	}
	if l := r.s.List(nil); len(l) != 1 || l[0].Members != 2 || l[0].Mode != ModeClassic {
		t.Errorf("listed as %+v", l)
	}
	if n := r.s.Out.Len(); n != 0 {
		t.Errorf("%d records were written", n)
	}
	z := r.s.Write(Snapshot{Block: blockOf("crew")}, nil)
	for z.Step(100, r.now) {
	}
	again := New(Limits{}, r.s.topics)
	if err := new(Snapshot).Load(again, z.End()); err != nil || again.Groups() != 0 {
		t.Errorf("a snapshot has %d groups, %v", again.Groups(), err)
	}
	r.s.Occupy(r.now, name, 0)
	if r.s.Known(name) {
		t.Error("a group that nothing was written of is still there")
	}
}

// What is kept of the members of others comes back from the log and from snapshots, and
// goes with the last of them.
func TestWhatIsKeptOfOthersComesBack(t *testing.T) {
	r := newRig(t, Limits{})
	name := []byte("crew")
	r.s.Occupy(r.now, name, 2)
	r.s.Keep(name, []byte("two members"))
	golden(t, "kept", r.s.Out.At(0))
	r.s.Keep(name, []byte("two members"))
	if n := r.flush(); n != 1 {
		t.Fatalf("%d records, expected 1: nothing has changed since", n)
	}
	kept := func(s *State) (all string) {
		s.EachKept(func(name string, kept []byte) { all += name + ": " + string(kept) + "; " })
		return all
	}
	from := func(s *State) {
		t.Helper()
		z := s.Write(Snapshot{Block: blockOf("crew")}, nil)
		for z.Step(1, r.now) {
		}
		again := New(Limits{}, r.topics)
		if err := new(Snapshot).Load(again, z.End()); err != nil || kept(again) != kept(s) {
			t.Errorf("a snapshot has %q, expected %q; %v", kept(again), kept(s), err)
		}
	}
	again := r.again(New(Limits{}, r.topics), 0)
	if got := kept(again); got != "crew: two members; " {
		t.Errorf("kept is %q", got)
	}
	from(r.s)
	from(again)
	if code := again.MayOccupy(name); code != OK {
		t.Errorf("the members come back: %v", code)
	}
	r.s.Keep(name, make([]byte, 2<<20)) // more than a record holds
	if got := kept(r.s); got != "" {
		t.Errorf("%d bytes are kept", len(got))
	}
	r.s.Keep(name, []byte("less"))
	r.s.Commit(r.now, 0, &Commit{Group: name, Anywhere: true, Other: true, Entries: []Entry{{Partition: part("ticks", 0), Next: 5, Epoch: -1}}})
	r.s.Occupy(r.now, name, 0)
	r.flush()
	again = r.again(New(Limits{}, r.topics), 0)
	if got := kept(again); got != "" || again.Groups() != 1 {
		t.Errorf("of %d groups is kept %q", again.Groups(), got)
	}
	r.same(r.s, again)

	r.s.Occupy(r.now, []byte("idle"), 1)
	r.s.Keep([]byte("idle"), []byte("one"))
	r.s.Occupy(r.now, []byte("idle"), 0)
	r.flush()
	if again = r.again(New(Limits{}, r.topics), 0); again.Known([]byte("idle")) {
		t.Error("a group that has lost its members, and has nothing else, is still there")
	}
}
