package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/cmd/mqd/consent"
	"github.com/mqd-broker/mqd/internal/quantity"
	"github.com/spf13/cobra"
)

func newTopicDelete(s *server) *cobra.Command {
	var agreed *consent.Consent
	cmd := &cobra.Command{
		Use:   "delete NAME...",
		Short: "Delete topics and all their messages",
		Long: `Delete topics and all their messages, at once and for good. A topic that is created
again under the same name is another one.

` + consent.Help,
		Example: `  mqd topic delete orders
  mqd topic delete orders ticks --yes`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: s.topicNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			// What goes is told without a connection being kept: a person may take long.
			if err := agreed.Get(cmd, func() (string, error) { return s.whatGoes(cmd.Context(), args) }); err != nil {
				return err
			}
			return s.With(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				for _, name := range args {
					if err := c.Admin().DeleteTopic(ctx, name); err != nil {
						return err
					}
					if _, err := fmt.Fprintf(cmd.OutOrStdout(), "deleted topic %s\n", name); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	agreed = consent.Add(cmd)
	return cmd
}

// whatGoes says what topics have, of which none may be unknown.
func (s *server) whatGoes(ctx context.Context, names []string) (string, error) {
	var all []string
	err := s.With(ctx, func(ctx context.Context, c *client.Client) error {
		for _, name := range names {
			d, err := c.Admin().DescribeTopic(ctx, name)
			if err != nil {
				return err
			}
			stored := int64(0) // bytes: offsets are no measure where a compaction or a gap has been
			for _, p := range d.Partitions {
				stored += p.BytesOnDisk
			}
			holding := "no messages"
			if stored > 0 {
				holding = quantity.Bytes(stored) + " on disk"
			}
			all = append(all, fmt.Sprintf("topic %s with %s and %s", name, quantity.Of(len(d.Partitions), "partition", "partitions"), holding))
		}
		return nil
	})
	return strings.Join(all, ", "), err
}
