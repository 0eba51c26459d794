package node

import (
	"bytes"
	"errors"
	"fmt"
	"sort"
	"strings"
	"testing"

	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/salvage"
	"github.com/mqd-broker/mqd/verify"
)

// salvageRun salvages the data directory, in a process of its own.
func (r *rig) salvageRun(accept bool) (salvage.Summary, []salvage.Note, error) {
	r.t.Helper()
	d := r.w.Driver(aio.Options{ArenaBytes: 8 << 20, RecvBuffers: 2})
	defer func() { _ = d.Close() }() // the machine may have ended
	var notes []salvage.Note
	sum, err := salvage.Run(d, salvage.Options{
		Dir: rigDir, Partition: salvage.AllPartitions, Accept: accept,
		Report: func(n *salvage.Note) { notes = append(notes, *n) },
	})
	return sum, notes, err
}

// verified reads the whole directory, and returns the number of damaged places.
func (r *rig) verified() int {
	r.t.Helper()
	d := r.w.Driver(aio.Options{ArenaBytes: 8 << 20, RecvBuffers: 2})
	defer func() { _ = d.Close() }()
	sum, err := verify.Run(d, verify.Options{Dir: rigDir, Report: func(f *verify.Finding) { r.t.Log(f) }})
	if err != nil {
		r.t.Fatal(err)
	}
	return sum.Damages
}

// drain reads partition p from its start, as a consumer that meets no error.
func (r *rig) drain(topic string, p int32) map[int64][]byte {
	r.t.Helper()
	ctx, c := r.context(), r.dial()
	defer closeNow(c)
	in, err := c.Consumer(client.Partitions(topic, p), client.From(client.Start()))
	if err != nil {
		r.t.Fatal(err)
	}
	out, err := c.Producer(topic, client.WithPartition(p))
	if err != nil {
		r.t.Fatal(err)
	}
	mark, err := out.Send(ctx, client.Record{Value: []byte("mark")})
	if err != nil {
		r.t.Fatal(err)
	}
	got := map[int64][]byte{}
	for {
		b, err := in.Poll(ctx)
		if err != nil {
			r.t.Fatalf("%s/%d: %v", topic, p, err)
		}
		for rec := range b.Records() {
			if rec.Offset == mark.Offset {
				b.Release()
				return got
			}
			got[rec.Offset] = bytes.Clone(rec.Value)
		}
		b.Release()
	}
}

