// Package producers remembers what idempotent producers have appended, so that a batch
// that is sent twice is written once.
package producers

import (
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/internal/invariant"
)

// Window is how many batches of a producer are remembered in a partition: as many as
// one may have in flight.
const Window = 5

// DefaultMax and DefaultExpiry are what a shard remembers where nobody says otherwise,
// MostMax is the most that it can be told to.
const (
	DefaultMax    = 1 << 16
	MostMax       = 1 << 20
	DefaultExpiry = 24 * time.Hour
)

// firstBuckets is the size of a new index, blockEntries the number of producers for
// which memory is taken at a time.
const (
	firstBuckets = 64
	blockEntries = 256
)

// Table remembers the producers of all partitions of a shard. For each it has the epoch
// and the newest [Window] batches, by their sequence numbers and offsets.
//
// What it knows is a function of the log: whoever reads a partition's batches in order
// and calls Add for each comes to the same, so that a start rebuilds it from a
// checkpoint and the batches behind that.
//
// It is bounded. A producer that has appended nothing for the expiry is forgotten, and
// when there are more than the maximum the one that has been silent for longest is. Who
// is forgotten may go on with any sequence number, as in Kafka; only a batch that it
// sends again then is not known any more.
//
// Memory is taken for some hundred producers at a time and the index grows by doubling,
// so that a batch of a known producer allocates nothing. Entries refer to each other by
// number, which keeps the collector out. A Table belongs to one goroutine.
type Table struct {
	max    int
	expiry int64

	blocks  [][]entry
	used    uint32 // entries that have ever been taken; number 0 is no entry
	free    uint32 // list by chain
	n       int
	buckets []uint32 // power of two; lists by chain
	logs    []*Log   // by number; 0 is none
	unused  []uint32 // numbers of logs that have been dropped
	awaited []awaited

	oldest, youngest uint32 // by the time of their newest batch
	unsorted         bool   // restored entries are not in order yet
	cursor           uint32 // the next entry of a walk
}

// entry is a producer in a partition.
type entry struct {
	id      int64
	at      int64 // time of the newest batch, nanoseconds of the caller's clock
	batches [Window]Batch

	log            uint32
	chain          uint32 // of a bucket, or of the free entries
	next, prev     uint32 // of the partition
	younger, older uint32

	epoch int16
	n     uint8 // batches, the oldest first
	jumps bool
}

// Log is the producers of one partition. The zero Log has none. It must not be copied
// once it has some.
type Log struct {
	id    uint32
	first uint32
	n     int
}

// Len is the number of producers.
func (l *Log) Len() int { return l.n }

// Batch is a batch that has been appended.
type Batch struct {
	Base       int64 // offset of the first record
	AppendTime int64 // broker's time, Unix nanoseconds
	Sequence   int32 // of the first record
	Count      int32 // of offsets
}

// End is the offset behind the batch.
func (b *Batch) End() int64 { return b.Base + int64(b.Count) }

// next is the sequence number behind the batch.
func (b *Batch) next() int32 { return (b.Sequence + b.Count) & maxSequence }

// maxSequence is the greatest sequence number; 0 comes behind it.
const maxSequence = 1<<31 - 1

// State is a producer in a partition as checkpoints have it.
type State struct {
	ID    int64
	Epoch int16
	// Jumps: batches that this producer had appended, and that may have been
	// acknowledged, are lost. Its next one need not follow those that are there.
	Jumps   bool
	N       int // batches, 1 to Window
	Batches [Window]Batch
}

// New makes a table of at most limit producers, counted in each partition to which they
// write; at least 1. expiry is how long a silent one is remembered.
func New(limit int, expiry time.Duration) *Table {
	return &Table{max: limit, expiry: int64(expiry), buckets: make([]uint32, firstBuckets), logs: make([]*Log, 1),
		awaited: make([]awaited, 0, maxAwaited)}
}

// Len is the number of producers in all partitions.
func (t *Table) Len() int { return t.n }

