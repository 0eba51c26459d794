package client

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mqd-broker/mqd/net/wire"
)

// joinFake opens a consumer of group "g" over a client of its own.
func joinFake(t testing.TB, b *fakeBroker, opts ...ConsumerOption) *Consumer {
	t.Helper()
	return openConsumer(t, dialFake(t, b), append([]ConsumerOption{Group("g")}, opts...)...)
}

// take polls a batch with n records.
func take(t testing.TB, co *Consumer, n int) *Batch {
	t.Helper()
	b, err := co.Poll(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	if b.Len() != n {
		t.Fatalf("a batch of %d records, expected %d", b.Len(), n)
	}
	return b
}

func TestAGroupGoesOnWhereItCommitted(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	b.put("alerts", 0, CompressNone, numbered(0, 3)...)
	co := joinFake(t, b, Topics("alerts"), WithAutoCommit(0, 0))
	bt := take(t, co, 3)
	if bt.Context().Err() != nil {
		t.Fatal("the context of an owned partition has ended")
	}
	if err := bt.CommitTo(testContext(t), 2); err != nil {
		t.Fatal(err)
	}
	if err := bt.CommitTo(testContext(t), 1); err != nil { // is committed already
		t.Fatal(err)
	}
	if n := b.commitRequests(); n != 1 || b.committed("g", "alerts", 0) != 2 {
		t.Fatalf("%d requests, committed %d", n, b.committed("g", "alerts", 0))
	}
	if err := bt.CommitTo(testContext(t), 4); !errors.Is(err, ErrInvalid) {
		t.Fatalf("a commit behind the batch: %v", err)
	}
	bt.Release()
	if err := co.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if bt.Context().Err() == nil {
		t.Fatal("the context outlives the membership")
	}
	again := joinFake(t, b, Topics("alerts"))
	if got := collect(t, again, 1); !slices.Equal(got, []string{"v2"}) {
		t.Fatalf("%q", got)
	}
}

func TestWhatIsReleasedIsCommittedWhenTheConsumerCloses(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	b.put("alerts", 0, CompressNone, numbered(0, 3)...)
	co := joinFake(t, b, Topics("alerts"), WithAutoCommit(time.Hour, 0))
	take(t, co, 3).Release()
	b.put("alerts", 0, CompressNone, "v3")
	take(t, co, 1) // stays with the application
	if err := co.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if at := b.committed("g", "alerts", 0); at != 3 {
		t.Fatalf("committed %d, expected what was handed back, 3", at)
	}
}

// C1 of the catalogue of cases: what is committed was delivered before, and every
// offset comes once.
func TestC1CommitsFollowDelivery(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	co := joinFake(t, b, Topics("alerts"), WithAutoCommit(time.Hour, 7))
	wrote := make(chan struct{})
	go func() {
		defer close(wrote)
		for i := 0; i < 500; i += 5 {
			b.put("alerts", 0, CompressNone, numbered(i, i+5)...)
		}
	}()
	next := int64(0)
	for next < 500 {
		bt, err := co.Poll(testContext(t))
		if err != nil {
			t.Fatal(err)
		}
		if at := b.committed("g", "alerts", 0); at > next {
			t.Fatalf("committed %d, delivered %d", at, next)
		}
		for r := range bt.Records() {
			if r.Offset != next {
				t.Fatalf("offset %d, expected %d", r.Offset, next)
			}
			next++
		}
		bt.Release()
	}
	<-wrote
	// The records that the application has come back for are committed by their number.
	ctx, cancel := context.WithCancel(testContext(t))
	cancel()
	_, _ = co.Poll(ctx) // there is nothing more
	eventually(t, "commits by number", func() bool { return b.committed("g", "alerts", 0) > 0 })
	if err := co.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if at := b.committed("g", "alerts", 0); at != 500 {
		t.Fatalf("committed %d in the end", at)
	}
}

func TestReleaseWithoutAnotherPollCommitsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t)
		b.addTopic("alerts", 1)
		b.put("alerts", 0, CompressNone, numbered(0, 3)...)
		co := joinFake(t, b, Topics("alerts"), WithAutoCommit(time.Millisecond, 1))
		take(t, co, 3).Release()
		time.Sleep(time.Second) // of the bubble
		synctest.Wait()
		if n := b.commitRequests(); n != 0 {
			t.Fatalf("%d commits", n)
		}
		ctx, cancel := context.WithCancel(testContext(t))
		cancel()
		_, _ = co.Poll(ctx)
		eventually(t, "the commit", func() bool { return b.committed("g", "alerts", 0) == 3 })
	})
}