// hurtLogs makes a node of two partitions with some segments each, ends it in order, and
// damages it: in partition 0 a batch of a full segment and one of the newest, in partition
// 1 a whole segment. It returns what every offset had.
func hurtLogs(t *testing.T, seed uint64) (r *rig, had [2]map[int64][]byte) {
	r = newMachine(t, small(2), func(o *sim.Options) { o.Seed = seed })
	r.start()
	r.fillSegments("t", 2, 21)
	for p := range had {
		had[p] = r.drain("t", int32(p))
	}
	r.stop()
	dirs := r.partitionDirs("t")
	var logs [2][]string
	for p, dir := range dirs {
		logs[p] = r.logsIn(dir)
	}
	newest := logs[0][len(logs[0])-1]
	for _, file := range []string{logs[0][1], newest} {
		if err := r.w.Corrupt(file, 100, 4); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.w.FS().Remove(logs[1][1]); err != nil {
		t.Fatal(err)
	}
	if err := r.w.FS().SyncDir(dirs[1]); err != nil {
		t.Fatal(err)
	}
	r.w.Crash(sim.KeepAll)
	return r, had
}

// logsIn are the logs of a partition.
func (r *rig) logsIn(dir string) (logs []string) {
	r.t.Helper()
	list, err := r.w.FS().ReadDir(dir)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range list {
		if strings.HasSuffix(e.Name, ".log") {
			logs = append(logs, dir+"/"+e.Name)
		}
	}
	if len(logs) < 3 {
		r.t.Fatalf("%d segments", len(logs))
	}
	return logs
}

// kept checks that a partition has what it had but for what was given up.
func (r *rig) kept(p int32, had map[int64][]byte, notes []salvage.Note) {
	r.t.Helper()
	lost := map[int64]bool{}
	for _, n := range notes {
		if n.Kind == salvage.Lost && n.Partition == int64(p) {
			for at := n.Offset; at < n.EndOffset; at++ {
				lost[at] = true
			}
		}
	}
	got := r.drain("t", p)
	for at, v := range had {
		if g, ok := got[at]; ok == lost[at] || ok && !bytes.Equal(g, v) {
			r.t.Errorf("partition %d offset %d: read %v, lost %v", p, at, ok, lost[at])
		}
	}
	if len(lost) == 0 || len(lost) > len(had)/2 {
		r.t.Errorf("partition %d: %d of %d offsets lost", p, len(lost), len(had))
	}
}

// TestWhatIsGivenUpIsPassedOver salvages damage of each kind: consumers pass over what is
// lost, everything else is where it was, nothing is damaged any more, and a second salvage
// finds nothing to do.
func TestWhatIsGivenUpIsPassedOver(t *testing.T) {
	r, had := hurtLogs(t, 1)
	plan, planned, err := r.salvageRun(false)
	if err != nil || plan.Losses != 3 || plan.Rewrites != 2 || plan.Left != 0 {
		t.Fatalf("%v: %+v %+v", err, plan, planned)
	}
	if n := r.verified(); n == 0 {
		t.Fatal("looking has changed something")
	}
	sum, notes, err := r.salvageRun(true)
	if plan.Accepted = true; err != nil || sum != plan || fmt.Sprint(notes) != fmt.Sprint(planned) {
		t.Fatalf("%v: %+v %+v, planned %+v %+v", err, sum, notes, plan, planned)
	}
	r.w.Crash(sim.KeepNone) // it is durable when it has ended
	if n := r.verified(); n != 0 {
		t.Errorf("%d damaged places behind the salvage", n)
	}
	again, notesAgain, err := r.salvageRun(true)
	if err != nil || again.Losses+again.Rewrites+again.Left != 0 {
		t.Fatalf("%v: %+v %+v", err, again, notesAgain)
	}
	for range 2 { // starts
		r.start()
		for p := range had {
			r.kept(int32(p), had[p], notes)
		}
		r.stop()
		if n := r.verified(); n != 0 {
			t.Errorf("%d damaged places behind a life", n)
		}
	}
}

// TestASalvageMayDieAtEveryStep cuts the power at each step of a salvage. A node that
// starts then serves every offset that is not lost, and a salvage that is run again does
// what is left.
func TestASalvageMayDieAtEveryStep(t *testing.T) {
	t.Parallel()
	for steps := stepsOfLooking(t); ; steps++ {
		r, had := hurtLogs(t, uint64(steps+1))
		_, planned, err := r.salvageRun(false)
		if err != nil {
			t.Fatal(err)
		}
		r.w.Light(sim.Fuse{Steps: steps, PowerCut: true, Keep: []sim.Keep{sim.KeepNone, sim.KeepAll}[steps%2]})
		_, _, err = r.salvageRun(true)
		if !r.w.Blown() {
			if err != nil {
				t.Fatalf("%d steps: %v", steps, err)
			}
			t.Logf("a salvage takes %d steps", steps)
			return
		}
		if err != nil && !errors.Is(err, aio.ErrClosed) {
			t.Logf("step %d: %v", steps, err)
		}
		if steps%3 == 0 { // a life in between
			r.start()
			r.stop()
		}
		if _, _, err := r.salvageRun(true); err != nil {
			t.Fatalf("step %d: %v", steps, err)
		}
		if n := r.verified(); n != 0 {
			t.Fatalf("step %d: %d damaged places behind the second salvage", steps, n)
		}
		r.start()
		for p := range had {
			r.kept(int32(p), had[p], planned)
		}
		r.stop()
		if t.Failed() {
			t.Fatalf("power cut at step %d", steps)
		}
	}
}

// stepsOfLooking is how many steps a salvage takes before it may change something.
func stepsOfLooking(t *testing.T) int {
	r, _ := hurtLogs(t, 1)
	return sort.Search(1000, func(steps int) bool {
		r.w.Light(sim.Fuse{Steps: steps, PowerCut: true, Keep: sim.KeepNone})
		_, _, err := r.salvageRun(false)
		return !r.w.Blown() && err == nil
	})
}

// TestASalvageBehindAKill salvages what a node has left that was killed: what the journals
// hold behind the damage is there, and the partition whose newest segment is missing goes on
// behind that.
func TestASalvageBehindAKill(t *testing.T) {
	r := newRig(t, small(2))
	r.fillSegments("t", 2, 21)
	r.stop() // a checkpoint that names the segments
	r.start()
	var had [2]map[int64][]byte
	for p := range had {
		had[p] = r.drain("t", int32(p))
	}
	r.die()
	dirs := r.partitionDirs("t")
	if err := r.w.Corrupt(r.logsIn(dirs[0])[0], 100, 4); err != nil {
		t.Fatal(err)
	}
	newest := r.logsIn(dirs[1])
	if err := errors.Join(r.w.FS().Remove(newest[len(newest)-1]), r.w.FS().SyncDir(dirs[1])); err != nil {
		t.Fatal(err)
	}
	sum, notes, err := r.salvageRun(true)
	if err != nil || sum.Losses != 2 || sum.Left != 0 {
		t.Fatalf("%v: %+v %+v", err, sum, notes)
	}
	r.start()
	for p := range had {
		r.kept(int32(p), had[p], notes)
	}
	r.stop()
	if n := r.verified(); n != 0 {
		t.Errorf("%d damaged places", n)
	}
}

// TestTheEndOfANewestSegmentIsLeftToTheJournals damages the last block of a segment that
// grows, in a node that was killed: the journal may have what was in it.
func TestTheEndOfANewestSegmentIsLeftToTheJournals(t *testing.T) {
	r := newRig(t, small(1))
	r.fillSegments("t", 1, 10)
	r.stop()
	r.start()
	r.die()
	logs := r.logsIn(r.partitionDirs("t")[0])
	newest := logs[len(logs)-1]
	if err := r.w.Corrupt(newest, 5000, 4); err != nil {
		t.Fatal(err)
	}
	sum, notes, err := r.salvageRun(true)
	if err != nil || sum.Losses != 0 || sum.Left != 1 || !strings.Contains(notes[0].Reason, "stop it in order") {
		t.Fatalf("%v: %+v %+v", err, sum, notes)
	}
	r.start()
	r.stop()
	if sum, notes, err = r.salvageRun(true); err != nil || sum.Losses != 1 || sum.Left != 0 {
		t.Fatalf("%v: %+v %+v", err, sum, notes)
	}
}

func TestTheCatalogIsNotSalvaged(t *testing.T) {
	r := newRig(t, small(1))
	r.create(r.dial(), "t", 1, "flushed")
	r.stop()
	if err := r.w.Corrupt(r.partitionDirs("__catalog")[0]+"/00000000000000000000.log", 70, 4); err != nil {
		t.Fatal(err)
	}
	sum, notes, err := r.salvageRun(true)
	if err != nil || sum.Losses != 0 || sum.Left != 1 || notes[0].Topic != "__catalog" {
		t.Fatalf("%v: %+v %+v", err, sum, notes)
	}
}

// TestASegmentOfWhichNothingIsLeftGoesAside spoils every batch of a segment.
func TestASegmentOfWhichNothingIsLeftGoesAside(t *testing.T) {
	r := newRig(t, small(1))
	r.fillSegments("t", 1, 15)
	had := r.drain("t", 0)
	r.stop()
	logs := r.logsIn(r.partitionDirs("t")[0])
	for at := int64(0); at < 15_000; at += 100 {
		if err := r.w.Corrupt(logs[1], at, 4); err != nil {
			t.Fatal(err)
		}
	}
	sum, notes, err := r.salvageRun(true)
	if err != nil || sum.Losses != 1 || sum.Rewrites != 1 || sum.Left != 0 {
		t.Fatalf("%v: %+v %+v", err, sum, notes)
	}
	if got := r.logsIn(r.partitionDirs("t")[0]); len(got) != len(logs)-1 {
		t.Errorf("logs %v", got)
	}
	if n := r.verified(); n != 0 {
		t.Errorf("%d damaged places", n)
	}
	r.start()
	r.kept(0, had, notes)
	r.stop()
}

// TestAPartitionOfWhichNothingIsLeftGoesOnWhereItWas removes the directory of a partition.
func TestAPartitionOfWhichNothingIsLeftGoesOnWhereItWas(t *testing.T) {
	r := newRig(t, small(1))
	r.fillSegments("t", 2, 21)
	had := r.drain("t", 1)
	r.stop()
	dir := r.partitionDirs("t")[0]
	if err := r.w.FS().RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	sum, notes, err := r.salvageRun(true)
	if err != nil || sum.Losses != 2 || sum.Left != 0 || notes[0].Partition != 0 || notes[0].Offset != 0 {
		t.Fatalf("%v: %+v %+v", err, sum, notes)
	}
	end := notes[1].EndOffset // of what was there before the newest segment, and of that
	if n := r.verified(); n != 0 {
		t.Errorf("%d damaged places", n)
	}
	r.start()
	if got := r.drain("t", 0); len(got) != 0 {
		t.Errorf("%d records where nothing is left", len(got))
	}
	out, err := r.dial().Producer("t", client.WithPartition(0))
	if err != nil {
		t.Fatal(err)
	}
	at, err := out.Send(r.context(), client.Record{Value: []byte("more")})
	if err != nil || at.Offset <= end {
		t.Errorf("%v: the log goes on at %d, expected above %d", err, at.Offset, end)
	}
	if got := r.drain("t", 1); len(got) < len(had) {
		t.Errorf("the other partition has %d records, expected %d", len(got), len(had))
	}
	r.stop()
}

// A node that was killed before it has written another checkpoint has partitions of which
// only its journals know. Nothing can be said of them, least of all that nothing is lost.
func TestASalvageSaysWhatOnlyTheJournalsKnow(t *testing.T) {
	r := newRig(t, small(1))
	r.fillSegments("t", 2, 10)
	eventually(t, "a partition has a directory", func() bool { return len(r.partitionDirs("t")) > 0 })
	r.die()
	sum, notes, err := r.salvageRun(true)
	if err != nil || sum.Left == 0 || sum.Losses != 0 {
		t.Fatalf("%v: %+v %+v", err, sum, notes)
	}
	found := 0
	for _, n := range notes {
		if n.Topic == "t" && strings.Contains(n.Reason, "stop it in order") {
			found++
		}
	}
	if found == 0 {
		t.Fatalf("%+v", notes)
	}
	r.start()
	r.stop()
	if sum, notes, err = r.salvageRun(true); err != nil || sum.Left != 0 || sum.Partitions < 2 {
		t.Fatalf("%v: %+v %+v", err, sum, notes)
	}
}

// A node may be killed before any directory was made: then only the journals tell that
// there is something at all, of topics that may be the one that is asked for.
func TestASalvageLooksAtJournalsWhereThereAreNoDirectories(t *testing.T) {
	r := newRig(t, small(2))
	r.fillSegments("t", 2, 10)
	r.die()
	topics := rigDir + "/" + layout.TopicsDir
	list, err := r.w.FS().ReadDir(topics)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list { // those that were made in time; the journals have it all
		if err := errors.Join(r.w.FS().RemoveAll(topics+"/"+e.Name), r.w.FS().SyncDir(topics)); err != nil {
			t.Fatal(err)
		}
	}
	sum, notes, err := r.salvageRun(true)
	if err != nil || sum.Left == 0 || sum.Losses != 0 {
		t.Fatalf("%v: %+v %+v", err, sum, notes)
	}
	for _, n := range notes {
		if !strings.HasPrefix(n.File, layout.JournalsDir+"/") || !strings.Contains(n.Line(false), "stop it in order") {
			t.Errorf("%v", &n)
		}
	}
	r.start()
	r.stop()
	if sum, notes, err = r.salvageRun(true); err != nil || sum.Left != 0 || sum.Partitions < 2 {
		t.Fatalf("%v: %+v %+v", err, sum, notes)
	}
}

// Damage in a journal that is needed is not nothing.
func TestASalvageTellsOfDamagedJournals(t *testing.T) {
	for _, c := range []struct {
		name, reason string
		hurt         func(r *rig, path string) error
	}{
		{"anchors", "move it out of the data directory, and run this again", func(r *rig, path string) error {
			return errors.Join(r.w.Corrupt(path, 100, 4), r.w.Corrupt(path, 4096+100, 4))
		}},
		{"rounds", "damaged in", func(r *rig, path string) error { return r.w.Corrupt(path, 5*4096+200, 4) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, small(1))
			r.fillSegments("t", 1, 10)
			r.die()
			if err := c.hurt(r, layout.JournalPath(rigDir, 0)); err != nil {
				t.Fatal(err)
			}
			sum, notes, err := r.salvageRun(false)
			if err != nil || sum.Left == 0 || !strings.Contains(fmt.Sprint(notes), c.reason) || !strings.HasPrefix(sum.Verdict(), "nothing is known to be lost; not salvaged") {
				t.Fatalf("%v: %+v %+v", err, sum, notes)
			}
		})
	}
}

