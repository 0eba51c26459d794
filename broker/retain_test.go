package broker

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/engine"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/layout"
)

// set is a setting.
func set(key, value string) catalog.Setting { return catalog.Setting{Key: key, Value: value} }

// smallest is the smallest size of a segment.
func smallest() catalog.Setting { return set("segment.bytes", "16KiB") }

// logs are the names of the logs in the directory of partition 0 of a topic.
func (r *rig) logs(topic *catalog.Topic) (logs []string) {
	r.t.Helper()
	entries, err := r.w.FS().ReadDir(layout.PartitionDir(rigDir, topic.Name, layout.Key{Topic: topic.ID}))
	if err != nil && !aio.IsNotExist(err) {
		r.t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name, ".log") {
			logs = append(logs, e.Name)
		}
	}
	return logs
}

// part is partition 0 of a topic, on the one shard.
func (r *rig) part(topic *catalog.Topic) *engine.Partition {
	return r.shards[0].store.Partition(engine.Key{Topic: topic.ID})
}

// grow produces until n more segments are full, and waits until their indexes are there.
func (r *rig) grow(topic *catalog.Topic, n int) {
	r.t.Helper()
	was := r.shards[0].store.Stats().SealedSegments
	for r.shards[0].store.Stats().SealedSegments < was+uint64(n) {
		r.mustProduce(0, topic.ID, 0, testBatch(r.t, 8, 500))
		r.run(time.Millisecond)
	}
}

// soon waits until of a topic nothing is left but the newest segment.
func (r *rig) soon(topic *catalog.Topic) {
	r.t.Helper()
	for waited := 0; len(r.logs(topic)) > 1; waited++ {
		if waited > 100 {
			r.t.Fatalf("left: %v; the log begins at %d", r.logs(topic), r.part(topic).LogStart())
		}
		r.pass(100 * time.Millisecond)
	}
	if p := r.part(topic); p.LogStart() == 0 || p.LogStart() > p.Durable() {
		r.t.Fatalf("the log goes from %d to %d", p.LogStart(), p.Durable())
	}
}

// stays checks that nothing of a topic goes in d.
func (r *rig) stays(topic *catalog.Topic, d time.Duration) {
	r.t.Helper()
	logs := strings.Join(r.logs(topic), " ")
	r.pass(d)
	if now := strings.Join(r.logs(topic), " "); !strings.HasPrefix(now, logs) || r.part(topic).LogStart() != 0 {
		r.t.Fatalf("files %s, before %s; the log begins at %d", now, logs, r.part(topic).LogStart())
	}
}

func (r *rig) restart(keep sim.Keep) {
	r.t.Helper()
	r.w.Crash(keep)
	r.start()
}

// C4
func TestOldSegmentsGoAlsoThoseOfAnEarlierLife(t *testing.T) {
	r := newRig(t, rigOptions{})
	topic := r.create("t", 1, smallest(), set("retention.ms", "8000"))
	r.grow(topic, 3)
	r.stays(topic, 3*time.Second)
	r.restart(sim.KeepNone)
	r.grow(topic, 3)
	r.stays(topic, 2*time.Second)
	r.soon(topic)
	end := r.part(topic).End()
	r.pass(3 * time.Second)
	if p := r.part(topic); p.LogStart() == end || len(r.logs(topic)) != 1 {
		t.Fatalf("the newest segment has gone: %v, from %d to %d", r.logs(topic), p.LogStart(), end)
	}
}

// C4: a change of the setting is for what is there already.
func TestAnAlteredRetentionIsForExistingSegments(t *testing.T) {
	for _, s := range []catalog.Setting{set("retention.ms", "1000"), set("retention.bytes", "16KiB")} {
		t.Run(s.Key, func(t *testing.T) {
			r := newRig(t, rigOptions{})
			topic := r.create("t", 1, smallest())
			r.grow(topic, 4)
			r.stays(topic, 5*time.Second)
			if a := r.admin(0, &Admin{Kind: AlterTopic, Name: "t", Settings: []catalog.Setting{s}}); a.Code != OK {
				t.Fatalf("alter: %v %s", a.Code, a.Message)
			}
			if s.Key == "retention.ms" {
				r.soon(topic)
				return
			}
			r.pass(3 * time.Second)
			if n := r.part(topic).Bytes(); n < 16<<10 || n >= 48<<10 {
				t.Fatalf("%d bytes are left", n)
			}
		})
	}
}

// C5
func TestTimestampsOfTheFutureHoldNothingUp(t *testing.T) {
	r := newRig(t, rigOptions{})
	topic := r.create("t", 1, smallest(), set("retention.ms", "1000"))
	b := batch.NewBuilder(nil, 1<<16)
	ahead := r.w.Wall()/1e6 + (10 * 365 * 24 * time.Hour).Milliseconds()
	if err := b.Append(&batch.Record{Timestamp: ahead, Value: []byte("from the future")}); err != nil {
		t.Fatal(err)
	}
	r.mustProduce(0, topic.ID, 0, b.Finish(batch.CodecNone))
	r.grow(topic, 10)
	r.soon(topic)
}

