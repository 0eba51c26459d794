package node

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/engine"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/checkpoint"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/engine/recovery"
	"github.com/mqd-broker/mqd/net/wire"
)

// service starts a service on a machine that has no node, and ends it with the test.
func (r *rig) service() *Service {
	r.t.Helper()
	s := NewService()
	if err := s.Start(r.t.Context(), r.cfg, r.p); err != nil {
		r.t.Fatalf("start: %v\n%s", err, r.log)
	}
	r.n = s.Condition().Node
	r.t.Cleanup(func() {
		r.n = nil
		r.w.Kill()
		_ = s.Stop(context.Background()) // the machine is dead
	})
	return s
}

// reopen opens the logs again, on a machine that is restarted if its filesystem wants it.
func (r *rig) reopen(s *Service) error {
	err := s.Reopen()
	if errors.Is(err, syscall.EROFS) {
		r.w.Crash(sim.KeepNone)
		err = s.Reopen()
	}
	r.n = s.Condition().Node
	return err
}

// flushesFail has every flush and durable write of the journals fail.
func (r *rig) flushesFail() *sim.Injection {
	return r.w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Writes | sim.Flushes, Path: "journal-*"}, Times: sim.Always})
}

func TestReopeningServesWhatWasAcknowledgedAndTakesMore(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		cfg := small(shards)
		r := newMachine(t, cfg)
		s := r.service()
		r.create(r.dial(), "t", 5, "flushed")
		l := newLoad(r)
		l.produce("t", 0)
		l.produce("t", 0)
		for life := range 3 {
			l.wait(200)
			x := r.connect(anyShard)
			id := x.metadata("t").ID
			if err := s.Reopen(); !errors.Is(err, ErrWorks) {
				t.Fatalf("reopening of logs that work: %v", err)
			}
			fault := r.flushesFail()
			eventually(t, "the device fails", func() bool { return fault.Hits() > 0 })
			eventually(t, "every log is said to have failed", func() bool {
				for _, err := range r.n.LogErrors() {
					if !errors.Is(err, engine.ErrStorage) {
						return false
					}
				}
				return true
			})
			if a := x.produced(x.produce(id, 0, batchOf(t, []byte("late")))); a.Code != wire.CodeStorageError {
				t.Fatalf("produce on a failed log: %v", a.Code)
			}
			if f := x.fetched(x.fetch(wire.FetchRequest{Topic: id, MaxBytes: 1})); f.Code != wire.CodeNone {
				t.Errorf("fetch on a failed log: %v", f.Code)
			}
			l.end()
			fault.End()
			old := r.n
			if err := r.reopen(s); err != nil {
				t.Fatalf("reopen: %v\n%s", err, r.log)
			}
			x.mustEnd()
			for i, m := range old.shards {
				if n := m.drv.InFlight(); n != 0 {
					t.Errorf("shard %d of the old node: %d operations in flight", i, n)
				}
			}
			c := s.Condition()
			if c.State != Serving || c.Reopened != life+1 || c.Node == old || c.Node.Addr() != rigAddr || !c.Node.logsWork() {
				t.Fatalf("after reopening: %+v", c)
			}
			l.mustHave("t")
			next := newLoad(r)
			next.acked = l.acked
			l = next
			l.produce("t", 0)
		}
		l.wait(200)
		l.end()
		if err := s.Stop(context.Background()); err != nil {
			t.Fatalf("stop: %v", err)
		}
		r.n = nil
		r.start()
		r.mustHaveNothingToReplay()
		l.mustHave("t")
		r.stop()
	})
}

func TestADeviceThatStillFailsIsNotServedFrom(t *testing.T) {
	r := newMachine(t, small(2))
	s := r.service()
	r.create(r.dial(), "t", 4, "flushed")
	c := r.dial()
	p, err := c.Producer("t")
	if err != nil {
		t.Fatal(err)
	}
	fault := r.w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Writes | sim.Flushes}, Times: sim.Always})
	ctx, cancel := context.WithTimeout(r.context(), time.Minute)
	defer cancel()
	if _, err := p.Send(ctx, client.Record{Value: []byte("v")}); err == nil {
		t.Fatal("acknowledged on a device that fails")
	}
	for range 3 {
		if err := s.Reopen(); err == nil || errors.Is(err, ErrWorks) {
			t.Fatalf("reopening on a device that fails: %v", err)
		}
		got := s.Condition()
		if got.State != Down || got.Node != nil || got.Why == nil || got.Shards != 2 || got.Reopened != 0 {
			t.Fatalf("condition: %+v", got)
		}
		if _, err := r.w.DialConn(rigAddr); err == nil {
			t.Fatal("somebody listens")
		}
	}
	fault.End()
	if err := r.reopen(s); err != nil {
		t.Fatalf("reopen: %v\n%s", err, r.log)
	}
	if _, err := r.dial().Producer("t"); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(context.Background()); err != nil {
		t.Fatalf("stop: %v", err)
	}
	r.n = nil
}

