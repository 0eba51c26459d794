package integration

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/net/wire"
	"github.com/mqd-broker/mqd/test/process"
	"github.com/mqd-broker/mqd/test/rig"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }

// patience bounds every wait for something that has to happen.
const patience = 60 * time.Second

// What the brokers of these tests may use.
const (
	cacheBytes  = 8 << 20  // --cache-size
	goBytes     = 64 << 20 // --memory-limit
	journalSize = 8 << 20
)

// broker is a running broker.
type broker struct {
	t    *testing.T
	p    *process.Broker
	addr string

	adminOf   *process.Broker // whose admin HTTP is at adminAddr
	adminAddr string
}

// start starts a broker, and ends it in order when the test is over: whatever
// clients have done, it must be able to.
func start(t *testing.T, args ...string) *broker {
	t.Helper()
	rig.NeedDriver(t)
	args = append([]string{"--shards", "2", "--journal-size", "8MiB", "--cache-size", "8MiB", "--memory-limit", "64MiB", "--recv-buffers", "64"}, args...)
	p, err := process.Start(process.Config{Binary: rig.Binary(t), Dir: rig.DataDir(t), Args: args})
	if err != nil {
		t.Fatal(err)
	}
	b := &broker{t: t, p: p}
	t.Cleanup(b.stop)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if b.addr, _, err = p.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *broker) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := b.p.Stop(ctx); err != nil {
		b.t.Error(err)
	}
	if log := b.p.LogTail(); strings.Contains(log, "panic") || strings.Contains(log, "BUG") {
		b.t.Errorf("the broker said: %s", log)
	}
}

// open opens a connection and says hello on it.
func (b *broker) open() *rig.Conn {
	b.t.Helper()
	c, err := rig.Open(context.Background(), b.addr)
	if err != nil {
		b.t.Fatalf("no connection: %v; the broker said: %s", err, b.p.LogTail())
	}
	b.t.Cleanup(func() { _ = c.Close() }) // it may be closed already
	return c
}

// dial opens a connection and says nothing.
func (b *broker) dial() *rig.Conn {
	b.t.Helper()
	c, err := rig.Dial(context.Background(), b.addr)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = c.Close() }) // it may be closed already
	return c
}

// topic creates a topic.
func (b *broker) topic(name string, partitions uint32, configs ...wire.Config) wire.TopicID {
	b.t.Helper()
	id, err := b.open().CreateTopic(name, partitions, configs...)
	if err != nil {
		b.t.Fatal(err)
	}
	return id
}

// mustServe appends a message to a partition and reads it back.
func (b *broker) mustServe(c *rig.Conn, id wire.TopicID) {
	b.t.Helper()
	r, err := c.Produce(wire.ProduceRequest{Topic: id, Batch: batchOf("still here")})
	if err != nil || r.Code != wire.CodeNone {
		b.t.Fatalf("produce: %v, %+v; the broker said: %s", err, r, b.p.LogTail())
	}
	f, err := c.Fetch(wire.FetchRequest{Topic: id, Offset: r.BaseOffset, MaxWait: 5000, MinBytes: 1})
	if err != nil || f.Code != wire.CodeNone {
		b.t.Fatalf("fetch: %v, code %v", err, f.Code)
	}
	h, err := batch.CheckStored(f.Batches)
	if err != nil || h.BaseOffset != r.BaseOffset {
		b.t.Fatalf("fetched offset %d (%v), expected %d", h.BaseOffset, err, r.BaseOffset)
	}
}

// batchOf makes a batch of messages.
func batchOf(values ...string) []byte {
	b := batch.NewBuilder(nil, batch.MaxSize)
	for _, v := range values {
		if err := b.Append(&batch.Record{Timestamp: 1_700_000_000_000, Value: []byte(v)}); err != nil {
			panic(err) // the batch has room for what tests put into it
		}
	}
	return b.Finish(batch.CodecNone)
}

// wait waits until a condition holds.
func (b *broker) wait(what string, holds func() bool) {
	b.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			b.t.Fatalf("waited %v until %s", patience, what)
		}
	}
}

// pause lets others go on.
func pause(ctx context.Context) {
	tick := time.NewTimer(time.Millisecond)
	defer tick.Stop()
	select {
	case <-tick.C:
	case <-ctx.Done():
	}
}

// memory is what the process weighs.
func (b *broker) memory() rig.Memory {
	b.t.Helper()
	m, err := rig.ReadMemory(b.p.PID())
	if err != nil {
		b.t.Fatal(err)
	}
	return m
}
