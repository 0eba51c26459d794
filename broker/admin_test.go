package broker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/broker/catalogfile"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/layout"
)

// dirs are the names in the directory of topics.
func (r *rig) dirs() string {
	r.t.Helper()
	entries, err := r.w.FS().ReadDir(rigDir + "/" + layout.TopicsDir)
	if err != nil {
		r.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name, "__catalog") {
			names = append(names, e.Name)
		}
	}
	return strings.Join(names, " ")
}

func TestATopicIsVisibleOnEveryShardWhenItsCreationIsAnswered(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, rigOptions{shards: shards, broker: Options{Partitions: 3}})
		for i := range 2 * shards {
			name := fmt.Sprintf("topic-%d", i)
			a := r.admin(i%shards, &Admin{Kind: CreateTopic, Name: name, Settings: []catalog.Setting{class("written")}})
			if a.Code != OK || a.Message != "" || a.Topic == nil || a.Topic.Partitions != 3 || a.Topic.Config.Durability() != catalog.Written || a.Topic.Created == 0 {
				t.Fatalf("%v %q: %+v", a.Code, a.Message, a.Topic)
			}
			for _, b := range r.shards {
				if b.Image().ByName(name) != a.Topic || b.Image().ByID(a.Topic.ID) != a.Topic {
					t.Errorf("shard %d does not see %s", b.id, name)
				}
			}
		}
		r.mustBeHome()
	})
}

func TestWhatIsWrongWithAChangeIsSaid(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, rigOptions{shards: shards, broker: Options{MaxTopicPartitions: 8, MaxPartitions: 12}})
		r.create("taken", 5)
		r.create("beside", 1)
		version := r.node.Image().Version()
		set := func(k, v string) []catalog.Setting { return []catalog.Setting{{Key: k, Value: v}} }
		for _, c := range []struct {
			a    Admin
			want Code
			says string
		}{
			{Admin{Kind: CreateTopic, Name: "taken"}, TopicExists, `"taken"`},
			{Admin{Kind: CreateTopic, Name: "a/b"}, InvalidTopic, "0x2f"},
			{Admin{Kind: CreateTopic, Name: "__catalog"}, InvalidTopic, "broker's own"},
			{Admin{Kind: CreateTopic, Name: "t", Partitions: 9}, InvalidPartitions, "1 to 8"},
			{Admin{Kind: CreateTopic, Name: "t", Partitions: 7}, InvalidPartitions, "limit is 12"},
			{Admin{Kind: CreateTopic, Name: "t", Settings: set("colour", "red")}, InvalidConfig, "colour"},
			{Admin{Kind: CreateTopic, Name: "t", Settings: set("max.message.bytes", "1MiB")}, InvalidConfig, "64KiB"},
			{Admin{Kind: CreateTopic, Name: "t", Settings: set("durability", "")}, InvalidConfig, "durability"},
			{Admin{Kind: AlterTopic, Name: "t"}, UnknownTopic, `"t"`},
			{Admin{Kind: AlterTopic, Name: "taken", Settings: set("segment.bytes", "1")}, InvalidConfig, "16KiB"},
			{Admin{Kind: DeleteTopic, Name: "t"}, UnknownTopic, `"t"`},
			{Admin{Kind: AddPartitions, Name: "t", Partitions: 2}, UnknownTopic, `"t"`},
			{Admin{Kind: AddPartitions, Name: "__catalog", Partitions: 2}, UnknownTopic, "__catalog"},
			{Admin{Kind: AddPartitions, Name: "taken", Partitions: 4}, InvalidPartitions, "can only be more"},
			{Admin{Kind: AddPartitions, Name: "taken"}, InvalidPartitions, "1 to 8"},
			{Admin{Kind: AddPartitions, Name: "taken", Partitions: 9}, InvalidPartitions, "1 to 8"},
			{Admin{Kind: AddPartitions, Name: "beside", Partitions: 8}, InvalidPartitions, "limit is 12"},
			{Admin{Kind: DescribeTopic, Name: "t"}, UnknownTopic, "no topic"},
		} {
			a := r.admin(shards-1, &c.a)
			if a.Code != c.want || !strings.Contains(a.Message, c.says) || a.Topic != nil {
				t.Errorf("kind %d of %q: %v %q, want %v and %q", a.Kind, a.Name, a.Code, a.Message, c.want, c.says)
			}
		}
		if a := r.admin(0, &Admin{Kind: AlterTopic, Name: "taken"}); a.Code != OK || a.Topic == nil {
			t.Errorf("an alter of nothing: %v %q", a.Code, a.Message)
		}
		if a := r.admin(0, &Admin{Kind: AddPartitions, Name: "taken", Partitions: 5}); a.Code != OK || a.Topic == nil {
			t.Errorf("as many partitions as there are: %v %q", a.Code, a.Message)
		}
		if v := r.node.Image().Version(); v != version {
			t.Errorf("refused changes made version %d of %d", v, version)
		}
		r.mustBeHome()
	})
}

