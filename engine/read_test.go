package engine

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/mqd-broker/mqd/batch"
)

// follower reads a partition from somewhere on.
type follower struct {
	part *Partition
	at   int64
	slow bool      // keeps an answer for a while
	held []*reader // answers that are not released yet
}

// TestReadersAtManyPlacesGetWhatTheyAskFor has more readers than a partition
// remembers, at the tail, in memory and in files, while chunks come and go.
func TestReadersAtManyPlacesGetWhatTheyAskFor(t *testing.T) {
	r := newRig(t, rigOptions{chunks: 3 << 20, segment: 256 << 10, journal: 512 << 10})
	rng := rand.New(rand.NewPCG(r.opts.seed, 0))
	id := r.topic(1, ClassFlushed)
	var parts [3]*Partition
	want := [3]map[int64][]byte{}
	for i := range parts {
		parts[i], want[i] = r.part(id, i), map[int64][]byte{}
	}
	readers := make([]follower, 8)
	for i := range readers {
		readers[i].part, readers[i].slow = parts[i%len(parts)], i < 2
	}
	var newest [3]*produced
	for range 3000 {
		n := rng.IntN(len(parts))
		newest[n] = r.send(parts[n], 1+rng.IntN(8), 1+rng.IntN(1500))
		want[n][newest[n].Base] = bytes.Clone(newest[n].Batch)
		f := &readers[rng.IntN(len(readers))]
		switch p := f.part; rng.IntN(8) {
		case 0:
			f.at = rng.Int64N(p.Durable() + 1)
		case 1:
			f.at = p.Durable()
		default:
			f.fetch(r, rng, want[p.key.Partition])
		}
	}
	r.until("acks", func() bool { return newest[0].done && newest[1].done && newest[2].done })
	for i := range readers {
		f := &readers[i]
		for f.at < f.part.Durable() {
			f.fetch(r, rng, want[f.part.key.Partition])
		}
		f.release(0)
	}
	if u := r.shards[0].store.Usage(); u.PinnedPieces != 0 {
		t.Fatalf("%d pieces are pinned after everything was released", u.PinnedPieces)
	}
	if st := r.shards[0].store.Stats(); st.ColdReads == 0 || st.CorruptReads != 0 {
		t.Fatalf("expected some reads from files and no damage: %+v", st)
	}
}

// fetch reads once and holds what comes to what was appended.
func (f *follower) fetch(r *rig, rng *rand.Rand, want map[int64][]byte) {
	r.t.Helper()
	durable := f.part.Durable()
	a := r.read(f.part, f.at, 1+rng.IntN(1<<16))
	f.held = append(f.held, a)
	if a.Err != nil {
		r.t.Fatalf("read at %d of %d: %v", f.at, durable, a.Err)
	}
	var all []byte
	for _, piece := range a.Pieces[:a.N] {
		all = append(all, piece...)
	}
	if f.at < durable && len(all) == 0 {
		r.t.Fatalf("read at %d of %d: nothing", f.at, durable)
	}
	if left := bytesLeft(want, f.at, a.durable); a.Left != left {
		r.t.Fatalf("read at %d of %d: %d bytes to the end, expected %d", f.at, a.durable, a.Left, left)
	}
	for len(all) > 0 {
		b, rest, err := batch.Split(all)
		if err != nil {
			r.t.Fatalf("read at %d: %v", f.at, err)
		}
		h, err := batch.ParseHeader(b)
		if err != nil || h.LastOffset() < f.at || h.BaseOffset > f.at || !bytes.Equal(b, want[h.BaseOffset]) {
			r.t.Fatalf("read at %d: a batch of offsets %d to %d that is not the one appended there (%v)", f.at, h.BaseOffset, h.LastOffset(), err)
		}
		f.at, all = h.LastOffset()+1, rest
	}
	if a.Next != max(f.at, a.Offset) {
		r.t.Fatalf("read at %d: goes on at %d, expected %d", a.Offset, a.Next, f.at)
	}
	if f.slow {
		f.release(1)
	} else {
		f.release(0)
	}
}

// bytesLeft is the size of the batches from the one that holds offset to end, -1 for none.
func bytesLeft(all map[int64][]byte, offset, end int64) int64 {
	left := int64(0)
	for base, b := range all {
		if h, err := batch.ParseHeader(b); err == nil && h.LastOffset() >= offset && base < end {
			left += int64(len(b))
		}
	}
	if left == 0 {
		return -1
	}
	return left
}

// release gives back all answers but the newest keep.
func (f *follower) release(keep int) {
	for len(f.held) > keep {
		f.part.store.Release(&f.held[0].Read)
		f.held = f.held[1:]
	}
}
