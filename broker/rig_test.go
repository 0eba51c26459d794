package broker

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/engine"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/journal"
	"github.com/mqd-broker/mqd/engine/recovery"
	"github.com/mqd-broker/mqd/engine/shard"
	"github.com/mqd-broker/mqd/ringbuf"
)

const (
	rigDir   = "/data"
	rigBatch = 64 << 10 // the largest batch
)

// rig runs a node on a simulated machine, turning the loops by hand in one
// goroutine.
type rig struct {
	t      testing.TB
	w      *sim.World
	opts   rigOptions
	rec    *recovery.Recovered
	node   *Node
	shards []*Shard
	log    []string

	maxBatch     int  // of the next lives, 0 for rigBatch
	sealsMayFail bool // while the test lets reads fail
}

type rigOptions struct {
	shards  int
	credits int
	seed    uint64
	journal int64
	chunks  int64
	mode    sim.Mode
	broker  Options
}

func newRig(t testing.TB, o rigOptions) *rig {
	t.Helper()
	if o.shards == 0 {
		o.shards = 1
	}
	if o.credits == 0 {
		o.credits = 64
	}
	if o.journal == 0 {
		o.journal = 1 << 20
	}
	if o.chunks == 0 {
		o.chunks = 4 << 20
	}
	if o.seed == 0 {
		o.seed = seedOf(t)
	}
	t.Logf("seed %d", o.seed)
	r := &rig{t: t, opts: o, w: sim.New(sim.Options{Seed: o.seed, Mode: o.mode})}
	r.start()
	return r
}

// start recovers and makes the node.
func (r *rig) start() {
	r.t.Helper()
	if err := r.tryStart(); err != nil {
		r.t.Fatalf("start: %v", err)
	}
}

func (r *rig) tryStart() error {
	n := r.opts.shards
	drivers := make([]aio.Driver, n)
	for i := range drivers {
		drivers[i] = r.w.Driver(aio.Options{ArenaBytes: 64 << 20, RecvBuffers: 2})
	}
	o := r.opts.broker
	o.Dir, o.MaxBatch, o.Events = rigDir, cmp.Or(r.maxBatch, rigBatch), rigEvents{r}
	report := func(f string, a ...any) { r.log = append(r.log, fmt.Sprintf(f, a...)) }
	topics := NewTopics(o, drivers[0].FS(), report)
	var err error
	r.rec, err = recovery.Recover(drivers[0], recovery.Options{
		Dir: rigDir, Shards: n, Topics: topics, Catalog: CatalogConfig(), Report: report,
	})
	if err != nil {
		return err
	}
	if r.node, err = NewNode(o, r.rec, topics); err != nil {
		return err
	}
	mesh := ringbuf.NewMesh[Message](n, r.opts.credits)
	r.shards = nil
	for i, d := range drivers {
		l := shard.New(d, shard.Options{ID: i, Sleep: mesh.Port(i).Sleep()})
		s, err := engine.NewStore(l, engine.StoreOptions{
			Dir: rigDir, Shard: i, Term: r.rec.Term, Node: r.rec.Node.ID, Slots: r.rec.Slots, Shards: n,
			ChunkBytes: r.opts.chunks, ColdReads: 4, Writers: 3, MaxBatch: rigBatch,
			ReserveOffsets: 100_000, Identity: r.rec.Identity, Events: rigEvents{r},
		})
		if err != nil {
			return err
		}
		j, err := recovery.OpenJournal(d, r.rec, rigDir, i, r.opts.journal, journal.Options{Observer: s, MaxBody: rigBatch})
		if err != nil {
			return err
		}
		s.SetJournal(j, r.rec.Sequence[i])
		b := NewShard(r.node, l, s, mesh.Port(i))
		l.SetWorker(b)
		r.shards = append(r.shards, b)
	}
	return nil
}

type rigEvents struct{ r *rig }

func (e rigEvents) StoreFailed(shard int, err error) {
	e.r.log = append(e.r.log, fmt.Sprintf("store %d failed: %v", shard, err))
}

