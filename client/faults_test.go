package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mqd-broker/mqd/net/wire"
)

func TestAConnectionThatDiesBeforeTheAckIsAnUnknownOutcome(t *testing.T) {
	for name, f := range map[string]fault{"before the append": dropBefore, "after the append": dropAfter} {
		t.Run(name, func(t *testing.T) {
			b := newFakeBroker(t)
			b.addTopic("alerts", 1)
			c := dialFake(t, b)
			p := openProducer(t, c, "alerts")
			ctx := testContext(t)
			var once sync.Once
			b.onRequest(func(_ *fakeConn, h wire.Header, _ []byte) (now fault) {
				if h.Op == wire.OpProduce {
					once.Do(func() { now = f })
				}
				return now
			})
			_, err := p.Send(ctx, value("lost"))
			wantError(t, err, ErrOutcomeUnknown, "alerts/0")
			var e *Error
			if !errors.As(err, &e) || !errors.Is(err, ErrDisconnected) || e.Code != wire.CodeNone {
				t.Fatalf("%+v", e)
			}
			if _, err := p.Send(ctx, value("next")); err != nil {
				t.Fatalf("after the reconnect: %v", err)
			}
			want := []string{"next"}
			if f == dropAfter {
				want = []string{"lost", "next"}
			}
			if got := b.values("alerts", 0); !slices.Equal(got, want) {
				t.Fatalf("stored %q, want %q: what was sent is never sent again", got, want)
			}
			if s := c.Stats(); s.BatchesUnknown != 1 || s.BatchesAcked != 1 || s.Connects != 2 {
				t.Fatalf("%+v", s)
			}
		})
	}
}

