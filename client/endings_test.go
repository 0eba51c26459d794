package client

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/net/wire"
)

func TestTheHookHasReturnedWhenAWaitDoes(t *testing.T) {
	for name, f := range map[string]fault{"acknowledged": pass, "connection lost": dropBefore} {
		t.Run(name, func(t *testing.T) {
			b := newFakeBroker(t)
			b.addTopic("alerts", 1)
			b.onRequest(func(_ *fakeConn, h wire.Header, _ []byte) fault {
				if h.Op == wire.OpProduce {
					return f
				}
				return pass
			})
			entered, leave := make(chan SendInfo), make(chan struct{})
			var left atomic.Bool
			p := openProducer(t, dialFake(t, b, WithHooks(Hooks{OnSend: func(_ context.Context, s SendInfo) {
				entered <- s
				<-leave
				left.Store(true)
			}})), "alerts")
			ticket, err := p.Append(testContext(t), value("x"))
			if err != nil {
				t.Fatal(err)
			}
			if s := <-entered; s.Records != 1 || (s.Err == nil) != (f == pass) {
				t.Errorf("%+v", s)
			}
			flushed := make(chan error)
			go func() { flushed <- p.Flush(testContext(t)) }()
			if ticket.Done() {
				t.Error("the ticket is done before the hook has counted the batch")
			}
			close(leave)
			err = <-flushed
			if !left.Load() || (err == nil) != (f == pass) {
				t.Errorf("flush returned %v; the hook has returned: %v", err, left.Load())
			}
		})
	}
}

