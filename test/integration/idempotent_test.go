package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/test/process"
	"github.com/mqd-broker/mqd/test/rig"
)

// lossy is a connection that breaks after some reads, with what the last of them has got.
type lossy struct {
	net.Conn
	left atomic.Int32
}

var errLossy = errors.New("the test has broken the connection")

func (c *lossy) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.left.Add(-1) < 0 {
		_ = c.Close()
		return 0, errLossy
	}
	return n, err
}

// mortal is a broker that is killed and started again, over the same directory.
type mortal struct {
	t    *testing.T
	dir  string
	args []string // further arguments of mqd serve
	p    *process.Broker
	addr atomic.Pointer[string]
}

func (m *mortal) start() {
	m.t.Helper()
	p, err := process.Start(process.Config{Binary: rig.Binary(m.t), Dir: m.dir, Args: append(strings.Fields("--journal-size 8MiB --cache-size 8MiB --shards 2"), m.args...)})
	if err != nil {
		m.t.Fatal(err)
	}
	m.p = p
	m.t.Cleanup(func() { _ = p.Kill() }) // it may have ended before
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	addr, _, err := p.Ready(ctx)
	if err != nil {
		m.t.Fatal(err)
	}
	m.addr.Store(&addr)
}

// dial opens a connection to the broker as it is now, which breaks after at most a number
// of reads; 0: it does not.
func (m *mortal) dial(reads int) client.Dialer {
	return func(ctx context.Context, _ string) (net.Conn, error) {
		var d net.Dialer
		nc, err := d.DialContext(ctx, "tcp", *m.addr.Load())
		if err != nil || reads == 0 {
			return nc, err
		}
		c := &lossy{Conn: nc}
		c.left.Store(int32(1 + rand.IntN(reads)))
		return c, nil
	}
}

func (m *mortal) client(ctx context.Context, reads int) *client.Client {
	m.t.Helper()
	for {
		c, err := client.Dial(ctx, []string{"broker:1"}, client.WithDialer(m.dial(reads)), client.WithBackoff(time.Millisecond, 20*time.Millisecond))
		if err == nil {
			return c
		}
		if ctx.Err() != nil {
			m.t.Fatal(err)
		}
	}
}

// A broker is killed again and again under idempotent producers whose connections break,
// mostly with answers on the way. Everything is there in the end, once and in order.
func TestIdempotentProducersWriteNothingTwice(t *testing.T) {
	rig.NeedDriver(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	m := &mortal{t: t, dir: rig.DataDir(t)}
	m.start()
	sound := m.client(ctx, 0)
	if _, err := sound.Admin().CreateTopic(ctx, client.TopicSpec{Name: "once", Partitions: 3}); err != nil {
		t.Fatal(err)
	}
	c := m.client(ctx, 40)
	var p *client.Producer
	for p == nil {
		var err error
		if p, err = c.Producer("once", client.WithIdempotence(), client.WithBatchMessages(8)); err != nil && ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	const writers = 4
	var all sync.WaitGroup
	var stop atomic.Bool
	sent := make([]int, writers)
	for w := range writers {
		all.Go(func() {
			for n := 0; !stop.Load(); n++ {
				key := []byte{byte('a' + w)}
				if _, err := p.Append(ctx, client.Record{Key: key, Value: fmt.Appendf(nil, "%d/%d", w, n)}); err != nil {
					t.Errorf("writer %d: %v", w, err)
					return
				}
				sent[w]++
				if n%8 == 0 {
					time.Sleep(time.Millisecond) // so that batches are small, and many
				}
			}
		})
	}
	for range 3 {
		time.Sleep(250 * time.Millisecond)
		if err := m.p.Kill(); err != nil {
			t.Fatal(err)
		}
		m.start()
	}
	stop.Store(true)
	all.Wait()
	if err := p.Close(ctx); err != nil {
		t.Fatalf("the producer could not end: %v", err)
	}
	reader := m.client(ctx, 0) // whose connection no death has broken
	m.mustReadOnce(ctx, reader, sent)
	for _, c := range []*client.Client{c, sound, reader} {
		if err := c.Close(ctx); err != nil {
			t.Error(err)
		}
	}
}

// mustReadOnce reads the topic: what each writer has sent, in order, and nothing else.
func (m *mortal) mustReadOnce(ctx context.Context, c *client.Client, sent []int) {
	m.t.Helper()
	total := 0
	for _, n := range sent {
		total += n
	}
	in, err := c.Consumer(client.Topics("once"), client.From(client.Start()))
	if err != nil {
		m.t.Fatal(err)
	}
	next := make([]int, len(sent))
	for read := 0; read < total; {
		b, err := in.Poll(ctx)
		if err != nil {
			m.t.Fatalf("after %d of %d records: %v", read, total, err)
		}
		for r := range b.Records() {
			var w, n int
			if _, err := fmt.Sscanf(string(r.Value), "%d/%d", &w, &n); err != nil || n != next[w] {
				m.t.Fatalf("%s/%d at %d: record %q, expected number %d (%v)", b.Topic, b.Partition, r.Offset, r.Value, next[w], err)
			}
			next[w]++
			read++
		}
		b.Release()
	}
	d, err := c.Admin().DescribeTopic(ctx, "once")
	if err != nil {
		m.t.Fatal(err)
	}
	for _, partition := range d.Partitions {
		total -= int(partition.End)
	}
	if total != 0 {
		m.t.Fatalf("the log has %d records more than were sent", -total)
	}
	m.t.Logf("%v records of the writers, once and in order", sent)
}
