package broker

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/broker/group"
	"github.com/mqd-broker/mqd/engine"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
)

// groupLog is where the logs of groups begin and end, all partitions together.
func (r *rig) groupLog() (start, end int64) {
	for i := range r.node.Image().ByID(GroupsTopic).Partitions {
		at := r.shards[r.node.ShardOf(GroupsTopic, int32(i))]
		if p := at.store.Partition(engine.Key{Topic: GroupsTopic, Partition: i}); p != nil {
			start, end = start+p.LogStart(), end+p.End()
		}
	}
	return start, end
}

// crowd commits for many groups and remembers what was acknowledged.
type crowd struct {
	*rig
	topic TopicID
	acked map[string]int64
	next  map[string]int64
	open  []*grouped
}

func newCrowd(t *testing.T, o rigOptions) *crowd {
	c := &crowd{rig: newRig(t, o), acked: map[string]int64{}, next: map[string]int64{}}
	c.topic = c.filled("t", 1, 1).ID
	for range 5 {
		c.mustProduce(0, c.topic, 0, testBatch(t, 1000, 8))
	}
	return c
}

// commit begins a commit of a group, a little further than the last.
func (c *crowd) commit(name string) {
	c.next[name] = min(c.next[name]+1, 5000)
	e := entryOf(c.topic, 0, c.next[name])
	e.Metadata = make([]byte, 200)
	g := commitOf(name, e)
	c.open = append(c.open, c.beginGroup(len(c.open)%len(c.shards), g))
}

// gather takes the answers that have come.
func (c *crowd) gather() {
	c.open = slices.DeleteFunc(c.open, func(g *grouped) bool {
		if g.done == 0 {
			return false
		}
		if g.Code != OK || g.Entries[0].Code != group.OK && g.Entries[0].Code != group.Backwards {
			c.t.Fatalf("commit of %s: %v, %v", g.Name, g.Code, g.Entries[0].Code)
		}
		c.acked[string(g.Name)] = max(c.acked[string(g.Name)], g.Entries[0].Committed)
		return true
	})
}

// check compares with what was acknowledged: a commit that was not may have come about.
func (c *crowd) check() {
	c.t.Helper()
	for name, next := range c.next {
		acked, ok := c.acked[name]
		if !ok {
			acked = -1
		}
		if got := c.committed(0, name, c.topic, 0); got < acked || got > next {
			c.t.Fatalf("group %s: %d is committed, acknowledged were %d and asked for %d", name, got, acked, next)
		}
	}
}

func TestTheLogOfGroupsStaysShort(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		c := newCrowd(t, rigOptions{shards: shards, journal: 2 << 20, broker: Options{GroupPartitions: 2, GroupLogBytes: 64 << 10}})
		for i := range 6000 {
			c.commit(fmt.Sprintf("g%d", i%50))
			if i%8 == 0 {
				c.until("answers", func() bool { c.gather(); return len(c.open) < 8 })
			}
		}
		c.until("answers", func() bool { c.gather(); return len(c.open) == 0 })
		c.pass(100 * time.Millisecond)
		start, end := c.groupLog()
		if start == 0 || end-start > 3000 {
			t.Fatalf("the logs hold %d to %d", start, end)
		}
		c.check()
		c.w.Crash(sim.KeepNone)
		c.start()
		c.check()
		for name := range c.next {
			if c.acked[name] != c.next[name] {
				t.Fatalf("group %s: %d acknowledged of %d", name, c.acked[name], c.next[name])
			}
		}
	})
}

// Whenever the machine dies, a start finds at least what was acknowledged.
func TestGroupsSurviveACrashAtAnyMomentOfASnapshot(t *testing.T) {
	runs := 25
	if testing.Short() {
		runs = 5
	}
	for range runs {
		c := newCrowd(t, rigOptions{shards: 2, journal: 2 << 20, broker: Options{GroupPartitions: 1, GroupLogBytes: 64 << 10}})
		rnd := rand.New(rand.NewPCG(c.opts.seed, 7))
		for range 4 {
			n := 200 + rnd.IntN(600)
			for i := range n {
				c.commit(fmt.Sprintf("g%d", rnd.IntN(40)))
				if i%4 == 0 {
					c.turn()
				}
				c.gather()
			}
			c.w.Crash([]sim.Keep{sim.KeepNone, sim.KeepRandom, sim.KeepAll}[rnd.IntN(3)])
			c.open = nil
			c.start()
			c.check()
		}
	}
}

