package chunks

import (
	"bytes"
	"testing"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/segment"
	"github.com/mqd-broker/mqd/engine/slab"
)

// memory is a list in a pool of one slab, with the segment that it fills.
type memory struct {
	t *testing.T
	*Pool
	List
	seg  Segment
	tail *segment.Index
	next int64
}

func newMemory(t *testing.T) *memory {
	t.Helper()
	d := sim.New(sim.Options{Seed: 1}).Driver(aio.Options{ArenaBytes: 1 << 20})
	pool, err := New(d, 256<<10)
	if err != nil {
		t.Fatal(err)
	}
	m := &memory{t: t, Pool: pool, tail: segment.NewIndex(segment.ID{}, segment.DefaultIndexInterval, nil)}
	m.Use(pool)
	return m
}

// add appends a batch with a value of n bytes and reports whether there was room.
func (m *memory) add(n int) bool {
	m.t.Helper()
	b := batch.NewBuilder(nil, 1<<20)
	if err := b.Append(&batch.Record{Value: bytes.Repeat([]byte{byte(m.next)}, n)}); err != nil {
		m.t.Fatal(err)
	}
	built := b.Finish(batch.CodecNone)
	batch.Stamp(built, m.next, 0)
	if _, ok := m.Room(&m.seg, &Want{Bytes: len(built), Least: slab.Least(len(built), 30), Share: 1 << 20}); !ok {
		return false
	}
	m.CopyIn(&m.seg, built, m.next, 0)
	m.next++
	return true
}

func TestABatchIsFoundByAnyOffsetWhileItIsInMemory(t *testing.T) {
	m := newMemory(t)
	for m.next < 40 {
		if !m.add(1000) { // batches lie across chunks of 4 KiB
			t.Fatal("no room")
		}
	}
	var hdr [batch.HeaderSize]byte
	for offset := range m.next {
		at, ok := m.Find(&m.seg, m.tail, offset)
		if !ok {
			t.Fatalf("offset %d is not found", offset)
		}
		if h := at.Chunk.HeaderAt(at.Pos, hdr[:]); h.BaseOffset != offset {
			t.Fatalf("the batch found for %d begins at %d", offset, h.BaseOffset)
		}
	}
}

// What is not in the file stays; what is goes when there is no other room, the oldest
// first, but for what is being read.
func TestOnlyWhatIsInTheFileMakesRoom(t *testing.T) {
	m := newMemory(t)
	for m.add(4000) {
	}
	full := m.next
	if m.Unwritten() != m.Used() {
		t.Fatalf("%d of %d bytes are not in the file", m.Unwritten(), m.Used())
	}
	m.seg.Safe, m.seg.InFile = m.seg.Size, m.seg.Size
	m.Saved()
	m.Oldest().Pins++
	if m.add(4000) {
		t.Fatal("what is being read was evicted")
	}
	m.Oldest().Pins--
	if !m.add(4000) {
		t.Fatalf("no room behind %d batches that are in the file", full)
	}
	if _, ok := m.Find(&m.seg, m.tail, 0); ok {
		t.Fatal("the oldest batch is still there")
	}
	if _, ok := m.Find(&m.seg, m.tail, full); !ok {
		t.Fatal("the newest batch is not found")
	}
}

// chunksOf is a list of n chunks of 4 KiB, each with one batch, whose offsets are from first
// on; in the oldest none begins.
func chunksOf(n, first int64) (*List, *Segment) {
	l, seg := &List{}, &Segment{}
	for i := range n {
		l.link(&Chunk{Seg: seg, FirstPos: i * 4096, FirstOffset: first + i, Pos: i * 4096, To: 4096})
	}
	l.oldest.FirstPos = NoBatch
	return l, seg
}

// Whoever reads far behind asks each time for what is not in memory, and there may be very many
// chunks: here a walk through all of them would never end.
func TestWhatIsBeforeMemoryIsKnownWithoutAWalk(t *testing.T) {
	l, seg := chunksOf(5, 100)
	tail := segment.NewIndex(segment.ID{}, segment.DefaultIndexInterval, nil)
	l.newest.prev.prev = l.newest.prev
	for _, offset := range []int64{0, 99, 100} {
		if at, ok := l.Find(seg, tail, offset); ok {
			t.Errorf("offset %d is found at %d", offset, at.Pos)
		}
	}
	for c := l.oldest; c != nil; c = c.next {
		c.FirstPos = NoBatch
	}
	if at, ok := l.Find(seg, tail, 104); ok {
		t.Errorf("without a batch that begins in memory: found at %d", at.Pos)
	}
}

func BenchmarkFindBeforeMemory(b *testing.B) {
	l, seg := chunksOf(8192, 100)
	tail := segment.NewIndex(segment.ID{}, segment.DefaultIndexInterval, nil)
	for b.Loop() {
		if _, ok := l.Find(seg, tail, 1); ok {
			b.Fatal("found")
		}
	}
}