// reader is a member whose records are noted until it is stopped.
type reader struct {
	co  *Consumer
	mu  sync.Mutex
	got map[int32][]string
	end context.CancelFunc
	wg  sync.WaitGroup
}

func (r *reader) total() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, vs := range r.got {
		n += len(vs)
	}
	return n
}

func (r *reader) owns() int {
	r.co.mu.Lock()
	defer r.co.mu.Unlock()
	return len(r.co.feeds)
}

// read runs a member that commits every batch before it gives it back.
func read(t *testing.T, co *Consumer) *reader {
	ctx, cancel := context.WithCancel(testContext(t))
	r := &reader{co: co, got: map[int32][]string{}, end: cancel}
	r.wg.Go(func() {
		for bt, err := range co.Batches(ctx) {
			if err != nil {
				t.Error(err)
				return
			}
			if err := bt.Commit(ctx); err == nil {
				r.mu.Lock()
				for v := range bt.Records() {
					r.got[bt.Partition] = append(r.got[bt.Partition], string(v.Value))
				}
				r.mu.Unlock()
			} else if !errors.Is(err, ErrFenced) && ctx.Err() == nil {
				t.Error(err)
			}
			bt.Release()
		}
	})
	return r
}

func (r *reader) stop() {
	r.end()
	r.wg.Wait()
}

func TestMembersShareThePartitions(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 8)
	put := func(from, to int) {
		for p := range 8 {
			b.put("alerts", p, CompressNone, numbered(from, to)...)
		}
	}
	put(0, 10)
	one := read(t, joinFake(t, b, Topics("alerts")))
	eventually(t, "one reads all", func() bool { return one.owns() == 8 && one.total() > 0 })
	two := read(t, joinFake(t, b, Topics("alerts")))
	eventually(t, "they share", func() bool { return one.owns() == 4 && two.owns() == 4 })
	put(10, 20)
	eventually(t, "all is read", func() bool { return one.total()+two.total() >= 160 })
	two.stop()
	if err := two.co.Close(testContext(t)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "one has all again", func() bool { return one.owns() == 8 })
	put(20, 30)
	eventually(t, "all is read", func() bool { return one.total()+two.total() >= 240 })
	one.stop()
	for p := range int32(8) {
		all := append(slices.Clone(one.got[p]), two.got[p]...)
		slices.Sort(all)
		want := numbered(0, 30)
		slices.Sort(want)
		if !slices.Equal(all, want) {
			t.Errorf("partition %d: %d records %q", p, len(all), all)
		}
	}
}

