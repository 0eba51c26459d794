package checkpoint

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
)

// numbered is the golden checkpoint with another sequence number.
func numbered(sequence uint64) []byte {
	s := goldenSnapshot()
	s.Sequence = sequence
	return encode(new(Writer), s)
}

var goldenID = Identity{Node: id(0x10), Shard: 2}

func TestTheNewerGenerationIsChosen(t *testing.T) {
	rotten := numbered(9)
	rotten[300] ^= 1
	foreign := goldenSnapshot()
	foreign.Node = id(0x11)
	otherNode := encode(new(Writer), foreign)
	foreign.Node, foreign.Shard = id(0x10), 1
	otherShard := encode(new(Writer), foreign)
	newer := numbered(9)
	newer[hVersion+1] = 9
	resum(newer)
	for name, c := range map[string]struct {
		a, b     []byte
		sequence uint64
		lost     error
		err      error
	}{
		"both":              {numbered(7), numbered(8), 8, nil, nil},
		"both, other order": {numbered(9), numbered(8), 9, nil, nil},
		"first ever":        {numbered(1), nil, 1, nil, nil},
		"only the second":   {nil, numbered(2), 2, nil, nil},
		"neither":           {nil, nil, 0, nil, ErrNone},
		"newer is rotten":   {rotten, numbered(8), 8, ErrDamaged, nil},
		"older is rotten":   {numbered(7), rotten, 7, ErrDamaged, nil},
		"one is empty":      {numbered(7), []byte{}, 7, ErrTruncated, nil},
		"both are rotten":   {rotten, rotten, 0, nil, ErrDamaged},
		"another node's":    {otherNode, numbered(8), 8, ErrIdentity, nil},
		"another shard's":   {nil, otherShard, 0, nil, ErrIdentity},
		"of a newer mqd":    {newer, numbered(8), 0, nil, ErrUnsupported},
		"the other is":      {numbered(7), newer, 0, nil, ErrUnsupported},
	} {
		got, err := choose(goldenID, [2]generation{{data: c.a}, {data: c.b}})
		if !errors.Is(err, c.err) || err != nil && c.err == nil {
			t.Errorf("%s: %v, want %v", name, err, c.err)
			continue
		}
		if err != nil {
			if !strings.Contains(err.Error(), "checkpoint") {
				t.Errorf("%s: %q does not say what it is about", name, err)
			}
			continue
		}
		if got.Sequence != c.sequence || !errors.Is(got.Lost, c.lost) || c.lost == nil && got.Lost != nil {
			t.Errorf("%s: sequence %d, lost %v", name, got.Sequence, got.Lost)
		}
	}
}

func TestGenerationsAlternateBetweenTwoFiles(t *testing.T) {
	for seq, want := range map[uint64]string{1: "checkpoint-5.a", 2: "checkpoint-5.b", 3: "checkpoint-5.a", 1<<64 - 1: "checkpoint-5.a"} {
		if got := FileName(5, seq); got != want {
			t.Errorf("FileName(5, %d) = %q", seq, got)
		}
	}
	for _, shard := range []uint16{0, 7, 65535} {
		for seq := range uint64(2) {
			if got, ok := ParseFileName(FileName(shard, seq)); !ok || got != shard {
				t.Errorf("shard %d comes back as %d %v", shard, got, ok)
			}
		}
	}
	for _, name := range []string{"", "checkpoint-", "checkpoint-.a", "checkpoint-1", "checkpoint-1.c", "checkpoint-01.a", "checkpoint-65536.a", "checkpoint--1.a", "checkpoint-1.a.tmp", "Checkpoint-1.a"} {
		if _, ok := ParseFileName(name); ok {
			t.Errorf("ParseFileName(%q) took it", name)
		}
	}
}

const testDir = "data/checkpoint"

func newDisk(t *testing.T) (*sim.World, aio.FS) {
	t.Helper()
	w := sim.New(sim.Options{Seed: 1})
	fs := w.FS()
	if err := aio.MkdirAll(fs, testDir); err != nil {
		t.Fatal(err)
	}
	return w, fs
}

