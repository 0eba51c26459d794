package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/net/wire"
	"github.com/mqd-broker/mqd/test/rig"
)

// boundBytes is the most that a broker of these tests may weigh: what it was given
// for Go's heap and for its cache, and for each of its two shards I/O memory
// (receive buffers, rounds, answers), stacks and code.
const boundBytes = goBytes + cacheBytes + 2*(64<<20) + 64<<20

func (b *broker) mustBeBounded() {
	b.t.Helper()
	m := b.memory()
	b.t.Logf("resident memory: %d MiB, at most %d MiB", m.Resident>>20, m.ResidentPeak>>20)
	if m.ResidentPeak > boundBytes && !rig.RaceEnabled() {
		b.t.Errorf("the broker weighed %d MiB, expected at most %d MiB", m.ResidentPeak>>20, boundBytes>>20)
	}
}

// fill appends about size bytes to partition 0, in large batches.
func (b *broker) fill(id wire.TopicID, size int) {
	b.t.Helper()
	c := b.open()
	rng := rand.New(rand.NewPCG(1, 2))
	value := make([]byte, 4<<10)
	for i := range value {
		value[i] = byte(rng.Uint32())
	}
	values := make([]string, 64)
	for i := range values {
		values[i] = string(value)
	}
	for done := 0; done < size; {
		f := batchOf(values...)
		r, err := c.Produce(wire.ProduceRequest{Topic: id, Batch: f})
		if err != nil || r.Code != wire.CodeNone {
			b.t.Fatalf("produce: %v, %v", r.Code, err)
		}
		done += len(f)
	}
}

func TestReadersThatDoNotReadHoldUpNobody(t *testing.T) {
	const readers, requests = 30, 200
	b := start(t)
	id := b.topic("slow", 1)
	b.fill(id, 48<<20)
	before := b.memory()
	var slow []*rig.Conn
	for range readers {
		c := b.open()
		slow = append(slow, c)
		var all []byte
		for range requests {
			all = wire.AppendFetchRequest(all, c.Next(), &wire.FetchRequest{Topic: id, MaxBytes: 4 << 20, MaxRecords: 1 << 20})
		}
		// The broker may stop taking requests of a client that takes no answers.
		if _, err := c.WriteUntil(all, time.Now().Add(200*time.Millisecond)); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			var timeout interface{ Timeout() bool }
			if !errors.As(err, &timeout) || !timeout.Timeout() {
				t.Fatal(err)
			}
		}
	}
	c := b.open()
	for range 60 {
		b.mustServe(c, id)
	}
	after := b.memory()
	t.Logf("%d readers asked for %d MiB; resident memory went from %d to %d MiB", readers, readers*requests*4, before.Resident>>20, after.Resident>>20)
	b.mustBeBounded()
	// Those that others did not have to wait for read after all, and get what they
	// asked for.
	patient := 0
	for _, c := range slow {
		h, body, err := c.Read()
		if gone(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if f, err := wire.DecodeFetchResponse(body); err != nil || f.Code != wire.CodeNone || len(f.Batches) == 0 {
			t.Fatalf("answer to %d: %v, %v, %d bytes", h.Correlation, f.Code, err, len(f.Batches))
		}
		patient++
	}
	t.Logf("%d of them were not ended", patient)
	for _, c := range slow {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	b.mustServe(c, id)
}

func TestAHundredConnectionsAreServedAndLeaveNothingBehind(t *testing.T) {
	const connections, messages = 100, 20
	b := start(t)
	id := b.topic("crowd", 4)
	c := b.open()
	b.mustServe(c, id)
	sockets, err := rig.OpenSockets(b.p.PID())
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	errs := make(chan error, connections)
	for n := range connections {
		all.Go(func() { errs <- b.visit(id, n, messages) })
	}
	all.Wait()
	for range connections {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	sum := int64(0)
	for p := range int32(4) {
		_, end, err := c.Bounds(id, p)
		if err != nil {
			t.Fatal(err)
		}
		sum += end
	}
	if want := int64(connections*messages + 1); sum != want {
		t.Errorf("%d messages, expected %d", sum, want)
	}
	b.wait("the connections' sockets are closed", func() bool {
		n, err := rig.OpenSockets(b.p.PID())
		return err == nil && n <= sockets
	})
	b.mustBeBounded()
	b.mustServe(c, id)
}

// visit is one client: it produces and reads its messages back.
func (b *broker) visit(id wire.TopicID, n, messages int) (err error) {
	c, err := rig.Open(context.Background(), b.addr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	p := int32(n % 4)
	for i := range messages {
		r, err := c.Produce(wire.ProduceRequest{Topic: id, Partition: p, Batch: batchOf(fmt.Sprintf("%d from %d", i, n))})
		if err != nil || r.Code != wire.CodeNone {
			return fmt.Errorf("client %d: produce: %v, %w", n, r.Code, err)
		}
		f, err := c.Fetch(wire.FetchRequest{Topic: id, Partition: p, Offset: r.BaseOffset, MaxWait: 10_000, MinBytes: 1})
		if err != nil || f.Code != wire.CodeNone || len(f.Batches) == 0 {
			return fmt.Errorf("client %d: fetch at %d: %v, %d bytes, %w", n, r.BaseOffset, f.Code, len(f.Batches), err)
		}
	}
	return nil
}

func TestConnectionsBeyondTheLimitAreTurnedAway(t *testing.T) {
	const limit = 20
	b := start(t, "--max-connections", fmt.Sprint(limit))
	held := []*rig.Conn{b.open()}
	id, err := held[0].CreateTopic("limited", 1)
	if err != nil {
		t.Fatal(err)
	}
	for len(held) < limit {
		held = append(held, b.open())
	}
	for range 3 * limit {
		c := b.dial()
		if err := c.Handshake(); err == nil {
			t.Fatalf("a connection above %d was taken", limit)
		}
		_ = c.Close() // it is closed already
	}
	for _, c := range held {
		b.mustServe(c, id)
	}
	// A place that has become free is given away again.
	if err := held[limit-1].Close(); err != nil {
		t.Fatal(err)
	}
	b.wait("another client gets the place", func() bool {
		c := b.dial()
		if c.Handshake() != nil {
			_ = c.Close() // it is closed already
			return false
		}
		b.mustServe(c, id)
		return true
	})
}

func TestConnectionsThatSayNothingHoldUpNobody(t *testing.T) {
	b := start(t)
	id := b.topic("silent", 1)
	for range 100 {
		b.dial()
	}
	// These have begun to say something.
	for n := range 100 {
		c := b.open()
		f := wire.AppendProduceRequest(nil, corr, &wire.ProduceRequest{Topic: id, Batch: batchOf("begun")})
		if err := c.Write(f[:1+n%len(f)]); err != nil {
			t.Fatal(err)
		}
	}
	c := b.open()
	for range 100 {
		b.mustServe(c, id)
	}
	b.mustBeBounded()
}
