package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/cmd/mqd/groupreader"
	"github.com/mqd-broker/mqd/cmd/mqd/signals"
	"github.com/mqd-broker/mqd/internal/messages"
	"github.com/mqd-broker/mqd/net/wire"
	"github.com/spf13/cobra"
)

// consume is the verb that reads messages.
type consume struct {
	server    *server
	format    formatFlag
	topic     string
	group     string
	from      string
	partition int32
	count     int64
	follow    bool
	summary   bool
}

func newConsume() *cobra.Command {
	c := &consume{}
	cmd := &cobra.Command{
		Use:   "consume TOPIC",
		Short: "Read messages",
		Long: `Read messages and write them to standard output, from the start of the topic to
what is its end when the command starts. With --follow the command goes on with what
comes, until a signal ends it.

Messages of one partition come in order. Partitions take turns as they answer.

With -o value every message is its value and a newline. With -o jsonl, or
json, it is a JSON object on a line of its own:

  {"partition":0,"offset":7,"timestamp":1700000000000,"key":"k","value":"v","headers":[]}

What is not UTF-8 is given in base64 as key_base64 and value_base64; null is no key
or no value. mqd produce --input jsonl takes these lines.

--from says where to begin: start, end, an offset, or @ and a time, either in
milliseconds since 1970 or as in 2026-01-31T12:00:00Z.

With --group the command is a member of a consumer group: it shares the partitions
with the other members, begins where the group has committed, else at --from, and
commits what it has written, also when it is ended with Ctrl-C.`,
		Example: `  mqd consume orders
  mqd consume orders --from end --follow -o json
  mqd consume orders --partition 2 --from 4711 --count 10
  mqd consume orders --group billing --follow
  mqd consume orders --from @2026-01-31T12:00:00Z`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.topic = args[0]
			return c.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	c.server = addServer(cmd)
	cmd.ValidArgsFunction = c.server.topicNames
	f := cmd.Flags()
	f.StringVar(&c.from, "from", "start", "`place` where to begin: start, end, OFFSET or @TIME")
	f.StringVarP(&c.group, "group", "g", "", "read as a member of this consumer `group`")
	f.Int32VarP(&c.partition, "partition", "p", -1, "read this `partition` only; -1 is all")
	f.Int64VarP(&c.count, "count", "n", 0, "stop after so many `messages`; 0 is no limit")
	f.BoolVarP(&c.follow, "follow", "f", false, "wait for more at the end")
	f.BoolVar(&c.summary, "summary", false, "write messages, bytes and time to standard error at the end")
	c.format.add(cmd, formatValue, formatJSON, formatLines)
	return cmd
}

func (c *consume) run(ctx context.Context, out, errs io.Writer) error {
	from, err := messages.ParseFrom(c.from)
	if err != nil {
		return err
	}
	if _, err := strconv.ParseInt(c.from, 10, 64); c.group != "" && (err == nil || c.partition >= 0) {
		return errors.New("--group goes without --partition, and with start, end or @TIME for --from")
	}
	if c.count < 0 {
		return fmt.Errorf("--count is %d, expected 0 or more", c.count)
	}
	if c.partition < -1 {
		return fmt.Errorf("--partition is %d, expected 0 or more, or -1 for all", c.partition)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer signals.OnInterrupt(cancel)()
	cl, err := c.server.dial(ctx)
	if err != nil {
		return err
	}
	defer c.server.close(cl)
	w := messages.NewWriter(out, c.format.text != formatValue)
	r := &reading{c: c, client: cl, out: w, errs: errs, wanted: c.count, began: time.Now()}
	if c.group != "" {
		g := groupreader.Reader{Group: c.group, Topic: c.topic, From: from, Count: c.count, Follow: c.follow, Out: w, Errs: errs}
		err = g.Run(ctx, cl)
	} else {
		err = r.all(ctx)
	}
	switch {
	case errors.Is(err, syscall.EPIPE):
		return nil // whoever reads has enough, as with head
	case errors.Is(err, signals.ErrInterrupted) && (c.follow || c.group != ""):
		err = nil // the only way to end it
	}
	err = c.damaged(err)
	// A writer says again what it has failed with.
	if last := w.Flush(); !errors.Is(err, last) {
		err = errors.Join(c.server.explain(err), last)
	} else {
		err = c.server.explain(err)
	}
	if c.summary && err == nil {
		_, err = fmt.Fprintln(errs, r.summary())
	}
	return err
}

// damaged tells a group the way on behind what is lost of a partition: it has no --from.
func (c *consume) damaged(err error) error {
	var e *client.Error
	if c.group == "" || !errors.As(err, &e) || e.Code != wire.CodeCorrupt || e.ValidLow <= e.Offset {
		return err
	}
	return &trouble{fmt.Sprintf("topic %s partition %d: what the broker has stored from offset %d to %d is damaged; go on behind it after: "+
		"mqd group seek %s --topic %s --partition %d --to %d --yes; mqd verify --server %s finds all damage, and mqd salvage gives it up",
		e.Topic, e.Partition, e.Offset, e.ValidLow-1, c.group, e.Topic, e.Partition, e.ValidLow, c.server.address()), err}
}

// span is what is to be read of a partition: from start, and up to end unless
// the command follows.
type span struct {
	partition  int32
	start, end int64
}

// reading is the way of messages from the broker to the output.
type reading struct {
	c      *consume
	client *client.Client
	out    *messages.Writer
	errs   io.Writer
	wanted int64 // messages still wanted; with a count of 0 there is no limit
	began  time.Time
	left   []span // partitions that have not come to their end
}

// all reads until there is enough.
func (r *reading) all(ctx context.Context) error {
	spans, err := r.spans(ctx)
	if err != nil {
		return err
	}
	r.left = spans
	if !r.c.follow {
		r.left = slices.DeleteFunc(r.left, func(s span) bool { return s.start >= s.end })
	}
	if len(r.left) == 0 {
		return nil
	}
	positions := make([]client.Position, len(r.left))
	for i, s := range r.left {
		positions[i] = client.Position{Topic: r.c.topic, Partition: s.partition, Offset: s.start}
	}
	consumer, err := r.client.Consumer(client.FromPositions(positions...))
	if err != nil {
		return err
	}
	defer consumer.Close(ctx)
	return r.loop(ctx, consumer)
}

// spans looks up where partitions begin and end.
func (r *reading) spans(ctx context.Context) ([]span, error) {
	ctx, cancel := context.WithTimeout(ctx, r.c.server.timeout)
	defer cancel()
	admin := r.client.Admin()
	ends, err := admin.ListOffsets(ctx, r.c.topic, client.End())
	if err != nil {
		return nil, err
	}
	p := int(r.c.partition)
	if p >= len(ends) {
		return nil, &client.Error{Op: "consume", Topic: r.c.topic, Partition: r.c.partition, Offset: -1, Err: client.ErrUnknownPartition}
	}
	offset, err := strconv.ParseInt(r.c.from, 10, 64)
	fixed := err == nil
	if fixed && p < 0 && len(ends) > 1 {
		return nil, fmt.Errorf("--from %d is an offset of one partition, and topic %s has %d: say which with --partition", offset, r.c.topic, len(ends))
	}
	place := client.Start()
	if !fixed {
		if place, err = messages.ParseFrom(r.c.from); err != nil {
			return nil, err
		}
	}
	starts, err := admin.ListOffsets(ctx, r.c.topic, place)
	if err != nil {
		return nil, err
	}
	var spans []span
	for i := range ends {
		s := span{int32(i), starts[i].Offset, ends[i].Offset}
		if p >= 0 && i != p {
			continue
		}
		if fixed {
			if offset < s.start || offset > s.end {
				return nil, fmt.Errorf("offset %d is not in partition %d of topic %s, which has %d to %d", offset, i, r.c.topic, s.start, s.end)
			}
			s.start = offset
		}
		spans = append(spans, s)
	}
	return spans, nil
}

// quiet is how long nothing may come before the position is looked at: offsets at
// the end that will never be filled bring no message.
const quiet = 200 * time.Millisecond

// loop takes batches until there is enough.
func (r *reading) loop(ctx context.Context, consumer *client.Consumer) error {
	heard := time.Now() // of the broker
	for len(r.left) > 0 {
		polled, cancel := context.WithTimeout(ctx, quiet)
		b, err := consumer.Poll(polled)
		cancel()
		switch {
		case err == nil:
			heard = time.Now()
			done, err := r.take(b)
			b.Release()
			if err != nil || done {
				return err
			}
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, context.DeadlineExceeded):
			if err := r.idle(ctx, consumer, &heard); err != nil {
				return err
			}
		default:
			if err := r.failed(err, heard); err != nil {
				return err
			}
		}
	}
	return nil
}

// take writes the wanted messages of a batch; true if there are enough.
func (r *reading) take(b *client.Batch) (enough bool, err error) {
	i := slices.IndexFunc(r.left, func(s span) bool { return s.partition == b.Partition })
	if i < 0 {
		return false, nil // more of a partition that has come to its end
	}
	s := &r.left[i]
	for v := range b.Records() {
		if !r.c.follow && v.Offset >= s.end {
			break
		}
		if err := r.out.Write(b.Partition, &v); err != nil {
			return false, err
		}
		if r.wanted--; r.wanted == 0 {
			return true, nil
		}
	}
	if !r.c.follow && b.Last+1 >= s.end {
		r.left = slices.Delete(r.left, i, i+1)
	}
	if r.c.follow {
		err = r.out.Flush()
	}
	return false, err
}

// idle is called when nothing has come for a while: whoever watches sees what
// there is, and partitions whose last offsets are empty are at their end.
func (r *reading) idle(ctx context.Context, consumer *client.Consumer, heard *time.Time) error {
	if err := r.out.Flush(); err != nil {
		return err
	}
	if r.c.follow {
		return nil
	}
	asked, cancel := context.WithTimeout(ctx, r.c.server.timeout)
	defer cancel()
	lags, err := consumer.Lag(asked)
	if err != nil {
		return r.failed(err, *heard)
	}
	*heard = time.Now()
	for _, lag := range lags {
		r.left = slices.DeleteFunc(r.left, func(s span) bool { return s.partition == lag.Partition && lag.Position >= s.end })
	}
	return nil
}

// failed deals with an error of the consumer: what may pass is waited for, with
// --follow as long as it takes.
func (r *reading) failed(err error, heard time.Time) error {
	var e *client.Error
	if !errors.As(err, &e) || !e.Retriable {
		return err
	}
	if !r.c.follow && time.Since(heard) > r.c.server.timeout {
		return err
	}
	_, werr := fmt.Fprintf(r.errs, "mqd: %s; trying again\n", strings.TrimPrefix(err.Error(), "mqd: "))
	return werr
}

// summary is the line for --summary.
func (r *reading) summary() string {
	return amount(r.out.Messages, r.out.Bytes, time.Since(r.began).Seconds())
}
