package mqdtest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/client/mqdtest"
)

// In a test t is the *testing.T, which ends the broker by itself.

// The acknowledgement is lost: the program must not take the record for lost.
func ExampleBroker_DropAcks() {
	t := &exampleT{}
	defer t.end()
	b := mqdtest.New(t)
	b.CreateTopic("orders", 1)
	s := shop{must(b.Client().Producer("orders"))}
	b.DropAcks(1)
	err := s.order(context.Background(), "a pump")
	fmt.Println(errors.Is(err, client.ErrOutcomeUnknown), len(b.ReadAll("orders")))
	// Output: true 1
}

// A broker that is far away, or slow: the program must not wait longer than it wants to.
func ExampleBroker_SetLatency() {
	t := &exampleT{}
	defer t.end()
	b := mqdtest.New(t)
	b.CreateTopic("orders", 1)
	s := shop{must(b.Client().Producer("orders"))}
	b.SetLatency(time.Hour)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	err := s.order(ctx, "a pump")
	fmt.Println(errors.Is(err, context.DeadlineExceeded), errors.Is(err, client.ErrOutcomeUnknown))
	// Output: true true
}

// A full disk: nothing was written, and trying again later helps.
func ExampleBroker_FillDisk() {
	t := &exampleT{}
	defer t.end()
	b := mqdtest.New(t)
	b.CreateTopic("orders", 1)
	s := shop{must(b.Client().Producer("orders"))}
	b.FillDisk()
	err := s.order(context.Background(), "a pump")
	fmt.Println(errors.Is(err, client.ErrThrottled), errors.Is(err, client.ErrOutcomeUnknown))
	b.FreeDisk()
	fmt.Println(s.order(context.Background(), "a pump"), len(b.ReadAll("orders")))
	// Output:
	// true false
	// <nil> 1
}

// A disk that fails: what was acknowledged before is there, of the rest nobody knows, and
// nothing more is taken until an operator has done something.
func ExampleBroker_FailDevice() {
	t := &exampleT{}
	defer t.end()
	b := mqdtest.New(t)
	b.CreateTopic("orders", 1)
	s := shop{must(b.Client().Producer("orders"))}
	fmt.Println(s.order(context.Background(), "a pump"))
	b.FailDevice()
	err := s.order(context.Background(), "two valves")
	var e *client.Error
	if errors.As(err, &e) {
		fmt.Println(e.Code, e.OutcomeUnknown)
	}
	fmt.Printf("%s\n", b.ReadAll("orders")[0].Value)
	b.Crash() // with another disk
	fmt.Println(s.order(context.Background(), "three seals"))
	// Output:
	// <nil>
	// StorageError true
	// a pump
	// <nil>
}

// A consumer that is taken for dead: what it has not committed goes to another member, or
// to itself once more.
func ExampleBroker_FenceMembers() {
	t := &exampleT{}
	defer t.end()
	b := mqdtest.New(t)
	b.CreateTopic("orders", 1)
	b.Send("orders", client.Record{Value: []byte("a pump")})
	ctx := context.Background()
	in := must(b.Client().Consumer(client.Group("shop"), client.Topics("orders"), client.WithAutoCommit(0, 0)))
	batch := must(in.Poll(ctx))
	b.FenceMembers("shop")
	fmt.Println(errors.Is(batch.Commit(ctx), client.ErrFenced))
	<-batch.Context().Done()
	batch.Release()
	batch = must(in.Poll(ctx))
	fmt.Println(batch.First, batch.Commit(ctx))
	batch.Release()
	// Output:
	// true
	// 0 <nil>
}
