package client_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/mqd-broker/mqd/client"
)

// Append does not wait for the broker: many records are on their way at once, and each
// ticket says later where its record is.
func ExampleProducer_Append() {
	_, c, stop := serve("metrics", 1)
	defer stop()
	ctx := context.Background()
	p := must(c.Producer("metrics"))
	var tickets []client.Ticket
	for i := range 3 {
		tickets = append(tickets, must(p.Append(ctx, client.Record{Value: fmt.Appendf(nil, "load %d", i)})))
	}
	for _, t := range tickets {
		at, err := t.Wait(ctx)
		fmt.Println(at.Offset, t.Class(), err)
	}
	// Output:
	// 0 flushed <nil>
	// 1 flushed <nil>
	// 2 flushed <nil>
}

// Send is for a program that needs one record to be stored before it goes on. The records of
// goroutines that send at the same time travel together.
func ExampleProducer_Send() {
	_, c, stop := serve("orders", 1)
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p := must(c.Producer("orders"))
	at, err := p.Send(ctx, client.Record{Key: []byte("o-1"), Value: []byte("a pump")})
	fmt.Println(at.Topic, at.Partition, at.Offset, err)
	fmt.Println(p.Close(ctx)) // sends what is queued
	// Output:
	// orders 0 0 <nil>
	// <nil>
}

// TryAppend never waits, not even for room: a program that must not stand still drops the
// record, or keeps it for later.
func ExampleProducer_TryAppend() {
	_, c, stop := serve("metrics", 1)
	defer stop()
	ctx := context.Background()
	p := must(c.Producer("metrics"))
	dropped := 0
	for range 100 {
		if _, err := p.TryAppend(client.Record{Value: []byte("load 7")}); errors.Is(err, client.ErrBufferFull) {
			dropped++
		}
	}
	fmt.Println(dropped, p.Flush(ctx)) // Flush tells of records whose tickets nobody has kept
	// Output: 0 <nil>
}

// A stream of a few records a second makes batches of one. With a linger those that come
// within it travel together, and a record that somebody waits for takes them along.
func ExampleWithLinger() {
	_, c, stop := serve("metrics", 1)
	defer stop()
	ctx := context.Background()
	p := must(c.Producer("metrics", client.WithLinger(time.Minute)))
	for i := range 3 {
		must(p.Append(ctx, client.Record{Value: fmt.Appendf(nil, "load %d", i)}))
	}
	fmt.Println(c.Stats().BatchesAcked, "batches")
	fmt.Println(p.Flush(ctx), c.Stats().BatchesAcked, "batch of", c.Stats().RecordsAcked)
	// Output:
	// 0 batches
	// <nil> 1 batch of 3
}

// With a claim the value is written where it is sent from.
func ExampleProducer_Claim() {
	b, c, stop := serve("ticks", 1)
	defer stop()
	ctx := context.Background()
	p := must(c.Producer("ticks"))
	claim := must(p.Claim(ctx, []byte("EURUSD"), 16))
	defer claim.Abort() // does nothing after the Commit
	binary.BigEndian.PutUint64(claim.Buf, 11_714)
	binary.BigEndian.PutUint64(claim.Buf[8:], 2_000_000)
	at, err := claim.Commit().Wait(ctx)
	fmt.Println(at.Offset, err)
	fmt.Printf("%s %x\n", b.ReadAll("ticks")[0].Key, b.ReadAll("ticks")[0].Value)
	// Output:
	// 0 <nil>
	// EURUSD 0000000000002dc200000000001e8480
}

func ExampleProducer_SendBatch() {
	_, c, stop := serve("orders", 1)
	defer stop()
	p := must(c.Producer("orders", client.WithCompression(client.CompressZstd)))
	at, err := p.SendBatch(context.Background(), []client.Record{
		{Key: []byte("o-1"), Value: []byte("a pump"), Headers: []client.Header{{Key: "shop", Value: []byte("north")}}},
		{Key: []byte("o-2"), Value: []byte("two valves")},
	})
	var failed *client.BatchError
	if errors.As(err, &failed) {
		fmt.Println(failed.Failed, "records are not stored")
	}
	fmt.Println(at[0].Offset, at[1].Offset)
	// Output: 0 1
}

