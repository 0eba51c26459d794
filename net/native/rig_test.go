package native_test

import (
	"testing"
	"time"

	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/engine"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/journal"
	"github.com/mqd-broker/mqd/engine/recovery"
	"github.com/mqd-broker/mqd/engine/shard"
	"github.com/mqd-broker/mqd/engine/stage"
	"github.com/mqd-broker/mqd/net/conn"
	"github.com/mqd-broker/mqd/net/native"
	"github.com/mqd-broker/mqd/ringbuf"
)

const (
	rigDir   = "/data"
	rigBatch = 256 << 10 // the largest batch
)

// rig is a whole node, engine and broker included, and its clients in one
// simulated world. One goroutine turns everything, so that a run repeats by its
// seed.
type rig struct {
	t       testing.TB
	w       *sim.World
	node    *broker.Node
	census  *conn.Census
	shards  []*testShard
	addr    string
	far     *sim.Driver // the clients' machine
	clock   *sim.Driver // moves time
	clients []*client
}

type rigOptions struct {
	seed    uint64
	shards  int
	chunks  int64
	journal int64
	world   sim.Options
	drv     aio.Options
	broker  broker.Options
	conns   conn.Options
	native  native.Options
}

// testShard is one shard of the node.
type testShard struct {
	rig    *rig
	drv    *sim.Driver
	loop   *shard.Loop
	broker *broker.Shard
	tap    *tap
	conns  *conn.Server
	server *native.Server
	port   *ringbuf.Port[broker.Message]
	stages stage.Clock
	bufs   int
	stuck  bool // refuses to take connections over
}

func (s *testShard) Drain(now int64) int { return s.broker.Drain(now) + s.conns.Drain(now) }

func (s *testShard) Finish(now int64) {
	s.broker.Finish(now)
	s.conns.Finish(now)
	s.port.Publish()
}

func (s *testShard) SpinHint(int64) int64 { return 0 }

// Move posts the connection to the other shard's loop.
func (s *testShard) Move(to int, st *conn.State) bool {
	target := s.rig.shards[to]
	return !target.stuck && target.loop.Post(shard.TaskFunc(func(*shard.Loop) { target.conns.Import(st) })) == nil
}

// tap stands between the front door and the broker. It can keep produces back, and
// answer fetches late and with Busy.
type tap struct {
	*broker.Shard
	hold     bool
	produces []*broker.Produce
	busy     bool
	late     []*broker.Fetch
	refused  map[*broker.Fetch]bool
	released int
	fetched  int
}

func (b *tap) Produce(r *broker.Produce) {
	if b.hold {
		b.produces = append(b.produces, r)
		return
	}
	b.Shard.Produce(r)
}

func (b *tap) Fetch(r *broker.Fetch) {
	b.fetched++
	if b.busy {
		b.late = append(b.late, r)
		return
	}
	b.Shard.Fetch(r)
}

func (b *tap) Release(r *broker.Fetch) {
	b.released++
	if b.refused[r] {
		delete(b.refused, r)
		return
	}
	b.Shard.Release(r)
}

// refuse answers the fetches that were kept back.
func (b *tap) refuse() {
	late := b.late
	b.late = nil
	for _, r := range late {
		b.refused[r] = true
		r.Code = broker.Busy
		r.Owner.Fetched(r)
	}
}

// let lets the produces go on that were kept back.
func (b *tap) let() {
	b.hold = false
	for _, r := range b.produces {
		b.Shard.Produce(r)
	}
	b.produces = nil
}

