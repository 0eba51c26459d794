package broker

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine/aio/sim"
)

// plainBatch is a plain batch of n bodies of size bytes that no other has.
func plainBatch(t testing.TB, n, size int) []byte {
	t.Helper()
	b := batch.NewPlainBuilder(nil, batch.MaxSize)
	for range n {
		v := make([]byte, max(size, 8))
		testSerial++
		binary.BigEndian.PutUint64(v, testSerial)
		if err := b.Append(v); err != nil {
			t.Fatal(err)
		}
	}
	return b.Finish()
}

// beginPlain begins a produce of a plain batch on a shard.
func (r *rig) beginPlain(at int, topic TopicID, partition int32, data []byte) *produced {
	p := &produced{data: data}
	p.Topic, p.Partition, p.Batch, p.Encoding, p.Owner = topic, partition, data, EncodingPlain, p
	r.shards[at].Produce(&p.Produce)
	return p
}

// mustHoldBodies checks that the batch stored at p.Base has the bodies of the plain
// batch that p sent.
func (r *rig) mustHoldBodies(stored map[int64][]byte, p *produced) {
	r.t.Helper()
	b, ok := stored[p.Base]
	if !ok || p.Code != OK {
		r.t.Fatalf("nothing at offset %d: %v", p.Base, p.Code)
	}
	h, err := batch.CheckStored(b)
	if err != nil {
		r.t.Fatal(err)
	}
	sent, got := batch.PlainMessages(p.data), h.Records(b[batch.HeaderSize:])
	for sent.Next() {
		if !got.Next() || string(got.Record().Value) != string(sent.Body()) {
			r.t.Fatalf("at offset %d: another body than was sent", p.Base)
		}
	}
	if got.Next() {
		r.t.Fatalf("at offset %d: more bodies than were sent", p.Base)
	}
}

func TestAPlainBatchIsStoredAsARecordBatch(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, rigOptions{shards: shards})
		topic := r.create("t", 5)
		for p := range int32(5) {
			for _, size := range []struct{ n, body int }{{1, 8}, {100, 9}, {3, 2000}, {20, 3000}} {
				s := r.beginPlain(0, topic.ID, p, plainBatch(t, size.n, size.body))
				r.until("ack", func() bool { return s.done > 0 })
				r.mustHoldBodies(r.readAll(0, topic.ID, p), s)
			}
		}
		r.mustBeHome()
	})
}

func TestADamagedOrOversizedPlainBatchIsRefused(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, rigOptions{shards: shards})
		topic := r.create("t", 5)
		damaged := plainBatch(t, 3, 100)
		damaged[len(damaged)-1] ^= 1
		short := plainBatch(t, 3, 100)
		for _, c := range []struct {
			data []byte
			want Code
		}{
			{damaged, CorruptBatch},
			{short[:len(short)-5], InvalidBatch},
			{plainBatch(t, 30, 3000), BatchTooLarge},
			{plainBatch(t, rigBatch/16+10, 8), BatchTooLarge}, // only as a record batch
		} {
			for p := range int32(5) {
				s := r.beginPlain(0, topic.ID, p, append([]byte(nil), c.data...))
				r.until("outcome", func() bool { return s.done > 0 })
				if s.Code != c.want {
					t.Errorf("%v %q, want %v", s.Code, s.Message, c.want)
				}
			}
		}
		r.mustBeHome()
	})
}

func TestPlainBatchesWaitForMemoryInOrder(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, rigOptions{shards: shards, broker: Options{PlainBytes: 1}}) // what two batches need
		topic := r.create("t", 32)
		hold := r.w.Hold(sim.Filter{Ops: sim.Writes | sim.Flushes, Path: "journal-*"})
		parts := []int32{r.local(0, topic)}
		if shards > 1 {
			parts = append(parts, r.remote(0, topic))
		}
		sent := map[int32][]*produced{}
		for i := range 20 {
			for _, p := range parts {
				if i%3 == 2 {
					sent[p] = append(sent[p], r.begin(0, topic.ID, p, testBatch(t, 1, 30)))
					continue
				}
				sent[p] = append(sent[p], r.beginPlain(0, topic.ID, p, plainBatch(t, 2, 30)))
			}
		}
		r.run(time.Millisecond)
		if r.shards[0].stats.PlainWaits == 0 {
			t.Error("no memory was missing")
		}
		hold.Release()
		for _, p := range parts {
			r.until("acks", func() bool { return r.doneOf(sent[p]) == 20 })
			r.mustBeInOrder(sent[p])
			stored := r.readAll(0, topic.ID, p)
			for i, s := range sent[p] {
				if i%3 != 2 {
					r.mustHoldBodies(stored, s)
				}
			}
		}
		r.mustBeHome()
	})
}
