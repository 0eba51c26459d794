package broker

import (
	"slices"
	"testing"
	"time"
)

// Those who find no room to wait in wait without: they are looked at again, and keep
// nobody from reading.
func TestWhoWaitsKeepsNobodyFromReading(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, rigOptions{shards: shards, broker: Options{MaxFetches: 8}})
		empty, full := r.create("empty", 1), r.create("full", 1)
		owner := r.shards[r.node.ShardOf(empty.ID, 0)]
		r.mustProduce(0, full.ID, 0, testBatch(t, 1, 10))
		const many = 3 * lookAtOnce
		var all []*fetched
		for range many {
			all = append(all, r.poll(0, empty.ID, 0, 0, time.Minute))
		}
		r.run(20 * time.Millisecond)
		for i, f := range all {
			if f.done != 0 {
				t.Errorf("fetch %d: %v", i, f.Code)
			}
		}
		if n := owner.readings.out; n != 6 {
			t.Errorf("%d of 8 readings are taken by those who wait", n)
		}
		for i, f := range []*fetched{r.fetch(0, full.ID, 0, 0), r.poll(0, full.ID, 0, 0, time.Minute)} {
			r.until("an answer", func() bool { return f.done == 1 })
			if f.Code != OK || f.Bytes() == 0 {
				t.Errorf("read %d: %v, %d bytes", i, f.Code, f.Bytes())
			}
			r.shards[0].Release(&f.Fetch)
		}
		if f := r.fetch(0, empty.ID, 0, 0); f.Code != OK {
			t.Errorf("who does not wait hears %v of an empty topic", f.Code)
		} else {
			r.shards[0].Release(&f.Fetch)
		}
		// One that is cancelled is answered, one that goes on takes its place.
		for _, i := range []int{0, many - 1} {
			r.shards[0].CancelFetch(&all[i].Fetch)
			r.until("an answer", func() bool { return all[i].done == 1 })
			if f := all[i]; f.Code != OK || f.Bytes() != 0 || f.Durable != 0 {
				t.Errorf("cancelled: %v, %d bytes, end %d", f.Code, f.Bytes(), f.Durable)
			}
			r.shards[0].Release(&all[i].Fetch)
		}
		all = all[1 : many-1]
		r.until("the place is taken", func() bool { return owner.readings.out == 6 })
		began := r.w.Now()
		r.mustProduce(0, empty.ID, 0, testBatch(t, 1, 10))
		for left := len(all); left > 0; {
			r.until("an answer", func() bool {
				return slices.ContainsFunc(all, func(f *fetched) bool { return f.stage == fetchHeld })
			})
			for i, f := range all {
				if f.stage == fetchHeld {
					if f.Code != OK || f.Bytes() == 0 {
						t.Errorf("fetch %d: %v, %d bytes", i, f.Code, f.Bytes())
					}
					r.shards[0].Release(&f.Fetch)
					left--
				}
			}
		}
		if took := r.w.Now() - began; took > int64(time.Second) {
			t.Errorf("the last heard of it after %v", time.Duration(took))
		}
		r.mustBeHome()
	})
}

// A wait ends in time wherever it is spent, and tells where the log is.
func TestAWaitWithoutRoomEndsInTime(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		for _, pinned := range []int64{0, 1} { // 1: nothing can be read at all while there are pieces out
			r := newRig(t, rigOptions{shards: shards, broker: Options{MaxFetches: 4, PinnedBytes: pinned}})
			topic := r.create("t", 1)
			r.mustProduce(0, topic.ID, 0, testBatch(t, 2, 10))
			out := r.fetch(0, topic.ID, 0, 0)
			var long []*fetched
			for range 3 {
				long = append(long, r.poll(0, topic.ID, 0, 2, time.Minute))
			}
			began := r.w.Now()
			f := r.poll(0, topic.ID, 0, 2, 3*time.Millisecond)
			if pinned == 0 {
				r.until("the end of the wait", func() bool { return f.done == 1 })
				if waited := r.w.Now() - began; f.Code != OK || f.Bytes() != 0 || f.Durable != 2 || f.Next != 2 || waited < int64(3*time.Millisecond) {
					t.Errorf("%v, %d bytes, end %d, after %v", f.Code, f.Bytes(), f.Durable, time.Duration(waited))
				}
			}
			r.shards[0].Release(&out.Fetch)
			r.mustProduce(0, topic.ID, 0, testBatch(t, 1, 10))
			for i, f := range append(long, f) {
				r.until("an answer", func() bool { return f.done == 1 })
				if f.Code != OK || i < 3 && f.Bytes() == 0 {
					t.Errorf("fetch %d: %v, %d bytes", i, f.Code, f.Bytes())
				}
				r.shards[0].Release(&f.Fetch)
			}
			r.mustBeHome()
		}
	})
}

// One asker of very many leaves others room in which they hear of messages at once.
func TestVeryManyFetchesLeaveRoomToWaitIn(t *testing.T) {
	r := newRig(t, rigOptions{shards: 1, broker: Options{MaxFetches: 8}})
	topic := r.create("t", 1)
	b := r.shards[0]
	var all []*fetched
	for range 6 {
		f := &fetched{}
		f.Many, f.Topic, f.MinBytes, f.MaxWait = true, topic.ID, 1, int64(time.Minute)
		all = append(all, r.beginFetch(0, f))
	}
	if b.readings.out != 4 || b.crowd.n != 2 {
		t.Errorf("%d have a reading, %d wait without", b.readings.out, b.crowd.n)
	}
	all = append(all, r.poll(0, topic.ID, 0, 0, time.Minute), r.poll(0, topic.ID, 0, 0, time.Minute))
	if b.readings.out != 6 || b.crowd.n != 2 {
		t.Errorf("with two of others %d have a reading, %d wait without", b.readings.out, b.crowd.n)
	}
	for _, f := range all {
		b.CancelFetch(&f.Fetch)
		r.until("an answer", func() bool { return f.done == 1 })
		b.Release(&f.Fetch)
	}
	r.mustBeHome()
}
