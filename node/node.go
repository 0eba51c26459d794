package node

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/engine/audit"
	"github.com/mqd-broker/mqd/engine/ballast"
	"github.com/mqd-broker/mqd/engine/recovery"
	"github.com/mqd-broker/mqd/net/conn"
	"github.com/mqd-broker/mqd/ringbuf"
)

const (
	// meshCredits is the number of requests that one shard may have at another.
	meshCredits = 1024
	// abortPatience is how long a stop at once waits for loops that do not turn.
	abortPatience = 5 * time.Second
)

// Node is a running broker process.
type Node struct {
	cfg       Config
	platform  Platform
	mesh      *ringbuf.Mesh[broker.Message]
	census    *conn.Census
	shards    []*member
	broker    *broker.Node
	topics    *broker.Topics
	rec       *recovery.Recovered
	device    deviceFlag
	ballast   *ballast.Ballast
	keeper    *ballast.Keeper // on the first shard's loop
	auditor   *audit.Auditor  // on the first shard's loop
	addr      string
	kafkaAddr string // "": none
	kafkaTold string // what Kafka clients are told to connect to
	driver    string // its name
	began     time.Time
	took      time.Duration
	spent     []any // stages of the start and their times, for the log

	asking sync.RWMutex // of goroutines that are no shards
	deaf   bool         // nobody may post to a loop any more

	order  atomic.Int32 // what shards are told; see order
	quiet  atomic.Int32 // shards that will send no more requests
	moving atomic.Int32 // connections on their way between shards

	turning sync.WaitGroup // loops, and threads that have none yet
	closing sync.WaitGroup // shards but the first that have not closed their drivers
	ended   sync.WaitGroup // threads
	done    chan struct{}  // closed when all have ended
	mu      sync.Mutex
	err     error // the first thing that went wrong
	failed  sync.Once
	down    chan struct{} // closed when a shard has failed

	patience time.Duration // with loops that are told to end at once
}

// Start recovers the data directory and begins to serve. It returns when clients
// can connect. An error leaves nothing running.
func Start(ctx context.Context, cfg Config, p Platform) (*Node, error) {
	n, err := newNode(cfg, p)
	if err != nil {
		return nil, err
	}
	n.began = time.Now()
	n.launch()
	if err := n.begin(ctx); err != nil {
		n.abandon()
		return nil, err
	}
	for _, s := range n.shards {
		s.loop.Stats().Heartbeat.Store(s.clock.Now()) // silence counts from here
		s.stages <- nil                               // serve
	}
	n.took = time.Since(n.began)
	n.driver = n.shards[0].drv.Name()
	n.logStart()
	n.logSpent()
	return n, nil
}

func newNode(cfg Config, p Platform) (*Node, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	n := &Node{
		cfg: cfg, platform: p, census: conn.NewCensus(conn.CensusLimits{
			Total: cfg.MaxConnections, PerAddress: cfg.MaxConnectionsPerAddress, PerSecond: cfg.AcceptRate,
		}),
		down: make(chan struct{}), done: make(chan struct{}), patience: abortPatience,
		mesh: ringbuf.NewMesh[broker.Message](cfg.Shards, meshCredits),
	}
	n.shards = make([]*member, cfg.Shards)
	for i := range n.shards {
		n.shards[i] = newMember(n, i)
	}
	return n, nil
}

// begin does what comes before serving. Each stage is done by all shards, on their
// own threads, before the next begins: nothing is served before everything is
// recovered and durable.
func (n *Node) begin(ctx context.Context) error {
	spent := make([]any, 0, 16)
	for _, stage := range []struct {
		name string
		do   func() error
	}{
		{"drivers", func() error { return n.all((*member).open) }},
		{"recovery", func() error { return n.shards[0].do((*member).recover) }},
		{"memory", func() error { return n.all((*member).warm) }},
		{"stores", n.restore},
		{"listening", n.listen},
		{"audit", n.look},
		{"scrubbing", func() error { return n.all((*member).beginScrub) }},
	} {
		if err := ctx.Err(); err != nil {
			return err
		}
		began := time.Now()
		if err := stage.do(); err != nil {
			return err
		}
		spent = append(spent, stage.name, time.Since(began).Round(time.Millisecond))
	}
	n.spent = spent
	return nil
}

// launch starts the shards' threads.
func (n *Node) launch() {
	n.ended.Add(len(n.shards))
	n.turning.Add(len(n.shards))
	n.closing.Add(len(n.shards) - 1)
	for _, s := range n.shards {
		go s.run()
	}
	go func() {
		n.ended.Wait()
		close(n.done)
	}()
}