// Add notes that the batch with header h has been appended at h.BaseOffset. now is the
// caller's clock, which does not go back, in nanoseconds.
func (t *Table) Add(l *Log, h *batch.Header, appendTime, now int64) {
	i := t.find(l, h.ProducerID)
	if i == 0 {
		for t.n >= t.max {
			t.sort()
			t.remove(t.oldest)
		}
		i = t.enter(l, h.ProducerID)
	} else {
		t.leaveAge(i)
	}
	e := t.entry(i)
	if e.epoch != h.ProducerEpoch {
		e.n = 0
	}
	if e.n == Window {
		copy(e.batches[:], e.batches[1:])
		e.n--
	}
	e.epoch, e.at, e.jumps = h.ProducerEpoch, now, false
	e.batches[e.n] = Batch{Base: h.BaseOffset, AppendTime: appendTime, Sequence: h.BaseSequence, Count: h.LastOffsetDelta + 1}
	e.n++
	t.enterAge(i)
	t.came(l, h.ProducerID)
}

// Drop forgets the producers of a partition.
func (t *Table) Drop(l *Log) {
	t.dropAwaited(l)
	for l.first != 0 {
		t.remove(l.first)
	}
	if l.id != 0 {
		t.logs[l.id] = nil
		t.unused = append(t.unused, l.id)
		l.id = 0
	}
}

// enter makes an entry for a producer that is not known. Only its batches and its place
// by age are missing.
func (t *Table) enter(l *Log, id int64) uint32 {
	if t.n >= len(t.buckets) {
		t.grow()
	}
	if l.id == 0 {
		t.register(l)
	}
	i := t.take()
	e := t.entry(i)
	*e = entry{id: id, log: l.id, next: l.first}
	if l.first != 0 {
		t.entry(l.first).prev = i
	}
	l.first = i
	b := t.bucket(l.id, id)
	e.chain, *b = *b, i
	l.n++
	t.n++
	return i
}

// register gives a log a number.
func (t *Table) register(l *Log) {
	if n := len(t.unused); n > 0 {
		l.id, t.unused = t.unused[n-1], t.unused[:n-1]
		t.logs[l.id] = l
		return
	}
	l.id = uint32(len(t.logs))
	t.logs = append(t.logs, l)
}

// remove forgets a producer in a partition.
func (t *Table) remove(i uint32) {
	e := t.entry(i)
	l := t.logs[e.log]
	if t.cursor == i {
		t.cursor = e.next
	}
	if e.prev != 0 {
		t.entry(e.prev).next = e.next
	} else {
		l.first = e.next
	}
	if e.next != 0 {
		t.entry(e.next).prev = e.prev
	}
	t.leaveAge(i)
	b := t.bucket(e.log, e.id)
	for *b != i {
		if *b == 0 {
			invariant.Violated("producers: an entry is in the index")
		}
		b = &t.entry(*b).chain
	}
	*b = e.chain
	l.n--
	t.n--
	e.chain, t.free = t.free, i
}

// find is the entry of a producer in a partition, 0 for none.
func (t *Table) find(l *Log, id int64) uint32 {
	if l.first == 0 {
		return 0
	}
	for i := *t.bucket(l.id, id); i != 0; i = t.entry(i).chain {
		if e := t.entry(i); e.id == id && e.log == l.id {
			return i
		}
	}
	return 0
}

// bucket is the list in which the entry of a producer in a partition belongs.
func (t *Table) bucket(log uint32, id int64) *uint32 {
	h := (uint64(id) + uint64(log)<<40) * 0x9e3779b97f4a7c15
	return &t.buckets[(h>>32)&uint64(len(t.buckets)-1)]
}

// grow doubles the index.
func (t *Table) grow() {
	old := t.buckets
	t.buckets = make([]uint32, 2*len(old))
	for _, i := range old {
		for i != 0 {
			e := t.entry(i)
			next := e.chain
			b := t.bucket(e.log, e.id)
			e.chain, *b = *b, i
			i = next
		}
	}
}

// entry is the entry of number i, which is not 0.
func (t *Table) entry(i uint32) *entry {
	return &t.blocks[i/blockEntries][i%blockEntries]
}

// take is an entry that nobody uses.
func (t *Table) take() uint32 {
	if i := t.free; i != 0 {
		t.free = t.entry(i).chain
		return i
	}
	t.used++
	if int(t.used/blockEntries) == len(t.blocks) {
		t.blocks = append(t.blocks, make([]entry, blockEntries))
	}
	return t.used
}
