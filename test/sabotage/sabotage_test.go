package sabotage

import (
	"flag"
	"os/exec"
	"regexp"
	"testing"
	"time"
)

var limit = flag.Duration("sabotage.for", 6*time.Minute, "within what time the simulator has to notice each broken variant")

// variants are brokers that break a rule of the storage protocol, each in the way in
// which others have broken it.
var variants = []struct {
	name string
	// args are of the simulator, to come to the point. Where they begin with a package
	// its tests have to notice: what a ghost round brings back was sent and not
	// acknowledged, so that a history allows it nearly always.
	args []string
	// images says that the enumeration of crash images has to notice too. It knows no
	// faults and no damage.
	images  bool
	changes []Change
}{
	{"acknowledge before flush", nil, true, []Change{
		{"engine/progress.go", "\tcase r.lsn <= flushed:\n", "\tcase r.lsn > 0:\n"},
	}},
	{"DSYNC taken for a flush of what was written before", nil, true, []Change{
		{"engine/journal/submit.go", " && j.flush.plain <= j.flight.flushed {", " {"},
		{"engine/journal/progress.go", "\t\t\tif f.flushed != r.prev {", "\t\t\tif r == nil {"},
	}},
	{"retry of a failed flush", []string{"-sim.fault=0"}, false, []Change{
		{"engine/journal/progress.go", "\t\tj.fail(&FlushError{LSN: f.cover, Err: op.Err})\n",
			"\t\tf.busy = true\n\t\tj.region.Flush(&f.op)\n\t\treturn\n"},
	}},
	{"truncate at the first bad CRC", []string{"-sim.rot"}, false, []Change{
		{"engine/journal/replay_search.go", "\tif w.proven <= w.cur.lsn {", "\tif w.proven >= 0 {"},
		{"engine/journal/replay.go", "\tif flaw != nil && h.LSN > w.proven {", "\tif flaw != nil {"},
		{"engine/journal/replay.go", "\t\tif h.LSN > w.proven {\n\t\t\tw.drop(h, flaw)", "\t\tif h != nil {\n\t\t\tw.drop(h, flaw)"},
	}},
	{"no directory fsync", nil, true, []Change{
		{"engine/aio/fileop.go", "\t\top.Err = fs.SyncDir(op.Path)\n", "\t\top.Err = nil\n"},
	}},
	{"no flush after replay", nil, true, []Change{
		{"engine/recovery/files.go", "\tif err := r.doAll(sync); err != nil {", "\tif err := r.doAll(nil); err != nil {"},
	}},
	{"ghost round accepted", []string{"github.com/mqd-broker/mqd/engine/journal"}, false, []Change{
		{"engine/journal/replay.go", "\tcase h.PrevCRC != c.crc:", "\tcase h == nil:"},
		{"engine/journal/replay.go", "\tcase c.incarnation != 0 && h.first() != (h.Incarnation > c.incarnation),\n\t\th.Incarnation < c.incarnation, w.lives.ghost(h):",
			"\tcase c == nil:"},
	}},
	{"duplicate answered before its original is durable", nil, true, []Change{
		{"engine/repeated.go", "\tcase b.End() > p.visible:\n\t\treturn false\n", "\tcase b.End() > p.visible:\n\t\treturn true\n"},
	}},
	{"duplicates not known after a start", nil, false, []Change{
		{"engine/recovery/producers.go", "if h.ProducerID != batch.NoProducer && h.BaseSequence >= 0 {", "if h.ProducerID < batch.NoProducer {"},
	}},
	{"commit of a group answered before it is durable", nil, false, []Change{
		{"broker/coordinator.go", "\tif c.last != nil {\n\t\tc.last.answers.take(&c.fresh)\n", "\tif c.last != nil && c.last.c == nil {\n\t\tc.last.answers.take(&c.fresh)\n"},
	}},
	{"generation of a Kafka client not checked", nil, false, []Change{
		{"broker/classic/rebalance.go", "\tcase c.Generation != g.generation:\n", "\tcase c.Kind > Commit:\n"},
	}},
	{"Kafka clients told what to read before it is durable", nil, false, []Change{
		{"broker/classic.go", "\t\tcase ok && (kind == classic.Join || kind == classic.Sync):\n\t\t\tc.answerLater(r)\n", ""},
	}},
	{"compacted log takes its place before it is flushed", nil, true, []Change{
		{"engine/compaction/rewriting.go", "\tif err := f.Sync(); err != nil {\n\t\treturn &FlushError{err}\n\t}\n\treturn nil\n", "\treturn nil\n"},
	}},
	{"deletion goes with what it deletes", nil, false, []Change{
		{"engine/compaction/rewriting.go", "if r.Value != nil || w.mayHide() || !h.Attributes.DeleteHorizon() {", "if r.Value != nil || w.mayHide() {"},
	}},
	{"journals of a larger shard count ignored", nil, true, []Change{
		{"engine/recovery/replay.go", "\t\tif !ok {\n\t\t\tcontinue\n\t\t}\n\t\tif err := r.scanJournal(shard)",
			"\t\tif !ok || shard >= r.opts.Shards {\n\t\t\tcontinue\n\t\t}\n\t\tif err := r.scanJournal(shard)"},
	}},
}

// objection is how the simulator begins its report of a seed that failed, and what
// other tests print.
var objection = regexp.MustCompile(`(?m)^.*seed \d+, commit .*$|^--- FAIL: Test[^S].*$`)

// TestBrokenBrokersAreNoticed builds each variant and expects an objection.
func TestBrokenBrokersAreNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the simulator for each variant: not in the short form")
	}
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			overlay := Overlay(t, v.changes...)
			args := []string{"test", "-overlay", overlay, "-count=1"}
			if len(v.args) == 0 || v.args[0][0] == '-' {
				args = append(args, "-run", "TestSim$", "github.com/mqd-broker/mqd/test/sim", "-sim.seeds=999", "-sim.for="+limit.String())
			}
			noticed(t, append(args, v.args...))
			if v.images {
				noticed(t, []string{"test", "-overlay", overlay, "-count=1", "-run", "TestImages$", "github.com/mqd-broker/mqd/test/images"})
			}
		})
	}
}

// noticed runs a test of a broken broker.
func noticed(t *testing.T, args []string) {
	t.Helper()
	began := time.Now()
	out, err := exec.Command("go", args...).CombinedOutput()
	line := objection.Find(out)
	if err == nil || line == nil {
		t.Fatalf("nothing was objected to, or it could not be built: %v\n%.4000s", err, out)
	}
	t.Logf("after %v: %.300s", time.Since(began).Round(time.Second), line)
}