// all has every shard do f, each on its thread, and returns the first error.
func (n *Node) all(f func(s *member) error) error {
	results := make(chan error, len(n.shards))
	for _, s := range n.shards {
		if s.byHand {
			results <- s.do(f)
			continue
		}
		go func() { results <- s.do(f) }()
	}
	var first error
	for range n.shards {
		if err := <-results; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// restore makes the stores and the brokers of all shards. The brokers share the
// node's state, so that they are made one after the other.
func (n *Node) restore() error {
	n.ballast, n.keeper = ballast.New(n.shards[0].loop, n.cfg.Dir, n.rec.Identity.TotalBytes, len(n.shards), (*events)(n))
	if err := n.all((*member).openStore); err != nil {
		return err
	}
	err := n.shards[0].do(func(*member) error {
		n.keeper.Begin(n.rec.Stats.BallastReleased)
		return nil
	})
	if err != nil {
		return err
	}
	if n.broker, err = broker.NewNode(n.brokerOptions(), n.rec, n.topics); err != nil {
		return err
	}
	for _, s := range n.shards {
		if err := s.do((*member).openBroker); err != nil {
			return err
		}
	}
	return nil
}

// listen proves that the port is free and opens it on every shard.
func (n *Node) listen() error {
	err := n.shards[0].do(func(s *member) error {
		addr, err := conn.Probe(s.drv, n.cfg.Listen)
		n.addr = addr
		return err
	})
	if err != nil {
		return fmt.Errorf("listen on %s: %w", n.cfg.Listen, err)
	}
	for _, s := range n.shards {
		if err := s.do((*member).listen); err != nil {
			return err
		}
	}
	return n.listenKafka()
}

// look has what the start has left unlooked at looked at behind it.
func (n *Node) look() error {
	return n.shards[0].do(func(s *member) error {
		n.auditor = audit.New(s.drv, n.rec.Audit, s.report)
		n.rec.Audit = nil
		n.auditor.Begin()
		return nil
	})
}

// abandon ends the shards of a node that has not come up.
func (n *Node) abandon() {
	for _, s := range n.shards {
		close(s.stages)
	}
	<-n.done
}

// Addr is the address that clients connect to.
func (n *Node) Addr() string { return n.addr }

// Failed is closed when a shard has stopped by itself; Stop then returns why.
func (n *Node) Failed() <-chan struct{} { return n.down }

// RecoveryStats says what the start found and did.
func (n *Node) RecoveryStats() recovery.Stats { return n.rec.Stats }

// note keeps the first thing that went wrong, for Stop to return.
func (n *Node) note(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err == nil {
		n.err = err
	}
}

// fail notes that a shard has stopped by itself.
func (n *Node) fail(err error) {
	n.note(err)
	n.failed.Do(func() { close(n.down) })
}

// Stop ends the node in order: no more connections, what is in flight is
// finished, everything is flushed and a last checkpoint written. When ctx or
// Config.ShutdownTimeout ends first, or when a shard has failed, it stops at once;
// the next start then recovers. A nil error says that the next start has nothing
// to recover. Stop may be called again and from several goroutines.
func (n *Node) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.ShutdownTimeout)
	defer cancel()
	n.broker.Quiesce()
	n.give(orderStop)
	select {
	case <-n.done:
	case <-n.down:
		// The others may have requests at the shard that has failed, which
		// nobody answers.
		n.abort()
	case <-ctx.Done():
		n.note(fmt.Errorf("stopped before everything was finished: %w", ctx.Err()))
		n.abort()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

// Abort ends the node at once, as if its process died: connections are closed and nothing
// more is acknowledged. A nil error says that all has ended, the data directory is free,
// and all memory given back. After one that says it has not, Abort may be called again.
func (n *Node) Abort() error {
	n.broker.Quiesce()
	n.abort()
	select {
	case <-n.done:
		return nil
	default:
		return fmt.Errorf("%w: not all shards have ended within %v", ErrNotEnded, n.patience)
	}
}

// goDeaf has nobody post to loops any more, whose drivers are about to be closed.
func (n *Node) goDeaf() {
	n.asking.Lock()
	defer n.asking.Unlock()
	n.deaf = true
}

// abort ends all shards at once. It gives up on loops that do not turn any more.
func (n *Node) abort() {
	n.give(orderAbort)
	patience := time.NewTimer(n.patience)
	defer patience.Stop()
	select {
	case <-n.done:
	case <-patience.C:
		for _, s := range n.shards {
			if !s.over.Load() {
				n.note(fmt.Errorf("shard %d: its loop does not turn", s.id))
			}
		}
	}
}

// Shards is the number of shards.
func (n *Node) Shards() int { return len(n.shards) }

// logSpent says what the time of the start went into: real time, which a simulated run
// must not show.
func (n *Node) logSpent() {
	ms := func(nanos int64) time.Duration { return time.Duration(nanos).Round(time.Millisecond) }
	s := &n.rec.Stats.Spent
	n.cfg.Log.Debug("time of the start", append(n.spent, "of_recovery", slog.GroupValue(
		slog.Duration("state", ms(s.State)), slog.Duration("journals", ms(s.Journals)), slog.Duration("replay", ms(s.Replay)),
		slog.Duration("flush", ms(s.Flush)), slog.Duration("checkpoints", ms(s.Checkpoints))))...)
}

func (n *Node) logStart() {
	st := n.rec.Stats
	n.cfg.Log.Info("serving", "address", n.addr, "shards", len(n.shards), "term", n.rec.Term,
		"directory", n.cfg.Dir, "driver", n.shards[0].drv.Name(), "took", n.took.Round(time.Millisecond),
		"replayed", st.Replayed, "replayed_bytes", st.ReplayedBytes, "torn_tails", st.TornTails,
		"damaged", st.Damaged, "gaps", st.Gaps,
		"device", n.shards[0].timing.String(), "gomaxprocs", runtime.GOMAXPROCS(0))
	if n.kafkaAddr != "" {
		n.cfg.Log.Info("serving Kafka clients", "address", n.kafkaAddr, "advertised", n.kafkaTold)
	}
	if all := int64(len(n.shards)) * n.cfg.shardCache(); all > n.cfg.CacheBytes {
		n.cfg.Log.Warn("cache enlarged to what the shards need at least", "configured", n.cfg.CacheBytes, "used", all)
	}
	for _, note := range n.shards[0].drv.Notes() {
		n.cfg.Log.Warn(note)
	}
}
