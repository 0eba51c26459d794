package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/client/mqdtest"
)

// patient ends a test that hangs.
func patient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// batch polls for a batch, over errors that pass.
func batch(ctx context.Context, t *testing.T, in *client.Consumer) *client.Batch {
	t.Helper()
	for {
		b, err := in.Poll(ctx)
		if err == nil {
			return b
		}
		if e := (*client.Error)(nil); !errors.As(err, &e) || !e.Retriable {
			t.Fatal(err)
		}
	}
}

// TestALifeOfTheBrokerIsAnEpoch has records of two lives, and a commit between them.
func TestALifeOfTheBrokerIsAnEpoch(t *testing.T) {
	b := mqdtest.New(t)
	b.CreateTopic("orders", 1)
	b.Send("orders", client.Record{Value: []byte("a")})
	b.Crash()
	b.Send("orders", client.Record{Value: []byte("b")})
	ctx, c := patient(t), b.Client()
	in := must(c.Consumer(client.Group("shop"), client.Topics("orders"), client.WithAutoCommit(0, 0)))
	var at []client.Position
	for len(at) < 2 {
		bt := batch(ctx, t, in)
		for r := range bt.Records() {
			at = append(at, bt.Position(r))
		}
		for i := range at {
			if err := bt.CommitTo(ctx, at[i].Offset+1); err != nil {
				t.Fatal(err)
			}
		}
		bt.Release()
	}
	if at[0].Epoch < 1 || at[1].Epoch <= at[0].Epoch {
		t.Errorf("epochs %d and %d", at[0].Epoch, at[1].Epoch)
	}
	offsets := must(c.Admin().GroupOffsets(ctx, "shop"))
	if len(offsets) != 1 || offsets[0].Next != 2 || offsets[0].Epoch != at[1].Epoch {
		t.Errorf("%+v", offsets)
	}
	// A position taken of this log leads to its record; one of a log that has gone does not.
	from := must(c.Consumer(client.FromPositions(at[1])))
	if bt := batch(ctx, t, from); bt.First != 1 {
		t.Errorf("begins at %d", bt.First)
	}
	at[1].Epoch++
	if _, err := must(c.Consumer(client.FromPositions(at[1]))).Poll(ctx); !errors.Is(err, client.ErrDiverged) {
		t.Errorf("%v", err)
	}
}

// TestAGroupRetriesOverACrash works through records one of which fails twice, once before
// and once behind a crash of the broker.
func TestAGroupRetriesOverACrash(t *testing.T) {
	b := mqdtest.New(t)
	b.CreateTopic("orders", 1)
	b.Send("orders", client.Record{Value: []byte("a")}, client.Record{Value: []byte("bad")}, client.Record{Value: []byte("c")})
	ctx := patient(t)
	in := must(b.Client().Consumer(client.Group("shop"), client.Topics("orders"), client.WithAutoCommit(0, 0)))
	var got []string
	for len(got) < 5 {
		bt := batch(ctx, t, in)
		next := bt.Last + 1
		for r := range bt.Records() {
			got = append(got, fmt.Sprintf("%s %d", r.Value, r.Attempt))
			if string(r.Value) == "bad" && r.Attempt < 3 {
				if r.Attempt == 1 {
					b.Crash()
				}
				next = r.Offset
				if err := in.Seek(ctx, bt.Position(r)); err != nil {
					t.Fatal(err)
				}
				break
			}
		}
		if err := bt.CommitTo(ctx, next); err != nil {
			t.Fatal(err)
		}
		bt.Release()
	}
	if want := []string{"a 1", "bad 1", "bad 2", "bad 3", "c 1"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestATrimOutOfRangeNamesTheRange has the range looked up, for the answer has none.
func TestATrimOutOfRangeNamesTheRange(t *testing.T) {
	b := mqdtest.New(t)
	b.CreateTopic("empty", 1)
	b.CreateTopic("orders", 1)
	for range 3 {
		b.Send("orders", client.Record{Value: []byte("v")})
	}
	ctx, a := patient(t), b.Client().Admin()
	if start, err := a.TrimTopic(ctx, "orders", 0, client.Offset(1)); start != 1 || err != nil {
		t.Fatal(start, err)
	}
	for topic, want := range map[string][2]int64{"empty": {0, 0}, "orders": {1, 3}} {
		_, err := a.TrimTopic(ctx, topic, 0, client.Offset(4711))
		var e *client.Error
		if !errors.As(err, &e) || !errors.Is(err, client.ErrOffsetOutOfRange) {
			t.Fatal(err)
		}
		if got := [2]int64{e.ValidLow, e.ValidHigh}; e.Offset != 4711 || got != want {
			t.Errorf("%v: offset %d, range %v, expected %v", e, e.Offset, got, want)
		}
	}
}
