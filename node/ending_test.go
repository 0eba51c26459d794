package node

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/engine"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/engine/shard"
	"github.com/mqd-broker/mqd/net/wire"
)

// mustHaveNothingToReplay fails unless the node found everything in place.
func (r *rig) mustHaveNothingToReplay() {
	r.t.Helper()
	if st := r.n.RecoveryStats(); st.Replayed != 0 || st.TornTails != 0 || st.Damaged != 0 || st.Gaps != 0 {
		r.t.Errorf("the start after an orderly end had work: %+v", st)
	}
}

func TestAnOrderlyEndUnderLoadLeavesNothingToRecover(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, small(shards))
		c := r.dial()
		topics := []string{"memory", "written", "flushed"}
		for _, class := range topics {
			r.create(c, class, 7, class)
		}
		all := newLoad(r)
		for life := range 3 {
			l := newLoad(r)
			l.acked = all.acked
			l.consume(topics...)
			for _, topic := range topics {
				l.produce(topic, 0)
				l.produce(topic, 0)
			}
			l.wait(3000)
			r.stop()
			l.end()
			r.cfg.Shards = 1 + (shards+life)%3
			r.start()
			r.mustHaveNothingToReplay()
			all.mustHave(topics...)
		}
		r.stop()
	})
}

func TestAnOrderlyEndEndsEverything(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, small(shards))
		r.create(r.dial(), "t", 9, "flushed")
		silent := r.open()
		poll := r.connect(anyShard)
		id := poll.metadata("t").ID
		for p := range int32(9) {
			poll.fetch(wire.FetchRequest{Topic: id, Partition: p, MaxWait: 600_000, MinBytes: 1})
		}
		poll.ping()
		n := r.n
		r.stop()
		silent.mustEnd()
		for p := range uint32(9) {
			if f := poll.fetched(poll.last - 9 + p); f.Code != wire.CodeNone || len(f.Batches) != 0 {
				t.Errorf("long poll: %+v", f)
			}
		}
		poll.mustEnd()
		if c := n.census.Count(); c != 0 {
			t.Errorf("%d connections are counted after the end", c)
		}
		if _, err := r.w.DialConn(rigAddr); err == nil {
			t.Error("somebody still listens")
		}
		for i, s := range n.shards {
			if f := s.drv.InFlight(); f != 0 {
				t.Errorf("shard %d: %d operations in flight after the end", i, f)
			}
		}
	})
}

func TestWhatComesDuringTheEndIsRefusedAndNotHalfDone(t *testing.T) {
	r := newRig(t, small(2))
	c := r.dial()
	r.create(c, "t", 4, "flushed")
	// While the device stands still the end cannot come to its end.
	x := r.connect(anyShard)
	id := x.metadata("t").ID
	hold := r.w.Hold(sim.Filter{Ops: sim.Writes, Path: "journal-*"})
	first := x.produce(id, 0, batchOf(t, []byte("before")))
	hold.Wait(1)
	done := make(chan error, 1)
	go func() { done <- r.n.Stop(context.Background()) }()
	eventually(t, "the end begins", func() bool { return r.n.order.Load() == orderStop })
	// What a stopping node has not read stays unread; what it has read is answered.
	hold.Release()
	if a := x.produced(first); a.Code != wire.CodeNone || a.BaseOffset != 0 {
		t.Fatalf("what was in flight: %+v", a)
	}
	x.mustEnd()
	if err := <-done; err != nil {
		t.Fatalf("stop: %v\n%s", err, r.log)
	}
	r.n = nil
	r.start()
	r.mustHaveNothingToReplay()
	l := newLoad(r)
	l.acked[spot{"t", 0, 0}] = []byte("before")
	l.mustHave("t")
	r.stop()
}

func TestAnEndThatIsNotGivenTheTimeIsADeath(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, small(shards))
		r.create(r.dial(), "t", 7, "flushed")
		l := newLoad(r)
		l.consume("t")
		l.produce("t", 0)
		l.produce("t", 0)
		l.wait(1000)
		x := r.connect(anyShard)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := r.end(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("stop: %v", err)
		}
		x.mustEnd()
		l.end()
		r.start()
		l.mustHave("t")
		r.stop()
	})
}

