package mqdtest_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/client/mqdtest"
)

// inBubble runs a test with a broker whose time is that of the bubble.
func inBubble(t *testing.T, f func(t *testing.T, b *mqdtest.Broker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, mqdtest.New(t, mqdtest.InMemory())) })
}

func TestABrokerInMemoryDoesWhatOthersDo(t *testing.T) {
	t.Parallel()
	b := mqdtest.New(t, mqdtest.InMemory(), mqdtest.WithShards(2))
	b.CreateTopic("orders", 3)
	p := producer(t, b, client.WithIdempotence(), client.WithPartition(0))
	for i, between := range []func(){func() {}, b.Restart, b.Crash, b.CutPower, func() { b.DropAcks(1) }} {
		between()
		if _, err := p.Send(t.Context(), record("%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	want(t, values(b, "orders"), "0", "1", "2", "3", "4")
	b.Stop()
	if _, err := client.Dial(t.Context(), []string{b.Addr()}, client.WithDialer(b.Dialer())); !errors.Is(err, client.ErrDisconnected) {
		t.Fatalf("a broker that is stopped is dialled: %v", err)
	}
	b.Start()
	b.FillDisk()
	if _, err := producer(t, b).Send(t.Context(), record("no")); !errors.Is(err, client.ErrThrottled) {
		t.Fatal(err)
	}
	b.FreeDisk()
	b.Send("orders", record("5"))
}

// Hours pass in a bubble, and a consumer commits by its clock.
func TestTimePassesAtOnceInABubble(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *mqdtest.Broker) {
		b.CreateTopic("orders", 1)
		b.Send("orders", record("a"))
		c := b.Client()
		in, err := c.Consumer(client.Group("shop"), client.Topics("orders"), client.WithAutoCommit(time.Hour, 0))
		if err != nil {
			t.Fatal(err)
		}
		batch, err := in.Poll(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		batch.Release()
		go func() { _, _ = in.Poll(t.Context()) }() // asks for more, so that the batch is done with
		committed := func() int {
			offsets, err := c.Admin().GroupOffsets(t.Context(), "shop")
			if err != nil {
				t.Fatal(err)
			}
			return len(offsets)
		}
		time.Sleep(59 * time.Minute)
		if n := committed(); n != 0 {
			t.Errorf("committed after 59 minutes")
		}
		time.Sleep(2 * time.Minute)
		if n := committed(); n != 1 {
			t.Errorf("not committed after 61 minutes")
		}
	})
}

// A member that says nothing for its session loses its partitions.
func TestASessionEndsInABubble(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *mqdtest.Broker) {
		b.CreateTopic("orders", 1)
		b.Send("orders", record("a"))
		in, err := b.Client().Consumer(client.Group("shop"), client.Topics("orders"), client.WithAutoCommit(0, 0), client.WithSession(30*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		batch, err := in.Poll(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b.Stop()
		time.Sleep(29 * time.Minute)
		if batch.Context().Err() != nil {
			t.Error("given up before the session was over")
		}
		time.Sleep(2 * time.Minute)
		if batch.Context().Err() == nil {
			t.Error("a member that has not reached the broker for a session goes on")
		}
		batch.Release()
		b.Start()
		for {
			again, err := in.Poll(t.Context())
			if err != nil {
				continue // passes
			}
			if again.First != 0 {
				t.Errorf("goes on at %d", again.First)
			}
			again.Release()
			return
		}
	})
}

// Records get their times, and go, by the time that passes. A jump of the clock shows behind
// the next start, and only if it leads forward.
func TestTheClockJumps(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *mqdtest.Broker) {
		if _, err := b.Client().Admin().CreateTopic(t.Context(), client.TopicSpec{
			Name: "orders", Partitions: 1,
			Configs: map[string]string{"retention.ms": "3600000", "segment.ms": "60000", "message.timestamp.type": "LogAppendTime"},
		}); err != nil {
			t.Fatal(err)
		}
		newest := func() time.Time {
			all := b.ReadAll("orders")
			return all[len(all)-1].Time
		}
		b.Send("orders", record("old"))
		began := newest()
		for _, by := range []time.Duration{-2 * time.Hour, 1000 * time.Hour} {
			b.JumpClock(by)
			time.Sleep(10 * time.Minute)
			want(t, values(b, "orders"), "old")
		}
		time.Sleep(2 * time.Hour)
		b.Send("orders", record("new"))
		if took := newest().Sub(began); took < 2*time.Hour || took > 3*time.Hour {
			t.Errorf("the second record is %v younger than the first", took)
		}
		time.Sleep(10 * time.Minute)
		want(t, values(b, "orders"), "new")
		b.Restart()
		b.Send("orders", record("later"))
		later := newest()
		if took := later.Sub(began); took < 998*time.Hour {
			t.Errorf("behind a start the record is %v younger than the first", took)
		}
		b.JumpClock(-1000 * time.Hour)
		b.Crash()
		b.Send("orders", record("last"))
		if newest().Before(later) {
			t.Errorf("time goes back, from %v to %v", later, newest())
		}
	})
}

func TestAPowerCutTakesWhatAClassDoesNotPromise(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *mqdtest.Broker) {
		a := b.Client().Admin()
		for _, class := range []client.Class{client.ClassMemory, client.ClassWritten, client.ClassFlushed} {
			if _, err := a.CreateTopic(t.Context(), client.TopicSpec{Name: class.String(), Partitions: 1, Class: class}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour) // nothing but what follows is young
		for _, class := range []string{"flushed", "memory", "written"} {
			b.Send(class, record("one"))
		}
		b.CutPower()
		want(t, values(b, "memory"))
		want(t, values(b, "written"))
		want(t, values(b, "flushed"), "one")
		b.Send("memory", record("two"))
		if m := b.ReadAll("memory"); len(m) != 1 || m[0].Offset == 0 {
			t.Errorf("an offset has two contents: %+v", m)
		}
	})
}
