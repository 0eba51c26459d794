package client_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/mqd-broker/mqd/client"
)

// readme:begin

// hello creates a topic, sends a message and reads it back.
func hello(ctx context.Context, addr string) {
	c := must(client.Dial(ctx, []string{addr}))
	defer c.Close(ctx)
	must(c.Admin().CreateTopic(ctx, client.TopicSpec{Name: "alerts", Partitions: 4}))
	p := must(c.Producer("alerts"))
	must(p.Send(ctx, client.Record{Key: []byte("pump-7"), Value: []byte("too hot")})) // on the disk when it returns
	in := must(c.Consumer(client.Topics("alerts")))
	b := must(in.Poll(ctx))
	defer b.Release()
	for r := range b.Records() {
		fmt.Printf("%s/%d at %d: %s is %s\n", b.Topic, b.Partition, r.Offset, r.Key, r.Value)
	}
}

func must[T any](v T, err error) T { // a service returns its errors instead
	if err != nil {
		panic(err)
	}
	return v
}

// readme:end

// readme:begin

// work prints alerts as one of a group, and commits each batch that it is done with.
func work(ctx context.Context, addr, group string) {
	c := must(client.Dial(ctx, []string{addr}))
	defer c.Close(context.WithoutCancel(ctx)) // leaves the group
	in := must(c.Consumer(client.Group(group), client.Topics("alerts"), client.WithAutoCommit(0, 0)))
	for b, err := range in.Batches(ctx) {
		if err != nil {
			fmt.Println(err) // the consumer goes on by itself
			continue
		}
		for r := range b.Records() {
			fmt.Printf("%s is %s\n", r.Key, r.Value)
		}
		if err := b.Commit(ctx); errors.Is(err, client.ErrFenced) {
			fmt.Println("another member has the partition and reads the batch again")
		}
		b.Release()
	}
}

// readme:end

func Example() {
	addr, stop := client.ServeFake()
	defer stop()
	hello(context.Background(), addr)
	// Output: alerts/0 at 0: pump-7 is too hot
}

func ExampleGroup() {
	addr, stop := client.ServeFake()
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	hello(ctx, addr)
	done := make(chan struct{})
	go func() {
		defer close(done)
		work(ctx, addr, "crew")
	}()
	client.AwaitCommit("crew", "alerts", 0, 1)
	cancel()
	<-done
	// Output:
	// alerts/0 at 0: pump-7 is too hot
	// pump-7 is too hot
}