func (e rigEvents) SealFailed(k engine.Key, base int64, err error) {
	if e.r.sealsMayFail {
		e.r.log = append(e.r.log, fmt.Sprintf("seal of %v at %d: %v", k, base, err))
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
	e.r.log = append(e.r.log, fmt.Sprintf("disk of shard %d full %v: %v", shard, full, err))
}

func (e rigEvents) SnapshotFailed(err error) {
	e.r.log = append(e.r.log, fmt.Sprintf("snapshot failed: %v", err))
}

func (e rigEvents) FilesLeft(dir string, err error) {
	e.r.log = append(e.r.log, fmt.Sprintf("files left: %s: %v", dir, err))
}

func (e rigEvents) GroupsDamaged(partition uint32, err error) {
	e.r.log = append(e.r.log, fmt.Sprintf("groups of partition %d: %v", partition, err))
}

// turn turns every loop once, or lets time pass when none has anything to do.
func (r *rig) turn() {
	worked := 0
	for _, b := range r.shards {
		n, err := b.loop.Turn()
		if err != nil {
			r.t.Fatalf("turn: %v", err)
		}
		worked += n
	}
	if worked == 0 {
		r.w.Step()
	}
}

// turnOne turns one loop.
func (r *rig) turnOne(b *Shard) {
	r.t.Helper()
	if _, err := b.loop.Turn(); err != nil {
		r.t.Fatalf("turn: %v", err)
	}
}

// until turns the loops until done, for at most a minute of simulated time.
func (r *rig) until(what string, done func() bool) {
	r.t.Helper()
	deadline := r.w.Now() + int64(60*time.Second)
	for n := 0; !done(); n++ {
		if r.w.Now() > deadline || n > 2_000_000 {
			r.t.Fatalf("%s: not by %v and in %d turns", what, time.Duration(r.w.Now()), n)
		}
		r.turn()
	}
}

// run lets d of simulated time pass.
func (r *rig) run(d time.Duration) {
	r.t.Helper()
	end := r.w.Now() + int64(d)
	r.until("time", func() bool { return r.w.Now() >= end })
}

// admin carries out a request on a shard.
func (r *rig) admin(at int, a *Admin) *Admin {
	r.t.Helper()
	w := r.beginAdmin(at, a)
	r.until("admin", func() bool { return w.done > 0 })
	return a
}

type adminWait struct{ done int }

func (w *adminWait) AdminDone(*Admin) { w.done++ }

func (r *rig) beginAdmin(at int, a *Admin) *adminWait {
	w := &adminWait{}
	a.Owner = w
	r.shards[at].Admin(a)
	return w
}

// create makes a topic and returns it.
func (r *rig) create(name string, partitions uint32, settings ...catalog.Setting) *catalog.Topic {
	r.t.Helper()
	a := r.admin(0, &Admin{Kind: CreateTopic, Name: name, Partitions: partitions, Settings: settings})
	if a.Code != OK {
		r.t.Fatalf("create %s: %v: %s", name, a.Code, a.Message)
	}
	return a.Topic
}

// class is the setting of a durability class.
func class(c string) catalog.Setting { return catalog.Setting{Key: "durability", Value: c} }

// produced is a produce and what came of it.
type produced struct {
	Produce
	data  []byte // as it was sent
	done  int
	after func(p *produced)
}

func (p *produced) Produced(*Produce) {
	p.done++
	if p.after != nil {
		p.after(p)
	}
}

// begin begins a produce on a shard.
func (r *rig) begin(at int, topic TopicID, partition int32, data []byte) *produced {
	p := &produced{data: append([]byte(nil), data...)}
	p.Topic, p.Partition, p.Batch, p.Owner = topic, partition, data, p
	r.shards[at].Produce(&p.Produce)
	return p
}

// produce produces on a shard and waits.
func (r *rig) produce(at int, topic TopicID, partition int32, data []byte) *produced {
	r.t.Helper()
	p := r.begin(at, topic, partition, data)
	r.until("produce", func() bool { return p.done > 0 })
	return p
}

// mustProduce is produce, and must succeed.
func (r *rig) mustProduce(at int, topic TopicID, partition int32, data []byte) *produced {
	r.t.Helper()
	p := r.produce(at, topic, partition, data)
	if p.Code != OK {
		r.t.Fatalf("produce: %v: %s", p.Code, p.Message)
	}
	return p
}

// fetched is a fetch and what came of it.
type fetched struct {
	Fetch
	done int
}

func (f *fetched) Fetched(*Fetch) { f.done++ }

func (r *rig) beginFetch(at int, f *fetched) *fetched {
	f.Owner = f
	r.shards[at].Fetch(&f.Fetch)
	return f
}

// fetch fetches once from an offset, without waiting for more.
func (r *rig) fetch(at int, topic TopicID, partition int32, offset int64) *fetched {
	r.t.Helper()
	f := &fetched{}
	f.Topic, f.Partition, f.Offset = topic, partition, offset
	r.beginFetch(at, f)
	r.until("fetch", func() bool { return f.done > 0 })
	return f
}

// readAll reads a partition from its start through a shard and returns its batches
// by base offset.
func (r *rig) readAll(at int, topic TopicID, partition int32) map[int64][]byte {
	r.t.Helper()
	got := map[int64][]byte{}
	for offset := int64(0); ; {
		f := r.fetch(at, topic, partition, offset)
		if f.Code != OK {
			r.t.Fatalf("fetch at %d: %v: %s", offset, f.Code, f.Message)
		}
		var all []byte
		for _, p := range f.Pieces() {
			all = append(all, p...)
		}
		if len(all) != f.Bytes() {
			r.t.Fatalf("fetch at %d: pieces of %d bytes, said to be %d", offset, len(all), f.Bytes())
		}
		for len(all) > 0 {
			b, rest, err := batch.Split(all)
			if err != nil {
				r.t.Fatalf("fetch at %d: %v", offset, err)
			}
			h, err := batch.CheckStored(b)
			if err != nil {
				r.t.Fatalf("fetch at %d: %v", offset, err)
			}
			got[h.BaseOffset] = append([]byte(nil), b...)
			all = rest
		}
		next, end := f.Next, f.Durable
		r.shards[at].Release(&f.Fetch)
		if next >= end {
			return got
		}
		if next <= offset {
			r.t.Fatalf("fetch at %d of %d: next %d", offset, end, next)
		}
		offset = next
	}
}

// mustHold checks that a partition holds the batches sent, and nothing else, each
// at the offset at which it was acknowledged.
func (r *rig) mustHold(at int, topic TopicID, partition int32, sent []*produced) {
	r.t.Helper()
	got := r.readAll(at, topic, partition)
	if len(got) != len(sent) {
		r.t.Errorf("partition %d holds %d batches, want %d", partition, len(got), len(sent))
	}
	for i, p := range sent {
		if p.Code != OK || p.done != 1 {
			r.t.Fatalf("produce %d: %v, %d times done: %s", i, p.Code, p.done, p.Message)
		}
		b := got[p.Base]
		if len(b) != len(p.data) || string(b[batch.AtMagic:]) != string(p.data[batch.AtMagic:]) {
			r.t.Errorf("partition %d, batch %d: not what was acknowledged at offset %d", partition, i, p.Base)
		}
	}
}

// mustBeHome checks that nothing is in flight and all memory is home.
func (r *rig) mustBeHome() {
	r.t.Helper()
	r.run(2 * time.Millisecond)
	for _, b := range r.shards {
		if b.InFlight() != 0 {
			r.t.Errorf("shard %d: %d requests in flight", b.id, b.InFlight())
		}
		free := 0
		for rd := b.readings.free; rd != nil; rd = rd.next {
			free++
		}
		if free != b.readings.made || b.pinned != 0 || !b.held.empty() {
			r.t.Errorf("shard %d: %d of %d readings are home, %d bytes pinned", b.id, free, b.readings.made, b.pinned)
		}
		if u := b.store.Usage(); u.PinnedPieces != 0 || u.WaitingReads != 0 {
			r.t.Errorf("shard %d: %+v", b.id, u)
		}
		if b.busy.Len() > 0 || !b.stillWaiting().Empty() || b.steps.first != nil {
			r.t.Errorf("shard %d: something waits", b.id)
		}
		if out := b.plain.Out(b.node.opts.PlainBytes); out != 0 {
			r.t.Errorf("shard %d: %d bytes for conversion are not home", b.id, out)
		}
		for to := range r.shards {
			if to == b.id {
				continue
			}
			if c := b.port.Credits(to); c != r.opts.credits {
				r.t.Errorf("shard %d: %d of %d credits for %d are home", b.id, c, r.opts.credits, to)
			}
		}
	}
}

// close ends all stores in order.
func (r *rig) close() {
	r.t.Helper()
	for _, b := range r.shards {
		b.store.Close()
	}
	r.until("close", func() bool {
		for _, b := range r.shards {
			if !b.store.Closed() {
				return false
			}
		}
		return true
	})
	r.w.Kill()
}

var testSerial uint64

// testBatch is a batch of n records of size bytes that no other batch equals.
func testBatch(t testing.TB, n, size int) []byte {
	t.Helper()
	b := batch.NewBuilder(nil, 1<<20)
	for range n {
		v := make([]byte, max(size, 8))
		testSerial++
		binary.BigEndian.PutUint64(v, testSerial)
		if err := b.Append(&batch.Record{Value: v, Timestamp: int64(1000 + testSerial)}); err != nil {
			t.Fatal(err)
		}
	}
	return b.Finish(batch.CodecNone)
}

// shardCounts are the numbers of shards that most tests run with.
var shardCounts = []int{1, 2, 3}

// each runs a test with every number of shards.
func each(t *testing.T, f func(t *testing.T, shards int)) {
	for _, n := range shardCounts {
		t.Run(fmt.Sprintf("%d shards", n), func(t *testing.T) { f(t, n) })
	}
}

// remote is a partition of topic that shard at does not own, local one that it
// does.
func (r *rig) remote(at int, topic *catalog.Topic) int32 { return r.partitionOf(topic, at, false) }
func (r *rig) local(at int, topic *catalog.Topic) int32  { return r.partitionOf(topic, at, true) }

func (r *rig) partitionOf(topic *catalog.Topic, at int, own bool) int32 {
	r.t.Helper()
	for p := range int32(topic.Partitions) {
		if (r.node.ShardOf(topic.ID, p) == at) == own {
			return p
		}
	}
	r.t.Fatalf("no such partition of %s on shard %d", topic.Name, at)
	return -1
}

// newerSnapshot is a snapshot of the catalog as a later version might write it.
func newerSnapshot(data []byte) []byte {
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	be := binary.BigEndian
	be.PutUint16(data[4:], be.Uint16(data[4:])+1)
	be.PutUint32(data[60:], crc32.Checksum(data[:60], castagnoli))
	end := len(data) - 4
	be.PutUint32(data[end:], crc32.Checksum(data[:end], castagnoli))
	return data
}