func TestTheShutdownTimeoutBoundsTheEnd(t *testing.T) {
	cfg := small(2)
	cfg.ShutdownTimeout = 50 * time.Millisecond
	r := newRig(t, cfg)
	r.create(r.dial(), "t", 4, "flushed")
	x := r.connect(anyShard)
	hold := r.w.Hold(sim.Filter{Ops: sim.Writes, Path: "journal-*"})
	x.produce(x.metadata("t").ID, 0, batchOf(t, []byte("v")))
	hold.Wait(1)
	if err := r.end(context.Background()); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("stop: %v", err)
	}
	hold.Release()
	r.cfg.ShutdownTimeout = 0 // as long as it takes
	r.start()
	r.stop()
}

func TestStopMayBeCalledAgainAndByMany(t *testing.T) {
	home := leak(t)
	r := newRig(t, small(3))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := r.n.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if err := r.n.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	r.n = nil
	home()
}

// TestTheDirectoryStaysLockedWhileAShardWrites lets the first shard, which holds the
// lock, come to its end before another.
func TestTheDirectoryStaysLockedWhileAShardWrites(t *testing.T) {
	r := newRig(t, small(2))
	n := r.n
	hold := r.w.Hold(sim.Filter{Ops: sim.Writes | sim.Flushes, Driver: n.shards[1].drv})
	done := make(chan error, 1)
	go func() { done <- n.Stop(context.Background()) }()
	hold.Wait(1)
	eventually(t, "the first shard ends", n.shards[0].over.Load)
	other := r.w.Driver(aio.Options{})
	lock := func() error {
		return aio.DoFile(other, &aio.FileOp{Kind: aio.FileLock, Path: rigDir + "/" + layout.LockFile})
	}
	if err := lock(); !errors.Is(err, aio.ErrLocked) {
		t.Errorf("lock while a shard writes: %v", err)
	}
	hold.Release()
	if err := <-done; err != nil {
		t.Error(err)
	}
	r.n = nil
	if err := lock(); err != nil {
		t.Errorf("lock after the end: %v", err)
	}
}

// TestConnectionsThatMoveDuringTheEndAreClosed opens connections that are handed
// over all the time while a node ends.
func TestConnectionsThatMoveDuringTheEndAreClosed(t *testing.T) {
	home := leak(t)
	r := newMachine(t, small(3))
	for range 10 {
		r.start()
		n := r.n
		var all sync.WaitGroup
		var opened atomic.Int64
		for i := range 6 {
			all.Go(func() {
				for shard := int32(i); ; shard++ {
					c, err := r.w.DialConn(rigAddr)
					if err != nil {
						return // nobody listens any more
					}
					x := &raw{t: t, c: c}
					if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
						t.Error(err)
					}
					_, _ = c.Write(x.helloFrame(shard % 3))
					opened.Add(1)
					// Either it is welcomed or it ends; nobody is forgotten.
					if _, err := c.Read(make([]byte, 1000)); errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
						t.Error("a connection was forgotten")
					}
					_ = c.Close()
				}
			})
		}
		eventually(t, "connections come and go", func() bool { return opened.Load() > 50 })
		r.stop()
		all.Wait()
		if c := n.census.Count(); c != 0 {
			t.Errorf("%d connections are counted after the end", c)
		}
		if m := n.moving.Load(); m != 0 {
			t.Errorf("%d connections are on their way after the end", m)
		}
	}
	home()
}

