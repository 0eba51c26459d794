package mqdtest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/client/mqdtest"
)

// shop is the code under test.
type shop struct{ orders *client.Producer }

func (s shop) order(ctx context.Context, what string) error {
	_, err := s.orders.Send(ctx, client.Record{Value: []byte(what)})
	return err
}

// Hours pass at once in a bubble of testing/synctest: here a program that commits once an
// hour, and the power of its broker that fails before it has.
func ExampleInMemory() {
	_ = func(t *testing.T) { // func TestNothingIsLostWithThePower(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := mqdtest.New(t, mqdtest.InMemory())
			b.CreateTopic("orders", 1)
			orders, err := b.Client().Producer("orders", client.WithIdempotence())
			if err != nil {
				t.Fatal(err)
			}
			if err := (shop{orders}).order(t.Context(), "a pump"); err != nil {
				t.Error(err)
			}
			time.Sleep(59 * time.Minute)
			b.CutPower()
			if got := b.ReadAll("orders"); len(got) != 1 {
				t.Errorf("%d orders are stored", len(got))
			}
		})
	}
}

// A test of a program that sends messages, with a crash of the broker in between.
func ExampleNew() {
	_ = func(t *testing.T) { // func TestOrdersAreStored(t *testing.T) {
		b := mqdtest.New(t)
		b.CreateTopic("orders", 1)
		orders, err := b.Client().Producer("orders", client.WithIdempotence())
		if err != nil {
			t.Fatal(err)
		}
		s := shop{orders}
		if err := s.order(t.Context(), "a pump"); err != nil {
			t.Error(err)
		}
		b.Crash()
		if err := s.order(t.Context(), "two valves"); err != nil {
			t.Error(err)
		}
		if got := b.ReadAll("orders"); len(got) != 2 {
			t.Errorf("%d orders are stored", len(got))
		}
	}
}