func TestAServiceThatIsDownEndsWithTheReason(t *testing.T) {
	r := newMachine(t, small(1))
	s := r.service()
	r.n.device.Store(true)
	fault := r.w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Writes | sim.Flushes}, Times: sim.Always})
	defer fault.End()
	if err := s.Reopen(); err == nil {
		t.Fatal("reopened on a device that fails")
	}
	// A device that fails may have made its filesystem read-only, which is then the reason.
	err := s.Stop(context.Background())
	if !errors.Is(err, errNoNode) || !errors.Is(err, syscall.EIO) && !errors.Is(err, syscall.EROFS) {
		t.Fatalf("stop: %v", err)
	}
	if err := s.Reopen(); !errors.Is(err, ErrUnderWay) {
		t.Fatalf("reopening behind the end: %v", err)
	}
}

// TestANodeThatDoesNotEndIsNotReplaced holds a write, so that the driver waits for it.
func TestANodeThatDoesNotEndIsNotReplaced(t *testing.T) {
	r := newMachine(t, small(1))
	s := r.service()
	r.create(r.dial(), "t", 1, "flushed")
	x := r.connect(anyShard)
	hold := r.w.Hold(sim.Filter{Ops: sim.Writes, Path: "journal-*"})
	x.produce(x.metadata("t").ID, 0, batchOf(t, []byte("v")))
	hold.Wait(1)
	closing := make(chan struct{})
	r.n.shards[0].drv = slowClose{r.n.shards[0].drv, closing}
	r.n.device.Store(true)
	r.n.patience = time.Millisecond
	hold.Release()
	if err := s.Reopen(); !errors.Is(err, ErrNotEnded) {
		t.Fatalf("reopening beside a node that has not ended: %v", err)
	}
	if c := s.Condition(); c.State != Down || c.Node != nil {
		t.Fatalf("condition: %+v", c)
	}
	r.n.patience = patience
	close(closing)
	if err := r.reopen(s); err != nil {
		t.Fatalf("reopen: %v", err)
	}
}

// slowClose is a driver whose end takes until it is allowed.
type slowClose struct {
	aio.Driver
	allowed chan struct{}
}

func (d slowClose) Close() error {
	<-d.allowed
	return d.Driver.Close()
}

func TestOneOrderIsCarriedOutAtATime(t *testing.T) {
	r := newMachine(t, small(1))
	s := r.service()
	r.n.device.Store(true)
	const orders = 8
	results := make(chan error, orders)
	for range orders {
		go func() { results <- s.Reopen() }()
	}
	done := 0
	for range orders {
		switch err := <-results; {
		case err == nil:
			done++
		case !errors.Is(err, ErrUnderWay) && !errors.Is(err, ErrWorks):
			t.Errorf("reopen: %v", err)
		}
	}
	if c := s.Condition(); done != 1 || c.Reopened != 1 || c.State != Serving {
		t.Errorf("%d orders of %d were carried out: %+v", done, orders, c)
	}
	r.n = s.Condition().Node
}

// A select between two that are ready takes either of them: 64 times not one.
func TestANodeThatHasFailedAndEndedIsAFailure(t *testing.T) {
	for _, fails := range []bool{true, false} {
		for range 64 {
			synctest.Test(t, func(t *testing.T) {
				n := &Node{down: make(chan struct{}), done: make(chan struct{}), rec: &recovery.Recovered{}}
				if fails {
					n.fail(errBroken)
				}
				close(n.done)
				s := NewService()
				s.serve(n)
				synctest.Wait()
				told := false
				select {
				case <-s.Failed():
					told = true
				default:
				}
				if told != fails {
					t.Errorf("failed %v, told %v", fails, told)
				}
			})
		}
	}
}

// askOnAndOn asks a service's nodes for all their figures until the function that it
// returns is called. It returns when they have been told for the first time.
func askOnAndOn(t *testing.T, s *Service) (end func()) {
	stop, told, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for n := 0; ; {
			select {
			case <-stop:
				return
			default:
			}
			if node := s.Condition().Node; node != nil {
				node.Figures(t.Context())
				node.TopicFigures(t.Context(), 1000)
				if n++; n == 1 {
					close(told)
				}
			}
		}
	}()
	<-told
	return func() {
		close(stop)
		<-ended
	}
}