// Of the two copies of a block one is enough; without both, nothing is made up.
func TestADamagedSnapshotOfGroupsIsPassedOver(t *testing.T) {
	c := newCrowd(t, rigOptions{broker: Options{GroupPartitions: 1, GroupLogBytes: 64 << 10}})
	for i := range 600 {
		c.commit(fmt.Sprintf("g%d", i%20))
		c.until("answer", func() bool { c.gather(); return len(c.open) == 0 })
	}
	c.pass(100 * time.Millisecond)
	files := func(copies string) (paths []string) {
		entries, err := c.w.FS().ReadDir(filepath.Join(rigDir, "groups", "0"))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if filepath.Ext(e.Name) == copies {
				paths = append(paths, filepath.Join(rigDir, "groups", "0", e.Name))
			}
		}
		return paths
	}
	if len(files(".a")) == 0 || len(files(".a")) != len(files(".b")) {
		t.Fatalf("copies %v and %v", files(".a"), files(".b"))
	}
	damage := func(paths []string) {
		for _, path := range paths {
			if err := c.w.Corrupt(path, 100, 0x20); err != nil {
				t.Fatal(err)
			}
		}
	}
	c.w.Crash(sim.KeepNone)
	damage(files(".a"))
	c.start()
	c.check()
	if len(c.log) == 0 {
		t.Error("nobody was told")
	}
	c.pass(100 * time.Millisecond) // the first ones are written again
	c.w.Crash(sim.KeepNone)
	damage(files(".b"))
	c.start()
	c.check()
	c.w.Crash(sim.KeepNone)
	damage(files(".a"))
	c.start()
	g := c.group(0, commitOf("g1", entryOf(c.topic, 0, 5000)))
	if g.Code != Storage || g.Message == "" {
		t.Fatalf("a commit to groups of which a part is lost: %v %q", g.Code, g.Message)
	}
}

// What somebody has removed by hand is written again as long as one copy is there. Without
// any, a log that is cut is not all there was.
func TestRemovedSnapshotsOfGroupsAreNotTakenForNone(t *testing.T) {
	c := newCrowd(t, rigOptions{broker: Options{GroupPartitions: 1, GroupLogBytes: 64 << 10}})
	for i := range 600 {
		c.commit(fmt.Sprintf("g%d", i%20))
		c.until("answer", func() bool { c.gather(); return len(c.open) == 0 })
	}
	c.pass(100 * time.Millisecond)
	remove := func(copies string) {
		entries, err := c.w.FS().ReadDir(filepath.Join(rigDir, "groups", "0"))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if filepath.Ext(e.Name) == copies {
				if err := c.w.FS().Remove(filepath.Join(rigDir, "groups", "0", e.Name)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, copies := range []string{".a", ".b"} { // the first ones are written again
		c.w.Crash(sim.KeepNone)
		remove(copies)
		c.start()
		c.check()
		c.pass(100 * time.Millisecond)
	}
	c.w.Crash(sim.KeepNone)
	remove(".a")
	remove(".b")
	c.start()
	g := c.group(0, commitOf("g1", entryOf(c.topic, 0, 5000)))
	if g.Code != Storage || !strings.Contains(g.Message, "no snapshot of groups") {
		t.Fatalf("a commit to groups that are lost: %v %q", g.Code, g.Message)
	}
}

func TestBlocksThatHaveNotChangedAreNotWritten(t *testing.T) {
	c := newCrowd(t, rigOptions{broker: Options{GroupPartitions: 1, GroupLogBytes: 64 << 10}})
	for i := range 400 {
		c.commit(fmt.Sprintf("g%d", i%100))
		c.until("answer", func() bool { c.gather(); return len(c.open) == 0 })
	}
	c.pass(100 * time.Millisecond)
	alone := func(n int) {
		for range n {
			c.commit("g7")
			c.until("answer", func() bool { c.gather(); return len(c.open) == 0 })
		}
		c.pass(100 * time.Millisecond)
	}
	alone(400) // by then all that the others have changed is written
	writes := c.w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Renames, Path: rigDir + "/groups/0/*.a*"}, Times: sim.Always, Skip: 1 << 30})
	alone(1000)
	start, end := c.groupLog()
	if n := writes.Seen(); n == 0 || n > 7 || end-start > 900 {
		t.Fatalf("%d writes of blocks while one group committed, the log holds %d to %d", n, start, end)
	}
}

