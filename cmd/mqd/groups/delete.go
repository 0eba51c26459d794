package groups

import (
	"context"
	"fmt"
	"strings"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/cmd/mqd/consent"
	"github.com/mqd-broker/mqd/internal/quantity"
	"github.com/spf13/cobra"
)

func (v *verbs) newDelete() *cobra.Command {
	var agreed *consent.Consent
	cmd := &cobra.Command{
		Use:   "delete GROUP...",
		Short: "Delete groups and everything that they have committed",
		Long: `Delete groups and everything that they have committed, at once and for good. A group that
has members is refused.

` + consent.Help,
		Example: `  mqd group delete risk
  mqd group delete risk audit --yes`,
		Args: cobra.MinimumNArgs(1),
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
			return v.groupNames(cmd, nil, word)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			// What goes is told without a connection being kept: a person may take long.
			if err := agreed.Get(cmd, func() (string, error) { return v.whatGoes(cmd, args) }); err != nil {
				return err
			}
			for _, name := range args {
				err := v.with(cmd, name, func(ctx context.Context, a *client.Admin) error { return a.DeleteGroup(ctx, name) })
				if err != nil {
					return err
				}
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "deleted group %s\n", name); err != nil {
					return err
				}
			}
			return nil
		},
	}
	agreed = consent.Add(cmd)
	return cmd
}

// whatGoes says what groups have, of which none may be unknown.
func (v *verbs) whatGoes(cmd *cobra.Command, names []string) (string, error) {
	var all []string
	for _, name := range names {
		var d client.GroupDescription
		err := v.with(cmd, name, func(ctx context.Context, a *client.Admin) (err error) {
			d, err = a.DescribeGroup(ctx, name)
			return err
		})
		if err != nil {
			return "", err
		}
		committed := 0
		for _, p := range d.Partitions {
			if p.Committed >= 0 {
				committed++
			}
		}
		all = append(all, fmt.Sprintf("group %s with %s", name, quantity.Of(committed, "committed offset", "committed offsets")))
	}
	return strings.Join(all, ", "), nil
}