func TestWhatIsQueuedDuringAnOutageIsSentInOrderAfterIt(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	c := dialFake(t, b)
	p := openProducer(t, c, "alerts", WithBatchMessages(3))
	ctx := testContext(t)
	b.setDown(true)
	eventually(t, "the connection is gone", func() bool { return c.Stats().ConnectionsNow == 0 })
	for i := range 50 {
		if _, err := p.Append(ctx, value("v%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	b.setDown(false)
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if got := b.values("alerts", 0); !slices.Equal(got, numbered(0, 50)) {
		t.Fatalf("stored %q", got)
	}
}

// deadlineConn remembers the write deadline in force.
type deadlineConn struct {
	net.Conn
	mu sync.Mutex
	at time.Time
}

func (c *deadlineConn) SetWriteDeadline(at time.Time) error {
	c.mu.Lock()
	c.at = at
	c.mu.Unlock()
	return c.Conn.SetWriteDeadline(at)
}

func (c *deadlineConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() && bytes.Equal(p[4:6], []byte{byte(wire.OpProduce), 1}) {
		return 0, errors.New("a write without a bound")
	}
	return c.Conn.Write(p)
}

func TestAWriteIsBoundedAndLeavesNoDeadlineBehind(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	conn := &deadlineConn{}
	b.wrap = func(nc net.Conn) net.Conn {
		conn.Conn = nc
		return conn
	}
	p := openProducer(t, dialFake(t, b), "alerts")
	if _, err := p.Send(testContext(t), value("x")); err != nil {
		t.Fatal(err)
	}
	// One that passes later would fail the next write that does not wait.
	eventually(t, "no deadline", func() bool {
		conn.mu.Lock()
		defer conn.mu.Unlock()
		return conn.at.IsZero()
	})
}

// cutConn writes only a part of what goes beyond a number of bytes, and dies.
type cutConn struct {
	net.Conn
	mu   sync.Mutex
	left int
}

func (c *cutConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(p) <= c.left {
		c.left -= len(p)
		return c.Conn.Write(p)
	}
	n, _ := c.Conn.Write(p[:c.left])
	c.left = 0
	_ = c.Conn.Close()
	return n, errors.New("cut")
}

func TestAFrameThatWasNotWrittenWholeIsSentOnTheNextConnection(t *testing.T) {
	hello := len(wire.AppendHelloRequest(nil, 0, wire.HelloRequest{}))
	metadata := len(wire.AppendMetadataRequest(nil, 0, wire.MetadataRequest{Topics: []string{"alerts"}}))
	for cut := 0; cut < 160; cut += 13 {
		b := newFakeBroker(t)
		b.addTopic("alerts", 1)
		first := true
		b.wrap = func(nc net.Conn) net.Conn {
			if !first {
				return nc
			}
			first = false
			return &cutConn{Conn: nc, left: hello + metadata + cut}
		}
		p := openProducer(t, dialFake(t, b), "alerts")
		// The frame has 36 bytes before the batch, the batch 61 before its record.
		pos, err := p.Send(testContext(t), value("%s", strings.Repeat("x", 100)))
		if err != nil || pos.Offset != 0 {
			t.Fatalf("cut after %d bytes: %+v, %v", cut, pos, err)
		}
		if n := len(b.values("alerts", 0)); n != 1 {
			t.Fatalf("cut after %d bytes: stored %d times", cut, n)
		}
	}
}

func TestCloseEndsEverything(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	c := dialFake(t, b)
	p := openProducer(t, c, "alerts", WithMaxInFlight(1))
	co := openConsumer(t, c, Topics("alerts"))
	ctx := testContext(t)
	b.onRequest(func(_ *fakeConn, h wire.Header, _ []byte) fault {
		if h.Op == wire.OpProduce {
			return swallow
		}
		return pass
	})
	sent, err := p.Append(ctx, value("sent"))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "a frame on its way", func() bool { return c.Stats().BatchBufferNow == 0 })
	queued, err := p.Append(ctx, value("queued"))
	if err != nil {
		t.Fatal(err)
	}
	polled := make(chan error, 1)
	go func() {
		_, err := co.Poll(ctx)
		polled <- err
	}()
	ended, cancel := context.WithCancel(ctx)
	cancel()
	wantError(t, c.Close(ended), ErrOutcomeUnknown)
	_, err = sent.Wait(ctx)
	wantError(t, err, ErrOutcomeUnknown)
	_, err = queued.Wait(ctx)
	wantError(t, err, ErrClosed)
	if errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("what was never sent has a known outcome: %v", err)
	}
	wantError(t, <-polled, ErrClosed)
	_, err = p.Send(ctx, value("late"))
	wantError(t, err, ErrClosed)
	_, err = c.Producer("alerts")
	wantError(t, err, ErrClosed)
	_, err = c.Admin().ListTopics(ctx)
	wantError(t, err, ErrClosed)
	if err := c.Close(ctx); err != nil {
		t.Errorf("a second Close: %v", err)
	}
	if used := c.Stats(); used.BatchBufferNow != 0 || used.ConnectionsNow != 0 {
		t.Errorf("left behind: %+v", used)
	}
}

func TestCloseSendsWhatIsQueued(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 2)
	c := dialFake(t, b)
	p := openProducer(t, c, "alerts")
	ctx := testContext(t)
	for i := range 500 {
		if _, err := p.Append(ctx, Record{Key: []byte{byte(i)}, Value: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if n := len(b.values("alerts", 0)) + len(b.values("alerts", 1)); n != 500 {
		t.Fatalf("%d of 500 records stored", n)
	}
}

// Whatever happens to connections: a record that was acknowledged is stored at
// its position, one whose outcome is known as failed is not stored, nothing is
// stored twice, and what is stored keeps its order.
func TestAcknowledgedRecordsAreWhereTheirTicketsSay(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newFakeBroker(t)
		if rapid.Bool().Draw(rt, "tcp") {
			b.listen()
		}
		b.addTopic("alerts", 2)
		c := dialFake(t, b)
		p := openProducer(t, c, "alerts",
			WithBatchMessages(rapid.IntRange(1, 8).Draw(rt, "messages")),
			WithMaxInFlight(rapid.IntRange(1, 4).Draw(rt, "window")))
		faults := rapid.SliceOfN(rapid.SampledFrom([]fault{pass, pass, pass, pass, dropBefore, dropAfter}), 0, 40).Draw(rt, "faults")
		var mu sync.Mutex
		b.onRequest(func(_ *fakeConn, h wire.Header, _ []byte) fault {
			mu.Lock()
			defer mu.Unlock()
			if h.Op != wire.OpProduce || len(faults) == 0 {
				return pass
			}
			f := faults[0]
			faults = faults[1:]
			return f
		})
		ctx := testContext(t)
		n := rapid.IntRange(1, 100).Draw(rt, "records")
		tickets := make([]Ticket, n)
		for i := range n {
			var err error
			if tickets[i], err = p.Append(ctx, Record{Key: []byte{byte(i % 3)}, Value: fmt.Appendf(nil, "%03d", i)}); err != nil {
				rt.Fatal(err)
			}
		}
		if err := p.Flush(ctx); err != nil && !errors.Is(err, ErrOutcomeUnknown) {
			rt.Fatal(err)
		}
		stored := map[string]Position{}
		for part := range 2 {
			last := ""
			for off, v := range b.values("alerts", part) {
				if _, twice := stored[v]; twice || v <= last {
					rt.Fatalf("%s at %d/%d: stored twice, or after %s", v, part, off, last)
				}
				stored[v], last = Position{Topic: "alerts", Partition: int32(part), Offset: int64(off)}, v
			}
		}
		for i, tk := range tickets {
			pos, err := tk.Wait(ctx)
			at, is := stored[fmt.Sprintf("%03d", i)]
			switch {
			case err == nil && (!is || pos != at):
				rt.Fatalf("record %d acknowledged at %+v, stored at %+v (%v)", i, pos, at, is)
			case err != nil && !errors.Is(err, ErrOutcomeUnknown):
				rt.Fatalf("record %d: %v", i, err)
			}
		}
		_ = c.Close(ctx)
		b.stop()
	})
}

func TestABrokerThatBreaksTheProtocolLosesItsConnectionOnly(t *testing.T) {
	broken := map[string]func(corr uint32) []byte{
		"an answer to nothing": func(corr uint32) []byte { return wire.AppendPingResponse(nil, corr+1000) },
		"another op's answer":  func(corr uint32) []byte { return wire.AppendPingResponse(nil, corr) },
		"a request":            func(corr uint32) []byte { return wire.AppendPingRequest(nil, corr) },
		"length 0":             func(uint32) []byte { return make([]byte, 12) },
		"length 0xffffffff":    func(uint32) []byte { return []byte("\xff\xff\xff\xff\x04\x01\x00\x01\x00\x00\x00\x01") },
		"a body that does not fit": func(corr uint32) []byte {
			return append(wire.AppendPingResponse(nil, corr)[:4:4], 4, 1, 0, 1, byte(corr>>24), byte(corr>>16), byte(corr>>8), byte(corr))
		},
	}
	for name, frame := range broken {
		t.Run(name, func(t *testing.T) {
			b := newFakeBroker(t)
			b.addTopic("alerts", 1)
			p := openProducer(t, dialFake(t, b), "alerts")
			ctx := testContext(t)
			var once sync.Once
			b.onRequest(func(c *fakeConn, h wire.Header, _ []byte) (now fault) {
				if h.Op == wire.OpProduce {
					once.Do(func() {
						c.send(frame(h.Correlation))
						now = swallow
					})
				}
				return now
			})
			_, err := p.Send(ctx, value("x"))
			wantError(t, err, ErrOutcomeUnknown)
			wantError(t, err, ErrProtocol)
			if _, err := p.Send(ctx, value("y")); err != nil {
				t.Fatalf("after the reconnect: %v", err)
			}
		})
	}
}

func TestAnErrorResponseEndsOnlyItsRequest(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	c := dialFake(t, b)
	p := openProducer(t, c, "alerts")
	noAck := openProducer(t, c, "alerts", WithoutAck())
	ctx := testContext(t)
	code := wire.CodeBackpressure
	b.onRequest(func(c *fakeConn, h wire.Header, _ []byte) fault {
		if h.Op == wire.OpHello || code == wire.CodeNone {
			return pass
		}
		c.send(wire.AppendErrorResponse(nil, h.Op, h.Correlation, code, "slow down"))
		return swallow
	})
	_, err := p.Send(ctx, value("x"))
	var e *Error
	if !errors.As(err, &e) || e.Code != code || !e.Retriable || e.OutcomeUnknown || !strings.Contains(err.Error(), "slow down") {
		t.Fatalf("%+v", err)
	}
	if _, err := noAck.Send(ctx, value("x")); err != nil {
		t.Fatal(err)
	}
	err = c.Admin().DeleteTopic(ctx, "alerts")
	if !errors.As(err, &e) || e.Code != code || e.Topic != "alerts" {
		t.Fatalf("%+v", err)
	}
	b.onRequest(nil)
	if _, err := p.Send(ctx, value("y")); err != nil {
		t.Fatal(err)
	}
	if s := c.Stats(); s.Connects != 1 {
		t.Fatalf("%d connections", s.Connects)
	}
}

func TestAStorageErrorLeavesTheOutcomeOpen(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	p := openProducer(t, dialFake(t, b), "alerts")
	b.onRequest(func(c *fakeConn, h wire.Header, _ []byte) fault {
		if h.Op != wire.OpProduce {
			return pass
		}
		c.send(wire.AppendProduceResponse(nil, h.Correlation, &wire.ProduceResponse{
			Code: wire.CodeStorageError, BaseOffset: -1, AppendTime: -1, ValidLow: -1, ValidHigh: -1, Message: "flush: input/output error",
		}))
		return swallow
	})
	_, err := p.Send(testContext(t), value("x"))
	wantError(t, err, ErrOutcomeUnknown, "StorageError", "input/output error")
	var e *Error
	if !errors.As(err, &e) || !e.Retriable || e.ValidLow != 0 || e.ValidHigh != 0 {
		t.Fatalf("%+v", e)
	}
}

func TestWritesAreCoalesced(t *testing.T) {
	b := newFakeBroker(t)
	b.listen()
	b.addTopic("alerts", 16)
	c := dialFake(t, b)
	p := openProducer(t, c, "alerts")
	ctx := testContext(t)
	b.setDown(true) // lets requests of all partitions queue
	eventually(t, "the connection is gone", func() bool { return c.Stats().ConnectionsNow == 0 })
	for i := range 1600 {
		if _, err := p.Append(ctx, Record{Key: fmt.Appendf(nil, "%d", i), Value: make([]byte, 100)}); err != nil {
			t.Fatal(err)
		}
	}
	before := c.Stats()
	b.setDown(false)
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	frames := uint64(len(b.produced))
	b.mu.Unlock()
	eventually(t, "all frames are counted", func() bool { return c.Stats().FramesSent-before.FramesSent >= frames })
	if writes := c.Stats().Writes - before.Writes; frames < 30 || writes*2 > frames {
		t.Fatalf("%d frames in %d writes", frames, writes)
	}
}

// slowConn takes a byte at a time, as a congested peer may.
type slowConn struct{ net.Conn }

func (c slowConn) Write(p []byte) (int, error) {
	for i := range p {
		if _, err := c.Conn.Write(p[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(p), nil
}

func (c slowConn) Read(p []byte) (int, error) { return c.Conn.Read(p[:min(len(p), 1)]) }

func TestFramesSurviveAStreamOfSingleBytes(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 2)
	b.wrap = func(nc net.Conn) net.Conn { return slowConn{nc} }
	c := dialFake(t, b)
	p := openProducer(t, c, "alerts")
	ctx := testContext(t)
	for i := range 40 {
		if _, err := p.Append(ctx, value("%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if got := collect(t, openConsumer(t, c, Topics("alerts")), 40); len(got) != 40 {
		t.Fatalf("%d records", len(got))
	}
}