func TestARevokedBatchCanBeFinishedButIsNotByRelease(t *testing.T) {
	for name, commit := range map[string]bool{"commit": true, "release alone": false} {
		t.Run(name, func(t *testing.T) {
			b := newFakeBroker(t)
			b.addTopic("alerts", 2)
			b.put("alerts", 0, CompressNone, numbered(0, 3)...)
			b.put("alerts", 1, CompressNone, numbered(0, 3)...)
			one := joinFake(t, b, Topics("alerts"), WithAutoCommit(time.Hour, 0))
			held := []*Batch{take(t, one, 3), take(t, one, 3)}
			two := joinFake(t, b, Topics("alerts"))
			var lost *Batch
			eventually(t, "a context ends", func() bool {
				i := slices.IndexFunc(held, func(bt *Batch) bool { return bt.Context().Err() != nil })
				if i >= 0 {
					lost = held[i]
				}
				return i >= 0
			})
			if commit {
				if err := lost.Commit(testContext(t)); err != nil {
					t.Fatal(err)
				}
			}
			lost.Release()
			b.put("alerts", int(lost.Partition), CompressNone, "v3")
			want := []string{"v3"}
			if !commit {
				want = numbered(0, 4)
			}
			if got := collect(t, two, len(want)); !slices.Equal(got, want) {
				t.Fatalf("the next owner got %q, expected %q", got, want)
			}
			if err := lost.CommitTo(testContext(t), 1); !commit {
				wantError(t, err, ErrFenced)
			}
		})
	}
}

func TestAMemberThatIsForgottenJoinsAgain(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	b.put("alerts", 0, CompressNone, numbered(0, 3)...)
	co := joinFake(t, b, Topics("alerts"), WithAutoCommit(0, 0))
	bt := take(t, co, 3)
	if err := bt.CommitTo(testContext(t), 1); err != nil {
		t.Fatal(err)
	}
	b.onRequest(func(_ *fakeConn, h wire.Header, _ []byte) fault {
		if h.Op == wire.OpGroupHeartbeat {
			return swallow // while the session passes
		}
		return pass
	})
	b.pass(time.Minute)
	b.onRequest(nil)
	b.hangUp() // what waits for answers asks again
	<-bt.Context().Done()
	wantError(t, bt.Commit(testContext(t)), ErrFenced)
	var got []string
	for len(got) < 2 {
		again, err := co.Poll(testContext(t))
		if err != nil {
			if errors.Is(err, ErrDisconnected) {
				continue
			}
			t.Fatal(err)
		}
		got = appendValues(got, again)
	}
	if !slices.Equal(got, []string{"v1", "v2"}) {
		t.Fatalf("%q", got)
	}
}

func TestAnInstanceIsTakenOver(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 2)
	b.put("alerts", 1, CompressNone, "v0")
	one := joinFake(t, b, Instance("pump"), ClaimPartitions("alerts", 1))
	bt := take(t, one, 1)
	two := joinFake(t, b, Instance("pump"), ClaimPartitions("alerts"))
	if _, err := one.Poll(testContext(t)); !errors.Is(err, ErrFenced) {
		t.Fatal(err)
	}
	for _, err := range one.Batches(testContext(t)) { // ends
		wantError(t, err, ErrFenced)
	}
	<-bt.Context().Done()
	wantError(t, bt.Commit(testContext(t)), ErrFenced)
	if got := collect(t, two, 1); got[0] != "v0" {
		t.Fatalf("%q", got)
	}
}

func TestACommitIsRepeatedOnANewConnection(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	b.put("alerts", 0, CompressNone, numbered(0, 3)...)
	co := joinFake(t, b, Topics("alerts"), WithAutoCommit(0, 0))
	bt := take(t, co, 3)
	var once sync.Once
	b.onRequest(func(_ *fakeConn, h wire.Header, _ []byte) (f fault) {
		if h.Op == wire.OpGroupCommit {
			once.Do(func() { f = dropAfter })
		}
		return f
	})
	if err := bt.Commit(testContext(t)); err != nil {
		t.Fatal(err)
	}
	if n := b.commitRequests(); n != 2 || b.committed("g", "alerts", 0) != 3 {
		t.Fatalf("%d requests, committed %d", n, b.committed("g", "alerts", 0))
	}
	// The context ended: the commit may have come or not.
	b.put("alerts", 0, CompressNone, "v3")
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	for {
		again, err := co.Poll(testContext(t))
		if errors.Is(err, ErrDisconnected) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		b.onRequest(func(_ *fakeConn, h wire.Header, _ []byte) fault {
			if h.Op == wire.OpGroupCommit {
				cancel()
				return swallow
			}
			return pass
		})
		wantError(t, again.Commit(ctx), ErrOutcomeUnknown)
		return
	}
}

