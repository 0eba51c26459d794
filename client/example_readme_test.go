package client_test

import (
	"context"
	"fmt"

	"github.com/mqd-broker/mqd/client"
)

// readme:begin

// hello creates a topic, sends a message and reads it back.
func hello(ctx context.Context, addr string) error {
	c, err := client.Dial(ctx, []string{addr})
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	if _, err = c.Admin().CreateTopic(ctx, client.TopicSpec{Name: "alerts", Partitions: 4}); err != nil {
		return err
	}
	p, err := c.Producer("alerts")
	if err != nil {
		return err
	}
	if _, err = p.Send(ctx, client.Record{Key: []byte("pump-7"), Value: []byte("too hot")}); err != nil {
		return err // without an error, the message is on the disk now
	}
	in, err := c.Consumer(client.Topics("alerts"))
	if err != nil {
		return err
	}
	b, err := in.Poll(ctx)
	if err != nil {
		return err
	}
	defer b.Release()
	for r := range b.Records() {
		fmt.Printf("%s/%d at %d: %s is %s\n", b.Topic, b.Partition, r.Offset, r.Key, r.Value)
	}
	return nil
}

// readme:end

func Example() {
	addr, stop := client.ServeFake()
	defer stop()
	if err := hello(context.Background(), addr); err != nil {
		fmt.Println(err)
	}
	// Output: alerts/0 at 0: pump-7 is too hot
}