// C12, F19: the clock of the machine jumps while the broker runs, and between two lives.
func TestJumpsOfTheClockTakeAndKeepNothing(t *testing.T) {
	for life, forward := range map[string]time.Duration{
		"in one life": 2 * time.Hour, "with starts between": time.Hour / 2, // who is switched off for an hour ages by it
	} {
		t.Run(life, func(t *testing.T) {
			r := newRig(t, rigOptions{})
			topic := r.create("t", 1, smallest(), set("retention.ms", "20000"))
			newest := int64(0)
			for _, jump := range []time.Duration{0, -time.Hour, forward, 10 * 365 * 24 * time.Hour, -10 * 365 * 24 * time.Hour} {
				r.w.JumpWall(jump)
				if life != "in one life" && jump <= 0 {
					r.restart(sim.KeepNone)
				}
				r.grow(topic, 1)
				if now := r.part(topic).NewestAppendTime(); now < newest {
					t.Fatalf("append time %d after %d", now, newest)
				} else {
					newest = now
				}
				r.stays(topic, 2500*time.Millisecond)
			}
			r.pass(12 * time.Second)
			r.soon(topic)
		})
	}
}

// S6: segments without a usable index count for retention like others.
func TestSegmentsWithoutAnIndexGoToo(t *testing.T) {
	for _, s := range []catalog.Setting{set("retention.ms", "1000"), set("retention.bytes", "16KiB")} {
		t.Run(s.Key, func(t *testing.T) {
			r := newRig(t, rigOptions{})
			topic := r.create("t", 1, smallest(), s)
			r.grow(topic, 5)
			dir := layout.PartitionDir(rigDir, "t", layout.Key{Topic: topic.ID})
			r.w.Crash(sim.KeepAll)
			for n, log := range r.logs(topic) {
				index := dir + "/" + strings.TrimSuffix(log, ".log") + ".index"
				var err error
				if n%2 == 0 {
					err = r.w.FS().Remove(index)
				} else if f, ferr := r.w.FS().Open(index, aio.OpenWrite|aio.OpenCreate); ferr == nil {
					err = f.Truncate(7)
					_ = f.Close()
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			r.start()
			r.pass(6 * time.Second)
			if n := len(r.logs(topic)); n > 2 {
				t.Fatalf("left: %v", r.logs(topic))
			}
		})
	}
}

// A segment whose index is being read counts like others: what is behind it does not go in
// its place.
func TestASegmentThatIsBusyIsNotPassedOver(t *testing.T) {
	r := newRig(t, rigOptions{})
	topic := r.create("t", 1, smallest())
	r.grow(topic, 8)
	r.restart(sim.KeepAll)
	second := strings.TrimSuffix(r.logs(topic)[1], ".log")
	hold := r.w.Hold(sim.Filter{Ops: sim.Reads | sim.Opens, Path: second + ".index"})
	base, err := strconv.ParseInt(second, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	f := &fetched{}
	f.Topic, f.Offset = topic.ID, base
	r.beginFetch(0, f)
	r.run(time.Millisecond)
	const keep = 64 << 10
	if a := r.admin(0, &Admin{Kind: AlterTopic, Name: "t", Settings: []catalog.Setting{set("retention.bytes", fmt.Sprint(keep))}}); a.Code != OK {
		t.Fatal(a.Message)
	}
	r.pass(5 * time.Second)
	if p := r.part(topic); f.done > 0 || p.Bytes() < keep || p.LogStart() > base {
		t.Fatalf("%d bytes are left of %d, the log begins at %d, answers %d", p.Bytes(), keep, p.LogStart(), f.done)
	}
	hold.Release()
	r.until("the fetch", func() bool { return f.done > 0 })
	r.shards[0].Release(&f.Fetch)
	r.pass(5 * time.Second)
	if n := r.part(topic).Bytes(); n < keep || n >= keep+16<<10 {
		t.Fatalf("%d bytes are left of %d", n, keep)
	}
}

// S11
func TestAnIdleTopicGetsNoEmptySegment(t *testing.T) {
	r := newRig(t, rigOptions{})
	topic := r.create("t", 1, set("segment.ms", "1000"))
	for life := 1; life <= 3; life++ {
		r.mustProduce(0, topic.ID, 0, testBatch(t, 1, 100))
		r.pass(8 * time.Second)
		r.restart(sim.KeepNone)
		r.pass(4 * time.Second)
		if logs := r.logs(topic); len(logs) != life {
			t.Fatalf("files after %d batches: %v", life, logs)
		}
		if p := r.part(topic); p.LogStart() != 0 || p.End() != int64(life) {
			t.Fatalf("the log goes from %d to %d after %d batches", p.LogStart(), p.End(), life)
		}
	}
}

// S12
func TestATinyTopicHasNoMoreThanTwoSegments(t *testing.T) {
	r := newRig(t, rigOptions{})
	for _, size := range []string{"1", "1000"} {
		a := r.admin(0, &Admin{Kind: CreateTopic, Name: "t", Settings: []catalog.Setting{set("segment.bytes", size)}})
		if a.Code != InvalidConfig || !strings.Contains(a.Message, "16KiB") {
			t.Fatalf("segment.bytes %s: %v %s", size, a.Code, a.Message)
		}
	}
	topic := r.create("t", 1, smallest(), set("retention.ms", "2000"), set("segment.ms", "1000"))
	for n := range 5 {
		r.mustProduce(0, topic.ID, 0, testBatch(t, 1, 20))
		for range 10 {
			r.pass(200 * time.Millisecond)
			if logs := r.logs(topic); len(logs) > 2 {
				t.Fatalf("files after %d batches: %v", n+1, logs)
			}
		}
	}
	r.pass(8 * time.Second)
	if p := r.part(topic); len(r.logs(topic)) != 0 || p.LogStart() != p.End() || p.End() != 5 {
		t.Fatalf("at last: %v, the log goes from %d to %d", r.logs(topic), p.LogStart(), p.End())
	}
}