// A topic that grows has its new partitions everywhere, and loses nothing of the old ones;
// so it is after a start, which reads the command and then the snapshot.
func TestATopicGetsMorePartitions(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, rigOptions{shards: shards})
		topic := r.create("t", 2)
		s := r.mustProduce(0, topic.ID, 1, testBatch(t, 3, 50))
		if p := r.produce(0, topic.ID, 2, testBatch(t, 1, 50)); p.Code != UnknownPartition {
			t.Errorf("a partition that is not there yet: %v", p.Code)
		}
		grown := r.admin(shards-1, &Admin{Kind: AddPartitions, Name: "t", Partitions: 40})
		if grown.Code != OK || grown.Topic == nil || grown.Topic.Partitions != 40 || grown.Topic.ID != topic.ID {
			t.Fatalf("%v %q: %+v", grown.Code, grown.Message, grown.Topic)
		}
		for _, b := range r.shards {
			if b.Image().ByName("t") != grown.Topic {
				t.Errorf("shard %d does not see it", b.id)
			}
		}
		for p := int32(2); p < 40; p++ {
			if s := r.mustProduce(int(p)%shards, topic.ID, p, testBatch(t, 1, 50)); s.Base != 0 {
				t.Errorf("partition %d begins at %d", p, s.Base)
			}
		}
		if again := r.mustProduce(0, topic.ID, 1, testBatch(t, 1, 50)); again.Base != s.Base+3 {
			t.Errorf("partition 1 goes on at %d", again.Base)
		}
		for range 2 {
			r.restart(sim.KeepNone)
			if now := r.node.Image().ByName("t"); now == nil || now.Partitions != 40 || now.ID != topic.ID {
				t.Fatalf("after a start: %+v", now)
			}
			for p := int32(1); p < 40; p++ {
				want := int64(1)
				if p == 1 {
					want = 4
				}
				if l := r.list(0, topic.ID, p, TimeEnd); l.Code != OK || l.Offset != want {
					t.Errorf("partition %d ends at %d, want %d: %v", p, l.Offset, want, l.Code)
				}
			}
		}
		r.mustBeHome()
	})
}

func TestMoreChangesThanAllowedAreRefused(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, rigOptions{shards: shards, broker: Options{MaxAdmin: 3}})
		var all []*Admin
		var waits []*adminWait
		for i := range 7 {
			a := &Admin{Kind: CreateTopic, Name: fmt.Sprint("t", i)}
			all, waits = append(all, a), append(waits, r.beginAdmin(r.node.catalogShard(), a))
		}
		for i, a := range all {
			r.until("answer", func() bool { return waits[i].done > 0 })
			if want := map[bool]Code{true: OK, false: Busy}[i < 3]; a.Code != want || waits[i].done != 1 {
				t.Errorf("change %d: %v %q", i, a.Code, a.Message)
			}
		}
		r.mustBeHome()
	})
}

func TestDescribeTellsTheStateOfEveryPartition(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, rigOptions{shards: shards})
		topic := r.create("t", 1200, class("written")) // more than a shard does in a turn
		s := r.mustProduce(0, topic.ID, 1100, testBatch(t, 3, 50))
		a := r.admin(shards-1, &Admin{Kind: DescribeTopic, Name: "t"})
		if a.Code != OK || a.Topic != topic || len(a.Infos) != 1200 {
			t.Fatalf("%v %q: %d partitions", a.Code, a.Message, len(a.Infos))
		}
		for p, info := range a.Infos {
			want := PartitionInfo{Shard: r.node.ShardOf(topic.ID, int32(p)), NewestAppend: -1, Class: ClassWritten}
			if p == 1100 {
				want = PartitionInfo{
					Shard: want.Shard, Durable: 3, End: 3, NewestAppend: s.AppendTime, Bytes: int64(len(s.data)),
					ExposedBytes: info.ExposedBytes, Epoch: r.rec.Term, Class: ClassWritten,
				}
				if info.ExposedBytes < want.Bytes {
					t.Errorf("%d bytes are exposed, want at least %d", info.ExposedBytes, want.Bytes)
				}
			}
			if info != want {
				t.Errorf("partition %d: %+v, want %+v", p, info, want)
			}
		}
		r.mustBeHome()
	})
}