// The directories of the internal topics show the same part of their ids.
func TestASalvageWithConsumerGroups(t *testing.T) {
	r := newRig(t, small(2))
	r.fillSegments("t", 1, 21)
	c := r.dial()
	in, err := c.Consumer(client.Group("g"), client.Topics("t"), client.From(client.Start()))
	if err != nil {
		t.Fatal(err)
	}
	b, err := in.Poll(r.context())
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Commit(r.context()); err != nil {
		t.Fatal(err)
	}
	b.Release()
	closeNow(c)
	r.stop()
	for _, name := range []string{layout.CatalogName, broker.GroupsName} {
		if len(r.partitionDirs(name)) == 0 {
			t.Fatalf("no directory of %s", name)
		}
	}
	r.start()
	r.die()
	if sum, notes, err := r.salvageRun(false); err != nil || sum.Losses+sum.Left != 0 {
		t.Fatalf("killed: %v: %+v %+v", err, sum, notes)
	}
	r.start()
	r.stop()
	if err := r.w.Corrupt(r.logsIn(r.partitionDirs("t")[0])[0], 100, 4); err != nil {
		t.Fatal(err)
	}
	sum, notes, err := r.salvageRun(true)
	if err != nil || sum.Losses != 1 || sum.Left != 0 || notes[0].Topic != "t" || sum.Partitions < 3 {
		t.Fatalf("%v: %+v %+v", err, sum, notes)
	}
	if n := r.verified(); n != 0 {
		t.Errorf("%d damaged places", n)
	}
}