// TestTheEndWaitsForConnectionsOnTheirWay has a connection on its way between two
// shards that have nothing else to do any more.
func TestTheEndWaitsForConnectionsOnTheirWay(t *testing.T) {
	r := newRig(t, small(2))
	n := r.n
	n.moving.Add(1)
	done := make(chan error, 1)
	go func() { done <- n.Stop(context.Background()) }()
	eventually(t, "nothing else to do", func() bool { return n.quiet.Load() == 2 })
	for range 20 {
		for _, s := range n.shards {
			turned := make(chan struct{})
			if err := s.loop.Post(shard.TaskFunc(func(*shard.Loop) { close(turned) })); err != nil {
				t.Fatal(err)
			}
			select {
			case <-turned:
			case <-n.done:
				t.Fatal("the node has ended, the connection is forgotten")
			}
		}
	}
	n.moving.Add(-1)
	if err := <-done; err != nil {
		t.Error(err)
	}
	r.n = nil
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}

// brokenDriver is a driver that fails as a whole when it is told to.
type brokenDriver struct {
	aio.Driver
	broken *atomic.Bool
}

var errBroken = errors.New("the ring is gone")

func (d brokenDriver) Poll(wait time.Duration) (int, error) {
	if d.broken.Load() {
		return 0, errBroken
	}
	return d.Driver.Poll(wait)
}

func TestAShardThatFailsEndsTheNode(t *testing.T) {
	home := leak(t)
	for _, failing := range []int{0, 1, 2} {
		cfg := small(3)
		cfg.ShutdownTimeout = time.Hour
		r := newMachine(t, cfg)
		var broken atomic.Bool
		r.p.wrap = func(id int, d aio.Driver) aio.Driver {
			if id == failing {
				return brokenDriver{d, &broken}
			}
			return d
		}
		r.start()
		c := r.dial()
		r.create(c, "t", 9, "flushed")
		l := newLoad(r)
		l.produce("t", 0)
		l.produce("t", 0)
		l.wait(500)
		broken.Store(true)
		r.n.shards[failing].loop.Wake()
		<-r.n.Failed()
		// Requests wait at the shard that is gone; the end does not wait for them.
		if err := r.end(context.Background()); !errors.Is(err, errBroken) {
			t.Fatalf("stop: %v", err)
		}
		l.end()
		closeNow(c)
		r.w.Kill() // the broken driver's sockets are the process's, which would end now
		if !strings.Contains(r.log.String(), "shard failed") {
			t.Errorf("the log does not say that a shard has failed:\n%s", r.log)
		}
		r.p.wrap = nil
		r.start()
		l.mustHave("t")
		r.stop()
	}
	home()
}

func TestALoopThatDoesNotTurnIsGivenUp(t *testing.T) {
	r := newRig(t, small(2))
	r.n.patience = 20 * time.Millisecond
	stuck := make(chan struct{})
	if err := r.n.shards[1].loop.Post(shard.TaskFunc(func(*shard.Loop) { <-stuck })); err != nil {
		t.Fatal(err)
	}
	n := r.n
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := r.end(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("stop: %v", err)
	}
	close(stuck)
	<-n.done
}

// TestAFailedDeviceAtAnyMoment fails one flush or durable write of the device, a
// later one with every round, and all that follow. Nothing is acknowledged after
// it, reads go on, the end comes, and the next start has everything that was
// acknowledged.
func TestAFailedDeviceAtAnyMoment(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		for skip := range 5 {
			r := newRig(t, small(shards))
			c := r.dial()
			r.create(c, "t", 5, "flushed")
			x := r.connect(anyShard)
			id := x.metadata("t").ID
			if a := x.produced(x.produce(id, 0, batchOf(t, []byte("early")))); a.Code != wire.CodeNone {
				t.Fatal(a.Code)
			}
			l := newLoad(r)
			l.acked[spot{"t", 0, 0}] = []byte("early")
			l.produce("t", 0)
			l.wait(100)
			fault := r.w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Writes | sim.Flushes, Path: "journal-*"}, Skip: skip * 5, Times: sim.Always})
			eventually(t, "the device fails", func() bool { return fault.Hits() > 0 })
			l.end()
			for p := range int32(5) {
				a := x.produced(x.produce(id, p, batchOf(t, []byte("late"))))
				// A shard that has nothing to write does not find out.
				if a.Code != wire.CodeStorageError {
					t.Errorf("partition %d: produce on a failed device: %+v", p, a)
				}
			}
			f := x.fetched(x.fetch(wire.FetchRequest{Topic: id, MaxBytes: 1}))
			if values, _ := valuesOf(t, f.Batches); f.Code != wire.CodeNone || len(values) == 0 || string(values[0]) != "early" {
				t.Errorf("fetch on a failed device: %v, %d bytes", f.Code, len(f.Batches))
			}
			if err := r.end(context.Background()); !errors.Is(err, engine.ErrStorage) {
				t.Errorf("stop: %v", err)
			}
			fault.End()
			r.start()
			l.mustHave("t")
			r.stop()
		}
	})
}

