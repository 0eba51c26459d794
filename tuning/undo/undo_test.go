package undo_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/mqd-broker/mqd/tuning/fixture"
	"github.com/mqd-broker/mqd/tuning/tree"
	"github.com/mqd-broker/mqd/tuning/undo"
)

const (
	scheduler = "sys/block/vda/queue/scheduler"
	swap      = "proc/sys/vm/swappiness"
	existing  = "etc/sysctl.d/90-mqd.conf"
	missing   = "etc/tmpfiles.d/90-mqd.conf"
)

// changes are of both kinds; one file exists and one does not.
func changes() []undo.Change {
	return []undo.Change{
		{ID: "a", Kind: undo.Kernel, Path: scheduler, New: "none"},
		{ID: "b", Kind: undo.Kernel, Path: swap, New: "1"},
		{ID: "same", Kind: undo.Kernel, Path: "proc/sys/vm/stat_interval", New: "1"},
		{ID: "c", Kind: undo.File, Path: existing, New: "vm/swappiness = 1\n"},
		{ID: "d", Kind: undo.File, Path: missing, New: "w /sys/a - - - - b\n"},
	}
}

func machine(t *testing.T) *fixture.Machine {
	t.Helper()
	return fixture.Build(t, fixture.Files{
		"sys/block/vda": "->../devices/vda", "sys/devices/vda/queue/scheduler": "none [mq-deadline] kyber\n",
		swap: "60\n", "proc/sys/vm/stat_interval": "1\n",
		existing: "# mine\nvm/swappiness = 60\n", "etc/tmpfiles.d/README": "Files.\n", "var/lib/mqd/NODE": "data\n",
	})
}

func mustApply(t *testing.T, m *fixture.Machine, c []undo.Change) *undo.Record {
	t.Helper()
	r := &undo.Record{Changes: c}
	if err := undo.Apply(m, r); err != nil {
		t.Fatal(err)
	}
	return r
}

// revertAll takes everything back, as mqd tune revert does.
func revertAll(m *fixture.Machine, force bool) error {
	all, err := undo.Load(m)
	if err != nil {
		return err
	}
	for i := len(all) - 1; i >= 0; i-- {
		if err := undo.Revert(m, all[i], force); err != nil {
			return err
		}
	}
	return undo.Clean(m)
}

func mustBeAsBefore(t *testing.T, m *fixture.Machine, before fixture.Files) {
	t.Helper()
	for _, d := range fixture.Differences(before, m.Contents(t)) {
		t.Error(d)
	}
}

func TestARevertRestoresEveryByte(t *testing.T) {
	m := machine(t)
	before := m.Contents(t)
	r := mustApply(t, m, changes())
	if len(r.Changes) != 4 {
		t.Errorf("changes that change nothing are recorded: %+v", r.Changes)
	}
	if got := m.Text(scheduler); got != "[none] mq-deadline kyber" {
		t.Errorf("scheduler %q", got)
	}
	second := mustApply(t, m, []undo.Change{{ID: "e", Kind: undo.Kernel, Path: swap, New: "10"}})
	if r.Number() != 1 || second.Number() != 2 {
		t.Errorf("numbers %d and %d", r.Number(), second.Number())
	}
	if err := revertAll(m, false); err != nil {
		t.Fatal(err)
	}
	mustBeAsBefore(t, m, before)
}

// A process that is killed at any step of an apply, or of the revert after it, leaves
// what the next revert takes back.
func TestARevertRestoresEveryByteAfterAKillAtAnyStep(t *testing.T) {
	whole := machine(t)
	mustApply(t, whole, changes())
	steps := whole.Changes
	if steps != 9 { // a directory, the record, two values, two files
		t.Fatalf("an apply has %d steps: they are not counted", steps)
	}
	for life := range steps + 1 {
		for again := range steps + 1 {
			m := machine(t)
			before := m.Contents(t)
			m.Life = life
			err := undo.Apply(m, &undo.Record{Changes: changes()})
			if (err == nil) != (life >= steps) {
				t.Fatalf("killed at step %d of %d: %v", life, steps, err)
			}
			m.Reboot()
			m.Life = again
			err = revertAll(m, false)
			if err != nil && !errors.Is(err, fixture.ErrDead) {
				t.Fatalf("killed at step %d, and at %d of the revert: %v", life, again, err)
			}
			m.Reboot()
			if err := revertAll(m, false); err != nil {
				t.Fatalf("killed at steps %d and %d: %v", life, again, err)
			}
			mustBeAsBefore(t, m, before)
		}
	}
}

