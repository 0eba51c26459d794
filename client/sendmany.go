package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/mqd-broker/mqd/client/internal/lane"
)

// BatchError says which records of a [Producer.SendBatch] failed.
type BatchError struct {
	// Errors has one entry for each record, nil for those that were
	// acknowledged.
	Errors []error
	// Failed is how many are not nil.
	Failed int
}

// Error counts the failures and shows the first.
func (e *BatchError) Error() string {
	for i, err := range e.Errors {
		if err != nil {
			return fmt.Sprintf("mqd: %d of %d records failed, the first is record %d: %s", e.Failed, len(e.Errors), i, plain(err))
		}
	}
	return "mqd: no record failed"
}

// Unwrap returns the failures.
func (e *BatchError) Unwrap() []error {
	errs := make([]error, 0, e.Failed)
	for _, err := range e.Errors {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// SendBatch appends records in order and waits for all of them. They travel in
// as few batches as their sizes and partitions allow; records without a key go
// to one partition. Positions of records that failed have offset -1, and the
// error is then a [*BatchError].
func (p *Producer) SendBatch(ctx context.Context, rs []Record) ([]Position, error) {
	tickets := make([]Ticket, len(rs))
	failed := &BatchError{}
	fail := func(i int, err error) {
		if failed.Errors == nil {
			failed.Errors = make([]error, len(rs))
		}
		failed.Errors[i] = err
		failed.Failed++
	}
	var keyless *lane.Lane
	touched := map[*lane.Lane]struct{}{}
	for i := range rs {
		var ln *lane.Lane
		if rs[i].Key == nil {
			ln = keyless
		}
		ln, t, err := p.appendPart(ctx, &rs[i], ln, touched)
		if rs[i].Key == nil && p.cfg.partitioner == nil {
			keyless = ln
		}
		if err != nil {
			fail(i, err)
			continue
		}
		tickets[i] = t
		touched[ln] = struct{}{}
	}
	p.sendHeld(touched)
	positions := make([]Position, len(rs))
	for i, t := range tickets {
		positions[i] = Position{Topic: p.topic.name, Partition: -1, Offset: -1}
		if t.b == nil {
			continue
		}
		var err error
		if positions[i], err = t.Wait(ctx); err != nil {
			fail(i, err)
		}
	}
	if failed.Failed > 0 {
		return positions, failed
	}
	return positions, nil
}

// appendPart queues one record of many and holds its batch open.
func (p *Producer) appendPart(ctx context.Context, r *Record, ln *lane.Lane, touched map[*lane.Lane]struct{}) (*lane.Lane, Ticket, error) {
	ln, t, kick, missing, err := p.tryAppend(ctx, r, ln, lane.SendLater)
	if kick != nil {
		kick.Kick()
	}
	if errors.Is(err, lane.ErrNoRoom) {
		// The records before must leave, or there will never be room.
		p.sendHeld(touched)
		t, err = p.appendSlow(ctx, ln, r, missing, lane.SendLater)
		return ln, t, err
	}
	if err != nil {
		err = p.appendError(ln, err)
	}
	return ln, t, err
}

// sendHeld lets the lanes send what was held open.
func (p *Producer) sendHeld(lanes map[*lane.Lane]struct{}) {
	for ln := range lanes {
		if kick := ln.Send(); kick != nil {
			kick.Flush()
		}
	}
}
