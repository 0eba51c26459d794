package node

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/engine/shard"
	"github.com/mqd-broker/mqd/net/wire"
)

func TestConnectionsOnSeveralShardsToOnePartitionKeepTheirOrder(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, small(shards))
		r.create(r.dial(), "t", 1, "flushed")
		const conns, batches, window = 7, 150, 20
		id := r.connect(anyShard).metadata("t").ID
		var all sync.WaitGroup
		for i := range conns {
			x := r.connect(int32(i % shards))
			all.Go(func() {
				open := []uint32{}
				last := int64(-1)
				for n := range batches + window {
					if n < batches {
						open = append(open, x.produce(id, 0, batchOf(t, stamp(i, n, 50), stamp(i, n, 900))))
					}
					if n < window {
						continue
					}
					a := x.produced(open[0])
					open = open[1:]
					if a.Code != wire.CodeNone || a.BaseOffset <= last {
						t.Errorf("connection %d: %v, offset %d after %d", i, a.Code, a.BaseOffset, last)
					}
					last = a.BaseOffset
				}
			})
		}
		all.Wait()
		x := r.connect(anyShard)
		next := map[uint32]uint64{} // twice the batch that comes next
		for offset := int64(0); offset < conns*batches*2; {
			f := x.fetched(x.fetch(wire.FetchRequest{Topic: id, Offset: offset, MaxBytes: 1 << 20}))
			values, offsets := valuesOf(t, f.Batches)
			if f.Code != wire.CodeNone || len(values) == 0 {
				t.Fatalf("fetch at %d: %+v", offset, f)
			}
			for j, v := range values {
				who, number := binary.BigEndian.Uint32(v), binary.BigEndian.Uint64(v[4:])
				if offsets[j] != offset || number != next[who]/2 {
					t.Fatalf("offset %d: record %d of batch %d of connection %d, want batch %d", offset, offsets[j], number, who, next[who]/2)
				}
				next[who]++
				offset++
			}
		}
		r.stop()
	})
}

func TestConnectionsLandWhereTheyWantTo(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, small(shards))
		r.create(r.dial(), "t", 16, "memory")
		for n := range 20 {
			want := int32(n % shards)
			x := r.connect(want)
			if x.hello.Shard != uint32(want) || x.hello.Shards != uint32(shards) {
				t.Fatalf("wanted shard %d, got %d of %d", want, x.hello.Shard, x.hello.Shards)
			}
			m := x.metadata("t")
			if len(m.PartitionShards) != 16 {
				t.Fatalf("metadata: %+v", m)
			}
			for p, owner := range m.PartitionShards {
				if int(owner) != r.n.broker.ShardOf([16]byte(m.ID), int32(p)) {
					t.Errorf("partition %d is said to be on shard %d", p, owner)
				}
			}
			_ = x.c.Close()
		}
		// A wish that nobody can fulfil is none.
		for _, want := range []int32{int32(shards), 1 << 30, -1} {
			r.connect(want).ping()
		}
		r.stop()
	})
}

func TestWhatIsSentBehindTheHelloMovesWithTheConnection(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, small(shards))
		r.create(r.dial(), "t", 8, "flushed")
		id := r.connect(anyShard).metadata("t").ID
		for n := range 12 {
			x := r.open()
			all := x.helloFrame(int32(n % shards))
			const behind = 40
			for p := range int32(behind) {
				x.last++
				all = wire.AppendProduceRequest(all, x.last, &wire.ProduceRequest{
					Topic: id, Partition: p % 8, Batch: batchOf(t, stamp(n, int(p), 700)),
				})
			}
			// In pieces, so that some of it is there when the connection moves and
			// some is not.
			for len(all) > 0 {
				k := min(len(all), 1+n*1000)
				x.send(all[:k])
				all = all[k:]
			}
			if err := x.welcomed(); err != nil || x.hello.Shard != uint32(n%shards) {
				t.Fatalf("hello: %+v, %v", x.hello, err)
			}
			for p := range uint32(behind) {
				if a := x.produced(2 + p); a.Code != wire.CodeNone {
					t.Fatalf("produce %d behind the hello: %+v", p, a)
				}
			}
			_ = x.c.Close()
		}
		r.stop()
	})
}

