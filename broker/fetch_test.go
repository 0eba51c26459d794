package broker

import (
	"testing"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/engine/aio/sim"
)

// poll begins a long poll at the end of a partition.
func (r *rig) poll(at int, topic TopicID, partition int32, offset int64, wait time.Duration) *fetched {
	f := &fetched{}
	f.Topic, f.Partition, f.Offset = topic, partition, offset
	f.MinBytes, f.MaxWait = 1, int64(wait)
	return r.beginFetch(at, f)
}

func TestALongPollIsAnsweredByTheNextBatch(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, rigOptions{shards: shards})
		topic := r.create("t", 6)
		for p := range int32(6) {
			f := r.poll(0, topic.ID, p, 0, time.Second)
			r.run(time.Millisecond)
			if f.done != 0 {
				t.Fatalf("partition %d: answered %v with %d bytes", p, f.Code, f.Bytes())
			}
			s := r.mustProduce(shards-1, topic.ID, p, testBatch(t, 2, 40))
			r.until("answer", func() bool { return f.done > 0 })
			if f.Code != OK || f.Bytes() != len(s.data) || f.Next != 2 || f.LogStart != 0 || f.Durable != 2 || f.End != 2 || f.NewestAppend != s.AppendTime || f.Class != ClassFlushed {
				t.Errorf("partition %d: %+v", p, f.Fetch)
			}
			if h, err := batch.CheckStored(f.Pieces()[0]); err != nil || h.BaseOffset != 0 {
				t.Errorf("partition %d: %v at %d", p, err, h.BaseOffset)
			}
			r.shards[0].Release(&f.Fetch)
		}
		r.mustBeHome()
	})
}

func TestALongPollEndsWithItsWait(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, rigOptions{shards: shards})
		topic := r.create("t", 4)
		for p := range int32(4) {
			began := r.w.Now()
			f := r.poll(0, topic.ID, p, 0, 3*time.Millisecond)
			r.until("answer", func() bool { return f.done > 0 })
			if waited := r.w.Now() - began; f.Code != OK || f.Bytes() != 0 || len(f.Pieces()) != 0 || f.Next != 0 || f.NewestAppend != -1 || waited < int64(3*time.Millisecond) {
				t.Errorf("partition %d: %v, %d bytes, next %d, after %v", p, f.Code, f.Bytes(), f.Next, time.Duration(waited))
			}
			r.shards[0].Release(&f.Fetch)
		}
		r.mustBeHome()
	})
}

func TestWhatIsWrongWithAFetchIsSaid(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, rigOptions{shards: shards})
		topic := r.create("t", 6)
		for p := range int32(6) {
			r.mustProduce(0, topic.ID, p, testBatch(t, 3, 20))
			for _, c := range []struct {
				topic     TopicID
				partition int32
				offset    int64
				want      Code
				end       int64
			}{
				{TopicID{1}, p, 0, UnknownTopic, -1},
				{topic.ID, 6, 0, UnknownPartition, -1},
				{topic.ID, -1, 0, UnknownPartition, -1},
				{topic.ID, p, 4, OffsetOutOfRange, 3},
				{topic.ID, p, -1, OffsetOutOfRange, 3},
				{topic.ID, p, 3, OK, 3},
			} {
				f := r.fetch(0, c.topic, c.partition, c.offset)
				if f.Code != c.want || f.Durable != c.end || f.Bytes() != 0 || f.Next != c.offset {
					t.Errorf("offset %d of partition %d: %+v, want %v", c.offset, c.partition, f.Fetch, c.want)
				}
				r.shards[0].Release(&f.Fetch)
			}
		}
		r.mustBeHome()
	})
}

func TestTheBoundsOfAFetchHold(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, rigOptions{shards: shards, broker: Options{FetchBytes: 500, FetchRecords: 7, MaxFetchBytes: 1000}})
		topic := r.create("t", 2)
		var size int
		for range 30 {
			for p := range int32(2) {
				size = len(r.mustProduce(0, topic.ID, p, testBatch(t, 2, 40)).data)
			}
		}
		for _, c := range []struct{ bytes, records, want int }{
			{0, 0, min(500/size, 7/2)},      // the defaults
			{1, 0, 1},                       // one batch at least
			{3 * size, 100, 3},              // bytes
			{1 << 30, 4, 2},                 // records
			{1 << 30, 1 << 20, 1000 / size}, // the limit
		} {
			for p := range int32(2) {
				f := &fetched{}
				f.Topic, f.Partition, f.MaxBytes, f.MaxRecords = topic.ID, p, c.bytes, c.records
				r.beginFetch(0, f)
				r.until("fetch", func() bool { return f.done > 0 })
				if f.Bytes() != c.want*size || f.Next != int64(2*c.want) {
					t.Errorf("at most %d bytes and %d records: %d bytes, next %d, want %d batches of %d", c.bytes, c.records, f.Bytes(), f.Next, c.want, size)
				}
				r.shards[0].Release(&f.Fetch)
			}
		}
		r.mustBeHome()
	})
}

