package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mqd-broker/mqd/net/wire"
)

func TestDialFailsFast(t *testing.T) {
	b := newFakeBroker(t)
	ctx := testContext(t)
	_, err := Dial(ctx, nil)
	wantError(t, err, ErrInvalid)
	_, err = Dial(ctx, []string{"x"}, WithDialer(b.dial), WithClientID(strings.Repeat("x", 256)))
	wantError(t, err, ErrInvalid)
	b.setDown(true)
	_, err = Dial(ctx, []string{"one:1", "two:2"}, WithDialer(b.dial))
	wantError(t, err, ErrDisconnected, "one:1", "two:2", "refused")
	b.setDown(false)
	for _, code := range []wire.Code{wire.CodeAuthFailed, wire.CodeUnsupportedVersion} {
		b.refuse = code
		_, err = Dial(ctx, []string{"x"}, WithDialer(b.dial))
		var e *Error
		if !errors.As(err, &e) || e.Code != code || !strings.Contains(err.Error(), "go away") {
			t.Fatalf("%s: %v", code, err)
		}
	}
}

func TestHelloSaysWhoTheClientIs(t *testing.T) {
	b := newFakeBroker(t)
	dialFake(t, b, WithClientID("orders"), WithTenant("acme"))
	want := wire.HelloRequest{MinProtocol: 1, MaxProtocol: 1, WantedShard: wire.AnyShard, ClientID: "orders", Tenant: "acme", Auth: []byte{}}
	if got := fmt.Sprintf("%+v", b.hellos[0]); got != fmt.Sprintf("%+v", want) {
		t.Fatalf("%s", got)
	}
}

func TestAPeerThatIsNoBrokerIsAnError(t *testing.T) {
	for name, says := range map[string]string{
		"http":    "HTTP/1.1 400 Bad Request\r\n\r\n",
		"silence": "",
		"zeros":   string(make([]byte, 64)),
		"ping":    string(wire.AppendPingResponse(nil, 0)),
		"short":   string(wire.AppendHelloResponse(nil, 0, wire.HelloResponse{Protocol: 1})[:20]),
		"future":  string(wire.AppendHelloResponse(nil, 0, wire.HelloResponse{Protocol: 2})),
	} {
		t.Run(name, func(t *testing.T) {
			dial := func(context.Context, string) (net.Conn, error) {
				near, far := net.Pipe()
				go func() {
					buf := make([]byte, 1024)
					_, _ = far.Read(buf)
					_, _ = far.Write([]byte(says))
					_ = far.Close()
				}()
				return near, nil
			}
			_, err := Dial(testContext(t), []string{"x"}, WithDialer(dial))
			if !errors.Is(err, ErrProtocol) && !errors.Is(err, ErrDisconnected) {
				t.Fatalf("%v", err)
			}
		})
	}
}

func TestABrokerThatDoesNotAnswerHelloIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ends []net.Conn
		dial := func(context.Context, string) (net.Conn, error) {
			near, far := net.Pipe()
			ends = append(ends, far)
			return near, nil
		}
		start := time.Now()
		_, err := Dial(t.Context(), []string{"a", "b"}, WithDialer(dial), WithTimeout(3*time.Second))
		wantError(t, err, ErrDisconnected, "deadline")
		if took := time.Since(start); took != 6*time.Second || len(ends) != 2 {
			t.Fatalf("given up after %v and %d connections", took, len(ends))
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("no patience"))
		defer cancel()
		_, err = Dial(ctx, []string{"a", "b"}, WithDialer(dial))
		wantError(t, err, ErrDisconnected, "no patience")
	})
}

