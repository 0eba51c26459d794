package engine

import (
	"encoding/binary"
	"fmt"
	"sort"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/journal"
	"github.com/mqd-broker/mqd/engine/recovery"
	"github.com/mqd-broker/mqd/engine/segment"
	"github.com/mqd-broker/mqd/engine/shard"
)

// rig runs the stores of a node on a simulated machine, turning their loops by
// hand in one goroutine.
type rig struct {
	t            *testing.T
	w            *sim.World
	opts         rigOptions
	topics       rigTopics
	shards       []*rigShard
	rec          *recovery.Recovered
	log          []string
	device       atomic.Bool
	fuse         *fuse      // ends a start early; nil: it does not
	pause        aio.Driver // of another machine: lets time pass
	sealsMayFail bool
	kept         []byte // a file as it was
}

type rigOptions struct {
	shards     int
	seed       uint64
	journal    int64
	chunks     int64
	segment    int64
	roundBytes int
	method     journal.Method
	maxBatch   int                         // 0: 128 KiB
	openFiles  int                         // 0: the default
	dsync      sim.DSYNC                   // what a write with DSYNC does to the device
	wrap       func(aio.Driver) aio.Driver // stands between a shard and its driver; nil: nothing does
	reserve    int64                       // offsets that are reserved ahead; 0: 1,000
	keys       int64                       // memory for keys of a compaction; 0: the default
	keep       int64                       // memory of a start for what it has read; 0: the default
}

type rigShard struct {
	loop  *shard.Loop
	store *Store
	drv   aio.Driver
}

// rigTopics is a catalog that never changes by itself.
type rigTopics map[TopicID]*rigTopic

type rigTopic struct {
	info       recovery.TopicInfo
	partitions int // 0 up to the greatest that has been opened
	deleted    bool
}

func (rigTopics) Load(func(int64, func([]byte) error) error) error { return nil }

func (rigTopics) Next() int64 { return 0 }

func (t rigTopics) Topic(id TopicID) (recovery.TopicInfo, recovery.TopicStatus) {
	switch topic := t[id]; {
	case topic == nil:
		return recovery.TopicInfo{}, recovery.TopicUnknown
	case topic.deleted:
		return topic.info, recovery.TopicDeleted
	default:
		return topic.info, recovery.TopicLive
	}
}

// Partitions calls f for the partitions that tests have opened, and those below.
func (t rigTopics) Partitions(f func(Key)) {
	ids := make([]TopicID, 0, len(t))
	for id, topic := range t {
		if !topic.deleted {
			ids = append(ids, id)
		}
	}
	sort.Slice(ids, func(i, j int) bool { return string(ids[i][:]) < string(ids[j][:]) })
	for _, id := range ids {
		for n := range t[id].partitions {
			f(Key{Topic: id, Partition: uint32(n)})
		}
	}
}

const rigDir = "/data"

// pauseOptions are of the machine that lets time pass.
var pauseOptions = aio.Options{ArenaBytes: 4096, RecvBuffers: 2, RecvBufferBytes: 4096, Entries: 2}

func newRig(t *testing.T, o rigOptions) *rig {
	t.Helper()
	if o.shards == 0 {
		o.shards = 1
	}
	if o.journal == 0 {
		o.journal = 1 << 20
	}
	if o.chunks == 0 {
		o.chunks = 4 << 20
	}
	if o.segment == 0 {
		o.segment = segment.DefaultSegmentBytes
	}
	if o.reserve == 0 {
		o.reserve = 1000
	}
	if o.maxBatch == 0 {
		o.maxBatch = 1 << 17
	}
	if o.seed == 0 {
		o.seed = seedOf(t)
	}
	t.Logf("seed %d", o.seed)
	r := &rig{t: t, opts: o, topics: rigTopics{}, w: sim.New(sim.Options{Seed: o.seed, DSYNC: o.dsync})}
	r.pause = r.w.ClientDriver(pauseOptions)
	r.start()
	return r
}

// start recovers and opens everything.
func (r *rig) start() {
	r.t.Helper()
	if err := r.tryStart(); err != nil {
		r.t.Fatalf("start: %v", err)
	}
}