func TestACancelledFetchIsAnsweredOnce(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		for delay := range 6 {
			r := newRig(t, rigOptions{shards: shards, credits: 4})
			topic := r.create("t", 4)
			var all []*fetched
			for i := range 40 { // more than there are credits: some are queued
				all = append(all, r.poll(0, topic.ID, int32(i%4), 0, time.Minute))
			}
			for range delay {
				r.turn()
			}
			for i, f := range all {
				r.shards[0].CancelFetch(&f.Fetch)
				if i%3 == 0 {
					r.shards[0].CancelFetch(&f.Fetch)
				}
				if i%5 == 0 {
					r.turn()
				}
			}
			r.until("answers", func() bool {
				for _, f := range all {
					if f.done == 0 {
						return false
					}
				}
				return true
			})
			for _, f := range all {
				if f.done != 1 || f.Code != OK || f.Bytes() != 0 {
					t.Errorf("%d answers, %v, %d bytes", f.done, f.Code, f.Bytes())
				}
				r.shards[0].CancelFetch(&f.Fetch) // answered: left alone
				r.shards[0].Release(&f.Fetch)
				r.shards[0].CancelFetch(&f.Fetch) // and idle
			}
			r.mustBeHome()
		}
	})
}

func TestACancellationThatMeetsTheAnswerHarmsNobody(t *testing.T) {
	for turns := range 12 {
		r := newRig(t, rigOptions{shards: 2, credits: 2})
		topic := r.create("t", 32)
		p := r.remote(0, topic)
		f := r.poll(0, topic.ID, p, 0, time.Minute)
		r.run(time.Millisecond)
		s := r.begin(1, topic.ID, p, testBatch(t, 1, 50))
		for range turns {
			r.turn()
		}
		r.shards[0].CancelFetch(&f.Fetch)
		r.until("both", func() bool { return f.done > 0 && s.done > 0 })
		other := r.poll(0, topic.ID, p, 1, time.Minute) // may take the same reading
		r.shards[0].Release(&f.Fetch)
		r.run(2 * time.Millisecond)
		if other.done != 0 {
			t.Fatalf("after %d turns: another's fetch was cancelled: %v", turns, other.Code)
		}
		r.mustProduce(0, topic.ID, p, testBatch(t, 1, 50))
		r.until("answer", func() bool { return other.done > 0 })
		if f.done != 1 || other.done != 1 || other.Bytes() == 0 {
			t.Errorf("after %d turns: %d and %d answers, %d bytes", turns, f.done, other.done, other.Bytes())
		}
		r.shards[0].Release(&other.Fetch)
		r.mustBeHome()
	}
}

func TestALateAnswerMayOvertakeTheNoteThatItIsLate(t *testing.T) {
	for _, cancel := range []bool{false, true} {
		for _, wait := range []time.Duration{time.Minute, 100 * time.Microsecond} { // with pieces, and without
			r := newRig(t, rigOptions{shards: 2})
			topic := r.create("t", 32)
			f := r.poll(0, topic.ID, r.remote(0, topic), 0, wait)
			asks, owns := r.shards[0], r.shards[1]
			asks.Finish(asks.loop.Now())
			r.turnOne(owns)
			if wait == time.Minute {
				r.begin(1, topic.ID, f.Partition, testBatch(t, 1, 50))
			}
			for range 2000 {
				r.turnOne(owns)
				r.w.Step()
			}
			if cancel {
				asks.CancelFetch(&f.Fetch)
			}
			// What a loop does that has looked for replies just before there was one.
			for {
				from, m, ok := asks.port.NextRequest()
				if !ok {
					break
				}
				asks.port.Reply(from, asks.request(from, m))
			}
			if f.done != 0 || !f.early {
				t.Fatalf("answered %d times before the note", f.done)
			}
			r.until("answer", func() bool { return f.done > 0 })
			if f.done != 1 || (f.Bytes() > 0) != (wait == time.Minute) {
				t.Errorf("%d answers, %d bytes", f.done, f.Bytes())
			}
			asks.Release(&f.Fetch)
			r.mustBeHome()
		}
	}
}

