package group

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files")

// goldenRig has done a little of everything; its log holds a record of each kind.
func goldenRig(t testing.TB) *rig {
	topics := testTopics{"orders": 6, "ticks": 3}
	r := &rig{topics: topics, s: New(Limits{}, topics), now: int64(time.Hour)}
	if tt, ok := t.(*testing.T); ok {
		r.T = tt
	}
	j := Join{Group: []byte("risk"), ID: id(7), Mode: ModeAuto, Instance: "risk-1", Client: "desk", Session: int64(10 * time.Second), Topics: []string{"ticks"}}
	m, _, _ := r.s.Join(r.now, &j)
	r.s.Commit(r.now, 1_800_000_000_000_000_000, &Commit{Group: []byte("risk"), Member: m.id, Generation: m.epoch, Entries: []Entry{
		{Partition: part("ticks", 0), Next: 41, Epoch: 3}, {Partition: part("ticks", 1), Next: 1 << 40, Epoch: -1, Metadata: []byte("meta")},
	}})
	j.ID, j.Instance = id(8), ""
	r.s.Join(r.now, &j)
	r.s.Assign(r.now, []byte("floor"), []Entry{{Partition: part("orders", 5)}}, "desk-2")
	r.s.Reset(r.now, 1_800_000_001_000_000_000, []byte("old"), []Entry{{Partition: part("orders", 1), Next: 9, Epoch: -1}, {Partition: part("orders", 2), Next: 9, Epoch: -1}})
	r.s.Forget([]byte("old"), []Partition{part("orders", 2)}, make([]Code, 1), nil)
	r.s.Remove([]byte("old"))
	r.flush()
	return r
}

var goldenNames = []string{"join", "offsets", "join-second", "assign", "reset", "forget", "remove"}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name+".bin")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: %x, expected %x", name, got, want)
	}
}

func goldenSnapshot(r *rig) []byte {
	w := r.s.Write(Snapshot{Node: [16]byte{0xd0, 15: 0x0d}, Partition: 5, Block: blockOf("risk"), Offset: 1234}, nil)
	for w.Step(1, r.now) {
	}
	return w.End()
}

func TestGoldenFiles(t *testing.T) {
	r := goldenRig(t)
	if len(r.log) != len(goldenNames) {
		t.Fatalf("%d records, expected %d", len(r.log), len(goldenNames))
	}
	for i, name := range goldenNames {
		golden(t, name, r.log[i])
	}
	golden(t, "snapshot-v1", goldenSnapshot(r))
	r.same(r.s, r.again(New(Limits{}, r.topics), 0))
}

// Every byte of a snapshot matters.
func TestADamagedSnapshotIsRefused(t *testing.T) {
	whole := goldenSnapshot(goldenRig(t))
	var z Snapshot
	if err := z.Load(New(Limits{}, testTopics{}), whole); err != nil || z.Partition != 5 || z.Offset != 1234 || z.Node[15] != 0x0d {
		t.Fatalf("%v, %+v", err, z)
	}
	for i := range whole {
		b := slices.Clone(whole)
		b[i] ^= 4
		if err := z.Load(New(Limits{}, testTopics{}), b); !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrUnsupported) {
			t.Fatalf("byte %d: %v", i, err)
		}
		if err := z.Load(New(Limits{}, testTopics{}), whole[:i]); !errors.Is(err, ErrDamaged) {
			t.Fatalf("%d bytes: %v", i, err)
		}
	}
}

func TestRecordsOfNewerProgramsAreSkippedOrStop(t *testing.T) {
	s := New(Limits{}, testTopics{})
	for _, c := range []struct {
		record []byte
		want   error
	}{
		{[]byte{99, 1, 0, flagSkip, 1, 2, 3}, nil},
		{[]byte{1, 9, 0, flagSkip}, nil},
		{[]byte{99, 1, 0, 0}, ErrUnsupported},
		{[]byte{1, 9, 0, 0}, ErrUnsupported},
		{[]byte{0, 1, 0, 0}, ErrDamaged},
		{[]byte{4, 1, 0, 2, 0, 1, 'g'}, ErrDamaged},
		{[]byte{4, 1, 0, 0, 0, 1, '\n'}, ErrDamaged},
		{[]byte{4, 1, 0, 0, 0, 1, 'g', 0}, ErrDamaged},
	} {
		if err := s.Load(c.record); !errors.Is(err, c.want) {
			t.Errorf("%x: %v, expected %v", c.record, err, c.want)
		}
	}
	if s.Groups() != 0 {
		t.Error("a group was made of them")
	}
}

// FuzzLoad holds Load to what it says of its errors, and to a state that can be written
// and read again.
func FuzzLoad(f *testing.F) {
	for _, b := range goldenRig(f).log {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s := New(Limits{}, testTopics{})
		if err := s.Load(b); err != nil {
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrUnsupported) {
				t.Fatalf("an error of no kind: %v", err)
			}
			return
		}
		for _, g := range s.list {
			w := s.Write(Snapshot{Block: g.block}, nil)
			for w.Step(1, 0) {
			}
			var z Snapshot
			if err := z.Load(New(Limits{}, testTopics{}), w.End()); err != nil {
				t.Fatalf("%x: what it makes cannot be read again: %v", b, err)
			}
		}
	})
}

func FuzzLoadSnapshot(f *testing.F) {
	f.Add(goldenSnapshot(goldenRig(f)))
	f.Fuzz(func(t *testing.T, b []byte) {
		var z Snapshot
		if err := z.Load(New(Limits{}, testTopics{}), b); err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrUnsupported) {
			t.Fatalf("an error of no kind: %v", err)
		}
	})
}