func TestAnAlterIsInForceOnEveryShardWhenItIsAnswered(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, rigOptions{shards: shards})
		topic := r.create("t", 9, class("memory"))
		for p := range int32(9) {
			r.mustProduce(0, topic.ID, p, testBatch(t, 1, 5000))
		}
		a := r.admin(shards-1, &Admin{Kind: AlterTopic, Name: "t", Settings: []catalog.Setting{
			class("flushed"), {Key: "max.message.bytes", Value: "2KiB"},
		}})
		if a.Code != OK || a.Topic.Config.Durability() != catalog.Flushed || r.node.Image().ByName("t") != a.Topic {
			t.Fatalf("%v %q", a.Code, a.Message)
		}
		// Whatever was acknowledged before the barrier is safe behind it.
		if lost := r.w.Unflushed(); lost > 0 {
			for p, info := range r.admin(0, &Admin{Kind: DescribeTopic, Name: "t"}).Infos {
				if info.ExposedBytes != 0 || info.Class != ClassFlushed {
					t.Errorf("partition %d: %+v", p, info)
				}
			}
		}
		for p := range int32(9) {
			if s := r.produce(0, topic.ID, p, testBatch(t, 1, 5000)); s.Code != BatchTooLarge || s.High != 2<<10 {
				t.Errorf("partition %d: %v, at most %d", p, s.Code, s.High)
			}
			if s := r.mustProduce(0, topic.ID, p, testBatch(t, 1, 50)); s.Class != ClassFlushed || s.Base != 1 {
				t.Errorf("partition %d: class %v at %d", p, s.Class, s.Base)
			}
		}
		back := r.admin(0, &Admin{Kind: AlterTopic, Name: "t", Settings: []catalog.Setting{{Key: "max.message.bytes"}}})
		if back.Code != OK || back.Topic.Config.MaxMessageBytes() != catalog.DefaultMaxMessageBytes || back.Topic.Config.Durability() != catalog.Flushed {
			t.Errorf("a setting taken away: %v, %+v", back.Code, back.Topic.Config.Describe())
		}
		r.mustBeHome()
	})
}

func TestAStrongerClassSurvivesAPowerCutFromItsAnswerOn(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, rigOptions{shards: shards})
		topic := r.create("t", 6, class("memory"))
		sent := map[int32][]*produced{}
		for i := range 60 {
			p := int32(i % 6)
			sent[p] = append(sent[p], r.mustProduce(i%shards, topic.ID, p, testBatch(t, 1, 100)))
		}
		if a := r.admin(0, &Admin{Kind: AlterTopic, Name: "t", Settings: []catalog.Setting{class("flushed")}}); a.Code != OK {
			t.Fatalf("%v %q", a.Code, a.Message)
		}
		r.w.Crash(sim.KeepNone)
		r.start()
		for p, list := range sent {
			r.mustHold(0, topic.ID, p, list)
		}
	})
}