func TestFetchesWaitForPinnedMemory(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, rigOptions{shards: shards, broker: Options{PinnedBytes: 4 << 10}})
		topic := r.create("t", 32)
		p := r.partitionOf(topic, 0, shards == 1)
		owner := r.shards[r.node.ShardOf(topic.ID, p)]
		for range 10 {
			r.mustProduce(0, topic.ID, p, testBatch(t, 1, 1000))
		}
		var held []*fetched
		for range 8 {
			f := &fetched{}
			f.Topic, f.Partition, f.MaxBytes = topic.ID, p, 3000
			held = append(held, r.beginFetch(0, f))
		}
		r.run(time.Millisecond)
		answered := 0
		for _, f := range held {
			answered += f.done
		}
		if answered == 0 || answered == len(held) || owner.stats.PinWaits == 0 {
			t.Fatalf("%d of %d are answered, %d had to wait", answered, len(held), owner.stats.PinWaits)
		}
		if n := r.node.Held(); n != len(held)-answered {
			t.Errorf("%d fetches wait, expected %d", n, len(held)-answered)
		}
		r.shards[0].CancelFetch(&held[7].Fetch)
		for i, f := range held {
			r.until("answer", func() bool { return f.done > 0 })
			if (f.Bytes() == 0) != (i == 7) {
				t.Errorf("fetch %d: %d bytes", i, f.Bytes())
			}
			r.shards[0].Release(&f.Fetch)
		}
		r.until("nobody waits", func() bool { return r.node.Held() == 0 })
		r.mustBeHome()
	})
}

func TestMoreFetchesThanAllowedAreRefused(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, rigOptions{shards: shards, broker: Options{MaxFetches: 3}})
		topic := r.create("t", 1)
		r.mustProduce(0, topic.ID, 0, testBatch(t, 1, 10))
		var all []*fetched
		for range 3 {
			all = append(all, r.fetch(0, topic.ID, 0, 0))
		}
		if f := r.fetch(0, topic.ID, 0, 0); f.Code != Busy || f.Bytes() != 0 || f.Durable != -1 {
			t.Errorf("%v, %d bytes, end %d", f.Code, f.Bytes(), f.Durable)
		} else {
			r.shards[0].Release(&f.Fetch)
		}
		// Where a log is can be told without memory.
		if f := r.fetch(0, topic.ID, 0, 1<<62); f.Code != OffsetOutOfRange || f.LogStart != 0 || f.Durable != 1 || f.End != 1 || f.NewestAppend < 1 || f.Class != ClassFlushed {
			t.Errorf("%+v", f.Fetch)
		} else {
			r.shards[0].Release(&f.Fetch)
		}
		// Who may wait is answered when there is room.
		waits := r.poll(0, topic.ID, 0, 0, time.Minute)
		r.run(5 * time.Millisecond)
		if waits.done != 0 {
			t.Errorf("%v, %d bytes, without room", waits.Code, waits.Bytes())
		}
		for _, f := range all {
			r.shards[0].Release(&f.Fetch)
		}
		r.until("an answer", func() bool { return waits.done == 1 })
		if waits.Code != OK || waits.Bytes() == 0 {
			t.Errorf("%v, %d bytes", waits.Code, waits.Bytes())
		}
		r.shards[0].Release(&waits.Fetch)
		r.mustBeHome()
	})
}

func TestAReadErrorIsTheFetchsAlone(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, rigOptions{shards: shards, chunks: 1 << 20})
		topic := r.create("t", 1, catalog.Setting{Key: "segment.bytes", Value: "64KiB"})
		var sent []*produced
		for range 400 {
			sent = append(sent, r.mustProduce(0, topic.ID, 0, testBatch(t, 1, 3000)))
		}
		r.sealsMayFail = true
		fault := r.w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Reads, Path: "*.log"}, Times: sim.Always})
		f := r.fetch(shards-1, topic.ID, 0, 0)
		if f.Code != Storage || f.Message == "" || f.Bytes() != 0 {
			t.Errorf("%v %q, %d bytes", f.Code, f.Message, f.Bytes())
		}
		r.shards[shards-1].Release(&f.Fetch)
		fault.End()
		r.mustHold(shards-1, topic.ID, 0, sent)
		r.mustBeHome()
	})
}

// listed is a lookup and what came of it.
type listed struct {
	ListOffsets
	done int
}

func (l *listed) OffsetsListed(*ListOffsets) { l.done++ }

func (r *rig) list(at int, topic TopicID, partition int32, time int64) *listed {
	r.t.Helper()
	l := &listed{}
	l.Topic, l.Partition, l.Time, l.Owner = topic, partition, time, l
	r.shards[at].ListOffsets(&l.ListOffsets)
	r.until("lookup", func() bool { return l.done > 0 })
	return l
}

// ended asks where an epoch of a partition ends.
func (r *rig) ended(at int, topic TopicID, partition, epoch int32) (int32, int64) {
	r.t.Helper()
	l := &listed{}
	l.Topic, l.Partition, l.EndOf, l.Epoch, l.Owner = topic, partition, true, epoch, l
	r.shards[at].ListOffsets(&l.ListOffsets)
	r.until("end of an epoch", func() bool { return l.done > 0 })
	if l.Code != OK {
		r.t.Fatalf("end of epoch %d: %v %q", epoch, l.Code, l.Message)
	}
	return l.Epoch, l.Offset
}

