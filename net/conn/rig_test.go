package conn_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/shard"
	"github.com/mqd-broker/mqd/net/conn"
)

// rig is a node of several shards and its clients in one simulated world. One
// goroutine turns everything, so that a run repeats by its seed.
type rig struct {
	t       *testing.T
	w       *sim.World
	census  *conn.Census
	shards  []*testShard
	addr    string
	far     *sim.Driver // the clients' machine
	clock   *sim.Driver // moves time
	clients []*client
}

// testShard is one shard of the node.
type testShard struct {
	rig   *rig
	drv   *sim.Driver
	loop  *shard.Loop
	srv   *conn.Server
	door  *conn.Door
	proto *testProtocol
	bufs  int
}

func (s *testShard) Drain(now int64) int  { return s.srv.Drain(now) }
func (s *testShard) Finish(now int64)     { s.srv.Finish(now) }
func (s *testShard) SpinHint(int64) int64 { return 0 }

// Move posts the connection to the other shard's loop.
func (s *testShard) Move(to int, st *conn.State) bool {
	if to >= len(s.rig.shards) || s.proto.noMoves {
		return false
	}
	target := s.rig.shards[to]
	return target.loop.Post(shard.TaskFunc(func(*shard.Loop) { target.srv.Import(st) })) == nil
}

type rigOptions struct {
	seed                  uint64
	shards                int
	conns                 int
	perAddress, perSecond int
	world                 sim.Options
	drv                   aio.Options
	srv                   conn.Options
	door                  conn.DoorOptions
}

func newRig(t *testing.T, o rigOptions) *rig {
	t.Helper()
	if o.shards == 0 {
		o.shards = 1
	}
	if o.conns == 0 {
		o.conns = 100
	}
	o.world.Seed = o.seed
	r := &rig{t: t, w: sim.New(o.world), census: conn.NewCensus(conn.CensusLimits{Total: o.conns, PerAddress: o.perAddress, PerSecond: o.perSecond})}
	r.far = r.w.ClientDriver(aio.Options{ArenaBytes: 64 << 20, RecvBuffers: 64, RecvBufferBytes: 16 << 10})
	r.clock = r.w.Driver(aio.Options{RecvBuffers: 2})
	for i := range o.shards {
		s := &testShard{rig: r, drv: r.w.Driver(o.drv)}
		s.loop = shard.New(s.drv, shard.Options{ID: i, Idle: shard.IdleBlock})
		s.loop.SetWorker(s)
		s.bufs = s.drv.FreeBufs()
		s.proto = &testProtocol{shard: s, conns: map[*conn.Conn]bool{}}
		s.srv = must(conn.NewServer(s.loop, r.census, s, o.srv))
		s.door = must(s.srv.Open(s.proto, o.door))
		addr := "127.0.0.1:0"
		if i > 0 {
			addr = r.addr
		}
		r.addr = must(s.door.Listen(addr))
		r.shards = append(r.shards, s)
	}
	return r
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
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
	n, err := r.far.Poll(0)
	if err != nil {
		r.t.Fatalf("poll: %v", err)
	}
	return work + n
}

// rest reports whether nothing is left to happen. It turns twice, because what
// one driver's poll brings about may lie ready for another that was polled
// before.
func (r *rig) rest() bool {
	for range 2 {
		if r.turn() > 0 || r.w.Step() {
			return false
		}
	}
	return true
}

// until turns until done holds; what must happen is no more than a little virtual
// time away.
func (r *rig) until(what string, done func() bool) {
	r.t.Helper()
	for range 200_000 {
		if done() {
			return
		}
		if r.rest() {
			break
		}
	}
	if !done() {
		r.t.Fatalf("never happened: %s; outstanding %+v", what, r.shards[0].srv.Outstanding())
	}
}

// settle turns until nothing happens any more.
func (r *rig) settle() {
	r.t.Helper()
	for range 1_000_000 {
		if r.rest() {
			return
		}
	}
	r.t.Fatal("never comes to rest")
}

// advance lets time pass, in steps, with everything turning in between.
func (r *rig) advance(d time.Duration) {
	r.t.Helper()
	for end := r.w.Now() + int64(d); r.w.Now() < end; {
		for range 220 { // until the loops count as blocked
			must(r.clock.Poll(0))
		}
		must(r.clock.Poll(min(250*time.Millisecond, time.Duration(end-r.w.Now()))))
		for range 4 {
			r.turn()
		}
	}
}

// home fails the test unless everything has come home. Clients must be gone.
func (r *rig) home() {
	r.t.Helper()
	r.settle()
	r.advance(3 * time.Second)
	for i, s := range r.shards {
		if o := s.srv.Outstanding(); o != (conn.Outstanding{}) {
			r.t.Errorf("shard %d: not home: %+v", i, o)
		}
		if n := s.drv.FreeBufs(); n != s.bufs {
			r.t.Errorf("shard %d: %d of %d receive buffers are home", i, n, s.bufs)
		}
		if len(s.proto.conns) != 0 {
			r.t.Errorf("shard %d: the protocol was not told of the end of %d connections", i, len(s.proto.conns))
		}
	}
	if n := r.census.Count(); n != 0 {
		r.t.Errorf("%d connections counted, none is there", n)
	}
}