// TestAShardThatTakesNoConnectionsLeavesThemWhereTheyAre fills the inbox of a shard
// that does not turn.
func TestAShardThatTakesNoConnectionsLeavesThemWhereTheyAre(t *testing.T) {
	r := newRig(t, small(2))
	busy := make(chan struct{})
	loop := r.n.shards[1].loop
	for task := shard.TaskFunc(func(*shard.Loop) { <-busy }); loop.Post(task) == nil; {
		task = func(*shard.Loop) {}
	}
	// The kernel gives some connections to the first shard, which cannot pass them
	// on, and some to the second, where they wait. On a busy machine some may seem to
	// wait that the first one has only not come to.
	var waiting []*raw
	for stayed := 0; stayed < 3; {
		x := r.open()
		x.send(x.helloFrame(1))
		answered := make(chan error, 1)
		go func() { answered <- x.welcomed() }()
		select {
		case err := <-answered:
			if err != nil || x.hello.Shard != 0 {
				t.Fatalf("hello: %+v, %v", x.hello, err)
			}
			x.ping()
			stayed++
		case <-time.After(20 * time.Millisecond):
			waiting = append(waiting, x)
			defer func() {
				if err := <-answered; err != nil {
					t.Errorf("hello: %v", err)
				}
			}()
		}
	}
	t.Logf("%d connections waited", len(waiting))
	close(busy)
}

func TestALongPollWaitsAndDelaysNothing(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, small(shards))
		r.create(r.dial(), "t", 6, "flushed")
		for own := range int32(shards) {
			x := r.connect(own)
			id := x.metadata("t").ID
			for p := range int32(6) {
				end := x.fetched(x.fetch(wire.FetchRequest{Topic: id, Partition: p, Offset: 0})).Durable
				poll := x.fetch(wire.FetchRequest{Topic: id, Partition: p, Offset: end, MaxWait: 600_000, MinBytes: 1})
				x.ping() // the poll is open and delays nobody
				v := stamp(int(own), int(p), 100)
				if a := x.produced(x.produce(id, p, batchOf(t, v))); a.Code != wire.CodeNone || a.BaseOffset != end {
					t.Fatalf("produce: %+v", a)
				}
				f := x.fetched(poll)
				values, offsets := valuesOf(t, f.Batches)
				if f.Code != wire.CodeNone || len(values) != 1 || !bytes.Equal(values[0], v) || offsets[0] != end || f.NextOffset != end+1 {
					t.Fatalf("long poll: %+v", f)
				}
				// One whose time is over is answered with nothing.
				f = x.fetched(x.fetch(wire.FetchRequest{Topic: id, Partition: p, Offset: end + 1, MaxWait: 5, MinBytes: 1}))
				if f.Code != wire.CodeNone || len(f.Batches) != 0 || f.NextOffset != end+1 || f.Durable != end+1 {
					t.Fatalf("long poll whose time is over: %+v", f)
				}
			}
		}
		x := r.connect(anyShard)
		id := x.metadata("t").ID
		if f := x.fetched(x.fetch(wire.FetchRequest{Topic: id, Offset: 1 << 40, MaxWait: 600_000, MinBytes: 1})); f.Code != wire.CodeOffsetOutOfRange || f.LogStart != 0 {
			t.Fatalf("long poll out of range: %+v", f)
		}
		r.stop()
	})
}

func TestALongPollEndsWhenItsTopicIsDeleted(t *testing.T) {
	r := newRig(t, small(2))
	c := r.dial()
	r.create(c, "t", 4, "flushed")
	x := r.connect(anyShard)
	id := x.metadata("t").ID
	var polls []uint32
	for p := range int32(4) {
		polls = append(polls, x.fetch(wire.FetchRequest{Topic: id, Partition: p, MaxWait: 600_000, MinBytes: 1}))
	}
	x.ping()
	if err := c.Admin().DeleteTopic(r.context(), "t"); err != nil {
		t.Fatal(err)
	}
	for _, p := range polls {
		if f := x.fetched(p); f.Code != wire.CodeUnknownTopic {
			t.Errorf("long poll on a topic that was deleted: %+v", f)
		}
	}
	if a := x.produced(x.produce(id, 0, batchOf(t, []byte("v")))); a.Code != wire.CodeUnknownTopic {
		t.Errorf("produce to a topic that was deleted: %+v", a)
	}
	r.stop()
}