// What cannot be read now may be readable soon: until then groups are not ready, and
// nobody has to start the broker again.
func TestGroupsWaitForAReadErrorToPass(t *testing.T) {
	for name, path := range map[string]string{"snapshots": rigDir + "/groups/0/*", "log": "*.log"} {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(t, rigOptions{broker: Options{GroupPartitions: 1, GroupLogBytes: 64 << 10}})
			for i := range 600 {
				c.commit(fmt.Sprintf("g%d", i%20))
				c.until("answer", func() bool { c.gather(); return len(c.open) == 0 })
			}
			c.pass(100 * time.Millisecond)
			c.w.Crash(sim.KeepNone)
			c.start()
			c.sealsMayFail = true
			fault := c.w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Reads | sim.Opens, Path: path}, Times: sim.Always})
			g := c.group(0, commitOf("g1", entryOf(c.topic, 0, 40)))
			if g.Code != NotReady || g.Message == "" {
				t.Fatalf("a commit while groups cannot be read: %v %q", g.Code, g.Message)
			}
			fault.End()
			c.pass(1200 * time.Millisecond)
			c.check()
			c.mustCommit(0, "g1", []group.Code{group.OK}, entryOf(c.topic, 0, 5000))
		})
	}
}

// A limit on batches that an operator has lowered refuses what does not fit, and breaks
// nothing.
func TestGroupsThatHaveBecomeTooLargeAreRefused(t *testing.T) {
	r := newRig(t, rigOptions{broker: Options{GroupPartitions: 1}})
	topic := r.create("t", 600)
	r.create("u", 1)
	a := r.mustGroup(0, join("g", "t"))
	if len(a.Grants) != 600 {
		t.Fatalf("%d partitions", len(a.Grants))
	}
	r.mustCommit(0, "small", []group.Code{group.OK}, entryOf(topic.ID, 0, 0))
	r.w.Crash(sim.KeepNone)
	r.maxBatch = 8 << 10 // a group of 600 partitions has 14 KiB
	r.start()
	for range 2 {
		if g := r.group(0, join("g", "u")); g.Code != Busy || g.Message == "" {
			t.Fatalf("a join to a group that has become too large: %v %v %q", g.Code, g.Outcome, g.Message)
		}
		r.mustCommit(0, "small", []group.Code{group.OK}, entryOf(topic.ID, 1, 0))
	}
	r.w.Crash(sim.KeepNone)
	r.maxBatch = 0
	r.start()
	r.mustGroup(0, join("g", "u"))
}

// A snapshot that lies where another belongs is passed over, and nothing of it is taken.
func TestASnapshotOfAnotherPlaceIsNotTaken(t *testing.T) {
	c := newCrowd(t, rigOptions{broker: Options{GroupPartitions: 1, GroupLogBytes: 64 << 10}})
	work := func(n int, name func(i int) string) {
		for i := range n {
			c.commit(name(i))
			c.until("answer", func() bool { c.gather(); return len(c.open) == 0 })
		}
		c.pass(100 * time.Millisecond)
	}
	all := func(i int) string { return fmt.Sprintf("g%d", i%20) }
	work(600, all)
	dir := filepath.Join(rigDir, "groups", "0")
	entries, err := c.w.FS().ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, e := range entries {
		if filepath.Ext(e.Name) == ".a" {
			files = append(files, filepath.Join(dir, e.Name))
		}
	}
	slices.Sort(files)
	old, err := aio.ReadFile(c.w.FS(), files[0], 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	work(600, all)
	work(1000, func(int) string { return "another" }) // by now the log has been cut behind the others
	c.w.Crash(sim.KeepNone)
	if err := aio.WriteFileAtomic(c.w.FS(), files[len(files)-1], old); err != nil {
		t.Fatal(err)
	}
	c.start()
	c.check()
	if !slices.ContainsFunc(c.log, func(line string) bool { return strings.Contains(line, "another place") }) {
		t.Errorf("nobody was told: %v", c.log)
	}
}
