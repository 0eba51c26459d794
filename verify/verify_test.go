package verify

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/checkpoint"
	"github.com/mqd-broker/mqd/engine/journal"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/engine/segment"
)

const dir = "/data"

// directory is a data directory of one shard on a simulated machine, made by hand: the
// catalog's log with two commands, a snapshot with the first, and topic t with one
// partition, of which the first segment is full and the second is not.
type directory struct {
	t     *testing.T
	w     *sim.World
	d     aio.Driver
	node  checkpoint.Node
	topic layout.TopicID
	ends  [2]int64 // of the catalog's log and of the newest of t
}

func newDirectory(t *testing.T) *directory {
	x := &directory{t: t, w: sim.New(sim.Options{Seed: 1}), topic: layout.TopicID{7, 7}}
	x.d = x.w.Driver(aio.Options{ArenaBytes: 4 << 20, RecvBuffers: 2, RecvBufferBytes: 4096})
	x.node = checkpoint.Node{ID: [16]byte{1, 2}, Created: 1, Slots: 64, Shards: 1, Starts: 2}
	for _, sub := range []string{layout.CheckpointsDir, layout.JournalsDir, layout.TopicsDir} {
		x.must(aio.MkdirAll(x.d.FS(), filepath.Join(dir, sub)))
	}
	x.must(checkpoint.SaveNode(x.d.FS(), dir, &x.node))
	create := catalog.Command{Kind: catalog.CreateTopic, ID: x.topic, Name: "t", Partitions: 1, Created: 1}
	gone := catalog.Command{Kind: catalog.CreateTopic, ID: [16]byte{9}, Name: "u", Partitions: 1, Created: 2}
	state := catalog.New()
	x.must(state.Apply(0, create.Append(nil)))
	x.write(layout.CheckpointsDir+"/catalog.a", state.Snapshot().Append(nil, x.node.ID))
	end := x.log(layout.CatalogTopic, layout.CatalogName, 0, false, create.Append(nil), gone.Append(nil))
	x.log(x.topic, "t", 0, true, []byte("a"), []byte("b"))
	x.ends = [2]int64{end, x.log(x.topic, "t", 2, false, []byte("c"))}
	x.checkpoint(0)
	region, err := journal.CreateFile(x.d, layout.JournalPath(dir, 0), journal.MinRegion, journal.Identity{})
	x.must(err)
	x.must(region.Close())
	return x
}

// checkpoint writes a checkpoint by which the log of t begins at logStart.
func (x *directory) checkpoint(logStart int64) {
	x.t.Helper()
	var w checkpoint.Writer
	w.Begin([]checkpoint.Slot{{Slot: 0, Term: 1}})
	w.Add(&checkpoint.Partition{Topic: layout.CatalogTopic, Class: 3, Term: 1, End: x.ends[0], NextOffset: 2})
	w.Add(&checkpoint.Partition{Topic: x.topic, Class: 3, Term: 1, SegmentBase: 2, End: x.ends[1], NextOffset: 3, LogStart: logStart})
	x.write(layout.CheckpointsDir+"/checkpoint-0.a", w.Finish(&checkpoint.Header{Node: x.node.ID, Shards: 1, Sequence: 1, LSN: 1}))
}

func (x *directory) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

func (x *directory) write(name string, b []byte) {
	x.t.Helper()
	x.must(aio.WriteFileAtomic(x.d.FS(), filepath.Join(dir, name), b))
}

// log writes a segment of one batch a message, with its index if it is full, and returns
// its size.
func (x *directory) log(id layout.TopicID, name string, base int64, full bool, messages ...[]byte) int64 {
	x.t.Helper()
	at := layout.PartitionDir(dir, name, layout.Key{Topic: id})
	x.must(aio.MkdirAll(x.d.FS(), at))
	var all []byte
	for i, m := range messages {
		b := batch.NewBuilder(nil, 1<<16)
		x.must(b.Append(&batch.Record{Value: m}))
		one := b.Finish(batch.CodecNone)
		batch.Stamp(one, base+int64(i), 1)
		all = append(all, one...)
	}
	x.must(aio.WriteFileAtomic(x.d.FS(), filepath.Join(at, segment.LogName(base)), all))
	if full {
		j := segment.RebuildJob{Form: segment.FormSealed, Log: segment.Log{Dir: at, ID: segment.ID{Topic: id, Base: base}}}
		x.must(j.Run(x.d.FS()))
	}
	return int64(len(all))
}

