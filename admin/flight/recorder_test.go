package flight

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// rig is a recorder that looks only when it is told to.
type rig struct {
	*Recorder
	t     *testing.T
	dir   string
	turns Turns
	log   bytes.Buffer
}

func newRig(t *testing.T, change ...func(*Options)) *rig {
	t.Helper()
	r := &rig{t: t, dir: filepath.Join(t.TempDir(), "deep", "traces")}
	o := Options{Window: time.Second, Bytes: 1 << 20, Dir: r.dir, Files: 3, Turns: func() Turns { return Turns{} }, Log: slog.New(slog.NewTextHandler(&r.log, nil))}
	for _, c := range change {
		c(&o)
	}
	var err error
	if r.Recorder, err = Start(o); err != nil {
		t.Fatal(err)
	}
	close(r.end) // its own looks end
	<-r.done
	r.opts.Turns = func() Turns { return r.turns }
	t.Cleanup(r.rec.Stop)
	return r
}

// files are the names in the directory.
func (r *rig) files() []string {
	r.t.Helper()
	all, err := os.ReadDir(r.dir)
	if err != nil {
		r.t.Fatal(err)
	}
	names := []string{}
	for _, e := range all {
		names = append(names, e.Name())
	}
	return names
}

// mustHave expects some files, and a trace in each.
func (r *rig) mustHave(n int) []string {
	r.t.Helper()
	names := r.files()
	if len(names) != n {
		r.t.Fatalf("%d files, expected %d: %q\n%s", len(names), n, names, &r.log)
	}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(r.dir, name))
		if err != nil || !isTrace(text) {
			r.t.Errorf("%s: %v, %d bytes that are no trace", name, err, len(text))
		}
	}
	return names
}

// isTrace reports whether something begins as an execution trace does, and is not only
// that.
func isTrace(text []byte) bool {
	return bytes.HasPrefix(text, []byte("go 1.")) && bytes.Contains(text[:min(16, len(text))], []byte(" trace\x00")) && len(text) > 1000
}

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func TestATurnThatWasTooLongLeavesAFile(t *testing.T) {
	r := newRig(t)
	node := new(int)
	r.look(noon)
	r.turns = Turns{Of: node, Long: 7, Shard: 1, Took: 50 * time.Millisecond} // those of the start
	r.look(noon)
	r.look(noon)
	r.mustHave(0)
	r.turns.Long, r.turns.Shard, r.turns.Took = 8, 2, 123_456*time.Microsecond
	r.look(noon)
	if names := r.mustHave(1); names[0] != "mqd-20261130T120000.000Z-shard2-123ms.trace" {
		t.Errorf("the file is %s", names[0])
	}
	if !strings.Contains(r.log.String(), "a turn was too long") || !strings.Contains(r.log.String(), "shard=2 took=123.456ms file="+r.dir) {
		t.Errorf("the log says %s", &r.log)
	}
	r.look(noon.Add(time.Hour)) // nothing new
	r.mustHave(1)
	r.turns = Turns{Of: new(int), Long: 3, Took: time.Second} // opened again
	r.look(noon.Add(time.Hour))
	r.mustHave(1)
	r.turns.Long++
	r.look(noon.Add(time.Hour))
	r.mustHave(2)
}

func TestAStageThatTookTooLongLeavesAFile(t *testing.T) {
	r := newRig(t)
	r.turns = Turns{Of: new(int), Slow: 5, SlowStage: "append", SlowTook: time.Second} // those of the start
	r.look(noon)
	r.mustHave(0)
	r.turns.Slow, r.turns.SlowStage, r.turns.SlowShard, r.turns.SlowTook = 6, "device", 2, 123_456*time.Microsecond
	r.look(noon)
	if names := r.mustHave(1); names[0] != "mqd-20261130T120000.000Z-shard2-device-123ms.trace" {
		t.Errorf("the file is %s", names[0])
	}
	if !strings.Contains(r.log.String(), `"a stage took too long; what`) || !strings.Contains(r.log.String(), "shard=2 took=123.456ms stage=device file="+r.dir) {
		t.Errorf("the log says %s", &r.log)
	}
	// Of a turn and a stage the turn is told of, and the stage is not told later.
	r.turns.Slow, r.turns.Long, r.turns.Took = 7, 1, 40*time.Millisecond
	r.look(noon.Add(time.Hour))
	r.look(noon.Add(2 * time.Hour))
	if names := r.mustHave(2); !strings.HasSuffix(names[1], "T130000.000Z-shard0-40ms.trace") {
		t.Errorf("files %q", names)
	}
}

