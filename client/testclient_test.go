package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/net/wire"
)

// testContext ends before the test binary gives up, so that a call that hangs
// says where.
func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// dialFake connects a client to b and closes it with the test.
func dialFake(t testing.TB, b *fakeBroker, opts ...Option) *Client {
	t.Helper()
	base := []Option{WithDialer(b.dial), WithBackoff(time.Millisecond, 5*time.Millisecond)}
	c, err := Dial(testContext(t), []string{"fake:1"}, append(base, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // nothing to wait for any more
		_ = c.Close(ctx)
	})
	return c
}

// withoutReturn has a client that has lost its broker not look for it, where what it
// allocates for that would be counted: the more, the slower the machine is.
var withoutReturn = WithBackoff(time.Hour, time.Hour)

func openProducer(t testing.TB, c *Client, topic string, opts ...ProducerOption) *Producer {
	t.Helper()
	p, err := c.Producer(topic, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func openConsumer(t testing.TB, c *Client, opts ...ConsumerOption) *Consumer {
	t.Helper()
	co, err := c.Consumer(opts...)
	if err != nil {
		t.Fatal(err)
	}
	return co
}

// value is a record with only a value.
func value(format string, args ...any) Record {
	return Record{Value: fmt.Appendf(nil, format, args...)}
}

// gate holds produce requests until it is opened.
type gate struct {
	mu      sync.Mutex
	opened  chan struct{}
	arrived chan struct{}
}

func newGate() *gate { return &gate{opened: make(chan struct{}), arrived: make(chan struct{}, 1024)} }

// hold is a hook for fakeBroker.onRequest.
func (g *gate) hold(_ *fakeConn, h wire.Header, _ []byte) fault {
	if h.Op == wire.OpProduce {
		g.arrived <- struct{}{}
		<-g.opened
	}
	return pass
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.opened:
	default:
		close(g.opened)
	}
}

// collect polls until n records have come, and fails on errors.
func collect(t testing.TB, co *Consumer, n int) []string {
	t.Helper()
	var got []string
	ctx := testContext(t)
	for len(got) < n {
		b, err := co.Poll(ctx)
		if err != nil {
			t.Fatalf("after %d of %d records: %v", len(got), n, err)
		}
		got = appendValues(got, b)
	}
	return got
}

func appendValues(got []string, b *Batch) []string {
	for r := range b.Records() {
		got = append(got, string(r.Value))
	}
	b.Release()
	return got
}

// wantError fails unless err is target and its text has every word.
func wantError(t testing.TB, err, target error, words ...string) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("got %v, want %v", err, target)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Fatalf("%q does not say %q", err, w)
		}
	}
}

// eventually polls a condition that another goroutine brings about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ctx := testContext(t)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("never: %s", what)
		}
	}
}
