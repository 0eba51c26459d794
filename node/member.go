package node

import (
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"

	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/engine"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/journal"
	"github.com/mqd-broker/mqd/engine/recovery"
	"github.com/mqd-broker/mqd/engine/scrub"
	"github.com/mqd-broker/mqd/engine/shard"
	"github.com/mqd-broker/mqd/engine/stage"
	"github.com/mqd-broker/mqd/net/conn"
	"github.com/mqd-broker/mqd/net/kafka"
	"github.com/mqd-broker/mqd/net/native"
)

// deviceFlag says that a flush has failed on the data directory's device.
type deviceFlag = atomic.Bool

// member is one shard of a node: everything that its thread owns.
type member struct {
	n       *Node
	id      int
	drv     aio.Driver
	clock   aio.Clock // the driver's, which anybody may read
	loop    *shard.Loop
	store   *engine.Store
	journal *journal.Journal
	broker  *broker.Shard
	conns   *conn.Server
	times   stage.Clock
	native  *native.Server
	timing  journal.Timing
	door    *conn.Door
	kafka   *kafka.Server   // nil: it is off
	scrub   *scrub.Scrubber // nil: it is off

	kafkaDoor *conn.Door

	// stages carries what the thread does before it serves: nil means serve, a
	// close means end.
	stages  chan func(s *member) error
	results chan error
	byHand  bool // there is no thread; see Manual

	failure atomic.Pointer[logFailure] // nil while the log works
	over    atomic.Bool                // the loop turns no more
	order   order                      // that it has obeyed
	ending  ending
	abortBy int64 // loop time, nanoseconds
	tick    shard.Timer
}

func newMember(n *Node, id int) *member {
	s := &member{n: n, id: id, stages: make(chan func(s *member) error), results: make(chan error)}
	s.tick.Owner = s
	return s
}

// do has the shard's thread do f.
func (s *member) do(f func(s *member) error) error {
	if s.byHand {
		return f(s)
	}
	s.stages <- f
	return <-s.results
}

// run is the shard's thread.
func (s *member) run() {
	defer s.n.ended.Done()
	if len(s.n.cfg.CPUs) > 0 || s.n.platform.Locked() {
		runtime.LockOSThread() // for life: the ring belongs to this thread
	}
	for f := range s.stages {
		if f == nil {
			s.serve()
			break
		}
		s.results <- f(s)
	}
	// No driver closes while a loop turns that may still wake it. The first one
	// holds the lock of the data directory, so it closes when the others have
	// ended what they had in flight.
	s.over.Store(true)
	s.n.turning.Done()
	s.n.turning.Wait()
	s.n.goDeaf()
	if s.id == 0 {
		s.n.closing.Wait()
	} else {
		defer s.n.closing.Done()
	}
	if s.drv == nil {
		return
	}
	if err := s.drv.Close(); err != nil {
		s.n.note(fmt.Errorf("shard %d: close: %w", s.id, err))
	}
}

// serve turns the loop until it is told to end, or cannot go on.
func (s *member) serve() {
	if err := s.loop.Run(); err != nil {
		s.n.cfg.Log.Error("shard failed", "shard", s.id, "error", err)
		s.n.fail(fmt.Errorf("shard %d: %w", s.id, err))
	}
}

// open pins the thread and makes the driver.
func (s *member) open() error {
	cfg := &s.n.cfg
	if len(cfg.CPUs) > 0 {
		if err := s.n.platform.Pin(cfg.CPUs[s.id]); err != nil {
			cfg.Log.Warn("shard not pinned", "shard", s.id, "cpu", cfg.CPUs[s.id], "error", err)
		}
	}
	drv, err := s.n.platform.NewDriver(s.id, aio.Options{
		ArenaBytes: s.n.arenaBytes(), RecvBuffers: cfg.RecvBuffers, Entries: 4096, Files: cfg.Files,
		FlushFailed: &s.n.device,
	})
	if err != nil {
		return fmt.Errorf("shard %d: %w", s.id, err)
	}
	s.drv, s.clock = drv, drv.Clock()
	s.times.SetLimits(cfg.Slow)
	s.loop = shard.New(drv, shard.Options{
		ID: s.id, Idle: cfg.Idle, Spin: cfg.Spin, Long: cfg.LongTurn,
		Sleep: s.n.mesh.Port(s.id).Sleep(), Thread: s.n.platform.Thread(s.id),
	})
	s.loop.SetWorker(s)
	return nil
}

// warm lets the driver finish what it has left for later, which it had done by another
// thread during the recovery.
func (s *member) warm() error {
	if d, ok := s.drv.(aio.Warmer); ok {
		if err := d.Warm(); err != nil {
			return fmt.Errorf("shard %d: %w", s.id, err)
		}
	}
	return nil
}