func TestEpochsEndWhereTheirLastRecordIs(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, rigOptions{shards: shards})
		topic := r.create("t", 1)
		wants := func(epoch, found int32, end int64) {
			t.Helper()
			for at := range r.shards {
				if f, e := r.ended(at, topic.ID, 0, epoch); f != found || e != end {
					t.Errorf("in life %d epoch %d: %d ends at %d, want %d at %d", r.node.Term(), epoch, f, e, found, end)
				}
			}
		}
		first := r.node.Term()
		wants(first, first, 0)
		one := r.mustProduce(0, topic.ID, 0, testBatch(t, 3, 50))
		wants(first, first, 3)
		r.restart(sim.KeepNone) // nothing is written in this life
		idle := r.node.Term()
		wants(idle, idle, 3)
		wants(first, first, 3)
		r.restart(sim.KeepNone)
		last := r.node.Term()
		wants(last, last, 3)
		two := r.mustProduce(0, topic.ID, 0, testBatch(t, 2, 50))
		for _, w := range []struct {
			epoch, found int32
			end          int64
		}{{first - 1, first - 1, 0}, {first, first, 3}, {idle, first, 3}, {last, last, 5}, {last + 1, -1, -1}, {-1, -1, -1}, {1<<31 - 1, -1, -1}} {
			wants(w.epoch, w.found, w.end)
		}
		for _, w := range []struct {
			time   int64
			epoch  int32
			offset int64
		}{{TimeStart, first, 0}, {TimeEnd, last, 5}, {0, first, 0}, {1 << 40, -1, 5}} {
			if l := r.list(0, topic.ID, 0, w.time); l.Epoch != w.epoch || l.Offset != w.offset {
				t.Errorf("time %d: offset %d of epoch %d, want %d of %d", w.time, l.Offset, l.Epoch, w.offset, w.epoch)
			}
		}
		if one.Base != 0 || two.Base != 3 {
			t.Errorf("batches at %d and %d", one.Base, two.Base)
		}
		r.mustBeHome()
	})
}

// What a crash has taken back is behind the end of its epoch: a reader that has it learns
// that it is gone.
func TestAnEpochEndsBeforeWhatACrashHasTaken(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, rigOptions{shards: shards})
		topic := r.create("t", 1, class("memory"))
		first := r.node.Term()
		r.mustProduce(0, topic.ID, 0, testBatch(t, 3, 50))
		r.restart(sim.KeepNone)
		if found, end := r.ended(0, topic.ID, 0, first); found != first || end != 0 {
			t.Errorf("epoch %d ends at %d, and all of it is lost", found, end)
		}
		s := r.mustProduce(0, topic.ID, 0, testBatch(t, 1, 50))
		if found, end := r.ended(0, topic.ID, 0, first); s.Base < 3 || found != first || end != 0 {
			t.Errorf("with a record at %d behind it epoch %d ends at %d", s.Base, found, end)
		}
		r.mustBeHome()
	})
}

func TestOffsetsAreLookedUpByTime(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, rigOptions{shards: shards})
		topic := r.create("t", 4)
		for p := range int32(4) {
			var times []int64
			for range 20 {
				b := testBatch(t, 2, 30)
				h, err := batch.CheckStored(b)
				if err != nil {
					t.Fatal(err)
				}
				times = append(times, h.BaseTimestamp, h.MaxTimestamp)
				r.mustProduce(0, topic.ID, p, b)
			}
			for i := 1; i < len(times); i += 7 {
				if l := r.list(0, topic.ID, p, times[i]); l.Code != OK || l.Offset != int64(i) || l.Timestamp != times[i] {
					t.Errorf("time %d: %v, offset %d at %d, want %d", times[i], l.Code, l.Offset, l.Timestamp, i)
				}
			}
			for _, c := range []struct {
				topic     TopicID
				partition int32
				time      int64
				code      Code
				offset    int64
			}{
				{topic.ID, p, TimeStart, OK, 0},
				{topic.ID, p, TimeEnd, OK, 40},
				{topic.ID, p, times[39] + 1, OK, 40},
				{topic.ID, 9, TimeEnd, UnknownPartition, -1},
				{TopicID{5}, p, TimeEnd, UnknownTopic, -1},
			} {
				if l := r.list(0, c.topic, c.partition, c.time); l.Code != c.code || l.Offset != c.offset || l.Timestamp != -1 {
					t.Errorf("time %d: %v, offset %d at %d", c.time, l.Code, l.Offset, l.Timestamp)
				}
			}
		}
		r.mustBeHome()
	})
}