func TestTheHookHearsOfEveryRecordOnce(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	var told, failed atomic.Int64
	c := dialFake(t, b, WithHooks(Hooks{OnSend: func(_ context.Context, s SendInfo) {
		told.Add(int64(s.Records))
		if s.Err != nil {
			failed.Add(int64(s.Records))
		}
	}}))
	p := openProducer(t, c, "alerts", WithMaxInFlight(1))
	ctx := testContext(t)
	if _, err := p.Send(ctx, value("sent")); err != nil {
		t.Fatal(err)
	}
	b.setDown(true)
	eventually(t, "the connection is gone", func() bool { return c.Stats().ConnectionsNow == 0 })
	const queued = 100
	for i := range queued {
		if _, err := p.Append(ctx, value("v%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	ended, end := context.WithCancel(ctx)
	end()
	if err := c.Close(ended); err == nil {
		t.Error("closing tells nothing of records that were not sent")
	}
	if told.Load() != queued+1 || failed.Load() != queued {
		t.Errorf("the hook heard of %d records, %d failed; want %d and %d", told.Load(), failed.Load(), queued+1, queued)
	}
}

// A hook may use the producer: no lock is held.
func TestAHookMayAppend(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	var p *Producer
	var once sync.Once
	again := make(chan error, 1)
	c := dialFake(t, b, WithHooks(Hooks{OnSend: func(context.Context, SendInfo) {
		once.Do(func() {
			_, err := p.TryAppend(value("from the hook"))
			again <- err
		})
	}}))
	p = openProducer(t, c, "alerts")
	ctx := testContext(t)
	if _, err := p.Send(ctx, value("x")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(<-again, p.Flush(ctx)); err != nil {
		t.Fatal(err)
	}
	if got := b.values("alerts", 0); len(got) != 2 {
		t.Errorf("%q", got)
	}
}

func TestCloseWithoutADeadlineGivesUpOnABrokerThatIsGone(t *testing.T) {
	for name, closing := range map[string]func(*Client, *Producer) error{
		"client":   func(c *Client, _ *Producer) error { return c.Close(context.Background()) },
		"producer": func(_ *Client, p *Producer) error { return p.Close(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newFakeBroker(t)
			b.addTopic("alerts", 1)
			c := dialFake(t, b)
			p := openProducer(t, c, "alerts", WithMaxInFlight(1))
			c.transport.Timeout = 50 * time.Millisecond // dialing may take longer than that
			b.setDown(true)
			eventually(t, "the connection is gone", func() bool { return c.Stats().ConnectionsNow == 0 })
			var last Ticket
			for i := range 100 {
				var err error
				if last, err = p.Append(testContext(t), value("v%d", i)); err != nil {
					t.Fatal(err)
				}
			}
			// One that waits for ever is told by the test binary's own limit.
			wantError(t, closing(c, p), ErrOutcomeUnknown, "nothing came from the broker")
			if _, err := last.Wait(testContext(t)); !errors.Is(err, ErrClosed) {
				t.Errorf("a record behind those that were sent: %v", err)
			}
		})
	}
}

// A refresh that another topic has asked for may find a topic deleted and made again
// before the partition's own fetch says so.
func TestAConsumerStopsWhereItsTopicWasMadeAgain(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	b.put("alerts", 0, CompressNone, "old 0", "old 1")
	var fetches atomic.Int64
	b.onRequest(func(_ *fakeConn, h wire.Header, _ []byte) fault {
		if h.Op == wire.OpFetch && fetches.Add(1) == 2 {
			return swallow // on its way when the topic goes
		}
		return pass
	})
	c := dialFake(t, b)
	co := openConsumer(t, c, Topics("alerts"))
	ctx := testContext(t)
	collect(t, co, 2)
	eventually(t, "the next fetch is on its way", func() bool { return fetches.Load() == 2 })
	if err := c.Admin().DeleteTopic(ctx, "alerts"); err != nil {
		t.Fatal(err)
	}
	b.addTopic("other", 1)
	b.addTopic("alerts", 1) // with another id
	b.put("alerts", 0, CompressNone, "new 0", "new 1", "new 2")
	c.refresh()
	_, err := co.Poll(ctx)
	wantError(t, err, ErrUnknownTopic, "alerts/0", "stopped", "another one of its name")
	if err := co.Seek(ctx, Position{Topic: "alerts", Offset: OffsetStart}); err != nil {
		t.Fatal(err)
	}
	if got := collect(t, co, 3); got[0] != "new 0" {
		t.Errorf("%q", got)
	}
}

func TestNoCallOutlivesItsContext(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 2)
	c := dialFake(t, b)
	p := openProducer(t, c, "alerts")
	co := openConsumer(t, c, Topics("alerts"))
	a := c.Admin()
	b.onRequest(func(*fakeConn, wire.Header, []byte) fault { return swallow })
	one := func(_ any, err error) error { return err }
	for name, call := range map[string]func(context.Context) error{
		"dial":      func(ctx context.Context) error { return one(Dial(ctx, []string{"fake:1"}, WithDialer(b.dial))) },
		"send":      func(ctx context.Context) error { return one(p.Send(ctx, value("x"))) },
		"sendbatch": func(ctx context.Context) error { return one(p.SendBatch(ctx, []Record{value("x"), value("y")})) },
		"flush":     func(ctx context.Context) error { return errors.Join(one(p.TryAppend(value("x"))), p.Flush(ctx)) },
		"poll":      func(ctx context.Context) error { return one(co.Poll(ctx)) },
		"seek":      func(ctx context.Context) error { return co.Seek(ctx, Position{Topic: "alerts", Offset: OffsetEnd}) },
		"lag":       func(ctx context.Context) error { return one(co.Lag(ctx)) },
		"create":    func(ctx context.Context) error { return one(a.CreateTopic(ctx, TopicSpec{Name: "t"})) },
		"alter":     func(ctx context.Context) error { return a.AlterTopic(ctx, "alerts", nil) },
		"delete":    func(ctx context.Context) error { return a.DeleteTopic(ctx, "alerts") },
		"list":      func(ctx context.Context) error { return one(a.ListTopics(ctx)) },
		"describe":  func(ctx context.Context) error { return one(a.DescribeTopic(ctx, "alerts")) },
		"offsets":   func(ctx context.Context) error { return one(a.ListOffsets(ctx, "alerts", End())) },
	} {
		before, cancel := context.WithCancel(context.Background())
		cancel()
		wantError(t, call(before), context.Canceled)
		if name == "dial" {
			continue // bounded by its own timeout too
		}
		meanwhile, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
		wantError(t, call(meanwhile), context.DeadlineExceeded)
		cancel()
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	wantError(t, p.Close(ended), context.Canceled)
	wantError(t, one(p.Append(context.Background(), value("x"))), ErrClosed)
}