func TestOffsetsAreFoundByTime(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, small(shards))
		ctx := r.context()
		c := r.dial()
		r.create(c, "t", 3, "flushed")
		start := time.UnixMilli(1_700_000_000_000)
		const records = 300
		for p := range int32(3) {
			producer, err := c.Producer("t", client.WithPartition(p), client.WithBatchMessages(5))
			if err != nil {
				t.Fatal(err)
			}
			for n := range records {
				rec := client.Record{Value: stamp(int(p), n, 100), Time: start.Add(time.Duration(n) * time.Second)}
				if _, err := producer.Append(ctx, rec); err != nil {
					t.Fatal(err)
				}
			}
			if err := producer.Flush(ctx); err != nil {
				t.Fatal(err)
			}
		}
		check := func(c *client.Client) {
			t.Helper()
			for _, want := range []struct {
				at     client.Place
				offset int64
			}{
				{client.Start(), 0}, {client.End(), records},
				{client.Time(start.Add(-time.Hour)), 0}, {client.Time(start), 0},
				{client.Time(start.Add(99500 * time.Millisecond)), 100}, {client.Time(start.Add(123 * time.Second)), 123},
				{client.Time(start.Add(time.Hour)), records},
			} {
				got, err := c.Admin().ListOffsets(ctx, "t", want.at)
				if err != nil || len(got) != 3 {
					t.Fatalf("list offsets: %v, %v", got, err)
				}
				for p, o := range got {
					if o.Offset != want.offset {
						t.Errorf("partition %d, %+v: offset %d, want %d", p, want.at, o.Offset, want.offset)
					}
				}
			}
		}
		check(c)
		r.stop()
		r.start()
		check(r.dial()) // from the files now
		r.stop()
	})
}

func TestConnectionsAboveTheLimitAreClosedAtOnce(t *testing.T) {
	cfg := small(2)
	cfg.MaxConnections = 3
	r := newRig(t, cfg)
	var open []*raw
	for n := range 3 {
		open = append(open, r.connect(int32(n%2)))
	}
	for range 5 {
		x := r.open()
		if _, err := x.next(); !errors.Is(err, io.EOF) && err == nil || isTimeout(err) {
			t.Fatalf("a connection too many: %v", err)
		}
	}
	for _, x := range open {
		x.ping()
	}
	_ = open[0].c.Close()
	eventually(t, "room for another connection", func() bool {
		x := r.open()
		x.send(x.helloFrame(anyShard))
		return x.welcomed() == nil
	})
	r.stop()
}

// In a bubble, whose time passes only while everybody waits: a machine that stops for longer
// than the timeout makes nobody silent.
func TestOnlySilentConnectionsAreClosed(t *testing.T) {
	synctest.Test(t, onlySilentConnectionsAreClosed)
}

func onlySilentConnectionsAreClosed(t *testing.T) {
	cfg := small(2)
	cfg.IdleTimeout = 2 * time.Second
	r := newRig(t, cfg)
	r.create(r.dial(), "t", 4, "flushed")
	began := time.Now()
	poll, silent := r.connect(0), r.connect(1)
	if poll.hello.IdleTimeout != 2000 {
		t.Errorf("idle timeout told: %d ms", poll.hello.IdleTimeout)
	}
	id := poll.metadata("t").ID
	var open []uint32
	for p := range int32(4) {
		open = append(open, poll.fetch(wire.FetchRequest{Topic: id, Partition: p, MaxWait: 600_000, MinBytes: 1}))
	}
	silent.mustEnd()
	if d := time.Since(began); d < cfg.IdleTimeout {
		t.Errorf("closed after %v", d)
	}
	// The other one was as silent, but it waits for messages.
	for p, o := range open {
		x := r.connect(anyShard)
		if a := x.produced(x.produce(id, int32(p), batchOf(t, []byte("v")))); a.Code != wire.CodeNone {
			t.Fatal(a.Code)
		}
		if f := poll.fetched(o); f.Code != wire.CodeNone || len(f.Batches) == 0 {
			t.Errorf("long poll: %+v", f)
		}
	}
	poll.mustEnd()
	r.stop()
}

func TestAClientOutlivesABrokerThatStartsAgain(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, small(shards))
		ctx := r.context()
		c := r.dial()
		r.create(c, "t", 5, "flushed")
		p, err := c.Producer("t")
		if err != nil {
			t.Fatal(err)
		}
		co, err := c.Consumer(client.Topics("t"))
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]int{}
		for life := range 4 {
			for n := range 20 {
				v := fmt.Sprintf("%d/%d", life, n)
				// What was not sent before the connection died waits for the next.
				for {
					if _, err = p.Send(ctx, client.Record{Value: []byte(v)}); err == nil {
						break
					}
					var e *client.Error
					if !errors.As(err, &e) || !e.Retriable && !e.OutcomeUnknown {
						t.Fatal(err)
					}
				}
			}
			for len(got) < 20*(life+1) {
				b, err := co.Poll(ctx)
				if err != nil {
					var e *client.Error
					if !errors.As(err, &e) || e.Retriable || errors.Is(err, client.ErrDisconnected) {
						continue
					}
					t.Fatal(err)
				}
				for rec := range b.Records() {
					got[string(rec.Value)]++
				}
				b.Release()
			}
			if life%2 == 0 {
				r.stop()
			} else {
				r.die()
			}
			r.cfg.Shards = 1 + (r.cfg.Shards+life)%3
			r.start()
		}
		for v, n := range got {
			if n != 1 {
				t.Errorf("%s was read %d times", v, n)
			}
		}
	})
}
