package kafka_test

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/engine"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/journal"
	"github.com/mqd-broker/mqd/engine/recovery"
	"github.com/mqd-broker/mqd/engine/shard"
	"github.com/mqd-broker/mqd/net/conn"
	"github.com/mqd-broker/mqd/net/kafka"
	"github.com/mqd-broker/mqd/ringbuf"
)

const (
	dataDir  = "/data"
	maxBatch = 256 << 10
	jumbo    = 4 << 20
)

// rig is a whole node and its clients in one simulated world, turned by one goroutine.
type rig struct {
	t       testing.TB
	opts    rigOptions
	w       *sim.World
	node    *broker.Node
	census  *conn.Census
	shards  []*testShard
	addr    string
	far     *sim.Driver // the clients' machine
	clock   *sim.Driver // moves time
	clients []*client
	bufs    [][]byte // of clients that are closed
	refused []error
}

type rigOptions struct {
	seed    uint64
	shards  int
	journal int64
	expiry  time.Duration // of producers
	broker  broker.Options
	kafka   kafka.Options
}

type testShard struct {
	rig    *rig
	drv    *sim.Driver
	loop   *shard.Loop
	broker *broker.Shard
	tap    *tap
	conns  *conn.Server
	server *kafka.Server
	port   *ringbuf.Port[broker.Message]
	bufs   int
}

func (s *testShard) Drain(now int64) int { return s.broker.Drain(now) + s.conns.Drain(now) }

func (s *testShard) Finish(now int64) {
	s.broker.Finish(now)
	s.conns.Finish(now)
	s.port.Publish()
}

func (s *testShard) SpinHint(int64) int64 { return 0 }

// Move implements conn.Mover: nothing moves.
func (s *testShard) Move(int, *conn.State) bool { return false }

// tap stands between the front door and the broker, and can keep produces back.
type tap struct {
	*broker.Shard
	hold              bool // produces
	holdAdmin         bool
	holdGroups        bool
	fail              broker.Code // what fetches, look-ups and requests about groups come to; OK: what the broker says
	admins            []*broker.Admin
	groups            []*broker.Group
	produces          []*broker.Produce
	fetched, released int
}

func (b *tap) Produce(r *broker.Produce) {
	if b.hold {
		b.produces = append(b.produces, r)
		return
	}
	b.Shard.Produce(r)
}

func (b *tap) Admin(r *broker.Admin) {
	if b.holdAdmin {
		b.admins = append(b.admins, r)
		return
	}
	b.Shard.Admin(r)
}

// let lets a produce go on that was kept back.
func (b *tap) let(i int) { b.Shard.Produce(b.produces[i]) }

func (b *tap) Fetch(r *broker.Fetch) {
	b.fetched++
	if b.fail != broker.OK {
		r.Code, r.LogStart, r.Durable = b.fail, -1, -1
		r.Owner.Fetched(r)
		return
	}
	b.Shard.Fetch(r)
}

func (b *tap) Release(r *broker.Fetch) {
	b.released++
	if r.Code == b.fail && b.fail != broker.OK {
		return // the broker has not heard of it
	}
	b.Shard.Release(r)
}

func (b *tap) ListOffsets(r *broker.ListOffsets) {
	if b.fail != broker.OK {
		r.Code, r.Offset, r.Timestamp, r.Epoch = b.fail, -1, -1, -1
		r.Owner.OffsetsListed(r)
		return
	}
	b.Shard.ListOffsets(r)
}