// path is a file of the partition of t.
func (x *directory) path(name string) string {
	return filepath.Join(layout.PartitionDir(dir, "t", layout.Key{Topic: x.topic}), name)
}

// verify returns what is found, a line each.
func (x *directory) verify(o Options) (Summary, string, error) {
	var found strings.Builder
	o.Dir, o.Report = dir, func(f *Finding) { found.WriteString(f.String() + "\n") }
	sum, err := Run(x.d, o)
	return sum, found.String(), err
}

func TestAWholeDirectoryIsWhole(t *testing.T) {
	x := newDirectory(t)
	last, total := int64(0), int64(0)
	sum, found, err := x.verify(Options{Progress: func(done, all int64) { last, total = done, all }})
	if err != nil || found != "" || sum.Damages+sum.Notes+sum.Unchecked != 0 {
		t.Fatalf("%v, %+v\n%s", err, sum, found)
	}
	if sum.Checkpoints != 1 || sum.Snapshots != 1 || sum.Commands != 2 || sum.Journals != 1 || sum.Segments != 3 || sum.Indexes != 1 || sum.Records != 5 {
		t.Errorf("read %+v", sum)
	}
	if last != total || last != sum.Bytes || last == 0 {
		t.Errorf("progress ends at %d of %d, %d bytes were read", last, total, sum.Bytes)
	}
	if entries, err := x.d.FS().ReadDir(dir); err != nil || len(entries) != 4 {
		t.Errorf("the directory has %v, %v", entries, err)
	}
}