func TestWhatComesBehindTheBeginningCounts(t *testing.T) {
	r := newRig(t)
	r.turns = Turns{Of: new(int), Long: 7, Slow: 3}
	r.Began()
	r.turns.Slow++ // before the first look
	r.look(noon)
	r.mustHave(1)
}

func TestATurnThatDoesNotEndLeavesAFile(t *testing.T) {
	r := newRig(t)
	r.turns = Turns{Of: new(int), Silent: stuck}
	r.look(noon)
	r.mustHave(0)
	r.turns.Silent, r.turns.SilentShard = stuck+time.Second, 3
	r.look(noon)
	if names := r.mustHave(1); !strings.HasSuffix(names[0], "-shard3-2s+.trace") {
		t.Errorf("the file is %s", names[0])
	}
}

func TestFilesAreFewAndFarBetween(t *testing.T) {
	r := newRig(t)
	r.turns.Of = new(int)
	r.look(noon)
	for i := range 10 {
		r.turns.Long++
		r.look(noon.Add(time.Duration(i) * fileGap / 2))
	}
	names := r.mustHave(3)
	if names[0] != "mqd-20261130T120200.000Z-shard0-0s.trace" || !strings.HasPrefix(names[2], "mqd-20261130T120400") {
		t.Errorf("files %q", names)
	}
	mine := filepath.Join(r.dir, "mine.txt")
	if err := os.WriteFile(mine, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.turns.Long++
	r.look(noon.Add(time.Hour))
	if got := r.files(); len(got) != 4 || got[0] != "mine.txt" {
		t.Errorf("files %q", got)
	}
}

func TestASnapshotIsBoundedAndOneAtATime(t *testing.T) {
	r := newRig(t)
	r.opts.Dir = ""
	if text, err := r.Snapshot(); err != nil || !isTrace(text) {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	r.turns = Turns{Of: new(int), Silent: time.Hour}
	r.look(noon) // there is no directory
	r.opts.Bytes = 10
	if _, err := r.Snapshot(); !errors.Is(err, ErrTooLong) {
		t.Errorf("error %v", err)
	}
	r.busy.Lock()
	if _, err := r.Snapshot(); !errors.Is(err, ErrBusy) {
		t.Errorf("error %v", err)
	}
	r.busy.Unlock()
	if _, err := Start(Options{}); err == nil {
		t.Error("two recorders")
	}
}

func TestAFileThatCannotBeWrittenIsToldOf(t *testing.T) {
	r := newRig(t)
	if err := os.RemoveAll(r.dir); err != nil {
		t.Fatal(err)
	}
	r.turns = Turns{Of: new(int), Silent: time.Hour}
	r.look(noon)
	if !strings.Contains(r.log.String(), "level=ERROR") || !strings.Contains(r.log.String(), "no such file") {
		t.Errorf("the log says %s", &r.log)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(Options{Dir: filepath.Join(file, "x")}); err == nil {
		t.Error("a directory below a file")
	}
}

func TestItLooksByItself(t *testing.T) {
	var asked atomic.Int64
	again := make(chan struct{})
	r, err := Start(Options{Window: time.Second, Bytes: 1 << 20, Dir: t.TempDir(), Files: 1, Log: slog.New(slog.DiscardHandler), Turns: func() Turns {
		if asked.Add(1) == 3 {
			close(again)
		}
		return Turns{}
	}})
	if err != nil {
		t.Fatal(err)
	}
	<-again
	r.Stop()
	if _, err := r.Snapshot(); err == nil {
		t.Error("a snapshot of a recorder that has ended")
	}
}