func (b *tap) Group(r *broker.Group) {
	if b.holdGroups {
		b.groups = append(b.groups, r)
		return
	}
	if b.fail != broker.OK {
		r.Code = b.fail
		r.Owner.GroupDone(r)
		return
	}
	b.Shard.Group(r)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func newRig(t testing.TB, o rigOptions) *rig {
	t.Helper()
	if o.shards == 0 {
		o.shards = 1
	}
	if o.journal == 0 {
		o.journal = 4 << 20
	}
	o.broker.MaxBatch, o.broker.Dir = maxBatch, dataDir
	r := &rig{t: t, w: sim.New(sim.Options{Seed: o.seed}), census: conn.NewCensus(conn.CensusLimits{Total: 10_000})}
	r.far = r.w.ClientDriver(aio.Options{ArenaBytes: 64 << 20, RecvBuffers: 64, RecvBufferBytes: 16 << 10})
	r.clock = r.w.Driver(aio.Options{RecvBuffers: 2})
	o.kafka.Refused = func(_ string, why error, _ int) { r.refused = append(r.refused, why) }
	r.opts = o
	r.start(o)
	return r
}

// restart kills the broker and starts it again.
func (r *rig) restart() {
	r.w.Kill()
	r.shards, r.clock = nil, r.w.Driver(aio.Options{RecvBuffers: 2})
	r.census = conn.NewCensus(conn.CensusLimits{Total: 10_000})
	r.start(r.opts)
}

// start recovers what is on the disk and starts the node.
func (r *rig) start(o rigOptions) {
	for range o.shards {
		r.shards = append(r.shards, &testShard{rig: r, drv: r.w.Driver(aio.Options{ArenaBytes: 128 << 20})})
	}
	first := r.shards[0].drv
	topics := broker.NewTopics(o.broker, first.FS(), nil)
	rec := must(recovery.Recover(first, recovery.Options{
		Dir: dataDir, Shards: o.shards, Topics: topics, Catalog: broker.CatalogConfig(),
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
			Dir: dataDir, Shard: i, Shards: o.shards, Term: rec.Term, Node: rec.Node.ID, Slots: rec.Slots,
			ChunkBytes: 8 << 20, ColdReads: 4, Writers: 3, MaxBatch: maxBatch, Identity: rec.Identity, ProducerExpiry: o.expiry,
		}))
		j := must(recovery.OpenJournal(s.drv, rec, dataDir, i, o.journal, journal.Options{Observer: store, MaxBody: maxBatch}))
		store.SetJournal(j, rec.Sequence[i])
		s.broker = broker.NewShard(r.node, s.loop, store, s.port)
		s.tap = &tap{Shard: s.broker}
		s.bufs = s.drv.FreeBufs()
		s.conns = must(conn.NewServer(s.loop, r.census, s, conn.Options{MaxFrame: maxBatch + 64<<10, JumboFrame: jumbo, JumboFrames: 2}))
		s.server = kafka.NewServer(s.tap, s.conns, o.kafka)
		door := must(s.server.Open())
		s.server.Advertise("broker.test", 9092)
		must(door.Listen(r.addr))
	}
}

func (r *rig) turn() int {
	work := 0
	for _, s := range r.shards {
		work += must(s.loop.Turn())
	}
	return work + must(r.far.Poll(0))
}

// until turns until done holds, for at most ten seconds of simulated time.
func (r *rig) until(what string, done func() bool) {
	r.t.Helper()
	deadline := r.w.Now() + int64(10*time.Second)
	for !done() {
		if r.w.Now() > deadline {
			r.t.Fatalf("never happened: %s; %+v, %d requests, refused %v", what, r.shards[0].conns.Outstanding(), r.shards[0].server.InFlight(), r.refused)
		}
		if r.turn() == 0 && !r.w.Step() {
			r.advance(time.Millisecond)
		}
	}
}

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

// create makes a topic and waits until it is there.
func (r *rig) create(name string, partitions uint32) {
	r.t.Helper()
	a := &broker.Admin{Kind: broker.CreateTopic, Name: name, Partitions: partitions}
	w := &created{}
	a.Owner = w
	r.shards[0].broker.Admin(a)
	r.until("topic "+name, func() bool { return w.done })
	if a.Code != broker.OK {
		r.t.Fatalf("create %s: %v", name, a.Code)
	}
}

type created struct{ done bool }

func (c *created) AdminDone(*broker.Admin) { c.done = true }

// client is a connection on which frames are sent and received as they are.
type client struct {
	r          *rig
	sock       aio.Sock
	send, recv aio.Op
	out        []byte
	buf        []byte
	got        []byte
	frames     [][]byte // answers, without their lengths, in the order in which they came
	ended      bool
	closed     bool
	closeOp    aio.Op
	corr       int32
}