// With idempotence a producer sends again by itself what a broken connection has left
// without an answer, and the broker writes it once.
func ExampleWithIdempotence() {
	b, c, stop := serve("orders", 1)
	defer stop()
	ctx := context.Background()
	p := must(c.Producer("orders", client.WithIdempotence(), client.WithMinClass(client.ClassFlushed)))
	t := must(p.Append(ctx, client.Record{Value: []byte("a pump")}))
	b.Crash()
	at, err := t.Wait(ctx)
	fmt.Println(at.Offset, err)
	fmt.Println(len(b.ReadAll("orders")))
	// Output:
	// 0 <nil>
	// 1
}

// Without idempotence an error says whether the record may be stored all the same.
func ExampleError() {
	_, c, stop := serve("orders", 1)
	defer stop()
	p := must(c.Producer("orders"))
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := p.Send(ended, client.Record{Value: []byte("a pump")})
	switch {
	case err == nil:
		fmt.Println("stored")
	case errors.Is(err, client.ErrOutcomeUnknown), errors.Is(err, context.Canceled):
		fmt.Println("nobody has waited for the answer")
	default:
		fmt.Println("not stored")
	}
	_, err = c.Producer("order")
	var e *client.Error
	if errors.As(err, &e) {
		fmt.Println(e.Topic, e.Retriable, errors.Is(err, client.ErrUnknownTopic))
	}
	// Output:
	// nobody has waited for the answer
	// order false true
}

// A consumer without a group begins where it is told, and keeps its place itself.
func ExampleClient_Consumer() {
	b, c, stop := serve("alerts", 1)
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.Send("alerts", client.Record{Value: []byte("old")}, client.Record{Value: []byte("seen")}, client.Record{Value: []byte("new")})
	in := must(c.Consumer(client.Topics("alerts"), client.From(client.Offset(2)), client.WithReset(client.ResetStart)))
	for batch, err := range in.Batches(ctx) {
		if err != nil {
			fmt.Println(err) // the consumer goes on by itself
			continue
		}
		for r := range batch.Records() {
			fmt.Printf("%d: %s\n", r.Offset, r.Value)
			kept := r.Clone() // r itself goes with the batch
			_ = kept
		}
		batch.Release()
		cancel() // a service goes on
	}
	// Output: 2: new
}

func ExampleConsumer_Seek() {
	b, c, stop := serve("alerts", 1)
	defer stop()
	ctx := context.Background()
	b.Send("alerts", client.Record{Value: []byte("first")})
	in := must(c.Consumer(client.Topics("alerts"), client.From(client.End())))
	fmt.Println(must(in.Lag(ctx))[0].Records, "records behind")
	if err := in.Seek(ctx, client.Position{Topic: "alerts", Offset: client.OffsetStart}); err != nil {
		fmt.Println(err)
	}
	fmt.Println(must(in.Lag(ctx))[0].Records, "behind after the seek")
	batch := must(in.Poll(ctx))
	fmt.Println(batch.First, batch.Len())
	batch.Release()
	// Output:
	// 0 records behind
	// 1 behind after the seek
	// 0 1
}

