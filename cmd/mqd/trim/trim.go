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
}

// New makes the command.
func New(s Server, names cobra.CompletionFunc) *cobra.Command {
	v := &verb{server: s}
	cmd := &cobra.Command{
		Use:   "trim NAME --partition N (--offset OFFSET | --before TIME)",
		Short: "Delete the oldest messages of a topic",
		Long: `Delete the messages of a partition that are before an offset or a time, for good. When
the command returns this is durable and nobody can read them any more; whole files go
from the disk, in the background. With --dry-run it only says what would go.`,
		Example: `  mqd topic trim orders --partition 0 --offset 4711
  mqd topic trim orders --partition 0 --offset end
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
			return s.With(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				return v.run(ctx, c.Admin(), args[0], at, cmd.OutOrStdout())
			})
		},
	}
	cmd.Flags().IntVar(&v.partition, "partition", 0, "`number` of the partition, which has to be given; -1 is all, and goes with --offset end or --before")
	cmd.Flags().StringVar(&v.offset, "offset", "", "first `offset` that stays, or end")
	cmd.Flags().StringVar(&v.before, "before", "", "`time` of the first message that stays, such as 2026-01-31T12:00:00Z, or in milliseconds since 1970")
	cmd.Flags().BoolVar(&v.dry, "dry-run", false, "say what would go, and delete nothing")
	return cmd
}

// place is where the log is to begin.
func (v *verb) place() (client.Place, error) {
	switch {
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

func (v *verb) run(ctx context.Context, a *client.Admin, topic string, at client.Place, out io.Writer) error {
	d, err := a.DescribeTopic(ctx, topic)
	if err != nil {
		return err
	}
	if v.partition >= len(d.Partitions) {
		return fmt.Errorf("topic %s has partitions 0 to %d, not %d", topic, len(d.Partitions)-1, v.partition)
	}
	for n, p := range d.Partitions {
		if v.partition >= 0 && v.partition != n {
			continue
		}
		to, verb := int64(0), "would delete"
		if v.dry {
			to, err = v.target(ctx, a, topic, n, at, &p)
		} else {
			verb = "deleted"
			to, err = a.TrimTopic(ctx, topic, n, at)
			var e *client.Error
			if errors.As(err, &e) && errors.Is(err, client.ErrOffsetOutOfRange) && e.ValidHigh >= 0 {
				err = outside(topic, n, e.Offset, e.ValidLow, e.ValidHigh)
			}
		}
		if err != nil {
			return err
		}
		to = max(to, p.LogStart)
		if _, err := fmt.Fprintf(out, "topic %s partition %d: %s %s; the log begins at %d, before at %d\n",
			topic, n, verb, quantity.Of(to-p.LogStart, "message", "messages"), to, p.LogStart); err != nil {
			return err
		}
	}
	return nil
}

// outside is the error of an offset that the log of partition n has not.
func outside(topic string, n int, offset, low, high int64) error {
	return fmt.Errorf("offset %d is not in partition %d of topic %s, which has %d to %d", offset, n, topic, low, high)
}

// target is where the log of partition n, which is p now, would begin.
func (v *verb) target(ctx context.Context, a *client.Admin, topic string, n int, at client.Place, p *client.PartitionInfo) (int64, error) {
	if v.offset != "" && v.offset != "end" {
		to, err := strconv.ParseInt(v.offset, 10, 64)
		if err == nil && to > p.Durable {
			err = outside(topic, n, to, p.LogStart, p.Durable)
		}
		return to, err
	}
	found, err := a.ListOffsets(ctx, topic, at)
	if err != nil {
		return 0, err
	}
	return found[n].Offset, nil
}
