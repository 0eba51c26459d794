package client_test

import (
	"context"
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

func Example() {
	addr, stop := client.ServeFake()
	defer stop()
	hello(context.Background(), addr)
	// Output: alerts/0 at 0: pump-7 is too hot
}