// A consumer can begin, or go on, at a time.
func ExampleTime() {
	b, c, stop := serve("alerts", 1)
	defer stop()
	ctx := context.Background()
	noon := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for hour := range 3 {
		b.Send("alerts", client.Record{Time: noon.Add(time.Duration(hour) * time.Hour), Value: fmt.Appendf(nil, "%d h after noon", hour)})
	}
	in := must(c.Consumer(client.Topics("alerts"), client.From(client.Time(noon.Add(30*time.Minute)))))
	show := func() {
		batch := must(in.Poll(ctx))
		defer batch.Release()
		for r := range batch.Records() {
			fmt.Printf("%d: %s\n", r.Offset, r.Value)
			return
		}
	}
	show()
	at := must(c.Admin().ListOffsets(ctx, "alerts", client.Time(noon.Add(2*time.Hour))))
	if err := in.Seek(ctx, client.Position{Topic: "alerts", Partition: 0, Offset: at[0].Offset}); err != nil {
		fmt.Println(err)
	}
	show()
	// Output:
	// 1: 1 h after noon
	// 2: 2 h after noon
}

// A consumer that has enough of one topic goes on with the others.
func ExampleConsumer_Pause() {
	b, c, stop := serve("alerts", 1)
	defer stop()
	b.CreateTopic("metrics", 1)
	ctx := context.Background()
	in := must(c.Consumer(client.Topics("alerts", "metrics")))
	in.Pause(client.Position{Topic: "metrics"}) // its partition 0
	b.Send("metrics", client.Record{Value: []byte("load 7")})
	b.Send("alerts", client.Record{Value: []byte("too hot")})
	batch := must(in.Poll(ctx))
	fmt.Println(batch.Topic)
	batch.Release()
	in.Resume() // everything
	batch = must(in.Poll(ctx))
	fmt.Println(batch.Topic)
	batch.Release()
	// Output:
	// alerts
	// metrics
}

// A filter spares a program to look at what it does not want. What it hides is read and
// committed all the same.
func ExampleWithFilter() {
	b, c, stop := serve("alerts", 1)
	defer stop()
	b.Send("alerts", client.Record{Key: []byte("pump-7"), Value: []byte("too hot")}, client.Record{Key: []byte("door-3"), Value: []byte("open")})
	in := must(c.Consumer(client.Topics("alerts"), client.WithFilter(func(r client.RecordView) bool {
		return bytes.HasPrefix(r.Key, []byte("door-"))
	})))
	batch := must(in.Poll(context.Background()))
	defer batch.Release()
	for r := range batch.Records() {
		fmt.Printf("%d of %d: %s\n", r.Offset, batch.Len(), r.Value)
	}
	// Output: 1 of 2: open
}

// Lag is what a service shows of itself: how much there is to do, and how old it is.
func ExampleConsumer_Lag() {
	b, c, stop := serve("alerts", 1)
	defer stop()
	ctx := context.Background()
	b.Send("alerts", client.Record{Value: []byte("one")}, client.Record{Value: []byte("two")})
	in := must(c.Consumer(client.Topics("alerts")))
	for _, l := range must(in.Lag(ctx)) {
		fmt.Printf("%s/%d: %d records, %d bytes, %v\n", l.Topic, l.Partition, l.Records, l.Bytes, l.Time)
	}
	// Output: alerts/0: 2 records, 81 bytes, 0s
}

// Fixed instances claim partitions for themselves. Those of an instance that has died wait
// for it until somebody moves them.
func ExampleClaimPartitions() {
	b, c, stop := serve("risk", 2)
	defer stop()
	ctx := context.Background()
	b.Send("risk", client.Record{Key: []byte("a"), Value: []byte("one")})
	in := must(c.Consumer(client.Group("desk"), client.Instance("desk-1"), client.ClaimPartitions("risk", 0, 1)))
	batch := must(in.Poll(ctx))
	if err := batch.Commit(ctx); err != nil {
		fmt.Println(err)
	}
	batch.Release()
	_ = in.Close(ctx)
	_ = c.Admin().AssignPartitions(ctx, "desk", "desk-2", "risk", 1) // an administrator does
	d := must(c.Admin().DescribeGroup(ctx, "desk"))
	for _, row := range d.Table {
		fmt.Println(row.Partition, row.Instance, row.Away)
	}
	// Output:
	// 0 desk-1 true
	// 1 desk-2 true
}

