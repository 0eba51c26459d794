// Package trim is the verb that deletes the oldest messages of a topic.
package trim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/cmd/mqd/consent"
	"github.com/mqd-broker/mqd/internal/quantity"
)

// Server is where the verb has its broker from.
type Server interface {
	// With calls f with a client that is closed behind it.
	With(ctx context.Context, f func(ctx context.Context, c *client.Client) error) error
}

// verb is a command line.
type verb struct {
	server         Server
	partition      int
	offset, before string
	dry            bool
	agreed         *consent.Consent
}

// New makes the command.
func New(s Server, names cobra.CompletionFunc) *cobra.Command {
	v := &verb{server: s}
	cmd := &cobra.Command{
		Use:   "trim NAME --partition N (--offset OFFSET | --before TIME)",
		Short: "Delete the oldest messages of a topic",
		Long: `Delete the messages of a partition that are before an offset or a time, for good. When
the command returns this is durable and nobody can read them any more; whole files go
from the disk, in the background. With --dry-run it only says what would go.

` + consent.Help,
		Example: `  mqd topic trim orders --partition 0 --offset 4711
  mqd topic trim orders --partition 0 --offset end --yes
  mqd topic trim orders --partition -1 --before 2026-01-31T12:00:00Z --dry-run`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			// What deletes for good takes no partition that nobody has named.
			if !cmd.Flags().Changed("partition") {
				return errors.New("trim: --partition is missing; say which partition, or -1 for all")
			}
			at, err := v.place()
			if err != nil {
				return err
			}
			return v.run(cmd, args[0], at)
		},
	}
	cmd.Flags().IntVar(&v.partition, "partition", 0, "`number` of the partition, which has to be given; -1 is all, and goes with --offset end or --before")
	cmd.Flags().StringVar(&v.offset, "offset", "", "first `offset` that stays, or end")
	cmd.Flags().StringVar(&v.before, "before", "", "`time` of the first message that stays, such as 2026-01-31T12:00:00Z, or in milliseconds since 1970")
	cmd.Flags().BoolVar(&v.dry, "dry-run", false, "say what would go, and delete nothing")
	v.agreed = consent.Add(cmd)
	return cmd
}

// place is where the log is to begin.
func (v *verb) place() (client.Place, error) {
	switch {
	case v.dry && v.agreed.Given():
		return client.Place{}, errors.New("--yes and --dry-run exclude each other")
	case v.partition < -1:
		return client.Place{}, fmt.Errorf("--partition is %d, expected 0 or more, or -1 for all", v.partition)
	case (v.offset == "") == (v.before == ""):
		return client.Place{}, errors.New("give either --offset or --before")
	case v.offset == "end":
		return client.End(), nil
	case v.offset != "":
		n, err := strconv.ParseInt(v.offset, 10, 64)
		if err != nil || n < 0 {
			return client.Place{}, fmt.Errorf("--offset is %q, expected an offset such as 4711, or end", v.offset)
		}
		if v.partition < 0 {
			return client.Place{}, errors.New("an offset is one of a partition; give --partition")
		}
		return client.Offset(n), nil
	}
	if ms, err := strconv.ParseInt(v.before, 10, 64); err == nil && ms >= 0 {
		return client.Time(time.UnixMilli(ms)), nil
	}
	t, err := time.Parse(time.RFC3339, v.before)
	if err != nil {
		return client.Place{}, fmt.Errorf("--before is %q, expected a time such as 2026-01-31T12:00:00Z or 1700000000000", v.before)
	}
	return client.Time(t), nil
}

// cut is a partition as it is, and the place where its log is to begin.
type cut struct {
	partition int
	was       client.PartitionInfo
	place     client.Place
	held      client.Lag // of a reader at the start of the log, before anything goes
}

// gone is how many messages go when the log begins at an offset for whose reader left is
// what there is: offsets of recorded gaps never had any.
func (c *cut) gone(left client.Lag) int64 {
	return max(0, c.held.Records-c.held.End-(left.Records-left.End))
}

