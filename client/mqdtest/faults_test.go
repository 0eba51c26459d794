package mqdtest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/client/mqdtest"
	"github.com/mqd-broker/mqd/net/wire"
)

func producer(t *testing.T, b *mqdtest.Broker, opts ...client.ProducerOption) *client.Producer {
	t.Helper()
	p, err := b.Client(client.WithBackoff(time.Millisecond, 10*time.Millisecond)).Producer("orders", opts...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func wantCode(t *testing.T, err error, code client.Code) {
	t.Helper()
	var e *client.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("%v, expected %v", err, code)
	}
}

func TestALostAcknowledgementIsAnUnknownOutcomeOfARecordThatIsStored(t *testing.T) {
	t.Parallel()
	b := mqdtest.New(t)
	b.CreateTopic("orders", 1)
	p := producer(t, b)
	b.DropAcks(2)
	for _, v := range []string{"one", "two"} {
		if _, err := p.Send(t.Context(), record("%s", v)); !errors.Is(err, client.ErrOutcomeUnknown) {
			t.Fatalf("%s: %v", v, err)
		}
	}
	if _, err := p.Send(t.Context(), record("three")); err != nil {
		t.Fatal(err)
	}
	want(t, values(b, "orders"), "one", "two", "three")
	b.DropAcks(1)
	b.DropAcks(0)
	if _, err := p.Send(t.Context(), record("four")); err != nil {
		t.Fatal(err)
	}
}

func TestAnIdempotentProducerFindsOutWhatBecameOfItsRecords(t *testing.T) {
	t.Parallel()
	b := mqdtest.New(t)
	b.CreateTopic("orders", 1)
	p := producer(t, b, client.WithIdempotence())
	b.DropAcks(3)
	for _, v := range []string{"one", "two"} {
		if _, err := p.Send(t.Context(), record("%s", v)); err != nil {
			t.Fatalf("%s: %v", v, err)
		}
	}
	want(t, values(b, "orders"), "one", "two")
}

// A refusal is no acknowledgement, and is not lost.
func TestRefusalsAreNotLost(t *testing.T) {
	t.Parallel()
	b := mqdtest.New(t, mqdtest.WithMaxMessageBytes(8<<10))
	b.CreateTopic("orders", 1)
	if err := b.Client().Admin().AlterTopic(t.Context(), "orders", map[string]string{"max.message.bytes": "1024"}); err != nil {
		t.Fatal(err)
	}
	p := producer(t, b)
	b.DropAcks(1)
	if _, err := p.Send(t.Context(), client.Record{Value: make([]byte, 4<<10)}); !errors.Is(err, client.ErrTooLarge) {
		t.Fatal(err)
	}
}

func TestLatencyDelaysAnswersAndKeepsTheirOrder(t *testing.T) {
	t.Parallel()
	b := mqdtest.New(t)
	b.CreateTopic("orders", 1)
	p := producer(t, b)
	const late = 30 * time.Millisecond
	b.SetLatency(late)
	began := time.Now()
	var tickets []client.Ticket
	for i := range 10 {
		ticket, err := p.Append(t.Context(), record("%d", i))
		if err != nil {
			t.Fatal(err)
		}
		tickets = append(tickets, ticket)
	}
	for i, ticket := range tickets {
		if at, err := ticket.Wait(t.Context()); err != nil || at.Offset != int64(i) {
			t.Fatalf("%+v, %v", at, err)
		}
	}
	if took := time.Since(began); took < late {
		t.Fatalf("answered within %v", took)
	}
	// An hour ends with the broker, whether the record has come to it or not.
	b.SetLatency(time.Hour)
	ticket, err := p.Append(t.Context(), record("late"))
	if err != nil {
		t.Fatal(err)
	}
	b.Stop()
	var e *client.Error
	if _, err := ticket.Wait(t.Context()); err != nil && !(errors.As(err, &e) && (e.OutcomeUnknown || e.Retriable)) {
		t.Fatal(err)
	}
	b.SetLatency(0)
	b.Start()
}

func TestAFullDiskRefusesProducersAlone(t *testing.T) {
	t.Parallel()
	b := mqdtest.New(t)
	b.CreateTopic("orders", 1)
	b.CreateTopic("old", 1)
	b.Send("orders", record("before"))
	p := producer(t, b)
	full := func() {
		t.Helper()
		_, err := p.Send(t.Context(), record("no"))
		wantCode(t, err, wire.CodeBackpressure)
		want(t, values(b, "orders"), "before")
	}
	b.FillDisk()
	full()
	b.Restart()
	full()
	b.Crash()
	full()
	if err := b.Client().Admin().DeleteTopic(t.Context(), "old"); err != nil {
		t.Fatal(err)
	}
	b.FreeDisk()
	if _, err := p.Send(t.Context(), record("after")); err != nil {
		t.Fatal(err)
	}
	want(t, values(b, "orders"), "before", "after")
	b.Stop()
	b.FillDisk()
	b.Start()
	_, err := p.Send(t.Context(), record("no"))
	wantCode(t, err, wire.CodeBackpressure)
}

func TestAFailedDeviceAcknowledgesNothingUntilTheNextStart(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]func(b *mqdtest.Broker){"crash": (*mqdtest.Broker).Crash, "restart": (*mqdtest.Broker).Restart} {
		t.Run(name, func(t *testing.T) {
			b := mqdtest.New(t, mqdtest.WithShards(2))
			b.CreateTopic("orders", 2)
			b.Send("orders", record("before"))
			p := producer(t, b)
			b.FailDevice()
			for range 3 {
				_, err := p.Send(t.Context(), record("lost"))
				wantCode(t, err, wire.CodeStorageError)
				if !errors.Is(err, client.ErrOutcomeUnknown) {
					t.Fatal(err)
				}
			}
			want(t, values(b, "orders"), "before")
			again(b)
			if _, err := p.Send(t.Context(), record("after")); err != nil {
				t.Fatal(err)
			}
			all := values(b, "orders")
			if all[0] != "before" || len(all) < 2 || len(all) > 5 {
				t.Fatalf("%q", all)
			}
		})
	}
}

func TestAFencedMemberLosesItsBatchAndJoinsAgain(t *testing.T) {
	t.Parallel()
	b := mqdtest.New(t)
	b.CreateTopic("orders", 1)
	b.Send("orders", record("one"))
	in, err := b.Client().Consumer(client.Group("shop"), client.Topics("orders"), client.WithAutoCommit(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	batch, err := in.Poll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.FenceMembers("shop")
	if err := batch.Commit(t.Context()); !errors.Is(err, client.ErrFenced) {
		t.Fatalf("commit: %v", err)
	}
	select {
	case <-batch.Context().Done():
	case <-time.After(time.Minute):
		t.Fatal("the member has not heard of it")
	}
	batch.Release()
	for {
		batch, err := in.Poll(t.Context())
		if err != nil {
			t.Logf("passes: %v", err)
			continue
		}
		if err := batch.Commit(t.Context()); err != nil || batch.First != 0 {
			t.Fatalf("at %d: %v", batch.First, err)
		}
		batch.Release()
		break
	}
}