func (r *rig) dial() *client {
	r.t.Helper()
	c := &client{r: r, sock: must(r.far.Dial(r.addr))}
	if n := len(r.bufs); n > 0 {
		c.buf, r.bufs = r.bufs[n-1], r.bufs[:n-1]
	} else {
		c.buf = must(r.far.Alloc(64 << 10))
	}
	c.listen()
	r.clients = append(r.clients, c)
	return c
}

func (c *client) listen() {
	c.recv.Kind, c.recv.Sock, c.recv.Owner = aio.KindRecv, c.sock, c
	c.r.far.Submit(&c.recv)
}

func (c *client) write(b []byte) {
	c.out = append(c.out, b...)
	c.push()
}

func (c *client) push() {
	if c.send.InFlight() || len(c.out) == 0 || c.closed || c.ended {
		return
	}
	n := copy(c.buf, c.out)
	c.out = c.out[n:]
	c.send.Kind, c.send.Sock, c.send.Owner = aio.KindSend, c.sock, c
	c.send.Vec = [][]byte{c.buf[:n]}
	c.r.far.Submit(&c.send)
}

// Complete implements aio.Owner.
func (c *client) Complete(op *aio.Op) {
	switch {
	case op.Kind == aio.KindCloseSock, errors.Is(op.Err, aio.ErrCanceled):
	case errors.Is(op.Err, aio.ErrNoBuffers):
		c.listen()
	case op.Err != nil:
		c.ended = true
	case op.Kind == aio.KindSend:
		c.push()
	case len(op.Data) > 0:
		c.got = append(c.got, op.Data...)
		c.r.far.ReleaseBuf(op.BufID)
		for len(c.got) >= 4 && len(c.got) >= 4+int(binary.BigEndian.Uint32(c.got)) {
			n := 4 + int(binary.BigEndian.Uint32(c.got))
			c.frames = append(c.frames, append([]byte(nil), c.got[4:n]...))
			c.got = c.got[n:]
		}
		if !op.More {
			c.listen()
		}
	default:
		c.ended = true
	}
}

func (c *client) close() {
	c.closed = true
	c.r.far.Cancel(&c.recv)
	c.r.far.Cancel(&c.send)
	c.r.until("client idle", func() bool { return !c.recv.InFlight() && !c.send.InFlight() })
	c.closeOp.Kind, c.closeOp.Sock, c.closeOp.Owner = aio.KindCloseSock, c.sock, c
	c.r.far.Submit(&c.closeOp)
	c.r.until("client closed", func() bool { return !c.closeOp.InFlight() })
	c.r.bufs = append(c.r.bufs, c.buf)
}

// ask sends a request of a version and returns its correlation id.
func (c *client) ask(version int16, q kmsg.Request) int32 {
	c.corr++
	c.write(frame(version, c.corr, q))
	return c.corr
}

// frame is a request as it is sent.
func frame(version int16, corr int32, q kmsg.Request) []byte {
	q.SetVersion(version)
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, q, corr)
}

// take waits for the next answer, which is to the request with that correlation id,
// and decodes it.
func (c *client) take(version int16, corr int32, into kmsg.Response) {
	c.r.t.Helper()
	c.r.until("an answer", func() bool { return len(c.frames) > 0 || c.ended })
	if len(c.frames) == 0 {
		c.r.t.Fatalf("the connection ended without an answer; refused %v", c.r.refused)
	}
	f := c.frames[0]
	c.frames = c.frames[1:]
	if got := int32(binary.BigEndian.Uint32(f)); got != corr {
		c.r.t.Fatalf("the answer is to request %d, expected to %d", got, corr)
	}
	into.SetVersion(version)
	f = f[4:]
	if into.IsFlexible() && into.Key() != 18 {
		f = f[1:]
	}
	if err := into.ReadFrom(f); err != nil {
		c.r.t.Fatalf("answer to %d: %v", corr, err)
	}
}

// gone waits until the broker has closed the connection.
func (c *client) gone() {
	c.r.t.Helper()
	c.r.until("the end of the connection", func() bool { return c.ended })
}

// failures is how many partitions the shards have answered with an error.
func (r *rig) failures() uint64 {
	n := uint64(0)
	for _, s := range r.shards {
		n += s.server.Counters().Get(kafka.Failures)
	}
	return n
}