func (r *rig) tryStart() error {
	r.shards = nil
	r.device.Store(false)
	n := r.opts.shards
	drivers := make([]aio.Driver, n)
	for i := range drivers {
		drivers[i] = r.w.Driver(aio.Options{ArenaBytes: 12<<20 + 8*int64(r.opts.maxBatch) + r.opts.chunks, RecvBuffers: 2})
		if r.fuse != nil {
			drivers[i] = r.fuse.wrap(drivers[i])
		}
		if r.opts.wrap != nil {
			drivers[i] = r.opts.wrap(drivers[i])
		}
	}
	var err error
	r.rec, err = recovery.Recover(drivers[0], recovery.Options{
		Dir: rigDir, Shards: n, Topics: r.topics, Keep: r.opts.keep,
		Catalog: r.config(ClassFlushed),
		Report:  func(f string, a ...any) { r.log = append(r.log, fmt.Sprintf(f, a...)) },
	})
	if err != nil {
		return err
	}
	for i, d := range drivers {
		l := shard.New(d, shard.Options{ID: i})
		s, err := NewStore(l, StoreOptions{
			Dir: rigDir, Shard: i, Term: r.rec.Term, Node: r.rec.Node.ID, Slots: r.rec.Slots, Shards: n,
			ChunkBytes: r.opts.chunks, ColdReads: 4, Writers: 3, MaxBatch: r.opts.maxBatch,
			OpenFiles: r.opts.openFiles, ReserveOffsets: r.opts.reserve, CompactionKeys: r.opts.keys, Identity: r.rec.Identity, Events: rigEvents{r}, DeviceFailed: &r.device,
		})
		if err != nil {
			return err
		}
		j, err := recovery.OpenJournal(d, r.rec, rigDir, i, r.opts.journal, journal.Options{
			Observer: s, DeviceFailed: &r.device, Method: r.opts.method, RoundBytes: r.opts.roundBytes, MaxBody: int(min(int64(r.opts.maxBatch), r.opts.journal/8)),
		})
		if err != nil {
			return err
		}
		s.SetJournal(j, r.rec.Sequence[i])
		l.SetWorker(storeWorker{s})
		for _, st := range r.rec.Partitions[i] {
			if st.Key.Topic == CatalogTopic {
				continue
			}
			topic := r.topics[st.Key.Topic]
			s.Restore(st, topic.info.Name, topic.info.Config)
		}
		r.shards = append(r.shards, &rigShard{loop: l, store: s, drv: d})
	}
	return nil
}

type rigEvents struct{ r *rig }

func (e rigEvents) StoreFailed(shard int, err error) {
	e.r.log = append(e.r.log, fmt.Sprintf("store %d failed: %v", shard, err))
}

func (e rigEvents) SealFailed(k Key, base int64, err error) {
	if e.r.sealsMayFail {
		return
	}
	e.r.t.Errorf("seal of %v at %d: %v", k, base, err)
}

func (e rigEvents) SegmentsLeft(dir string, err error) {
	e.r.log = append(e.r.log, fmt.Sprintf("segments left in %s: %v", dir, err))
}

func (e rigEvents) CompactionFailed(dir string, err error) {
	e.r.log = append(e.r.log, fmt.Sprintf("not compacted: %s: %v", dir, err))
}

func (e rigEvents) DiskFull(shard int, full bool, err error) {
	e.r.log = append(e.r.log, fmt.Sprintf("store %d disk full %v: %v", shard, full, err))
}

// storeWorker makes a store the only work of a loop.
type storeWorker struct{ s *Store }

func (w storeWorker) Drain(int64) int          { return 0 }
func (w storeWorker) Finish(now int64)         { w.s.Finish(now) }
func (w storeWorker) SpinHint(now int64) int64 { return w.s.SpinHint(now) }

func (r *rig) config(c Class) PartitionConfig {
	return PartitionConfig{
		Class: c, SegmentBytes: r.opts.segment, IndexInterval: segment.DefaultIndexInterval,
		MaxBatch: r.opts.maxBatch, FlushInterval: 100 * time.Millisecond, FlushBytes: 512 << 10,
	}
}

// topic makes a topic and returns its id.
func (r *rig) topic(n byte, c Class) TopicID {
	id := TopicID{0: n, 15: 0xee}
	r.topics[id] = &rigTopic{info: recovery.TopicInfo{Name: fmt.Sprintf("topic-%d", n), Config: r.config(c)}}
	return id
}

// part opens a partition on the shard that owns it.
func (r *rig) part(id TopicID, n int) *Partition {
	k := Key{Topic: id, Partition: uint32(n)}
	s := r.shards[r.rec.Slots[SlotOf(k, len(r.rec.Slots))]].store
	t := r.topics[id]
	t.partitions = max(t.partitions, n+1)
	return s.Open(k, t.info.Name, t.info.Config)
}

// idleStep is how much time passes when nobody has anything to do.
const idleStep = 200 * time.Microsecond

// turn turns every loop once, or lets time pass when none has anything to do.
func (r *rig) turn() {
	worked := 0
	for _, s := range r.shards {
		n, err := s.loop.Turn()
		if err != nil {
			r.t.Fatalf("turn: %v", err)
		}
		worked += n
	}
	if worked > 0 || r.w.Step() {
		return
	}
	// Drivers that have just been polled count as running for a moment, and time stands
	// still for the others meanwhile.
	for start := r.w.Now(); r.w.Now()-start < int64(idleStep); {
		if _, err := r.pause.Poll(idleStep); err != nil {
			r.t.Fatalf("pause: %v", err)
		}
	}
}

