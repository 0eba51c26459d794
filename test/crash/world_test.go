package crash

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/test/process"
	"github.com/mqd-broker/mqd/test/rig"
)

var (
	cyclesFlag = flag.Int("crash.cycles", 6, "how often the broker is killed")
	seedFlag   = flag.Uint64("crash.seed", 0, "what chooses moments, sizes and shard counts; 0 is the test's own")
	anyFlag    = flag.Bool("crash.any", false, "another seed each time, to hunt")
	keepFlag   = flag.String("crash.keep", "", "`path` where the data directory of a run that fails is moved to")
	logFlag    = flag.Bool("crash.log", false, "show what the broker logs")
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }

// patience bounds every wait for something that has to happen.
const patience = 60 * time.Second

// world is one run: the broker's lives and the clients that outlive them.
type world struct {
	t       *testing.T
	seed    uint64
	rng     *rand.Rand
	binary  string
	dir     string
	args    []string
	maxSize int // largest message in bytes
	life    int // number of the current one, from 1
	broker  *process.Broker
	gate    gate

	readyLife int // newest life that was ready

	clients []*client.Client
	topics  []*topic
	writers uint32 // number of writers so far
	report  report

	mu       sync.Mutex
	problems []string
}

func newWorld(t *testing.T) *world {
	rig.NeedDriver(t)
	w := &world{t: t, seed: rig.Seed(t, *seedFlag, *anyFlag), binary: rig.Binary(t), dir: rig.DataDir(t)}
	w.rng = rand.New(rand.NewPCG(w.seed, 0))
	// A small ring is full and wraps often; a larger one takes large messages.
	w.args = []string{"--journal-size", "8MiB", "--cache-size", "8MiB"}
	w.maxSize = 900 << 10
	if w.rng.IntN(2) == 0 {
		w.args = []string{"--journal-size", "1MiB", "--max-message-bytes", "128KiB", "--cache-size", "4MiB"}
		w.maxSize = 100 << 10
	}
	w.args = append(w.args, "--log-format", "json", "--recv-buffers", "64")
	t.Logf("seed %d (-crash.seed), serve %v", w.seed, w.args)
	t.Cleanup(w.end)
	return w
}

// end leaves nothing behind, however the test ends.
func (w *world) end() {
	for _, tp := range w.topics {
		tp.stop()
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range w.clients {
		_ = c.Close(ended) // the outcome of what is left interests nobody
	}
	if w.broker != nil {
		_ = w.broker.Kill()
	}
	if w.t.Failed() && *keepFlag != "" {
		if err := os.Rename(w.dir, *keepFlag); err != nil {
			w.t.Error(err)
		}
	}
}

// problem notes that something is wrong. It may be called from any goroutine.
func (w *world) problem(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	const most = 20
	if len(w.problems) < most {
		w.problems = append(w.problems, fmt.Sprintf(format, args...))
	}
}

// check ends the test if anything is wrong.
func (w *world) check() {
	w.t.Helper()
	for _, tp := range w.topics {
		tp.check()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.problems) == 0 {
		return
	}
	for _, p := range w.problems {
		w.t.Error(p)
	}
	w.t.Logf("%s", w.report.summary(w))
	w.t.Fatalf("seed %d, life %d; the broker said at last:\n%s", w.seed, w.life, w.broker.LogTail())
}

// start begins a life. The broker may not be ready yet.
func (w *world) start(shards int) {
	w.t.Helper()
	idle := []string{"adaptive", "block"}[w.rng.IntN(2)]
	var log io.Writer
	if *logFlag {
		log = os.Stderr
	}
	b, err := process.Start(process.Config{
		Binary: w.binary, Dir: w.dir, Log: log,
		Args: append([]string{"--shards", fmt.Sprint(shards), "--idle", idle}, w.args...),
	})
	if err != nil {
		w.t.Fatalf("seed %d: %v", w.seed, err)
	}
	w.broker = b
	w.life++
}

// ready waits until the broker serves and lets the clients go there.
func (w *world) ready() string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	addr, took, err := w.broker.Ready(ctx)
	if err != nil {
		w.t.Fatalf("seed %d, life %d: %v", w.seed, w.life, err)
	}
	if w.readyLife != w.life {
		w.readyLife = w.life
		w.report.starts = append(w.report.starts, took)
		// What it has found it says before that.
		if _, err := w.broker.Said(ctx, `"msg":"serving"`); err != nil {
			w.t.Fatalf("seed %d, life %d: %v", w.seed, w.life, err)
		}
		w.torn()
	}
	w.gate.open(addr)
	return addr
}