func TestAnIdleConnectionIsKeptAliveAndASilentOneReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t)
		defer b.stop() // within the bubble
		b.idle = 30 * time.Second
		pings := 0
		silent := false
		b.onRequest(func(_ *fakeConn, h wire.Header, _ []byte) fault {
			if h.Op != wire.OpPing {
				return pass
			}
			pings++
			if silent {
				return swallow
			}
			return pass
		})
		c := dialFake(t, b)
		defer c.Close(t.Context())
		time.Sleep(10*time.Minute + time.Second)
		synctest.Wait()
		// A ping every 10 s would be one too many: the answer to the last counts.
		if s := c.Stats(); s.Connects != 1 || pings < 25 || pings > 60 {
			t.Fatalf("%d connections, %d pings in 10 minutes of silence", s.Connects, pings)
		}
		b.mu.Lock()
		silent = true
		b.mu.Unlock()
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if s := c.Stats(); s.Connects != 2 {
			t.Fatalf("%d connections after the broker has fallen silent", s.Connects)
		}
	})
}

func TestAttemptsToReconnectSlowDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t)
		defer b.stop()
		var at []time.Time
		c := dialFake(t, b, WithBackoff(10*time.Millisecond, 2*time.Second), WithHooks(Hooks{
			OnConnect: func(addr string, _ time.Duration, err error) {
				if addr != "fake:1" {
					t.Errorf("connected to %q", addr)
				}
				at = append(at, time.Now())
			},
		}))
		defer c.Close(t.Context())
		if _, err := c.Admin().ListTopics(t.Context()); err != nil {
			t.Fatal(err) // a connection that has worked starts the pauses anew
		}
		b.setDown(true)
		down := time.Now()
		time.Sleep(20 * time.Second)
		b.setDown(false)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		last := down
		for i, a := range at[1:] {
			most := min(10*time.Millisecond<<i, 2*time.Second)
			if d := a.Sub(last); d > most || d < most/2 {
				t.Errorf("attempt %d after %v, expected %v to %v", i, d, most/2, most)
			}
			last = a
		}
		if s := c.Stats(); s.Connects != 2 || s.ConnectionsNow != 1 || s.ConnectFailures < 15 {
			t.Fatalf("%+v", s)
		}
	})
}

func TestABrokerThatHangsUpAfterHelloIsNotHammered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFakeBroker(t)
		defer b.stop()
		c := dialFake(t, b, WithBackoff(10*time.Millisecond, time.Second))
		defer c.Close(t.Context())
		b.onRequest(func(_ *fakeConn, h wire.Header, _ []byte) fault {
			if h.Op == wire.OpHello {
				return pass
			}
			return dropBefore
		})
		b.hangUp()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := c.Admin().ListTopics(ctx)
		wantError(t, err, context.DeadlineExceeded)
		if s := c.Stats(); s.Connects > 30 {
			t.Fatalf("%d connections in 10 s", s.Connects)
		}
	})
}

func TestARefusedHelloEndsWhatIsQueued(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	c := dialFake(t, b)
	p := openProducer(t, c, "alerts")
	b.mu.Lock()
	b.refuse = wire.CodeAuthFailed
	b.mu.Unlock()
	b.hangUp()
	ctx := testContext(t)
	var e *Error
	for {
		_, err := p.Send(ctx, value("x"))
		if errors.Is(err, ErrOutcomeUnknown) {
			continue // still on the dying connection
		}
		if !errors.As(err, &e) || e.Code != wire.CodeAuthFailed || e.Retriable {
			t.Fatalf("%v", err)
		}
		break
	}
	_, err := c.Admin().ListTopics(ctx)
	if !errors.As(err, &e) || e.Code != wire.CodeAuthFailed {
		t.Fatalf("%v", err)
	}
	b.mu.Lock()
	b.refuse = wire.CodeNone
	b.mu.Unlock()
	eventually(t, "the client is taken back", func() bool {
		_, err := p.Send(ctx, value("y"))
		return err == nil
	})
}

