package segment

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
)

// testID is the segment of most tests.
var testID = ID{Topic: [16]byte{0xc0, 0xff, 0xee, 0x01, 15: 0x99}, Partition: 7, Base: 1000}

const testDir = "data/topics/alerts.c0ffee01/7"

// testLog is a log and, beside its bytes, what a naive reader would know of it.
type testLog struct {
	id      ID
	data    []byte
	batches []Batch
	chain   testChain
	next    int64
	epoch   int32
}

func newTestLog(id ID) *testLog {
	return &testLog{id: id, next: id.Base, epoch: 3, chain: testChain{gaps: map[int64]int64{}}}
}

// testChain is recorded history, naively.
type testChain struct {
	gaps   map[int64]int64 // from -> to
	epochs []struct {
		from  int64
		epoch int32
	}
}

func (c testChain) AllowsGap(from, to int64) bool { return c.gaps[from] == to }

func (c testChain) EpochAt(offset int64) (epoch int32, ok bool) {
	for _, e := range c.epochs {
		if e.from <= offset {
			epoch, ok = e.epoch, true
		}
	}
	return epoch, ok
}

// append adds a batch of records whose values have the given sizes.
func (l *testLog) append(t testing.TB, rng *rand.Rand, values ...int) {
	t.Helper()
	b := batch.NewBuilder(nil, batch.MaxSize)
	for _, n := range values {
		v := make([]byte, n)
		for i := range v {
			v[i] = byte(rng.Uint32())
		}
		if err := b.Append(&batch.Record{Timestamp: 1_700_000_000_000 + rng.Int64N(5000), Value: v}); err != nil {
			t.Fatal(err)
		}
	}
	l.appendRaw(t, b.Finish(batch.CodecNone))
}

// appendRaw stamps and adds an encoded batch.
func (l *testLog) appendRaw(t testing.TB, raw []byte) {
	t.Helper()
	raw = bytes.Clone(raw)
	batch.Stamp(raw, l.next, l.epoch)
	h, err := batch.CheckStored(raw)
	if err != nil {
		t.Fatal(err)
	}
	var b Batch
	b.Set(int64(len(l.data)), &h)
	b.AppendTime = 1_800_000_000_000_000_000 + int64(len(l.batches))*1000
	l.batches = append(l.batches, b)
	l.data = append(l.data, raw...)
	l.next = h.NextOffset()
}

// gap leaves out n offsets and records it.
func (l *testLog) gap(n int64) {
	l.chain.gaps[l.next] = l.next + n
	l.next += n
}

// newEpoch begins an epoch and records it.
func (l *testLog) newEpoch(epoch int32) {
	l.epoch = epoch
	l.chain.epochs = append(l.chain.epochs, struct {
		from  int64
		epoch int32
	}{l.next, epoch})
}

// index is the index that a writer of the log would have.
func (l *testLog) index(interval int) *Index {
	ix := NewIndex(l.id, interval, nil)
	for i := range l.batches {
		ix.Add(&l.batches[i])
	}
	return ix
}

// randomLog is a log of about size bytes of small batches.
func randomLog(t testing.TB, id ID, rng *rand.Rand, size int) *testLog {
	t.Helper()
	l := newTestLog(id)
	l.newEpoch(3)
	for len(l.data) < size {
		values := make([]int, 1+rng.IntN(4))
		for i := range values {
			values[i] = rng.IntN(300)
		}
		l.append(t, rng, values...)
	}
	return l
}

func newRand(t testing.TB, seed uint64) *rand.Rand {
	t.Helper()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, seed))
}

// newDisk is an empty simulated disk with the partition's directory.
func newDisk(t testing.TB) (*sim.World, aio.FS) {
	t.Helper()
	w := sim.New(sim.Options{Seed: 1})
	fs := w.FS()
	if err := aio.MkdirAll(fs, testDir); err != nil {
		t.Fatal(err)
	}
	return w, fs
}

// put writes a file and makes it durable.
func put(t testing.TB, fs aio.FS, name string, data []byte) {
	t.Helper()
	if err := aio.WriteFileAtomic(fs, testDir+"/"+name, data); err != nil {
		t.Fatal(err)
	}
}

// get reads a file; nil if it is missing.
func get(t testing.TB, fs aio.FS, name string) []byte {
	t.Helper()
	data, err := aio.ReadFile(fs, testDir+"/"+name, 1<<30)
	if err != nil && !aio.IsNotExist(err) {
		t.Fatal(err)
	}
	return data
}

// sealed is the sealed index of l and its file, built by the job.
func sealed(t testing.TB, fs aio.FS, l *testLog) *Index {
	t.Helper()
	put(t, fs, l.id.LogName(), l.data)
	j := SealJob{Log: l.job(), Writer: l.index(DefaultIndexInterval)}
	if err := j.Run(fs); err != nil {
		t.Fatal(err)
	}
	return j.Index
}

// job is the Log that jobs on l have.
func (l *testLog) job() Log {
	return Log{Dir: testDir, ID: l.id, Interval: DefaultIndexInterval, Chain: l.chain, Created: 42}
}