func TestGroupsThatCannotWorkAreRefused(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	c := dialFake(t, b)
	for name, opts := range map[string][]ConsumerOption{
		"no topics":  {Group("g")},
		"partitions": {Group("g"), Topics("alerts"), Partitions("alerts", 0)},
		"no group":   {Topics("alerts"), Instance("a")},
		"claims":     {Group("g"), ClaimPartitions("alerts", 0)},
		"session":    {Group("g"), Topics("alerts"), WithSession(time.Millisecond)},
		"commit":     {Group("g"), Topics("alerts"), WithAutoCommit(-1, 0)},
	} {
		if _, err := c.Consumer(opts...); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := c.Consumer(Group("g"), Topics("unknown"))
	wantError(t, err, ErrUnknownTopic)
	_, err = c.Consumer(Group("g"), Instance("i"), ClaimPartitions("alerts", 1))
	wantError(t, err, ErrUnknownPartition)
	openConsumer(t, c, Group("g"), Topics("alerts"))
	if _, err = c.Consumer(Group("g"), Instance("i"), ClaimPartitions("alerts", 0)); err == nil {
		t.Error("a group of two modes")
	}
	b.put("alerts", 0, CompressNone, "a")
	bt := take(t, openConsumer(t, c, Topics("alerts")), 1)
	if err := bt.Commit(testContext(t)); !errors.Is(err, ErrInvalid) {
		t.Errorf("a commit without a group: %v", err)
	}
}

// C11 of the catalogue: with one batch in flight and no linger, no message waits for
// another one: each is a batch of its own, under way before there is a next.
func TestC11NothingDelaysAMessage(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	p := openProducer(t, dialFake(t, b), "alerts", WithMaxInFlight(1))
	for i := range 1000 {
		if _, err := p.Send(testContext(t), value("v%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	counts := b.counts("alerts", 0)
	if len(counts) != 1000 || slices.Max(counts) != 1 {
		t.Fatalf("1,000 messages went in %d batches of up to %d", len(counts), slices.Max(counts))
	}
}

// C7 of the catalogue: the broker ends connections that say nothing for 2 s. A member
// that reads nothing for 5 s, with its long polls open or paused, is served as before.
func TestC7AnIdleConsumerIsServedAgain(t *testing.T) {
	for name, paused := range map[string]bool{"long poll": false, "paused": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newFakeBroker(t)
				b.idle = 2 * time.Second
				b.wrap = func(nc net.Conn) net.Conn { return &idleConn{Conn: nc, limit: b.idle} }
				b.addTopic("alerts", 1)
				c, err := Dial(t.Context(), []string{"fake:1"}, WithDialer(b.dial))
				if err != nil {
					t.Fatal(err)
				}
				co := openConsumer(t, c, Topics("alerts"))
				if paused {
					co.Pause()
				}
				time.Sleep(5 * time.Second) // of the bubble
				co.Resume()
				b.put("alerts", 0, CompressNone, "v0")
				bt, err := co.Poll(t.Context())
				if err != nil || bt.Len() != 1 {
					t.Fatalf("after the pause: %v", err)
				}
				if err := c.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				b.stop()
			})
		})
	}
}

// idleConn ends when nothing is written for a time, as a broker would end it.
type idleConn struct {
	net.Conn
	limit time.Duration
	mu    sync.Mutex
	timer *time.Timer
}

func (c *idleConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	if c.timer != nil {
		c.timer.Stop()
	}
	c.timer = time.AfterFunc(c.limit, func() { _ = c.Close() })
	c.mu.Unlock()
	return c.Conn.Write(p)
}
