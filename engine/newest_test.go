package engine

import (
	"math/rand/v2"
	"testing"

	"github.com/mqd-broker/mqd/batch"
)

// timedBatch has a record of some size at each time.
func timedBatch(t testing.TB, c batch.Codec, size int, times ...int64) []byte {
	t.Helper()
	b := batch.NewBuilder(nil, 1<<20)
	for _, at := range times {
		if err := b.Append(&batch.Record{Timestamp: at, Value: make([]byte, size)}); err != nil {
			t.Fatal(err)
		}
	}
	return b.Finish(c)
}

// newest looks up the record with the largest timestamp.
func (r *rig) newest(p *Partition) (offset, timestamp int64) {
	r.t.Helper()
	var f found
	l := &TimeLookup{Part: p, Newest: true, Owner: &f}
	p.store.LookUpTime(l)
	r.until("lookup", func() bool { return f.done })
	if l.Err != nil {
		r.t.Fatal(l.Err)
	}
	return l.Offset, l.Timestamp
}

// The first record with the largest timestamp of those that can be read is found, wherever
// the log begins: in the middle of a batch, or behind what was newest of all.
func TestTheNewestRecordIsFound(t *testing.T) {
	for seed := range uint64(6) {
		r := newRig(t, rigOptions{segment: 16 << 10, shards: 1})
		rng := rand.New(rand.NewPCG(seed, 1))
		id := r.topic(1, ClassFlushed)
		p := r.part(id, 0)
		if at, time := r.newest(p); at != 0 || time != -1 {
			t.Fatalf("in an empty log: offset %d at %d", at, time)
		}
		var times []int64
		for range 30 {
			var some []int64
			for range 1 + rng.IntN(4) {
				some = append(some, 1000+rng.Int64N(60))
			}
			times = append(times, some...)
			codec := []batch.Codec{batch.CodecNone, batch.CodecGzip}[rng.IntN(2)]
			r.mustTry(p, timedBatch(t, codec, 1000, some...))
		}
		check := func(start int64) {
			t.Helper()
			want := start
			for i := start; i < int64(len(times)); i++ {
				if times[i] > times[want] {
					want = i
				}
			}
			if at, time := r.newest(r.part(id, 0)); at != want || time != times[want] {
				t.Fatalf("seed %d, from %d on: offset %d at %d, want %d at %d", seed, start, at, time, want, times[want])
			}
		}
		check(0)
		r.w.Kill()
		r.start()
		check(0)
		for start := int64(1); start < int64(len(times)); start += 1 + rng.Int64N(3) {
			r.trim(r.part(id, 0), start)
			check(start)
		}
		r.trim(r.part(id, 0), int64(len(times)))
		if at, time := r.newest(r.part(id, 0)); at != int64(len(times)) || time != -1 {
			t.Fatalf("behind everything: offset %d at %d", at, time)
		}
	}
}

// Segments that go while the newest record is looked for are not looked for: the answer is
// that of the log as it began before or as it begins behind that.
func TestTheNewestRecordIsFoundWhileTheLogIsCutOff(t *testing.T) {
	for turns := range 120 {
		r := newRig(t, rigOptions{segment: 16 << 10, shards: 1, seed: 1})
		id := r.topic(1, ClassFlushed)
		for i := range int64(80) {
			at := 1000 + i%7
			if i == 1 {
				at = 5000 // so that indexes are not enough when it has gone
			}
			r.mustTry(r.part(id, 0), timedBatch(t, batch.CodecNone, 1000, at))
		}
		r.trim(r.part(id, 0), 3)
		r.w.Kill()
		r.start()
		p := r.part(id, 0)
		var f found
		l := &TimeLookup{Part: p, Newest: true, Owner: &f}
		p.store.LookUpTime(l)
		for range turns {
			r.turn()
		}
		before := f.done
		p.store.Trim(p, p.bases[len(p.bases)-1].base+1, nil)
		r.until("lookup", func() bool { return f.done })
		if l.Err != nil || l.Timestamp != 1006 || l.Offset != 6 && (before || (l.Offset+1)%7 != 0) {
			t.Fatalf("cut off behind %d turns: offset %d at %d, %v", turns, l.Offset, l.Timestamp, l.Err)
		}
		if r.w.Kill(); before {
			return
		}
	}
	t.Fatal("the log was cut off in no look-up's end")
}