// until turns the loops until done, for at most limit of simulated time.
func (r *rig) until(what string, done func() bool) {
	r.t.Helper()
	deadline := r.w.Now() + int64(60*time.Second)
	for n := 0; !done(); n++ {
		if r.w.Now() > deadline || n > 500_000 {
			r.t.Fatalf("%s: not after %v and %d turns", what, time.Duration(r.w.Now()), n)
		}
		r.turn()
	}
}

// run lets d of simulated time pass.
func (r *rig) run(d time.Duration) {
	end := r.w.Now() + int64(d)
	r.until("time", func() bool { return r.w.Now() >= end })
}

// produced is a batch on its way.
type produced struct {
	Append
	done bool
}

func (p *produced) Appended(*Append) { p.done = true }

// send appends a batch of n records of size bytes, waiting for room.
func (r *rig) send(p *Partition, n, size int) *produced {
	r.t.Helper()
	a := &produced{}
	a.Part, a.Batch, a.Owner = p, testBatch(r.t, n, size), a
	var err error
	if a.Header, err = batch.Check(a.Batch, 1<<20); err != nil {
		r.t.Fatal(err)
	}
	r.until("room", func() bool {
		err := p.store.Append(&a.Append)
		if err != nil && err != ErrBusy && err != ErrDiskFull {
			r.t.Fatalf("append: %v", err)
		}
		return err == nil
	})
	return a
}

// sendWait appends a batch and waits for its acknowledgement.
func (r *rig) sendWait(p *Partition, n, size int) *produced {
	r.t.Helper()
	a := r.send(p, n, size)
	r.until("ack", func() bool { return a.done })
	if a.Err != nil {
		r.t.Fatalf("append: %v", a.Err)
	}
	return a
}

var testSerial uint64

// testBatch is a batch whose records carry a number that no other has, as their time
// and, where there is room, in their value.
func testBatch(t testing.TB, n, size int) []byte {
	t.Helper()
	b := batch.NewBuilder(nil, 1<<20)
	for i := 0; i < n; i++ {
		v := make([]byte, max(size, 1))
		testSerial++
		var serial [8]byte
		binary.BigEndian.PutUint64(serial[:], testSerial)
		copy(v, serial[max(0, len(serial)-len(v)):])
		for j := 8; j < len(v); j++ {
			v[j] = byte(testSerial) + byte(j)
		}
		if err := b.Append(&batch.Record{Value: v, Timestamp: int64(1000 + testSerial)}); err != nil {
			t.Fatal(err)
		}
	}
	return b.Finish(batch.CodecNone)
}

type reader struct {
	Read
	done    bool
	durable int64 // at the moment of the answer
}

func (r *reader) ReadDone(*Read) { r.done, r.durable = true, r.Part.Durable() }

// read fetches once from offset.
func (r *rig) read(p *Partition, offset int64, maxBytes int) *reader {
	r.t.Helper()
	f := &reader{}
	f.Part, f.Offset, f.MaxBytes, f.Measure, f.Owner = p, offset, maxBytes, true, f
	p.store.Read(&f.Read)
	r.until("read", func() bool { return f.done })
	return f
}

// readAll reads a partition from its start and returns its batches by base offset.
func (r *rig) readAll(p *Partition) map[int64][]byte {
	r.t.Helper()
	got := map[int64][]byte{}
	for at := p.LogStart(); at < p.Durable(); {
		f := r.read(p, at, 1<<16)
		if f.Err != nil {
			r.t.Fatalf("read at %d: %v", at, f.Err)
		}
		if f.Next <= at {
			r.t.Fatalf("read at %d of %d: nothing, next %d", at, p.Durable(), f.Next)
		}
		r.split(f, got)
		at = f.Next
		p.store.Release(&f.Read)
	}
	return got
}

// split enters the batches of an answer into got.
func (r *rig) split(f *reader, got map[int64][]byte) {
	r.t.Helper()
	var all []byte
	for i := 0; i < f.N; i++ {
		all = append(all, f.Pieces[i]...)
	}
	for len(all) > 0 {
		b, rest, err := batch.Split(all)
		if err != nil {
			r.t.Fatalf("read at %d: %v", f.Offset, err)
		}
		h, err := batch.CheckStored(b)
		if err != nil {
			r.t.Fatalf("read at %d: %v", f.Offset, err)
		}
		got[h.BaseOffset] = append([]byte(nil), b...)
		all = rest
	}
}

// close ends all stores in order.
func (r *rig) close() {
	r.t.Helper()
	for _, s := range r.shards {
		s.store.Close()
	}
	r.until("close", func() bool {
		for _, s := range r.shards {
			if !s.store.Closed() {
				return false
			}
		}
		return true
	})
}

func mustCheck(t testing.TB, b []byte) batch.Header {
	t.Helper()
	h, err := batch.Check(b, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func mustCheckStored(t testing.TB, b []byte) batch.Header {
	t.Helper()
	h, err := batch.CheckStored(b)
	if err != nil {
		t.Fatal(err)
	}
	return h
}