// TestADeviceThatFailsDuringTheEnd fails the writes and flushes of an orderly end
// from one of them on. Runs with other numbers of shards fail at other moments.
func TestADeviceThatFailsDuringTheEnd(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		for skip, hits := shards-1, 1; hits > 0 && !t.Failed(); skip += 2 + 2*shards {
			r := newRig(t, small(shards))
			c := r.dial()
			r.create(c, "t", 5, "flushed")
			r.create(c, "m", 5, "memory")
			l := newLoad(r)
			l.produce("t", 100)
			l.produce("m", 100)
			l.wait(200)
			l.end()
			closeNow(c)
			fault := r.w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Writes | sim.Flushes}, Skip: skip, Times: sim.Always})
			err := r.end(context.Background())
			hits = fault.Hits()
			fault.End()
			if hits > 0 != errors.Is(err, engine.ErrStorage) {
				t.Errorf("skip %d: stop: %v after %d failures", skip, err, hits)
			}
			r.start()
			for k := range l.acked {
				if k.topic == "m" {
					delete(l.acked, k) // class memory promises nothing
				}
			}
			l.mustHave("t")
			r.stop()
		}
	})
}

// TestAnEndThatCannotComeIsCutShort has the files that an orderly end needs refused
// for good: what cannot be written to them is safe in the journal.
func TestAnEndThatCannotComeIsCutShort(t *testing.T) {
	cfg := small(2)
	cfg.ShutdownTimeout = 300 * time.Millisecond
	r := newRig(t, cfg)
	c := r.dial()
	r.create(c, "t", 40, "flushed") // every shard has something to write
	l := newLoad(r)
	l.produce("t", 40) // and no checkpoint comes before the end
	l.wait(40)
	l.end()
	closeNow(c)
	fault := r.w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Opens}, Times: sim.Always, Err: syscall.EMFILE})
	if err := r.end(context.Background()); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("stop: %v", err)
	}
	fault.End()
	r.cfg.ShutdownTimeout = 0 // as long as it takes
	r.start()
	l.mustHave("t")
	r.stop()
}

func TestChangesToTopicsAreRefusedOnAFailedDevice(t *testing.T) {
	r := newRig(t, small(3))
	c := r.dial()
	ctx := r.context()
	r.create(c, "t", 9, "written")
	l := newLoad(r)
	l.produce("t", 90)
	l.wait(90)
	l.end()
	r.w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Writes | sim.Flushes}, Times: sim.Always})
	// Whatever they find, they end.
	for _, f := range []func() error{
		func() error { return c.Admin().AlterTopic(ctx, "t", map[string]string{"durability": "flushed"}) },
		func() error {
			_, err := c.Admin().CreateTopic(ctx, client.TopicSpec{Name: "u", Partitions: 1})
			return err
		},
		func() error { return c.Admin().DeleteTopic(ctx, "t") },
	} {
		var e *client.Error
		if err := f(); !errors.As(err, &e) || e.Code != wire.CodeStorageError {
			t.Errorf("a change on a failed device: %v", err)
		}
	}
	if _, err := c.Admin().DescribeTopic(ctx, "t"); err != nil {
		t.Errorf("describe on a failed device: %v", err)
	}
	if err := r.end(context.Background()); !errors.Is(err, engine.ErrStorage) {
		t.Errorf("stop: %v", err)
	}
}