func TestDeletingATopicWithBatchesInFlightAnswersThemAll(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		for turns := range 8 {
			r := newRig(t, rigOptions{shards: shards, credits: 8})
			topic, other := r.create("t", 5, class("memory")), r.create("other", 5)
			var all []*produced
			var polls []*fetched
			for i := range 40 {
				all = append(all, r.begin(i%shards, topic.ID, int32(i%5), testBatch(t, 1, 200)))
				all = append(all, r.begin(i%shards, other.ID, int32(i%5), testBatch(t, 1, 200)))
			}
			for p := range int32(5) {
				polls = append(polls, r.poll(0, topic.ID, p, 1<<20, time.Minute), r.poll(0, topic.ID, p, 8, time.Minute))
			}
			a := &Admin{Kind: DeleteTopic, Name: "t"}
			w := r.beginAdmin(shards-1, a)
			for range turns {
				r.turn()
				all = append(all, r.begin(0, topic.ID, int32(turns%5), testBatch(t, 1, 200)))
			}
			r.until("delete", func() bool { return w.done > 0 })
			if a.Code != OK || a.Topic != topic {
				t.Fatalf("delete: %v %q", a.Code, a.Message)
			}
			if s := r.produce(0, topic.ID, 0, testBatch(t, 1, 10)); s.Code != UnknownTopic {
				t.Errorf("a produce after the delete: %v", s.Code)
			}
			r.until("answers", func() bool { return r.doneOf(all) == len(all) })
			for _, p := range all {
				if p.Code != OK && (p.Code != UnknownTopic || p.Topic == other.ID) {
					t.Errorf("in flight: %v %q", p.Code, p.Message)
				}
			}
			for _, f := range polls {
				r.until("polls", func() bool { return f.done > 0 })
				if f.Code != UnknownTopic && f.Code != OffsetOutOfRange {
					t.Errorf("a long poll: %v", f.Code)
				}
				r.shards[0].Release(&f.Fetch)
			}
			r.mustBeHome()
		}
	})
}

func TestADeletedTopicComesBackAsAnother(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, rigOptions{shards: shards})
		var old []*catalog.Topic
		for life := range 4 {
			topic := r.create("t", 3)
			for _, o := range old {
				if o.ID == topic.ID {
					t.Fatal("an id came twice")
				}
				if s := r.produce(0, o.ID, 0, testBatch(t, 1, 50)); s.Code != UnknownTopic {
					t.Errorf("a produce to an earlier topic: %v", s.Code)
				}
			}
			sent := []*produced{r.mustProduce(life%shards, topic.ID, 1, testBatch(t, 2, 50))}
			r.mustHold(0, topic.ID, 1, sent)
			if a := r.admin(life%shards, &Admin{Kind: DeleteTopic, Name: "t"}); a.Code != OK {
				t.Fatalf("delete: %v %q", a.Code, a.Message)
			}
			old = append(old, topic)
		}
		r.mustBeHome()
	})
}

func TestTheFilesOfADeletedTopicGo(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, rigOptions{shards: shards})
		topic, stays := r.create("goes", 4, catalog.Setting{Key: "segment.bytes", Value: "64KiB"}), r.create("stays", 4)
		for i := range 200 {
			r.mustProduce(0, topic.ID, int32(i%4), testBatch(t, 1, 3000))
			r.mustProduce(0, stays.ID, int32(i%4), testBatch(t, 1, 3000))
		}
		r.until("directories", func() bool { return strings.Count(r.dirs(), " ") == 1 })
		f := r.fetch(0, topic.ID, 0, 0) // as long as it is not released, memory is in use
		if a := r.admin(0, &Admin{Kind: DeleteTopic, Name: "goes"}); a.Code != OK {
			t.Fatalf("delete: %v %q", a.Code, a.Message)
		}
		r.run(5 * time.Millisecond)
		if f.Bytes() == 0 || !strings.Contains(r.dirs(), "goes.") {
			t.Errorf("%d bytes are lent, and the directories are %s", f.Bytes(), r.dirs())
		}
		r.shards[0].Release(&f.Fetch)
		r.until("removal", func() bool { return !strings.Contains(r.dirs(), "goes") })
		if !strings.Contains(r.dirs(), "stays.") {
			t.Errorf("directories: %s", r.dirs())
		}
		r.mustBeHome()
	})
}

func TestFilesThatCannotBeRemovedAreReportedAndGoAtTheNextStart(t *testing.T) {
	r := newRig(t, rigOptions{shards: 2})
	topic := r.create("t", 2, catalog.Setting{Key: "segment.bytes", Value: "16KiB"})
	for range 80 {
		r.mustProduce(0, topic.ID, 0, testBatch(t, 1, 3000))
	}
	r.until("directory", func() bool { return r.dirs() != "" })
	fault := r.w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Renames, Path: "t.*"}, Times: sim.Always})
	if a := r.admin(0, &Admin{Kind: DeleteTopic, Name: "t"}); a.Code != OK {
		t.Fatalf("delete: %v %q", a.Code, a.Message)
	}
	r.until("report", func() bool { return strings.Contains(strings.Join(r.log, "\n"), "files left") })
	fault.End()
	r.w.Crash(sim.KeepNone)
	r.start()
	r.until("removal", func() bool { return r.dirs() == "" })
	keeper := r.shards[r.node.catalogShard()].keeper
	r.until("tombstones", func() bool { return len(keeper.state.Tombstones()) == 0 })
}

