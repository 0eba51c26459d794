// Package mqdtest runs a broker inside a test.
//
// It is the real one: engine, journals, segments, consumer groups and the native protocol,
// on sockets of the loopback interface and on files in a directory of the test, which goes
// when the test ends. It takes neither root nor io_uring, and no linker flag, because its
// files are served by threads (the portable driver). A test may have any number of
// brokers, and tests that have some may run in parallel.
//
//	func TestOrdersAreStored(t *testing.T) {
//		b := mqdtest.New(t)
//		b.CreateTopic("orders", 4)
//		shop.Open(b.Addr()).Order("one pump")
//		if got := b.ReadAll("orders"); len(got) != 1 {
//			t.Errorf("%d orders are stored", len(got))
//		}
//	}
//
// What goes wrong with the broker itself fails the test, so that no method returns an
// error. Like t.FailNow, methods are called on the goroutine of the test.
//
// A service meets more than a broker that works. [Broker.Restart] and [Broker.Crash] show
// whether it goes on behind a start of the broker, [Broker.Stop] and [Broker.Start]
// whether it lives through an outage. The address stays the same. A crash takes from a
// topic of class memory what had not been written yet, as a kill does, and nothing that
// was acknowledged from other topics.
//
// Other faults are told to a broker that runs: [Broker.DropAcks] has producers not know what
// has become of their records, [Broker.SetLatency] makes answers slow, [Broker.FillDisk] and
// [Broker.FailDevice] are troubles of the disk, and [Broker.FenceMembers] takes partitions
// from a consumer that still works on them.
//
// # In memory
//
// With [InMemory] the broker has its disk, its network and its clock in the process too, and
// takes neither sockets nor files. In a bubble of testing/synctest its time is that of the
// bubble: a session of ten seconds or a retention of a day is over at once, and a test waits
// for nothing. Such a broker can lose its power, [Broker.CutPower], and its clock can be
// set, [Broker.JumpClock]. Programs under test reach it through [Broker.Dialer].
//
// # Real messages
//
// [Broker.Replay] fills a topic from a file that mqd consume -o jsonl has written, and
// [Broker.Record] writes what a topic holds in the same form.
package mqdtest

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/portable"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/shard"
	"github.com/mqd-broker/mqd/node"
)

const (
	// patience ends a test that hangs. Nothing is measured with it.
	patience = time.Minute
	// portPause is how long a start waits for its port before it tries again.
	portPause = 10 * time.Millisecond

	journalBytes = 8 << 20
	messageBytes = 1 << 20
	cacheBytes   = 8 << 20 // of a shard
	recvBuffers  = 64
)

// Broker is a broker that a test runs in its own process. Make one with [New].
type Broker struct {
	t       testing.TB
	cfg     node.Config
	addr    string     // where the relay listens
	node    *node.Node // nil while it is stopped
	relay   *relay
	ways    ways
	network network
	disk    disk
	world   *sim.World // nil: the machine's files and sockets
	ending  atomic.Bool
}

// Option changes a broker; see the With functions.
type Option func(*Broker)

// WithShards gives the broker so many shards, 1 to 64, each with a journal and threads of
// its own. Default 1.
func WithShards(n int) Option { return func(b *Broker) { b.cfg.Shards = n } }

// WithAutoCreate has the broker make a topic with so many partitions when a client names
// one that does not exist.
func WithAutoCreate(partitions int) Option {
	return func(b *Broker) { b.cfg.AutoCreate, b.cfg.DefaultPartitions = true, partitions }
}

// WithMaxMessageBytes sets the largest batch that the broker takes, 4 KiB to 1 MiB.
// Default 1 MiB.
func WithMaxMessageBytes(n int) Option { return func(b *Broker) { b.cfg.MaxMessageBytes = n } }

// WithIdleTimeout sets after how long a silence the broker closes a connection. Default
// 120 s.
func WithIdleTimeout(d time.Duration) Option { return func(b *Broker) { b.cfg.IdleTimeout = d } }

// WithLogger sets where the broker's log goes. Default: warnings and errors to the log of
// the test, but for what the broker says of a crash that the test has ordered.
func WithLogger(l *slog.Logger) Option { return func(b *Broker) { b.cfg.Log = l } }

// New starts a broker that ends with the test. Its data are in a directory of t.TempDir.
func New(t testing.TB, opts ...Option) *Broker {
	t.Helper()
	b := &Broker{t: t, addr: "127.0.0.1:0", cfg: node.Config{
		Listen: "127.0.0.1:0", Shards: 1, Version: "mqdtest",
		JournalBytes: journalBytes, MaxMessageBytes: messageBytes, RecvBuffers: recvBuffers,
	}}
	b.cfg.Log = slog.New(calm{slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}), &b.ending})
	for _, o := range opts {
		o(b)
	}
	if b.world == nil {
		b.cfg.Dir = filepath.Join(t.TempDir(), "mqd")
	}
	b.cfg.CacheBytes = int64(b.cfg.Shards) * cacheBytes
	b.Start()
	t.Cleanup(func() {
		// A test that has failed may have left clients that keep the broker busy.
		if b.node == nil {
			return
		}
		if err := b.abort(b.node); err != nil {
			t.Errorf("mqdtest: %v", err)
		}
	})
	return b
}

// Addr is where the broker listens, "127.0.0.1:port". It stays the same for the life of
// the test. That of a broker [InMemory] is known to its [Broker.Dialer] alone.
func (b *Broker) Addr() string { return b.addr }