func TestDamageIsToldWithItsPlace(t *testing.T) {
	for _, c := range []struct {
		name string
		harm func(x *directory) error
		want string
	}{
		{"snapshot of the catalog", func(x *directory) error { return x.w.Corrupt(dir+"/checkpoints/catalog.a", 80, 1) },
			"DAMAGED: checkpoints/catalog.a: "},
		{"snapshot of another node", func(x *directory) error {
			x.write("checkpoints/catalog.b", catalog.New().Snapshot().Append(nil, [16]byte{3}))
			return nil
		}, "DAMAGED: checkpoints/catalog.b: it belongs to node 03"},
		{"checkpoint of another node", func(x *directory) error {
			var w checkpoint.Writer
			w.Begin(nil)
			x.write("checkpoints/checkpoint-0.b", w.Finish(&checkpoint.Header{Node: [16]byte{3}, Shards: 1, Sequence: 2, LSN: 1}))
			return nil
		}, "DAMAGED: checkpoints/checkpoint-0.b: it belongs to node 03"},
		{"command that does not apply", func(x *directory) error {
			again := catalog.Command{Kind: catalog.DeleteTopic, ID: [16]byte{8}}
			create := catalog.Command{Kind: catalog.CreateTopic, ID: x.topic, Name: "t", Partitions: 1, Created: 1}
			x.log(layout.CatalogTopic, layout.CatalogName, 0, false, create.Append(nil), again.Append(nil))
			return nil
		}, "topics/__catalog.00000000/0/00000000000000000000.log: the catalog's log does not apply"},
		{"sector that cannot be read", func(x *directory) error { return x.w.BadSectors(x.path(segment.LogName(0)), 0, 512) },
			"DAMAGED: topic t partition 0: topics/t.07070000/0/00000000000000000000.log at bytes 0 to "},
		{"log that is missing", func(x *directory) error { return x.d.FS().Remove(x.path(segment.LogName(0))) },
			"00000000000000000000.index: offset 0: there is an index here and the log of it is missing"},
		{"open log that is missing", func(x *directory) error { return x.d.FS().Remove(x.path(segment.LogName(2))) },
			"DAMAGED: topic t partition 0: topics/t.07070000/0: offset 2: no segment has these offsets"},
		{"no journal", func(x *directory) error {
			var w checkpoint.Writer
			w.Begin(nil)
			x.write("checkpoints/checkpoint-0.b", w.Finish(&checkpoint.Header{Node: x.node.ID, Shards: 1, Sequence: 2, LSN: 5, Incarnation: 1}))
			return x.d.FS().Remove(layout.JournalPath(dir, 0))
		}, "DAMAGED: journals/journal-0: it is missing, and the checkpoint needs its rounds from 5 on"},
		{"no journal behind a start", func(x *directory) error {
			var w checkpoint.Writer
			w.Begin(nil)
			x.write("checkpoints/checkpoint-0.b", w.Finish(&checkpoint.Header{Node: x.node.ID, Shards: 1, Sequence: 2, LSN: 7, Journal: [16]byte{5}}))
			return x.d.FS().Remove(layout.JournalPath(dir, 0))
		}, "DAMAGED: journals/journal-0: it is missing, and the checkpoint needs its rounds from 7 on"},
		{"journal of another checkpoint", func(x *directory) error {
			var w checkpoint.Writer
			w.Begin(nil)
			x.write("checkpoints/checkpoint-0.b", w.Finish(&checkpoint.Header{Node: x.node.ID, Shards: 1, Sequence: 2, LSN: 5, Incarnation: 1, Journal: [16]byte{5}}))
			return nil
		}, "the checkpoint is of journal 05"},
		{"directory for a checkpoint", func(x *directory) error { return x.d.FS().Mkdir(dir + "/checkpoints/checkpoint-0.b") },
			"DAMAGED: checkpoints/checkpoint-0.b: expected a file, found a directory"},
		{"directory for a snapshot", func(x *directory) error { return x.d.FS().Mkdir(dir + "/checkpoints/catalog.b") },
			"DAMAGED: checkpoints/catalog.b: expected a file, found a directory"},
		{"directory for a journal", func(x *directory) error { return x.d.FS().Mkdir(layout.JournalPath(dir, 1)) },
			"DAMAGED: journals/journal-1: expected a file, found a directory"},
		{"no node file", func(x *directory) error { return x.d.FS().Remove(dir + "/" + checkpoint.NodeFile) },
			"DAMAGED: mqd.node: it is missing"},
	} {
		x := newDirectory(t)
		x.must(c.harm(x))
		if sum, found, err := x.verify(Options{}); err != nil || sum.Damages == 0 || !strings.Contains(found, c.want) {
			t.Errorf("%s: %v, %+v, expected %q in\n%s", c.name, err, sum, c.want, found)
		}
	}
}

// What a trim has not removed yet may be there in any state.
func TestSegmentsBelowTheLogStartAreNoDamage(t *testing.T) {
	x := newDirectory(t)
	x.must(x.w.Corrupt(x.path(segment.LogName(0)), 70, 1))
	if sum, found, err := x.verify(Options{}); err != nil || sum.Damages == 0 {
		t.Fatalf("damage that counts: %+v, %v\n%s", sum, err, found)
	}
	x.checkpoint(2)
	for range 2 {
		sum, found, err := x.verify(Options{})
		if err != nil || sum.Damages > 0 {
			t.Fatalf("%+v, %v\n%s", sum, err, found)
		}
		x.must(x.d.FS().Remove(x.path(segment.LogName(0)))) // its index is still there
	}
}

func TestADirectoryInUseIsNotRead(t *testing.T) {
	x := newDirectory(t)
	_, err := x.d.FS().Lock(filepath.Join(dir, layout.LockFile), dir)
	x.must(err)
	if _, found, err := x.verify(Options{}); !errors.Is(err, ErrInUse) || found != "" {
		t.Errorf("%v, %s", err, found)
	}
}

func TestATopicThatIsNotThereIsNamed(t *testing.T) {
	x := newDirectory(t)
	if _, _, err := x.verify(Options{Topic: "v"}); !errors.Is(err, ErrUnknownTopic) {
		t.Errorf("topic v: %v", err)
	}
	// u is in the catalog and nothing has been written to it.
	if sum, found, err := x.verify(Options{Topic: "u"}); err != nil || found != "" || sum.Segments != 0 {
		t.Errorf("topic u: %v, %+v, %s", err, sum, found)
	}
}