// torn notes that the broker has found a torn tail when it started.
func (w *world) torn() {
	if !strings.Contains(w.broker.LogTail(), "torn tail dropped") {
		return
	}
	for _, tp := range w.topics {
		for _, l := range tp.logs {
			l.locked(l.p.TornTail)
		}
	}
}

// kill ends a life by force.
func (w *world) kill() {
	w.t.Helper()
	w.gate.close()
	if err := w.broker.Kill(); err != nil {
		w.t.Fatalf("seed %d, life %d: %v", w.seed, w.life, err)
	}
	w.settle()
	if w.readyLife != w.life { // it may have recorded gaps all the same
		w.torn()
	}
	for _, tp := range w.topics {
		for _, l := range tp.logs {
			l.locked(l.p.Crashed)
		}
	}
	w.report.kills++
	w.report.ended(w)
}

// stop ends a life in order.
func (w *world) stop() {
	w.t.Helper()
	w.gate.close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := w.broker.Stop(ctx); err != nil {
		w.t.Fatalf("seed %d, life %d: %v", w.seed, w.life, err)
	}
	w.settle()
	for _, tp := range w.topics {
		for _, l := range tp.logs {
			l.locked(l.p.Stopped)
		}
	}
	w.report.stops++
	w.report.ended(w)
}

// settle takes every answer that the life has still given, so that none counts
// for the next one. The broker is dead, and the gate is closed: when no connection
// is left there is nobody who could still answer.
func (w *world) settle() {
	w.t.Helper()
	w.wait("connections end", func() bool {
		for _, c := range w.clients {
			if c.Stats().ConnectionsNow > 0 {
				return false
			}
		}
		return true
	})
	for _, tp := range w.topics {
		for _, wr := range tp.writers {
			wr.settle()
		}
	}
}

// wait waits until a condition holds.
func (w *world) wait(what string, holds func() bool) {
	w.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			w.check()
			var stacks strings.Builder
			_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1) // a strings.Builder takes everything
			w.t.Fatalf("seed %d, life %d: waited %v until %s; the broker said:\n%s\ngoroutines:\n%s", w.seed, w.life, patience, what, w.broker.LogTail(), &stacks)
		}
	}
}

// dial makes a client that finds the broker in all of its lives.
func (w *world) dial(id string) *client.Client {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := client.Dial(ctx, []string{"broker"}, client.WithDialer(w.gate.dial), client.WithClientID(id),
		client.WithTimeout(patience), client.WithBackoff(time.Millisecond, 20*time.Millisecond))
	if err != nil {
		w.t.Fatal(err)
	}
	w.clients = append(w.clients, c)
	return c
}

// gate lets clients dial only while there is a broker that the run wants them to
// reach.
type gate struct {
	mu     sync.Mutex
	addr   string        // "" while it is closed
	opened chan struct{} // closed at the next opening
}

func (g *gate) open(addr string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.addr = addr
	if g.opened != nil {
		close(g.opened)
		g.opened = nil
	}
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.addr = ""
}

// dial waits until the gate is open.
func (g *gate) dial(ctx context.Context, _ string) (net.Conn, error) {
	for {
		g.mu.Lock()
		addr, opened := g.addr, g.opened
		if addr == "" && opened == nil {
			opened = make(chan struct{})
			g.opened = opened
		}
		g.mu.Unlock()
		if addr != "" {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", addr)
		}
		select {
		case <-opened:
		case <-ctx.Done():
			return nil, errors.Join(errors.New("no broker"), ctx.Err())
		}
	}
}