// Start starts the broker again behind a [Broker.Stop].
func (b *Broker) Start() {
	b.t.Helper()
	if b.node != nil {
		b.t.Fatal("mqdtest: the broker runs already")
	}
	ctx, cancel := b.context()
	defer cancel()
	b.disk.broken.Store(false)
	b.ending.Store(false)
	n, err := node.Start(ctx, b.cfg, machine{&b.disk, b.world})
	if err != nil {
		b.t.Fatalf("mqdtest: the broker does not start: %v", err)
	}
	b.node = n
	target := n.Addr()
	reach := func() (net.Conn, error) { return b.reach(target) }
	if b.world != nil {
		b.addr = target
		b.relay = newPipes(reach, &b.network)
		b.ways.open(b.relay)
		return
	}
	b.relay, err = newRelay(b.addr, reach, &b.network)
	again := time.NewTicker(portPause)
	defer again.Stop()
	for errors.Is(err, syscall.EADDRINUSE) && ctx.Err() == nil {
		// While the broker was down a client of anybody's may have got its port.
		select {
		case <-again.C:
			b.relay, err = newRelay(b.addr, reach, &b.network)
		case <-ctx.Done():
		}
	}
	if err != nil {
		b.node = nil
		_ = n.Abort()
		b.t.Fatalf("mqdtest: the broker does not listen: %v", err)
	}
	if addr := b.relay.listener.Addr().String(); addr != b.addr {
		b.addr = addr // the first time; dialers read it
	}
}

// Stop ends the broker in order: what is in flight is finished and everything flushed.
// Until [Broker.Start] nobody listens at its address.
func (b *Broker) Stop() {
	b.t.Helper()
	n := b.running()
	b.ways.open(nil)
	b.relay.close()
	var err error
	if b.disk.broken.Load() {
		err = n.Abort() // nothing can be written to the end
	} else {
		err = n.Stop(context.WithoutCancel(b.t.Context()))
	}
	b.relay.end()
	b.node = nil
	if err != nil {
		b.t.Fatalf("mqdtest: the broker does not end in order: %v", err)
	}
}

// Restart ends the broker in order and starts it again.
func (b *Broker) Restart() {
	b.t.Helper()
	b.Stop()
	b.Start()
}

// Crash ends the broker at once, as kill -9 does, and starts it again: connections break,
// requests in flight have an outcome that nobody knows, and the start recovers what was
// acknowledged.
func (b *Broker) Crash() {
	b.t.Helper()
	if err := b.abort(b.running()); err != nil {
		b.t.Fatalf("mqdtest: %v", err)
	}
	b.Start()
}

// abort ends a node at once, and its connections.
func (b *Broker) abort(n *node.Node) error {
	b.ways.open(nil)
	b.ending.Store(true)
	err := n.Abort()
	b.relay.cut()
	b.node = nil
	return err
}

func (b *Broker) running() *node.Node {
	b.t.Helper()
	if b.node == nil {
		b.t.Fatal("mqdtest: the broker is stopped")
	}
	return b.node
}

// Client dials the broker. The client is closed, without waiting, when the test ends.
func (b *Broker) Client(opts ...client.Option) *client.Client {
	b.t.Helper()
	c := b.dial(opts...)
	b.t.Cleanup(func() { closeAtOnce(c) })
	return c
}

func (b *Broker) dial(opts ...client.Option) *client.Client {
	b.t.Helper()
	ctx, cancel := b.context()
	defer cancel()
	if b.world != nil {
		opts = append([]client.Option{client.WithDialer(b.Dialer())}, opts...)
	}
	c, err := client.Dial(ctx, []string{b.Addr()}, opts...)
	if err != nil {
		b.t.Fatalf("mqdtest: %v", err)
	}
	return c
}

// calm is a log without what a broker says while a test ends it at once.
type calm struct {
	slog.Handler
	ending *atomic.Bool
}

// Enabled implements slog.Handler.
func (c calm) Enabled(ctx context.Context, l slog.Level) bool {
	return !c.ending.Load() && c.Handler.Enabled(ctx, l)
}

// WithAttrs implements slog.Handler.
func (c calm) WithAttrs(attrs []slog.Attr) slog.Handler {
	return calm{c.Handler.WithAttrs(attrs), c.ending}
}

// WithGroup implements slog.Handler.
func (c calm) WithGroup(name string) slog.Handler { return calm{c.Handler.WithGroup(name), c.ending} }

// context bounds what is asked of the broker. A test's cleanups may ask too.
func (b *Broker) context() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(b.t.Context()), patience)
}

func closeAtOnce(c *client.Client) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = c.Close(ctx) // whatever was to be waited for, the test has waited
}

// machine is the test's own process.
type machine struct {
	disk  *disk
	world *sim.World // nil: files and sockets
}

// NewDriver implements node.Platform.
func (m machine) NewDriver(_ int, o aio.Options) (aio.Driver, error) {
	if m.world != nil {
		return &driver{m.world.Driver(o), m.disk}, nil
	}
	d, err := portable.New(o, portable.Config{})
	if err != nil {
		return nil, err
	}
	return &driver{d, m.disk}, nil
}

// Thread implements node.Platform: loops that are idle block.
func (machine) Thread(int) shard.Thread { return nil }

// Locked implements node.Platform.
func (machine) Locked() bool { return false }

// Pin implements node.Platform: shards run wherever there is a CPU.
func (machine) Pin(int) error { return nil }
