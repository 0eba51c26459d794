package mqdtest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/client/mqdtest"
)

func record(format string, args ...any) client.Record {
	return client.Record{Value: fmt.Appendf(nil, format, args...)}
}

// values are what a topic holds.
func values(b *mqdtest.Broker, topic string) []string {
	var all []string
	for _, m := range b.ReadAll(topic) {
		all = append(all, string(m.Value))
	}
	return all
}

func want(t *testing.T, got []string, expected ...string) {
	t.Helper()
	if !slices.Equal(got, expected) {
		t.Fatalf("got %q, want %q", got, expected)
	}
}

// eventually asks until it is so, or the test ends.
func eventually(t *testing.T, what string, ok func(context.Context) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for !ok(ctx) {
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("never: %s", what)
		}
	}
}

func TestATopicHoldsWhatWasSentInOrderOfPartitionAndOffset(t *testing.T) {
	t.Parallel()
	b := mqdtest.New(t, mqdtest.WithShards(2))
	b.CreateTopic("orders", 3)
	p, err := b.Client().Producer("orders", client.WithPartitioner(func(key []byte, _ int32) int32 { return int32(key[0] - '0') }))
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"2", "0", "1", "0"} {
		r := record("for %s", key)
		r.Key = []byte(key)
		r.Headers = []client.Header{{Key: "kind", Value: []byte("order")}}
		if _, err := p.Send(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	all := b.ReadAll("orders")
	var got []string
	for _, m := range all {
		got = append(got, fmt.Sprintf("%d/%d %s %s %s", m.Partition, m.Offset, m.Key, m.Value, m.Headers[0].Value))
	}
	want(t, got, "0/0 0 for 0 order", "0/1 0 for 0 order", "1/0 1 for 1 order", "2/0 2 for 2 order")
	b.CreateTopic("empty", 2)
	want(t, values(b, "empty"))
}

func TestWhatWasAcknowledgedOutlivesARestartAndACrash(t *testing.T) {
	t.Parallel()
	b := mqdtest.New(t)
	addr := b.Addr()
	b.CreateTopic("orders", 1)
	b.Send("orders", record("a"), record("b"))
	b.Restart()
	want(t, values(b, "orders"), "a", "b")
	b.Send("orders", record("c"))
	b.Crash()
	want(t, values(b, "orders"), "a", "b", "c")
	if b.Addr() != addr {
		t.Fatalf("the broker has moved from %s to %s", addr, b.Addr())
	}
}

// The end of a topic of class memory is a gap behind a crash: reading it ends all the same.
func TestACrashMayTakeFromClassMemory(t *testing.T) {
	t.Parallel()
	b := mqdtest.New(t)
	_, err := b.Client().Admin().CreateTopic(t.Context(), client.TopicSpec{Name: "ticks", Partitions: 1, Class: client.ClassMemory})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		b.Send("ticks", record("%d", i))
	}
	b.Crash()
	all := b.ReadAll("ticks")
	for i, m := range all {
		if m.Offset != int64(i) || string(m.Value) != fmt.Sprint(i) {
			t.Fatalf("offset %d holds %q", m.Offset, m.Value)
		}
	}
	b.Send("ticks", record("later"))
	last := b.ReadAll("ticks")[len(all)]
	if string(last.Value) != "later" || last.Offset < 100 {
		t.Fatalf("offset %d, which was given out before, holds %q", last.Offset, last.Value)
	}
}

func TestAClientLivesThroughAnOutage(t *testing.T) {
	t.Parallel()
	b := mqdtest.New(t)
	b.CreateTopic("orders", 1)
	c := b.Client(client.WithBackoff(time.Millisecond, 10*time.Millisecond))
	p, err := c.Producer("orders", client.WithIdempotence())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Send(t.Context(), record("before")); err != nil {
		t.Fatal(err)
	}
	b.Stop()
	ticket, err := p.Append(t.Context(), record("during"))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the client notices", func(context.Context) bool { return c.Stats().ConnectFailures > 0 })
	b.Start()
	if _, err := ticket.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, values(b, "orders"), "before", "during")
}

func TestAGroupGoesOnBehindACrash(t *testing.T) {
	t.Parallel()
	b := mqdtest.New(t)
	b.CreateTopic("orders", 1)
	b.Send("orders", record("done"))
	in, err := b.Client().Consumer(client.Group("shop"), client.Topics("orders"), client.WithAutoCommit(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	next := func() *client.Batch {
		for batch, err := range in.Batches(t.Context()) {
			if err == nil {
				return batch
			}
			t.Logf("passes: %v", err)
		}
		t.Fatal("the consumer has ended")
		return nil
	}
	batch := next()
	if err := batch.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	batch.Release()
	b.Crash()
	b.Send("orders", record("next"))
	batch = next()
	defer batch.Release()
	if batch.First != 1 {
		t.Fatalf("the group goes on at offset %d", batch.First)
	}
}

func TestOptionsReachTheBroker(t *testing.T) {
	t.Parallel()
	b := mqdtest.New(t, mqdtest.WithAutoCreate(3), mqdtest.WithMaxMessageBytes(8<<10), mqdtest.WithIdleTimeout(time.Minute))
	c := b.Client()
	var p *client.Producer
	eventually(t, "the topic is there", func(context.Context) bool {
		var err error
		p, err = c.Producer("made", client.WithMinClass(client.ClassFlushed))
		return err == nil
	})
	if n := p.Partitions(); n != 3 {
		t.Errorf("the topic has %d partitions", n)
	}
	if _, err := p.Send(t.Context(), client.Record{Value: make([]byte, 9<<10)}); !errors.Is(err, client.ErrTooLarge) {
		t.Errorf("a message above the limit: %v", err)
	}
}

// Brokers of one test know nothing of each other.
func TestBrokersAreApart(t *testing.T) {
	t.Parallel()
	one, two := mqdtest.New(t), mqdtest.New(t)
	one.CreateTopic("t", 1)
	two.CreateTopic("t", 1)
	one.Send("t", record("one"))
	two.Send("t", record("two"))
	want(t, values(one, "t"), "one")
	want(t, values(two, "t"), "two")
}

// loggedT keeps what goes to the log of a test.
type loggedT struct {
	exampleT
	mu   sync.Mutex
	text strings.Builder
}

func (l *loggedT) Output() io.Writer { return l }

func (l *loggedT) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *loggedT) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestTheLogTellsOfTroublesAndNotOfOrders(t *testing.T) {
	t.Parallel()
	log := &loggedT{}
	defer log.end()
	b := mqdtest.New(log, mqdtest.InMemory())
	b.CreateTopic("orders", 1)
	b.Send("orders", record("a"))
	b.Crash()
	b.CutPower()
	b.Send("orders", record("b"))
	if text := log.String(); text != "" {
		t.Errorf("the broker says: %s", text)
	}
	p, err := b.Client().Producer("orders")
	if err != nil {
		t.Fatal(err)
	}
	b.FailDevice()
	if _, err := p.Send(t.Context(), record("c")); err == nil {
		t.Fatal("acknowledged")
	}
	eventually(t, "the broker says that its disk has failed", func(context.Context) bool { return log.String() != "" })
}