func TestEachShardHasAConnection(t *testing.T) {
	for name, land := range map[string]func(int32) uint32{
		"where it wants": nil,
		"elsewhere":      func(int32) uint32 { return 1 },
	} {
		t.Run(name, func(t *testing.T) {
			b := newFakeBroker(t)
			b.shards, b.land = 3, land
			b.addTopic("alerts", 6)
			on := map[int32]uint32{}
			b.onRequest(func(c *fakeConn, h wire.Header, body []byte) fault {
				if h.Op == wire.OpProduce {
					r := must(wire.DecodeProduceRequest(body))
					b.mu.Lock()
					on[r.Partition] = c.shard
					b.mu.Unlock()
				}
				return pass
			})
			c := dialFake(t, b)
			p := openProducer(t, c, "alerts")
			ctx := testContext(t)
			for range 12 {
				if _, err := p.Send(ctx, value("x")); err != nil {
					t.Fatal(err)
				}
			}
			if got := collect(t, openConsumer(t, c, Topics("alerts")), 12); len(got) != 12 {
				t.Fatal(len(got))
			}
			s := c.Stats()
			if s.ConnectionsNow != 3 || s.Connects != 3 {
				t.Fatalf("%d connections", s.ConnectionsNow)
			}
			for part, shard := range on {
				if land == nil && shard != uint32(part)%3 {
					t.Errorf("partition %d was produced to on shard %d", part, shard)
				}
			}
		})
	}
}

func TestPartitionsFollowTheirShards(t *testing.T) {
	b := newFakeBroker(t)
	b.shards = 3
	topic := b.addTopic("alerts", 3)
	c := dialFake(t, b)
	p := openProducer(t, c, "alerts")
	co := openConsumer(t, c, Topics("alerts"))
	ctx := testContext(t)
	for range 3 {
		if _, err := p.Send(ctx, value("before")); err != nil {
			t.Fatal(err)
		}
	}
	// The broker restarts with one shard.
	b.setDown(true)
	b.mu.Lock()
	b.shards = 1
	for _, part := range topic.parts {
		part.shard = 0
	}
	b.mu.Unlock()
	b.setDown(false)
	eventually(t, "all lanes use the first link", func() bool {
		for range 3 {
			if _, err := p.Send(ctx, value("after")); err != nil && !errors.Is(err, ErrOutcomeUnknown) {
				t.Fatal(err)
			}
		}
		for _, ln := range p.lanes() {
			if l, _ := ln.Route(); l != c.control {
				return false
			}
		}
		return true
	})
	got := 0
	for want := len(b.values("alerts", 0)) + len(b.values("alerts", 1)) + len(b.values("alerts", 2)); got < want; {
		bt, err := co.Poll(ctx)
		if err == nil {
			got += bt.Len()
			bt.Release()
		} else if !errors.Is(err, ErrDisconnected) {
			t.Fatal(err)
		}
	}
}