func TestFiguresAreAskedWhileANodeWorksAndEnds(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newMachine(t, small(shards))
		s := r.service()
		r.create(r.dial(), "a", 70, "flushed")
		r.create(r.dial(), "b", 3, "memory")
		l := newLoad(r)
		l.produce("b", 0)
		l.wait(100)
		end := askOnAndOn(t, s)
		f := r.n.Figures(t.Context())
		var batches, requests uint64
		for i, sh := range f.Shards {
			if !sh.Answered || sh.Shard != i || sh.LogErr != nil || sh.JournalBytes == 0 {
				t.Errorf("shard %d: %+v", i, sh)
			}
			batches += sh.Store.AppendedBatches
			requests += sh.Broker.Produced
		}
		if len(f.Shards) != shards || batches == 0 || requests == 0 || f.Topics != 2 || f.Partitions != 73 || f.Connections == 0 {
			t.Errorf("figures: %+v", f)
		}
		topics := r.n.TopicFigures(t.Context(), 1000)
		if len(topics) != 2 || len(topics[0].Partitions) != 70 || len(topics[1].Partitions) != 3 {
			t.Fatalf("topics: %+v", topics)
		}
		var messages int64
		for i, p := range topics[1].Partitions {
			messages += p.End
			if p.Shard != r.n.broker.ShardOf([16]byte(topics[1].Topic.ID), int32(i)) {
				t.Errorf("partition %d is said to be on shard %d", i, p.Shard)
			}
		}
		if messages < 100 {
			t.Errorf("%d messages are said to be in the topic", messages)
		}
		if some := r.n.TopicFigures(t.Context(), 71); len(some[0].Partitions) != 70 || len(some[1].Partitions) != 1 {
			t.Errorf("71 partitions: %d and %d", len(some[0].Partitions), len(some[1].Partitions))
		}
		l.end()
		old := r.n
		old.device.Store(true)
		if err := r.reopen(s); err != nil {
			t.Fatal(err)
		}
		old.mustBeSilent(t)
		end()
	})
}

// mustBeSilent fails if a node that has ended still answers.
func (n *Node) mustBeSilent(t *testing.T) {
	t.Helper()
	for _, sh := range n.Figures(t.Context()).Shards {
		if sh.Answered {
			t.Errorf("shard %d of a node that has ended answers", sh.Shard)
		}
	}
	if n := len(n.TopicFigures(t.Context(), 1000)[0].Partitions); n != 0 {
		t.Errorf("a node that has ended tells of %d partitions", n)
	}
}

// TestWhatWasReopenedSurvivesAPowerCut cuts the power as soon as the logs have been
// opened again: what a failed flush took with it is still shown by reads then, and later
// flushes succeed without making it durable.
func TestWhatWasReopenedSurvivesAPowerCut(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		for skip := range 6 {
			r := newMachine(t, small(shards))
			s := r.service()
			r.create(r.dial(), "t", 5, "flushed")
			l := newLoad(r)
			l.produce("t", 0)
			l.produce("t", 0)
			l.wait(300)
			f := sim.Fault{Filter: sim.Filter{Ops: sim.Flushes}, Skip: skip * 7, Times: 1 + skip%3}
			if skip%2 == 1 {
				f.Filter = sim.Filter{Ops: sim.Writes | sim.Flushes, Path: "journal-*"}
			}
			fault := r.w.Inject(f)
			eventually(t, "a log fails", func() bool { return !r.n.logsWork() })
			l.end()
			fault.End()
			if err := r.reopen(s); err != nil {
				t.Fatalf("reopen: %v\n%s", err, r.log)
			}
			l.mustHave("t")
			r.w.Crash(sim.KeepNone)
			_ = s.Stop(context.Background()) // its machine is gone
			r.n = nil
			r.start()
			l.mustHave("t")
			r.stop()
		}
	})
}

// TestAnotherDirectoryIsNotServedInItsPlace takes the data away, as a filesystem does that
// is not mounted, or puts something older in its place.
func TestAnotherDirectoryIsNotServedInItsPlace(t *testing.T) {
	r := newMachine(t, small(1))
	s := r.service()
	r.create(r.dial(), "t", 1, "flushed")
	l := newLoad(r)
	l.produce("t", 0)
	l.wait(50)
	l.end()
	r.n.device.Store(true)
	fs := r.w.FS()
	path := rigDir + "/" + checkpoint.NodeFile
	node, err := checkpoint.LoadNode(fs, rigDir)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(words string) {
		t.Helper()
		if err := r.reopen(s); !errors.Is(err, layout.ErrBadDataDir) || !strings.Contains(err.Error(), words) {
			t.Fatalf("reopening: %v, expected %q", err, words)
		}
		if c := s.Condition(); c.State != Down {
			t.Fatalf("condition: %+v", c)
		}
	}
	if err := fs.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	refused("is its filesystem mounted?")
	if _, err := fs.Open(path, 0); !aio.IsNotExist(err) {
		t.Fatalf("a node file was made: %v", err)
	}
	other := node
	other.ID[3]++
	if err := checkpoint.SaveNode(fs, rigDir, &other); err != nil {
		t.Fatal(err)
	}
	refused("which was served from there")
	later := node // as if the newest start had been another one
	if err := later.Start(1); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.cfg.known = &later
	s.mu.Unlock()
	if err := checkpoint.SaveNode(fs, rigDir, &node); err != nil {
		t.Fatal(err)
	}
	refused("an older copy")
	s.mu.Lock()
	s.cfg.known = &node
	s.mu.Unlock()
	if err := r.reopen(s); err != nil {
		t.Fatal(err)
	}
	l.mustHave("t")
}
