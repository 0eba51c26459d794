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