func TestACrashLeavesACheckpointAtAnyStep(t *testing.T) {
	for _, keep := range []sim.Keep{sim.KeepNone, sim.KeepAll, sim.KeepRandom} {
		for step, done := 0, false; !done; step++ {
			w, fs := newDisk(t)
			for seq := uint64(6); seq <= 7; seq++ {
				if err := aio.WriteFileAtomic(fs, testDir+"/"+FileName(2, seq), numbered(seq)); err != nil {
					t.Fatal(err)
				}
			}
			d := w.Driver(aio.Options{})
			op := aio.FileOp{Kind: aio.FileWriteAtomic, Path: testDir + "/" + FileName(2, 8), Data: numbered(8), Owner: doneFlag{&done}}
			d.SubmitFile(&op)
			for range step {
				w.Step()
			}
			if _, err := d.Poll(0); err != nil {
				t.Fatal(err)
			}
			w.Crash(keep)
			got, err := Load(fs, testDir, goldenID)
			if err != nil || got.Lost != nil || got.Sequence < 7 || done && got.Sequence != 8 {
				t.Fatalf("crash %v after %d steps: %v, %+v", keep, step, err, got)
			}
			if step > 100 {
				t.Fatal("the write does not end")
			}
		}
	}
}

type doneFlag struct{ done *bool }

func (d doneFlag) CompleteFile(*aio.FileOp) { *d.done = true }

func TestLoadTellsMissingFromDamaged(t *testing.T) {
	_, fs := newDisk(t)
	if _, err := Load(fs, testDir, goldenID); !errors.Is(err, ErrNone) {
		t.Errorf("no files: %v", err)
	}
	if err := aio.WriteFileAtomic(fs, testDir+"/"+FileName(2, 1), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(fs, testDir, goldenID); !errors.Is(err, ErrTruncated) || !strings.Contains(err.Error(), "checkpoint-2.a") {
		t.Errorf("an empty file: %v", err)
	}
	w, fs := newDisk(t)
	for seq := range uint64(2) {
		if err := aio.WriteFileAtomic(fs, testDir+"/"+FileName(2, seq+1), numbered(seq+1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.BadSectors(testDir+"/"+FileName(2, 2), 0, 512); err != nil {
		t.Fatal(err)
	}
	got, err := Load(fs, testDir, goldenID)
	if err != nil || got.Sequence != 1 || !errors.Is(got.Lost, syscall.EIO) {
		t.Errorf("an unreadable file: %v, lost %v", err, got.Lost)
	}
}

// A generation that could not be opened for want of descriptors may be the newer one.
func TestAGenerationIsNotPassedOverForAShortage(t *testing.T) {
	w, fs := newDisk(t)
	for seq := range uint64(2) {
		if err := aio.WriteFileAtomic(fs, testDir+"/"+FileName(2, seq+1), numbered(seq+1)); err != nil {
			t.Fatal(err)
		}
	}
	d := w.Driver(aio.Options{})
	w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Opens, Path: FileName(2, 2)}, Err: syscall.EMFILE})
	if got, err := Load(d.FS(), testDir, goldenID); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("%v, sequence %d", err, got.Sequence)
	}
}

func TestTheNodeFileSurvives(t *testing.T) {
	w, fs := newDisk(t)
	if _, err := LoadNode(fs, "data"); !errors.Is(err, ErrNone) || !strings.Contains(err.Error(), NodeFile) {
		t.Errorf("no node file: %v", err)
	}
	n := goldenNode()
	if err := n.Start(4); err != nil || n.Starts != 13 || n.Term() != 13 || n.Shards != 4 {
		t.Errorf("%v, %+v", err, n)
	}
	if err := SaveNode(fs, "data", &n); err != nil {
		t.Fatal(err)
	}
	w.Crash(sim.KeepNone)
	got, err := LoadNode(fs, "data")
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "node", got, n)
	if err := w.Corrupt("data/"+NodeFile, 20, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadNode(fs, "data"); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "data/"+NodeFile) {
		t.Errorf("a damaged node file: %v", err)
	}
	n.Starts = MaxTerm
	if err := n.Start(1); !errors.Is(err, ErrTermsUsedUp) || n.Starts != MaxTerm {
		t.Errorf("the last term: %v", err)
	}
}