func TestWhatOthersHaveChangedSinceIsLeftUnlessForced(t *testing.T) {
	m := machine(t)
	before := m.Contents(t)
	r := mustApply(t, m, changes())
	if err := m.Set(swap, "30"); err != nil {
		t.Fatal(err)
	}
	if err := undo.Revert(m, r, false); !errors.Is(err, undo.ErrChanged) {
		t.Fatalf("error %v", err)
	}
	if got := m.Text(swap); got != "30" {
		t.Errorf("swappiness is %s", got)
	}
	if got := m.Text(scheduler); got != "none [mq-deadline] kyber" {
		t.Errorf("what nobody has touched was not taken back: %s", got)
	}
	if all, err := undo.Load(m); err != nil || len(all) != 1 {
		t.Fatalf("%d records, %v", len(all), err)
	}
	if err := undo.Revert(m, r, true); err != nil {
		t.Fatal(err)
	}
	mustBeAsBefore(t, m, before)
}

func TestARefusedValueStopsNoOtherAndIsTakenBack(t *testing.T) {
	m := machine(t)
	before := m.Contents(t)
	c := changes()
	c[1].New = "1024" // percent
	if err := undo.Apply(m, &undo.Record{Changes: c}); !errors.Is(err, syscall.EINVAL) {
		t.Fatalf("error %v", err)
	}
	if !m.Exists(missing) {
		t.Error("changes behind the refused one were not made")
	}
	if err := revertAll(m, false); err != nil {
		t.Fatal(err)
	}
	mustBeAsBefore(t, m, before)
}

func TestADeviceThatHasGoneIsNoFailure(t *testing.T) {
	m := machine(t)
	r := mustApply(t, m, changes())
	real, err := m.Resolve(scheduler)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Remove(real); err != nil {
		t.Fatal(err)
	}
	if state, err := r.Changes[0].State(m); state != undo.Gone || err != nil {
		t.Errorf("state %q, %v", state, err)
	}
	if err := undo.Revert(m, r, false); err != nil {
		t.Error(err)
	}
}

func TestStatesTellWhatAFileHas(t *testing.T) {
	m := machine(t)
	r := mustApply(t, m, changes())
	want := func(state undo.State) {
		t.Helper()
		if got, err := r.Changes[1].State(m); got != state || err != nil {
			t.Errorf("state %q, %v, want %q", got, err, state)
		}
	}
	want(undo.Made)
	for value, state := range map[string]undo.State{"60": undo.Back, "7": undo.Other} {
		if err := m.Set(swap, value); err != nil {
			t.Fatal(err)
		}
		want(state)
	}
}

func TestTwoAtATimeAreRefused(t *testing.T) {
	m := machine(t)
	mustApply(t, m, changes())
	release, err := m.Lock(undo.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := undo.Apply(m, &undo.Record{Changes: []undo.Change{{Kind: undo.Kernel, Path: swap, New: "5"}}}); !errors.Is(err, tree.ErrLocked) {
		t.Errorf("apply: %v", err)
	}
	if m.Text(swap) != "1" {
		t.Error("something was changed without the lock")
	}
	release()
	if err := revertAll(m, false); err != nil {
		t.Error(err)
	}
}

// What a record says is written by root: a strange one is refused.
func TestBadRecordsAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"000001.json": `{"version": 2}`,
		"000002.json": `{`,
		"000003.json": `{"version": 1, "changes": [{"kind": "kernel", "path": "../etc/shadow"}]}`,
		"000004.json": `{"version": 1, "changes": [{"kind": "kernel", "path": "/etc/shadow"}]}`,
		"000005.json": `{"version": 1, "changes": [{"kind": "other", "path": "etc/x"}]}`,
		"last.json":   `{"version": 1}`,
	} {
		m := fixture.Build(t, fixture.Files{undo.Dir + "/" + name: text})
		if _, err := undo.Load(m); !errors.Is(err, undo.ErrRecord) {
			t.Errorf("%s %s: %v", name, text, err)
		}
	}
}

// The number of requests follows the scheduler: the kernel refuses more than the drive takes
// without one, and has others when there is one again.
func TestValuesThatFollowOthersComeBack(t *testing.T) {
	const dir = "sys/devices/pci0000:00/0000:00:1f.2/block/sda/"
	for _, c := range []struct{ before, want string }{{"64\n", "128"}, {"40\n", "32"}, {"64\n", "16"}} {
		m := fixture.Build(t, fixture.Files{
			dir + "queue/scheduler": "none [mq-deadline]\n", dir + "queue/nr_requests": c.before, dir + "device/queue_depth": "32\n", "var/lib/mqd/NODE": "data\n",
		})
		before := m.Contents(t)
		r := &undo.Record{Changes: []undo.Change{
			{ID: "scheduler", Kind: undo.Kernel, Path: dir + "queue/scheduler", New: "none"},
			{ID: "requests", Kind: undo.Kernel, Path: dir + "queue/nr_requests", New: c.want},
		}}
		if err := undo.Apply(m, r); (err != nil) != (c.want == "128") {
			t.Errorf("apply of %s: %v", c.want, err)
		}
		if err := undo.Revert(m, r, false); err != nil {
			t.Errorf("before %q, wanted %s: %v", c.before, c.want, err)
		}
		for _, d := range fixture.Differences(before, m.Contents(t)) {
			t.Errorf("before %q, wanted %s: %s", c.before, c.want, d)
		}
	}
}