// Without any checkpoint there is nothing to go by.
func TestASalvageNeedsACheckpoint(t *testing.T) {
	r := newRig(t, small(1))
	r.fillSegments("t", 1, 10)
	r.stop()
	dir := rigDir + "/checkpoints"
	entries, err := r.w.FS().ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := r.w.FS().Remove(dir + "/" + e.Name); err != nil {
			t.Fatal(err)
		}
	}
	if sum, notes, err := r.salvageRun(false); !errors.Is(err, salvage.ErrNotWhole) {
		t.Fatalf("%v: %+v %+v", err, sum, notes)
	}
}

// Of two generations of a checkpoint a start needs one, and writes both.
func TestASalvageBehindADamagedCheckpointWaitsForAStart(t *testing.T) {
	for _, name := range []string{"checkpoint-0.a", "checkpoint-0.b"} {
		r := newRig(t, small(1))
		r.fillSegments("t", 1, 10)
		r.stop()
		if err := r.w.Corrupt(rigDir+"/checkpoints/"+name, 200, 0xff); err != nil {
			t.Fatal(err)
		}
		if sum, notes, err := r.salvageRun(false); !errors.Is(err, salvage.ErrNotWhole) || !strings.Contains(err.Error(), "a start of the broker makes it anew") {
			t.Fatalf("%s: %v: %+v %+v", name, err, sum, notes)
		}
		r.start()
		r.stop()
		if sum, notes, err := r.salvageRun(false); err != nil || sum.Losses != 0 {
			t.Fatalf("%s: %v: %+v %+v", name, err, sum, notes)
		}
	}
}
