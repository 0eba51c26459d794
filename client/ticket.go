package client

import (
	"context"

	"github.com/mqd-broker/mqd/client/internal/lane"
)

// Ticket is the receipt for a record that was queued: it says later which
// offset the record got. A small value, to copy and to drop at will.
type Ticket struct {
	b     *lane.Batch
	index int32 // of the record in its batch
}

// Done reports whether Wait returns at once.
func (t Ticket) Done() bool { return t.b == nil || t.b.Resolved() }

// Wait returns the record's position once the topic's durability class is
// reached. When ctx ends first the error is [ErrOutcomeUnknown], never a
// failure: the record is still on its way. It may be called any number of
// times.
func (t Ticket) Wait(ctx context.Context) (Position, error) {
	b := t.b
	if b == nil {
		return Position{Offset: -1}, opError("produce", "", -1, invalid("a ticket that no record was queued for"))
	}
	if !b.Resolved() {
		if err := waitFor(ctx, b); err != nil {
			return t.position(-1), err
		}
	}
	out := b.Outcome()
	if out.Err != nil {
		return t.position(-1), out.Err
	}
	if out.Base < 0 {
		return t.position(-1), nil // without acknowledgement
	}
	return t.position(out.Base + int64(t.index)), nil
}

// Class is the durability class that the record has reached; 0 until then.
func (t Ticket) Class() Class {
	if t.b == nil || !t.b.Resolved() {
		return 0
	}
	return t.b.Outcome().Class
}

func (t Ticket) position(offset int64) Position {
	return Position{Topic: t.b.Topic(), Partition: t.b.Partition(), Offset: offset}
}

// waitFor waits for a batch. Its outcome is unknown when ctx ends first.
func waitFor(ctx context.Context, b *lane.Batch) error {
	if err := b.Wait(ctx); err != nil {
		return unknownError("produce", b.Topic(), b.Partition(), err)
	}
	return nil
}
