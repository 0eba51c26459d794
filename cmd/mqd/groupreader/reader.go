// Package groupreader is mqd consume --group: it reads a topic as a member of a
// consumer group and commits what it has written.
package groupreader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/cmd/mqd/groups"
	"github.com/mqd-broker/mqd/internal/messages"
)

const (
	// quiet is how long nothing may come before what was committed is looked at.
	quiet = time.Second
	// leaving bounds the commit and the leaving at the end.
	leaving = 10 * time.Second
)

// Reader reads as a member.
type Reader struct {
	Group, Topic string
	// From is where partitions begin of which the group has committed nothing.
	From client.Place
	// Count is how many messages are enough; 0 is no limit.
	Count int64
	// Follow waits for more at the end of the partitions.
	Follow bool
	Out    *messages.Writer
	// Errs gets what passes.
	Errs io.Writer
}

// Run reads until there is enough, or ctx ends, and then commits and leaves the group.
// The error is ctx's cause, the client's or that of writing.
func (r *Reader) Run(ctx context.Context, c *client.Client) error {
	co, err := c.Consumer(client.Group(r.Group), client.Topics(r.Topic), client.From(r.From))
	if err != nil {
		return r.explain(c, err)
	}
	err = r.explain(c, r.read(ctx, co))
	end, cancel := context.WithTimeout(context.Background(), leaving)
	defer cancel()
	return errors.Join(err, co.Close(end))
}

// explain puts what keeps the member out of the group into the words of an operator.
func (r *Reader) explain(c *client.Client, err error) error {
	ctx, cancel := context.WithTimeout(context.Background(), leaving)
	defer cancel()
	return groups.NotJoined(ctx, c.Admin(), r.Group, err)
}

func (r *Reader) read(ctx context.Context, co *client.Consumer) error {
	for {
		polled, cancel := context.WithTimeout(ctx, quiet)
		b, err := co.Poll(polled)
		cancel()
		var e *client.Error
		switch {
		case err == nil:
			if done, err := r.take(ctx, b); done || err != nil {
				return err
			}
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, context.DeadlineExceeded):
			if !r.Follow && atEnd(ctx, co) {
				return nil
			}
		case errors.As(err, &e) && e.Retriable:
			if _, err := fmt.Fprintf(r.Errs, "mqd: %s; trying again\n", strings.TrimPrefix(err.Error(), "mqd: ")); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// take writes a batch, and gives it back when that is handed over: then it may be
// committed. It reports whether there is enough, of which the rest of the batch is not.
func (r *Reader) take(ctx context.Context, b *client.Batch) (enough bool, err error) {
	for v := range b.Records() {
		if err := r.Out.Write(b.Partition, &v); err != nil {
			return false, err
		}
		if r.Out.Messages == r.Count {
			return true, errors.Join(r.Out.Flush(), b.CommitTo(ctx, v.Offset+1))
		}
	}
	if err := r.Out.Flush(); err != nil {
		return false, err
	}
	b.Release()
	return false, nil
}

// atEnd reports whether nothing is left of the partitions that the member has.
func atEnd(ctx context.Context, co *client.Consumer) bool {
	ctx, cancel := context.WithTimeout(ctx, quiet)
	defer cancel()
	lags, err := co.Lag(ctx)
	return err == nil && !slices.ContainsFunc(lags, func(l client.Lag) bool { return l.Records > 0 })
}
