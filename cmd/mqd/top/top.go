// Package top has the verb that shows what shards do, while they do it: mqd top.
package top

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/mqd-broker/mqd/admin"
	"github.com/mqd-broker/mqd/cmd/mqd/adminclient"
	"github.com/mqd-broker/mqd/cmd/mqd/signals"
	"github.com/spf13/cobra"
)

const (
	// leastInterval is what a person can follow, and no load for the broker.
	leastInterval = 100 * time.Millisecond
	// Sequences of terminals: the screen cleared, the cursor at its first place, the rest
	// of a line and of the screen cleared.
	clearScreen, home, clearLine, clearBelow = "\x1b[2J", "\x1b[H", "\x1b[K", "\x1b[J"
)

// state is what a broker tells at a moment.
type state struct {
	at     time.Time
	status admin.Status
	shards []admin.ShardMetrics
	stages []admin.ShardStages
}

// New makes the verb. A terminal is drawn on, anything else is written to.
func New(isTerminal func(io.Writer) bool) *cobra.Command {
	var broker *adminclient.Broker
	var interval time.Duration
	var once bool
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show what every shard does, live",
		Long: `Show what every shard of a broker does, anew in every interval, until Ctrl-C: rates of
batches and bytes, how busy it is, how full its journal and its memory are, and how long
batches and fetches took in each stage. Figures are those of the interval, not of the
time since the start.

BUSY is the share of its CPU that a shard has used. BATCH/RND is how many batches shared
one durable write. Of the stages, parse is from a batch's arrival until it is checked,
append its way to the shard that owns its partition, round the wait for the commit before,
device the durable write, ack the answer to the kernel. Fetch wait is long for a consumer that has read everything.

On a terminal the screen is drawn anew; elsewhere one text follows another. With more
than 16 shards the busiest are shown.`,
		Example: `  mqd top
  mqd top --once
  mqd top --interval 5s --admin 127.0.0.1:9645`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if interval < leastInterval {
				return fmt.Errorf("--interval is %v, expected at least %v", interval, leastInterval)
			}
			ctx, cancel := context.WithCancelCause(cmd.Context())
			defer cancel(nil)
			defer signals.OnInterrupt(cancel)()
			out := cmd.OutOrStdout()
			return watch(ctx, broker, out, interval, once, isTerminal(out) && !once)
		},
	}
	broker = adminclient.AddFlags(cmd)
	cmd.Flags().DurationVar(&interval, "interval", time.Second, "how often it is looked")
	cmd.Flags().BoolVar(&once, "once", false, "show one interval and end")
	return cmd
}

// watch shows an interval after another.
func watch(ctx context.Context, b *adminclient.Broker, w io.Writer, interval time.Duration, once, draw bool) error {
	before, err := ask(ctx, b)
	if err != nil {
		return err
	}
	if draw {
		if _, err := io.WriteString(w, clearScreen); err != nil {
			return err
		}
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil // it was told to stop
		case <-tick.C:
		}
		now, err := ask(ctx, b)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		text := render(before, now)
		if draw {
			text = home + strings.ReplaceAll(text, "\n", clearLine+"\n") + clearBelow
		} else if !once {
			text += "\n"
		}
		if _, err := io.WriteString(w, text); err != nil || once {
			return err
		}
		before = now
	}
}

// ask has a broker tell.
func ask(ctx context.Context, b *adminclient.Broker) (*state, error) {
	s := &state{}
	for _, q := range [...]struct {
		path string
		into any
	}{{admin.PathStatus, &s.status}, {admin.PathShards, &s.shards}, {admin.PathStages, &s.stages}} {
		if err := b.GetJSON(ctx, q.path, q.into); err != nil {
			return nil, err // the others would say the same
		}
	}
	s.at = time.Now()
	return s, nil
}
