package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/portable"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/shard"
)

const (
	rigDir  = "/data"
	rigAddr = "127.0.0.1:7878"
	// patience ends a test that hangs. Nothing is measured with it.
	patience = 60 * time.Second
)

// platform runs shards on a simulated machine, in goroutines that block when
// they are idle.
type platform struct {
	w *sim.World // nil: the real machine, with the driver for development
	// wrap, if set, stands between a shard and its driver.
	wrap func(shard int, d aio.Driver) aio.Driver
	fail map[int]error // no driver for a shard
}

func (p *platform) NewDriver(shard int, o aio.Options) (aio.Driver, error) {
	if err := p.fail[shard]; err != nil {
		return nil, err
	}
	if p.w == nil {
		return portable.New(o, portable.Config{Simple: true})
	}
	var d aio.Driver = p.w.Driver(o)
	if p.wrap != nil {
		d = p.wrap(shard, d)
	}
	return d, nil
}

func (p *platform) Thread(int) shard.Thread { return nil }
func (p *platform) Locked() bool            { return false }
func (p *platform) Pin(int) error           { return nil }

// rig is a node on a simulated machine in real time, and its clients.
type rig struct {
	t   testing.TB
	w   *sim.World
	p   *platform
	cfg Config
	n   *Node
	log *logged
}

// small makes a node that starts quickly.
func small(shards int) Config {
	return Config{
		Dir: rigDir, Listen: rigAddr, Shards: shards, JournalBytes: 2 << 20, CacheBytes: int64(shards) * 4 << 20,
		MaxMessageBytes: 128 << 10, RecvBuffers: 32, Version: "test", IdleTimeout: 30 * time.Second,
	}
}

// newRig makes a machine with a node that serves.
func newRig(t testing.TB, cfg Config, change ...func(*sim.Options)) *rig {
	t.Helper()
	r := newMachine(t, cfg, change...)
	r.start()
	return r
}

// newMachine makes a machine on which no node runs.
func newMachine(t testing.TB, cfg Config, change ...func(*sim.Options)) *rig {
	o := sim.Options{Seed: seedOf(t), Mode: sim.RealTime}
	for _, f := range change {
		f(&o)
	}
	t.Logf("seed %d (-node.rig)", o.Seed)
	w := sim.New(o)
	r := &rig{t: t, w: w, p: &platform{w: w}, cfg: cfg, log: &logged{}}
	r.cfg.Log = slog.New(slog.NewTextHandler(r.log, nil))
	t.Cleanup(func() {
		if r.n != nil {
			r.w.Kill()
			_ = r.n.Stop(context.Background())
		}
	})
	return r
}

// logged is what a node has logged.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (r *rig) tryStart() error {
	n, err := Start(r.t.Context(), r.cfg, r.p)
	if err == nil {
		r.n = n
	}
	return err
}

func (r *rig) start() {
	r.t.Helper()
	err := r.tryStart()
	if errors.Is(err, syscall.EROFS) {
		// A filesystem whose flush has failed may be put right by a restart of the
		// machine alone.
		r.w.Crash(sim.KeepNone)
		err = r.tryStart()
	}
	if err != nil {
		r.t.Fatalf("start: %v\n%s", err, r.log)
	}
}

// stop ends the node in order.
func (r *rig) stop() {
	r.t.Helper()
	if err := r.end(context.Background()); err != nil {
		r.t.Fatalf("stop: %v\n%s", err, r.log)
	}
}

// end ends the node, within the test's patience.
func (r *rig) end(ctx context.Context) error {
	r.t.Helper()
	n := r.n
	r.n = nil
	done := make(chan error, 1)
	go func() { done <- n.Stop(ctx) }()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		r.t.Fatalf("stop does not end\n%s", stacks())
		return nil
	}
}

// die ends the node's process, and what is left of it.
func (r *rig) die() {
	r.t.Helper()
	r.w.Kill()
	if err := r.end(context.Background()); !errors.Is(err, aio.ErrClosed) {
		r.t.Fatalf("stop of a node that was killed: %v", err)
	}
}

func stacks() string {
	b := make([]byte, 1<<20)
	return string(b[:runtime.Stack(b, true)])
}

func (r *rig) context() context.Context {
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	r.t.Cleanup(cancel)
	return ctx
}

func (r *rig) dialer() client.Option {
	if r.w == nil {
		return client.WithDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		})
	}
	return client.WithDialer(func(_ context.Context, addr string) (net.Conn, error) { return r.w.DialConn(addr) })
}

// dial connects a client, which is closed with the test.
func (r *rig) dial(opts ...client.Option) *client.Client {
	r.t.Helper()
	opts = append([]client.Option{r.dialer(), client.WithBackoff(time.Millisecond, 20*time.Millisecond)}, opts...)
	c, err := client.Dial(r.context(), []string{r.cfg.Listen}, opts...)
	if err != nil {
		r.t.Fatalf("dial: %v", err)
	}
	r.t.Cleanup(func() { closeNow(c) })
	return c
}

// closeNow closes a client without waiting for answers.
func closeNow(c *client.Client) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = c.Close(ctx)
}

// create makes a topic.
func (r *rig) create(c *client.Client, name string, partitions int, class string) {
	r.t.Helper()
	spec := client.TopicSpec{Name: name, Partitions: partitions, Configs: map[string]string{"durability": class}}
	if _, err := c.Admin().CreateTopic(r.context(), spec); err != nil {
		r.t.Fatalf("create %s: %v", name, err)
	}
}

// eventually waits for what another goroutine brings about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("never: %s\n%s", what, stacks())
		}
	}
}

// leak notes the goroutines there are, and returns a check that there are no more.
func leak(t testing.TB) func() {
	before := runtime.NumGoroutine()
	return func() {
		t.Helper()
		eventually(t, fmt.Sprintf("back to %d goroutines", before), func() bool { return runtime.NumGoroutine() <= before })
	}
}

// shardCounts are the numbers of shards that most tests run with.
var shardCounts = []int{1, 2, 3}

func each(t *testing.T, f func(t *testing.T, shards int)) {
	for _, n := range shardCounts {
		t.Run(fmt.Sprintf("%d shards", n), func(t *testing.T) {
			t.Parallel()
			f(t, n)
		})
	}
}

// stamp is a value that no other producer or number has, of at least 12 bytes.
func stamp(producer, number, size int) []byte {
	b := make([]byte, max(size, 12))
	binary.BigEndian.PutUint32(b, uint32(producer))
	binary.BigEndian.PutUint64(b[4:], uint64(number))
	for i := 12; i < len(b); i++ {
		b[i] = byte(producer + number + i)
	}
	return b
}