func def[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

func newRig(t testing.TB, o rigOptions) *rig {
	t.Helper()
	def(&o.shards, 1)
	def(&o.journal, 4<<20)
	def(&o.chunks, 8<<20)
	def(&o.drv.ArenaBytes, 128<<20)
	def(&o.conns.MaxFrame, rigBatch+64<<10)
	def(&o.broker.MaxBatch, rigBatch)
	o.world.Seed, o.broker.Dir = o.seed, rigDir
	r := &rig{t: t, w: sim.New(o.world), census: conn.NewCensus(conn.CensusLimits{Total: 10_000})}
	r.far = r.w.ClientDriver(aio.Options{ArenaBytes: 256 << 20, RecvBuffers: 64, RecvBufferBytes: 16 << 10})
	r.clock = r.w.Driver(aio.Options{RecvBuffers: 2})
	r.start(o)
	return r
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// start recovers the empty disk and starts the node.
func (r *rig) start(o rigOptions) {
	for range o.shards {
		r.shards = append(r.shards, &testShard{rig: r, drv: r.w.Driver(o.drv)})
	}
	first := r.shards[0].drv
	topics := broker.NewTopics(o.broker, first.FS(), nil)
	rec := must(recovery.Recover(first, recovery.Options{
		Dir: rigDir, Shards: o.shards, Topics: topics, Catalog: broker.CatalogConfig(),
		Report: func(f string, a ...any) { r.t.Logf(f, a...) },
	}))
	r.node = must(broker.NewNode(o.broker, rec, topics))
	mesh := ringbuf.NewMesh[broker.Message](o.shards, 64)
	r.addr = must(conn.Probe(first, "127.0.0.1:0"))
	for i, s := range r.shards {
		s.port = mesh.Port(i)
		s.loop = shard.New(s.drv, shard.Options{ID: i, Sleep: s.port.Sleep()})
		s.loop.SetWorker(s)
		store := must(engine.NewStore(s.loop, engine.StoreOptions{
			Dir: rigDir, Shard: i, Shards: o.shards, Term: rec.Term, Node: rec.Node.ID, Slots: rec.Slots,
			ChunkBytes: o.chunks, ColdReads: 4, Writers: 3, MaxBatch: rigBatch, Identity: rec.Identity, Events: trouble{r.t},
			Stages: &s.stages,
		}))
		j := must(recovery.OpenJournal(s.drv, rec, rigDir, i, o.journal, journal.Options{Observer: store, MaxBody: rigBatch}))
		store.SetJournal(j, rec.Sequence[i])
		s.broker = broker.NewShard(r.node, s.loop, store, s.port)
		s.tap = &tap{Shard: s.broker, refused: map[*broker.Fetch]bool{}}
		s.bufs = s.drv.FreeBufs()
		s.conns = must(conn.NewServer(s.loop, r.census, s, o.conns))
		s.server = native.NewServer(s.tap, s.conns, o.native)
		must(must(s.server.Open()).Listen(r.addr))
	}
}

// trouble fails the test when the engine has any.
type trouble struct{ t testing.TB }

func (e trouble) StoreFailed(shard int, err error) { e.t.Errorf("store %d failed: %v", shard, err) }

func (e trouble) SealFailed(k engine.Key, base int64, err error) {
	e.t.Errorf("seal of %v at %d failed: %v", k, base, err)
}

func (e trouble) CompactionFailed(dir string, err error) {
	e.t.Errorf("not compacted: %s: %v", dir, err)
}
func (e trouble) SegmentsLeft(dir string, err error) { e.t.Errorf("segments left in %s: %v", dir, err) }

func (e trouble) DiskFull(shard int, full bool, err error) {
	e.t.Errorf("disk of shard %d full %v: %v", shard, full, err)
}

// turn turns every loop once and polls the clients.
func (r *rig) turn() int {
	work := 0
	for _, s := range r.shards {
		n, err := s.loop.Turn()
		if err != nil {
			r.t.Fatalf("turn: %v", err)
		}
		work += n
	}
	return work + must(r.far.Poll(0))
}

// until turns until done holds, for at most ten seconds of simulated time.
func (r *rig) until(what string, done func() bool) {
	r.t.Helper()
	deadline := r.w.Now() + int64(10*time.Second)
	for !done() {
		if r.w.Now() > deadline {
			r.t.Fatalf("never happened: %s; %+v, %d requests", what, r.shards[0].conns.Outstanding(), r.shards[0].server.InFlight())
		}
		if r.turn() == 0 && !r.w.Step() {
			r.advance(time.Millisecond)
		}
	}
}

// settle turns for a while: long enough for everything that is under way, short
// enough for no timeout.
func (r *rig) settle() { r.advance(30 * time.Millisecond) }

// advance lets time pass, with everything turning meanwhile.
func (r *rig) advance(d time.Duration) {
	for end := r.w.Now() + int64(d); r.w.Now() < end; {
		for range 50 {
			if r.turn() == 0 && !r.w.Step() {
				break
			}
		}
		for range 220 { // until the loops count as blocked
			must(r.clock.Poll(0))
		}
		must(r.clock.Poll(min(d/20+100*time.Microsecond, 250*time.Millisecond, time.Duration(max(0, end-r.w.Now())))))
	}
}

// home closes all clients and fails the test unless everything comes home.
func (r *rig) home() {
	r.t.Helper()
	for _, c := range r.clients {
		if !c.closed {
			c.close()
		}
	}
	r.advance(3 * time.Second)
	for i, s := range r.shards {
		if o := s.conns.Outstanding(); o != (conn.Outstanding{}) {
			r.t.Errorf("shard %d: not home: %+v", i, o)
		}
		if n := s.drv.FreeBufs(); n != s.bufs {
			r.t.Errorf("shard %d: %d of %d receive buffers are home", i, n, s.bufs)
		}
		if n := s.server.InFlight() + s.broker.InFlight(); n != 0 {
			r.t.Errorf("shard %d: %d requests in flight", i, n)
		}
		if s.tap.fetched != s.tap.released {
			r.t.Errorf("shard %d: %d fetches, %d releases", i, s.tap.fetched, s.tap.released)
		}
	}
	if n := r.census.Count(); n != 0 {
		r.t.Errorf("%d connections counted, none is there", n)
	}
}

// count sums a counter over the shards.
func (r *rig) count(n native.Counter) (sum uint64) {
	for _, s := range r.shards {
		sum += s.server.Counters().Get(n)
	}
	return sum
}

// closedFor sums the connections that ended for a reason.
func (r *rig) closedFor(why conn.Reason) (sum uint64) {
	for _, s := range r.shards {
		sum += s.conns.Counters().ClosedFor(why)
	}
	return sum
}