// recover brings the data directory into order. The first shard does it for all.
func (s *member) recover() error {
	n := s.n
	n.topics = broker.NewTopics(n.brokerOptions(), s.drv.FS(), s.report)
	var err error
	n.rec, err = recovery.Recover(s.drv, recovery.Options{
		Dir: n.cfg.Dir, Shards: n.cfg.Shards, Slots: n.cfg.Slots,
		Catalog: broker.CatalogConfig(), Topics: n.topics, Keep: n.cfg.RecoveryBytes,
		Report: s.report, Known: n.cfg.known,
	})
	return err
}

// report tells an operator of what was found in the data directory. What is lost is an error.
func (s *member) report(format string, args ...any) {
	say := s.n.cfg.Log.Warn
	if strings.HasPrefix(format, "LOSS DETECTED") {
		say = s.n.cfg.Log.Error
	}
	say(fmt.Sprintf(format, args...))
}

// openStore opens the journal and makes the store.
func (s *member) openStore() error {
	n := s.n
	opts := n.storeOptions(s.id)
	opts.Stages = &s.times
	st, err := engine.NewStore(s.loop, opts)
	if err != nil {
		return fmt.Errorf("shard %d: %w", s.id, err)
	}
	size := n.cfg.journalBytes(n.rec.Identity.TotalBytes)
	j, timing, err := recovery.OpenProbedJournal(s.drv, n.rec, n.cfg.Dir, s.id, size, journal.Options{
		Observer: st, MaxBody: n.cfg.MaxMessageBytes, DeviceFailed: &n.device, RoundBytes: roundBytes(size),
	}, s.yield())
	if err != nil {
		return fmt.Errorf("shard %d: journal: %w", s.id, err)
	}
	st.SetJournal(j, n.rec.Sequence[s.id])
	j.SetDeviceTime(timing.Best())
	s.timing = timing
	s.store, s.journal = st, j
	return nil
}

// yield is what the shard's loop does while it polls; nil if it sleeps instead.
func (s *member) yield() func() {
	thread := s.n.platform.Thread(s.id)
	if thread == nil || s.n.cfg.Idle == shard.IdleBlock {
		return nil
	}
	return thread.Yield
}

// openBroker makes the broker's part of the shard and the connections.
func (s *member) openBroker() error {
	n := s.n
	s.broker = broker.NewShard(n.broker, s.loop, s.store, n.mesh.Port(s.id))
	var err error
	opts := n.connOptions()
	opts.Waiting, opts.Stages = n.broker.Held, &s.times
	if s.conns, err = conn.NewServer(s.loop, n.census, (*mover)(n), opts); err != nil {
		return fmt.Errorf("shard %d: %w", s.id, err)
	}
	s.native = native.NewServer(s.broker, s.conns, native.Options{
		Version: n.cfg.Version, IdleTimeout: n.cfg.IdleTimeout, MaxPinned: n.maxPinned(),
	})
	if s.door, err = s.native.Open(); err != nil {
		return fmt.Errorf("shard %d: %w", s.id, err)
	}
	return s.openKafka()
}

func (s *member) listen() error {
	_, err := s.door.Listen(s.n.addr)
	return err
}

// Drain takes what has come from other shards and what connections have unread.
func (s *member) Drain(now int64) int {
	work := 0
	if o := s.n.order.Load(); o != s.order {
		s.obey(o, now)
		work++
	}
	work += s.broker.Drain(now) + s.conns.Drain(now)
	if s.id == 0 {
		s.n.keeper.Turn()
	}
	if s.ending != endingNot {
		work += s.end(now)
	}
	return work
}

// Finish ends a turn: rounds go, peers are told, acks leave. The broker comes first
// because it answers too, and so that the device has its work before the acks take
// their time in the kernel.
func (s *member) Finish(now int64) {
	s.broker.Finish(now)
	s.conns.Finish(now)
	// Connections that have ended gave back what they had of other shards.
	port := s.n.mesh.Port(s.id)
	port.Publish()
	for peers := port.TakeSleepers(); !peers.Empty(); {
		peer, rest := peers.Next()
		peers = rest
		s.n.shards[peer].loop.Wake()
	}
}

// SpinHint asks the loop to poll while a durable round is in flight.
func (s *member) SpinHint(now int64) int64 { return s.store.SpinHint(now) }

// mover hands connections over to the loops of other shards.
type mover Node

// Move implements conn.Mover.
func (m *mover) Move(to int, st *conn.State) bool {
	target := m.shards[to]
	m.moving.Add(1)
	err := target.loop.Post(shard.TaskFunc(func(*shard.Loop) {
		target.conns.Import(st)
		m.moving.Add(-1)
	}))
	if err != nil {
		m.moving.Add(-1)
	}
	return err == nil
}