// run says what would go, and deletes it if it may.
func (v *verb) run(cmd *cobra.Command, topic string, at client.Place) error {
	var cuts []cut
	var goes int64
	err := v.server.With(cmd.Context(), func(ctx context.Context, c *client.Client) (err error) {
		if cuts, err = v.chosen(ctx, c.Admin(), topic, at); err == nil && !v.agreed.Given() {
			goes, err = v.plan(ctx, c.Admin(), topic, cuts, cmd.OutOrStdout())
		}
		return err
	})
	if err != nil || v.dry || goes == 0 && !v.agreed.Given() {
		return err
	}
	// Without a connection: a person may take long.
	what := fmt.Sprintf("%s of topic %s", quantity.Of(goes, "message", "messages"), topic)
	if err := v.agreed.Ask(cmd, what); err != nil {
		return err
	}
	return v.server.With(cmd.Context(), func(ctx context.Context, c *client.Client) error {
		return trim(ctx, c.Admin(), topic, cuts, cmd.OutOrStdout())
	})
}

// chosen are the partitions that the flags name.
func (v *verb) chosen(ctx context.Context, a *client.Admin, topic string, at client.Place) ([]cut, error) {
	d, err := a.DescribeTopic(ctx, topic)
	if err != nil {
		return nil, err
	}
	if v.partition >= len(d.Partitions) {
		return nil, fmt.Errorf("topic %s has partitions 0 to %d, not %d", topic, len(d.Partitions)-1, v.partition)
	}
	var cuts []cut
	for n, p := range d.Partitions {
		if v.partition < 0 || v.partition == n {
			cuts = append(cuts, cut{partition: n, was: p, place: at})
		}
	}
	starts := map[int32]int64{}
	for _, c := range cuts {
		starts[int32(c.partition)] = c.was.LogStart
	}
	held, err := a.Lag(ctx, topic, starts)
	for i := range held {
		cuts[i].held = held[i]
	}
	return cuts, err
}

// plan says what would go. It is what goes then, whatever comes to the end meanwhile.
func (v *verb) plan(ctx context.Context, a *client.Admin, topic string, cuts []cut, out io.Writer) (goes int64, err error) {
	for i := range cuts {
		c := &cuts[i]
		to, err := v.target(ctx, a, topic, c)
		if err != nil {
			return 0, err
		}
		to = max(to, c.was.LogStart)
		c.place = client.Offset(to)
		n, err := tell(ctx, a, out, topic, c, "would delete", to)
		if err != nil {
			return 0, err
		}
		goes += n
	}
	return goes, nil
}

// trim deletes what is before the places.
func trim(ctx context.Context, a *client.Admin, topic string, cuts []cut, out io.Writer) error {
	for i := range cuts {
		c := &cuts[i]
		to, err := a.TrimTopic(ctx, topic, c.partition, c.place)
		var e *client.Error
		if errors.As(err, &e) && errors.Is(err, client.ErrOffsetOutOfRange) && e.ValidHigh >= 0 {
			err = outside(topic, c.partition, e.Offset, e.ValidLow, e.ValidHigh)
		}
		if err == nil {
			_, err = tell(ctx, a, out, topic, c, "deleted", to)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// tell says what goes when the log of a partition begins at to, and how many messages that
// is.
func tell(ctx context.Context, a *client.Admin, out io.Writer, topic string, c *cut, verb string, to int64) (int64, error) {
	to = max(to, c.was.LogStart)
	left, err := a.Lag(ctx, topic, map[int32]int64{int32(c.partition): to})
	if err != nil {
		return 0, err
	}
	n := c.gone(left[0])
	_, err = fmt.Fprintf(out, "topic %s partition %d: %s %s; the log begins at %d, before at %d\n",
		topic, c.partition, verb, quantity.Of(n, "message", "messages"), to, c.was.LogStart)
	return n, err
}

// outside is the error of an offset that the log of partition n has not.
func outside(topic string, n int, offset, low, high int64) error {
	return fmt.Errorf("offset %d is not in partition %d of topic %s, which has %d to %d", offset, n, topic, low, high)
}

// target is where the log of a partition would begin.
func (v *verb) target(ctx context.Context, a *client.Admin, topic string, c *cut) (int64, error) {
	if v.offset != "" && v.offset != "end" {
		to, err := strconv.ParseInt(v.offset, 10, 64)
		if err == nil && to > c.was.Durable {
			err = outside(topic, c.partition, to, c.was.LogStart, c.was.Durable)
		}
		return to, err
	}
	found, err := a.ListOffsets(ctx, topic, c.place)
	if err != nil {
		return 0, err
	}
	return found[c.partition].Offset, nil
}