// client is one end of a connection, as raw as a socket.
type client struct {
	r          *rig
	sock       aio.Sock
	send, recv aio.Op
	out        []byte // to be sent
	buf        []byte // memory of the send in flight
	got        []byte
	eof        bool
	err        error // of send or receive
	deaf       bool  // receives nothing
	closed     bool
	closeOp    aio.Op
}

func (r *rig) dial() *client {
	r.t.Helper()
	sock, err := r.far.Dial(r.addr)
	if err != nil {
		r.t.Fatalf("dial: %v", err)
	}
	c := &client{r: r, sock: sock}
	c.buf = must(r.far.Alloc(64 << 10))
	c.hear()
	r.clients = append(r.clients, c)
	return c
}

// dialDeaf dials a client that receives nothing.
func (r *rig) dialDeaf() *client {
	c := r.dial()
	c.deaf = true
	r.far.Cancel(&c.recv)
	return c
}

func (c *client) hear() {
	c.recv.Kind, c.recv.Sock, c.recv.Owner = aio.KindRecv, c.sock, c
	c.r.far.Submit(&c.recv)
}

// write sends b, in order behind what was written before.
func (c *client) write(b []byte) {
	c.out = append(c.out, b...)
	c.push()
}

func (c *client) push() {
	if c.send.InFlight() || len(c.out) == 0 || c.closed || c.err != nil {
		return
	}
	n := copy(c.buf, c.out)
	c.out = c.out[n:]
	c.send.Kind, c.send.Sock, c.send.Owner = aio.KindSend, c.sock, c
	c.send.Vec = [][]byte{c.buf[:n]}
	c.r.far.Submit(&c.send)
}

func (c *client) Complete(op *aio.Op) {
	switch {
	case op.Kind == aio.KindSend:
		if op.Err != nil {
			c.err = op.Err
			return
		}
		c.push()
	case op.Kind == aio.KindCloseSock, errors.Is(op.Err, aio.ErrCanceled):
	case errors.Is(op.Err, aio.ErrNoBuffers):
		c.hear()
	case op.Err != nil:
		c.err = op.Err
	case len(op.Data) > 0:
		c.got = append(c.got, op.Data...)
		c.r.far.ReleaseBuf(op.BufID)
		if !op.More && !c.deaf {
			c.hear()
		}
	default:
		c.eof = true
	}
}

// ended reports whether the server has closed the connection.
func (c *client) ended() bool { return c.eof || c.err != nil }

// close closes the client's end when nothing of it is in flight.
func (c *client) close() {
	c.closed = true
	c.r.far.Cancel(&c.recv)
	c.r.far.Cancel(&c.send)
	c.r.until("client idle", func() bool { return !c.recv.InFlight() && !c.send.InFlight() })
	c.closeOp.Kind, c.closeOp.Sock, c.closeOp.Owner = aio.KindCloseSock, c.sock, c
	c.r.far.Submit(&c.closeOp)
	c.r.until("client closed", func() bool { return !c.closeOp.InFlight() })
}

// closeAll closes all clients that are not closed.
func (r *rig) closeAll() {
	for _, c := range r.clients {
		if !c.closed {
			c.close()
		}
	}
}

// waitFor waits for n frames and returns their bodies.
func (c *client) waitFor(n int) [][]byte {
	c.r.t.Helper()
	c.r.until("frames for the client", func() bool { return len(frames(c.got)) >= n })
	return frames(c.got)
}

// frame is a frame of the test protocol: u32 length of all of it, command, body.
func frame(cmd byte, body []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(5+len(body)))
	return append(append(b, cmd), body...)
}

// frames splits whole frames and returns command and body of each.
func frames(b []byte) [][]byte {
	var fs [][]byte
	for len(b) >= 4 {
		n := int(binary.BigEndian.Uint32(b))
		if n < 5 || n > len(b) {
			break
		}
		fs = append(fs, b[4:n])
		b = b[n:]
	}
	return fs
}

// noise is n bytes that tell where they stand.
func noise(n, seed int) []byte {
	b := make([]byte, n)
	x := uint32(seed)*2654435761 + 1
	for i := range b {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		b[i] = byte(x)
	}
	return b
}

func equalFrames(t *testing.T, got [][]byte, want ...[]byte) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d frames, want %d", len(got), len(want))
	}
	for i := range got {
		if !bytes.Equal(got[i], want[i][4:]) {
			t.Fatalf("frame %d: %d bytes differ from the %d expected", i, len(got[i]), len(want[i])-4)
		}
	}
}