func TestAPartitionMovesOnlyWhenNothingIsInFlight(t *testing.T) {
	b := newFakeBroker(t)
	b.shards = 2
	topic := b.addTopic("alerts", 1)
	c := dialFake(t, b)
	p := openProducer(t, c, "alerts", WithBatchMessages(1))
	g := newGate()
	b.onRequest(func(fc *fakeConn, h wire.Header, body []byte) fault {
		if fc.shard == 0 {
			return g.hold(fc, h, body)
		}
		return pass
	})
	defer g.open()
	ctx := testContext(t)
	if _, err := p.Append(ctx, value("v0")); err != nil {
		t.Fatal(err)
	}
	<-g.arrived
	moved := topicOf(&wire.TopicMetadata{Name: "alerts", ID: topic.id, PartitionShards: []uint16{1}})
	p.moved(&moved)
	for i := 1; i < 10; i++ {
		if _, err := p.Append(ctx, value("v%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	// When this is answered, whatever was sent there before is stored.
	qs := []offsetQuery{{topic: &moved, time: wire.TimeEnd}}
	if err := c.listOffsets(ctx, qs); err != nil || qs[0].offset != 0 {
		t.Fatalf("offset %d on the new shard before the old one has answered, %v", qs[0].offset, err)
	}
	g.open()
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Send(ctx, value("v10")); err != nil {
		t.Fatal(err)
	}
	if got := b.values("alerts", 0); !slices.Equal(got, numbered(0, 11)) {
		t.Fatalf("%q", got)
	}
	if now, next := p.lanes()[0].Route(); now == c.control || next != nil {
		t.Fatal("the partition has not moved")
	}
}

func TestAProducerFindsATopicThatWasCreatedAgain(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	c := dialFake(t, b)
	p := openProducer(t, c, "alerts")
	ctx := testContext(t)
	if _, err := p.Send(ctx, value("old")); err != nil {
		t.Fatal(err)
	}
	if err := c.Admin().DeleteTopic(ctx, "alerts"); err != nil {
		t.Fatal(err)
	}
	b.addTopic("other", 1)
	b.addTopic("alerts", 1) // with another id
	_, err := p.Send(ctx, value("lost"))
	wantError(t, err, ErrUnknownTopic)
	eventually(t, "the producer uses the new id", func() bool {
		_, err := p.Send(ctx, value("new"))
		return err == nil
	})
	if got := b.values("alerts", 0); !slices.Equal(got, []string{"new"}) {
		t.Fatalf("%q", got)
	}
}

func TestAdminManagesTopics(t *testing.T) {
	b := newFakeBroker(t)
	c := dialFake(t, b)
	a := c.Admin()
	ctx := testContext(t)
	id, err := a.CreateTopic(ctx, TopicSpec{Name: "alerts", Partitions: 3, Class: ClassWritten, Configs: map[string]string{"segment.bytes": "1048576", "a": "b"}})
	if err != nil || id.IsZero() {
		t.Fatalf("%v, %v", id, err)
	}
	_, err = a.CreateTopic(ctx, TopicSpec{Name: "alerts"})
	wantError(t, err, ErrTopicExists, "alerts")
	d, err := a.DescribeTopic(ctx, "alerts")
	if err != nil || d.Class != ClassWritten || d.ID != id || d.TopicInfo.Partitions != 3 || len(d.Partitions) != 3 {
		t.Fatalf("%+v, %v", d, err)
	}
	keys := []string{d.Configs[0].Key, d.Configs[1].Key, d.Configs[2].Key}
	if !slices.Equal(keys, []string{"a", "segment.bytes", "durability"}) {
		t.Fatalf("settings %v", keys)
	}
	if err := a.AlterTopic(ctx, "alerts", map[string]string{"durability": "flushed"}); err != nil {
		t.Fatal(err)
	}
	b.put("alerts", 1, CompressNone, numbered(0, 4)...)
	at, err := a.ListOffsets(ctx, "alerts", End())
	if err != nil || len(at) != 3 || at[0].Offset != 0 || at[1].Offset != 4 || !at[1].Time.IsZero() {
		t.Fatalf("%+v, %v", at, err)
	}
	at, err = a.ListOffsets(ctx, "alerts", Time(time.UnixMilli(1_500)))
	if err != nil || at[1].Offset != 2 || !at[1].Time.Equal(time.UnixMilli(2_000)) {
		t.Fatalf("%+v, %v", at, err)
	}
	list, err := a.ListTopics(ctx)
	if err != nil || len(list) != 1 || list[0] != (TopicInfo{Name: "alerts", ID: id, Class: ClassWritten, Partitions: 3}) {
		t.Fatalf("%+v, %v", list, err)
	}
	if err := a.DeleteTopic(ctx, "alerts"); err != nil {
		t.Fatal(err)
	}
	wantError(t, a.DeleteTopic(ctx, "alerts"), ErrUnknownTopic)
	wantError(t, a.AlterTopic(ctx, "alerts", nil), ErrUnknownTopic)
	_, err = a.DescribeTopic(ctx, "alerts")
	wantError(t, err, ErrUnknownTopic)
	_, err = a.ListOffsets(ctx, "alerts", Start())
	wantError(t, err, ErrUnknownTopic)
	_, err = a.ListOffsets(ctx, "alerts", Offset(3))
	wantError(t, err, ErrInvalid)
	for _, spec := range []TopicSpec{
		{Name: "a/b"}, {Name: "x", Partitions: -1}, {Name: "x", Configs: map[string]string{"": "v"}},
		{Name: "x", Class: ClassFlushed, Configs: map[string]string{"durability": "memory"}},
		{Name: "x", Configs: map[string]string{"k": strings.Repeat("v", 1<<16)}},
	} {
		_, err := a.CreateTopic(ctx, spec)
		wantError(t, err, ErrInvalid)
	}
}

func TestAChangeThatWasNotAnsweredIsUnknownAndAReadIsMadeAgain(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	c := dialFake(t, b)
	ctx := testContext(t)
	var mu sync.Mutex
	drop := map[wire.Op]bool{wire.OpTopicCreate: true, wire.OpTopicDescribe: true, wire.OpMetadata: true, wire.OpListOffsets: true}
	b.onRequest(func(_ *fakeConn, h wire.Header, _ []byte) fault {
		mu.Lock()
		defer mu.Unlock()
		if drop[h.Op] {
			drop[h.Op] = false
			return dropAfter
		}
		return pass
	})
	_, err := c.Admin().CreateTopic(ctx, TopicSpec{Name: "new"})
	wantError(t, err, ErrOutcomeUnknown, "topic-create new")
	if d, err := c.Admin().DescribeTopic(ctx, "new"); err != nil || len(d.Partitions) != 1 {
		t.Fatalf("%+v, %v", d, err)
	}
	if list, err := c.Admin().ListTopics(ctx); err != nil || len(list) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	if _, err := c.Admin().ListOffsets(ctx, "new", End()); err != nil {
		t.Fatal(err)
	}
	b.setDown(true)
	eventually(t, "the connection is gone", func() bool { return c.Stats().ConnectionsNow == 0 })
	ended, cancel := context.WithCancel(ctx)
	cancel()
	err = c.Admin().DeleteTopic(ended, "new")
	if !errors.Is(err, context.Canceled) || errors.Is(err, ErrOutcomeUnknown) {
		t.Fatalf("a change that never was sent: %v", err)
	}
	b.setDown(false)
	if d, err := c.Admin().DescribeTopic(ctx, "new"); err != nil || d.Name != "new" {
		t.Fatalf("what was withdrawn was carried out: %v", err)
	}
}

func TestHooksAndLoggerTellWhatHappens(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	var mu sync.Mutex
	var sends []SendInfo
	var fetches []FetchInfo
	var log bytes.Buffer
	c := dialFake(t, b, WithLogger(nil), WithLogger(slog.New(slog.NewTextHandler(&lockedWriter{mu: &mu, b: &log}, nil))), WithHooks(Hooks{
		OnSend:  func(_ context.Context, s SendInfo) { mu.Lock(); sends = append(sends, s); mu.Unlock() },
		OnFetch: func(_ context.Context, f FetchInfo) { mu.Lock(); fetches = append(fetches, f); mu.Unlock() },
	}))
	p := openProducer(t, c, "alerts")
	ctx := testContext(t)
	if _, err := p.SendBatch(ctx, []Record{value("a"), value("b")}); err != nil {
		t.Fatal(err)
	}
	collect(t, openConsumer(t, c, Topics("alerts")), 2)
	eventually(t, "hooks were called", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(sends) > 0 && len(fetches) > 0
	})
	mu.Lock()
	defer mu.Unlock()
	s, f := sends[0], fetches[0]
	if s.Topic != "alerts" || s.Records != 2 || s.Bytes < 61+36 || s.BaseOffset != 0 || s.Class != ClassFlushed ||
		s.Err != nil || s.AppendTime.IsZero() || s.Queued <= 0 || s.Answered <= 0 {
		t.Errorf("%+v", s)
	}
	if f.Topic != "alerts" || f.Offset != 0 || f.Bytes < 61 || f.Durable != 2 || f.Err != nil || f.Took <= 0 {
		t.Errorf("%+v", f)
	}
	if !strings.Contains(log.String(), "connected") {
		t.Errorf("log: %s", log.String())
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	b  *bytes.Buffer
}

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}