func ExampleClient_Admin() {
	_, c, stop := serve("alerts", 2)
	defer stop()
	ctx := context.Background()
	a := c.Admin()
	must(a.CreateTopic(ctx, client.TopicSpec{
		Name: "ticks", Partitions: 8, Class: client.ClassMemory,
		Configs: map[string]string{"retention.ms": "3600000"},
	}))
	if err := a.AlterTopic(ctx, "ticks", map[string]string{"durability": "written"}); err != nil {
		fmt.Println(err)
	}
	for _, topic := range must(a.ListTopics(ctx)) {
		fmt.Println(topic.Name, topic.Partitions, topic.Class)
	}
	fmt.Println(a.DeleteTopic(ctx, "ticks"))
	// Output:
	// alerts 2 flushed
	// ticks 8 written
	// <nil>
}

// A group is moved in two steps: the plan says what would change, and changes nothing.
func ExampleAdmin_PlanReset() {
	b, c, stop := serve("alerts", 1)
	defer stop()
	ctx := context.Background()
	b.Send("alerts", client.Record{Value: []byte("a")}, client.Record{Value: []byte("b")})
	in := must(c.Consumer(client.Group("crew"), client.Topics("alerts"), client.WithAutoCommit(0, 0)))
	batch := must(in.Poll(ctx))
	fmt.Println(batch.CommitTo(ctx, 2))
	batch.Release()
	fmt.Println(in.Close(ctx))
	moves := must(c.Admin().PlanReset(ctx, "crew", "alerts", client.ToStart()))
	for _, m := range moves {
		fmt.Printf("%s/%d from %d to %d\n", m.Topic, m.Partition, m.From, m.To)
	}
	fmt.Println(c.Admin().ResetOffsets(ctx, "crew", moves))
	// Output:
	// <nil>
	// <nil>
	// alerts/0 from 2 to 0
	// <nil>
}

func ExampleAdmin_TrimTopic() {
	b, c, stop := serve("alerts", 1)
	defer stop()
	b.Send("alerts", client.Record{Value: []byte("a")}, client.Record{Value: []byte("b")})
	start, err := c.Admin().TrimTopic(context.Background(), "alerts", 0, client.Offset(1))
	fmt.Println(start, err)
	// Output: 1 <nil>
}

// Hooks tell of batches and connections, for metrics.
func ExampleWithHooks() {
	b, _, stop := serve("alerts", 1)
	defer stop()
	ctx := context.Background()
	var sent []client.SendInfo
	c := must(client.Dial(ctx, []string{b.Addr()}, client.WithClientID("pump-house"), client.WithTimeout(30*time.Second),
		client.WithHooks(client.Hooks{OnSend: func(_ context.Context, i client.SendInfo) { sent = append(sent, i) }})))
	p := must(c.Producer("alerts"))
	must(p.Send(ctx, client.Record{Value: []byte("too hot")}))
	fmt.Println(sent[0].Topic, sent[0].Records, sent[0].Class, c.Stats().RecordsAcked)
	fmt.Println(c.Close(ctx))
	// Output:
	// alerts 1 flushed 1
	// <nil>
}

// The client logs connections that come and go, with whatever handler a program has.
func ExampleWithLogger() {
	b, _, stop := serve("alerts", 1)
	defer stop()
	ctx := context.Background()
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "address" {
			return slog.Attr{} // so that the example says the same each time
		}
		return a
	}}))
	c := must(client.Dial(ctx, []string{b.Addr()}, client.WithLogger(log)))
	fmt.Println(len(must(c.Admin().ListTopics(ctx))), "topic")
	fmt.Println(c.Close(ctx))
	// Output:
	// level=INFO msg=connected shard=0 wanted=-1 broker=mqdtest
	// 1 topic
	// level=INFO msg="connection ended" shard=0 error="mqd: closed" unanswered=0 unsent=0
	// <nil>
}
