package client_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mqd-broker/mqd/client"
)

// A record that cannot be worked off comes again when the consumer goes back to it, and
// tells how often it has come. After three times it goes to a topic of its own, so that it
// does not hold up those behind it for ever.
func ExampleConsumer_Seek_retries() {
	b, c, stop := serve("orders", 1)
	defer stop()
	b.CreateTopic("orders.dead", 1)
	b.Send("orders", client.Record{Value: []byte("a pump")}, client.Record{Value: []byte("?")}, client.Record{Value: []byte("a valve")})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	dead := must(c.Producer("orders.dead"))
	in := must(c.Consumer(client.Group("shop"), client.Topics("orders"), client.WithAutoCommit(0, 0)))
	work := func(r client.RecordView) error {
		fmt.Printf("%s, attempt %d\n", r.Value, r.Attempt)
		if string(r.Value) == "?" {
			return errors.New("no order")
		}
		return nil
	}
	for batch, err := range in.Batches(ctx) {
		if err != nil {
			fmt.Println(err) // the consumer goes on by itself
			continue
		}
		next := batch.Last + 1
		for r := range batch.Records() {
			err := work(r)
			if err != nil && r.Attempt >= 3 {
				_, err = dead.Send(ctx, r.Clone())
			}
			if err != nil { // this record and what is behind it comes again
				next = r.Offset
				if err := in.Seek(ctx, batch.Position(r)); err != nil {
					fmt.Println(err)
				}
				break
			}
		}
		if err := batch.CommitTo(ctx, next); err != nil {
			fmt.Println(err)
		}
		if batch.Release(); next == 3 {
			cancel() // a service goes on
		}
	}
	fmt.Printf("dead: %s\n", b.ReadAll("orders.dead")[0].Value)
	// Output:
	// a pump, attempt 1
	// ?, attempt 1
	// ?, attempt 2
	// ?, attempt 3
	// a valve, attempt 1
	// dead: ?
}

// A program that keeps what it has made of records in a database keeps its place there too,
// in the same transaction. It needs no group and no commits, and no record counts twice.
func ExampleBatch_Next() {
	b, c, stop := serve("payments", 1)
	defer stop()
	b.Send("payments", client.Record{Value: []byte("3")}, client.Record{Value: []byte("4")})
	var database struct { // written as one
		balance int
		place   client.Position
	}
	database.place = client.Position{Topic: "payments", Partition: 0, Offset: 0}
	run := func() {
		in := must(c.Consumer(client.FromPositions(database.place)))
		defer in.Close(context.Background())
		batch := must(in.Poll(context.Background()))
		defer batch.Release()
		sum := database.balance
		for r := range batch.Records() {
			sum += int(r.Value[0] - '0')
		}
		database.balance, database.place = sum, batch.Next()
	}
	run()
	b.Send("payments", client.Record{Value: []byte("5")})
	run() // as after a restart of the program
	fmt.Println(database.balance, "at offset", database.place.Offset)
	// Output: 12 at offset 3
}

// Stats are for a metrics library, or for a line in the log once a minute.
func ExampleClient_Stats() {
	_, c, stop := serve("orders", 1)
	defer stop()
	p := must(c.Producer("orders"))
	before := c.Stats()
	for range 3 {
		must(p.Send(context.Background(), client.Record{Value: []byte("a pump")}))
	}
	now := c.Stats()
	acks := now.AckTimes.Since(before.AckTimes)
	fmt.Println(now.RecordsAcked-before.RecordsAcked, "records,", acks.Count, "batches")
	fmt.Println(acks.Quantile(0.99) > 0, acks.Quantile(0.99) < time.Minute)
	// Output:
	// 3 records, 3 batches
	// true true
}