func TestTheCatalogSurvives(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		for _, end := range []string{"close", "kill", "power cut"} {
			r := newRig(t, rigOptions{shards: shards, broker: Options{SnapshotEvery: 7}})
			want := map[string]*catalog.Topic{}
			for life := range 5 {
				for i := range 9 {
					name := fmt.Sprintf("t-%d-%d", life, i)
					want[name] = r.create(name, uint32(1+i))
					if i%3 == 1 {
						want[name] = r.admin(0, &Admin{Kind: AlterTopic, Name: name, Settings: []catalog.Setting{class("written")}}).Topic
					}
					if i%4 == 2 {
						if a := r.admin(0, &Admin{Kind: DeleteTopic, Name: name}); a.Code != OK {
							t.Fatalf("delete: %v %q", a.Code, a.Message)
						}
						delete(want, name)
					}
				}
				r.opts.shards = 1 + (r.opts.shards+life)%3
				switch end {
				case "close":
					r.close()
				case "kill":
					r.w.Kill()
				default:
					r.w.Crash(sim.KeepRandom)
				}
				r.start()
				image := r.node.Image()
				if len(image.Topics()) != len(want) {
					t.Fatalf("%d topics, want %d", len(image.Topics()), len(want))
				}
				for name, topic := range want {
					if got := image.ByName(name); got == nil || *got != *topic {
						t.Errorf("%s: %+v, want %+v", name, got, topic)
					}
				}
			}
			r.run(5 * time.Millisecond)
			if n := len(r.shards[r.node.catalogShard()].keeper.state.Tombstones()); n != 0 {
				t.Errorf("%d tombstones are left after the start", n)
			}
		}
	})
}

func TestADamagedSnapshotIsPassedOver(t *testing.T) {
	for _, damaged := range [][]int{{0}, {1}, {0, 1}} {
		r := newRig(t, rigOptions{broker: Options{SnapshotEvery: 3}})
		for i := range 20 {
			r.create(fmt.Sprint("t", i), 1)
			r.run(2 * time.Millisecond)
		}
		r.w.Crash(sim.KeepNone)
		for _, g := range damaged {
			if err := r.w.Corrupt(catalogfile.SnapshotPath(rigDir, g), 80, 1); err != nil {
				t.Fatal(err)
			}
		}
		r.log = nil
		r.start()
		if n := len(r.node.Image().Topics()); n != 20 {
			t.Errorf("%v damaged: %d topics", damaged, n)
		}
		if n := strings.Count(strings.Join(r.log, "\n"), "passed over"); n != len(damaged) {
			t.Errorf("%v damaged: %q", damaged, r.log)
		}
		r.create("more", 1)
	}
}

func TestASnapshotOfANewerProgramStopsTheStart(t *testing.T) {
	r := newRig(t, rigOptions{broker: Options{SnapshotEvery: 1}})
	r.create("t", 1)
	path := catalogfile.SnapshotPath(rigDir, 0)
	r.run(5 * time.Millisecond)
	r.w.Crash(sim.KeepNone)
	data, err := aio.ReadFile(r.w.FS(), path, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	data = newerSnapshot(data)
	if err := aio.WriteFileAtomic(r.w.FS(), path, data); err != nil {
		t.Fatal(err)
	}
	if err := r.tryStart(); err == nil || !strings.Contains(err.Error(), "newer program") {
		t.Errorf("started: %v", err)
	}
}

func TestASnapshotThatCannotBeWrittenIsTriedAgain(t *testing.T) {
	r := newRig(t, rigOptions{broker: Options{SnapshotEvery: 2}})
	fault := r.w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Renames, Path: "catalog.*"}, Times: 2})
	for i := range 12 {
		r.create(fmt.Sprint("t", i), 1)
		r.run(2 * time.Millisecond)
	}
	if fault.Hits() != 2 || strings.Count(strings.Join(r.log, "\n"), "snapshot failed") != 2 {
		t.Errorf("%d faults: %q", fault.Hits(), r.log)
	}
	data, err := aio.ReadFile(r.w.FS(), catalogfile.SnapshotPath(rigDir, 0), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if s, _, err := catalog.DecodeSnapshot(data); err != nil || len(s.Image().Topics()) < 8 {
		t.Errorf("%v: %+v", err, s)
	}
}
