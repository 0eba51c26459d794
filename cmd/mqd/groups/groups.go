// Package groups is the verb mqd group: consumer groups, their lag, and where they stand.
package groups

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/net/wire"
	"github.com/spf13/cobra"
)

// Forms of output.
const (
	formTable = "table"
	formJSON  = "json"
	formLines = "jsonl"
)

// Completion completes words of the command line.
type Completion = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective)

// Broker is the broker that the verbs talk to, as their flags say.
type Broker struct {
	// With connects, has f work within the timeout, and closes.
	With func(ctx context.Context, f func(ctx context.Context, c *client.Client) error) error
	// Topics completes the names of topics.
	Topics Completion
}

// verbs are the verbs and what they need.
type verbs struct {
	Broker
	form func(cmd *cobra.Command, forms ...string) func() string
}

// New makes the verb. Attach gives it the flags that say which broker; form gives a
// command the flag -o with the forms that it has, and returns what tells the chosen one.
func New(attach func(cmd *cobra.Command) Broker, form func(cmd *cobra.Command, forms ...string) func() string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "group",
		Short: "List, describe, move and delete consumer groups",
	}
	v := &verbs{attach(cmd), form}
	cmd.AddCommand(v.newList(), v.newDescribe(), v.newSeek(), v.newAssign(), v.newDelete())
	return cmd
}

// with has f manage groups; its errors tell what to do.
func (v *verbs) with(cmd *cobra.Command, group string, f func(ctx context.Context, a *client.Admin) error) error {
	return v.With(cmd.Context(), func(ctx context.Context, c *client.Client) error {
		return explain(group, f(ctx, c.Admin()))
	})
}

// explain puts what groups are refused with into the words of an operator.
func explain(group string, err error) error {
	var e *client.Error
	if !errors.As(err, &e) {
		return err
	}
	at := fmt.Sprintf("%s/%d", e.Topic, e.Partition)
	switch e.Code {
	case wire.CodeUnknownGroup:
		return fmt.Errorf("group %q does not exist; see those that do with: mqd group list", group)
	case wire.CodeGroupActive:
		if e.Topic == "" {
			return fmt.Errorf("group %q has members; stop them first, see them with: mqd group describe %s", group, group)
		}
		return fmt.Errorf("%s is being read by a member of group %q; stop it first, see it with: mqd group describe %s", at, group, group)
	case wire.CodeGroupWrongMode:
		return fmt.Errorf("group %q divides its partitions among its members by itself; only those of a group with manual assignment are assigned", group)
	case wire.CodeOffsetBeyondEnd:
		return fmt.Errorf("the offset is behind the end of %s; see the end with: mqd topic describe %s", at, e.Topic)
	case wire.CodeInvalidGroup:
		return fmt.Errorf("group %q: a name has 1 to 249 bytes and no control characters", group)
	}
	return err
}

// groupNames completes the names of groups as the first argument.
func (v *verbs) groupNames(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	const patience = time.Second
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var names []string
	err := v.With(ctx, func(ctx context.Context, c *client.Client) error {
		list, err := c.Admin().ListGroups(ctx)
		for _, g := range list {
			names = append(names, g.Group)
		}
		return err
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// modeNames are the modes as people read them.
var modeNames = map[wire.GroupMode]string{wire.GroupNone: "none", wire.GroupAuto: "auto", wire.GroupManual: "manual", wire.GroupKafka: "kafka"}

// listed is a group of a list in JSON.
type listed struct {
	Group   string `json:"group"`
	Mode    string `json:"mode"`
	Members uint32 `json:"members"`
	Offsets uint32 `json:"offsets"`
}

func (v *verbs) newList() *cobra.Command {
	var chosen func() string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List consumer groups",
		Long: `List consumer groups: how they divide partitions (none: offsets are all they have), how
many members they have, and of how many partitions they have committed an offset.`,
		Example: `  mqd group list
  mqd group list -o jsonl --server broker1:7878`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var groups []client.GroupInfo
			err := v.with(cmd, "", func(ctx context.Context, a *client.Admin) (err error) {
				groups, err = a.ListGroups(ctx)
				return err
			})
			if err != nil {
				return err
			}
			rows := make([]listed, len(groups)) // not nil: an empty list is []
			for i, g := range groups {
				rows[i] = listed{g.Group, modeNames[g.Mode], g.Members, g.Offsets}
			}
			return show(cmd.OutOrStdout(), chosen(), rows, rows, func(w io.Writer) {
				fmt.Fprint(w, "GROUP\tMODE\tMEMBERS\tOFFSETS\n")
				for _, g := range rows {
					fmt.Fprintf(w, "%s\t%s\t%d\t%d\n", dash(g.Group), g.Mode, g.Members, g.Offsets)
				}
			})
		},
	}
	chosen = v.form(cmd, formTable, formJSON, formLines)
	return cmd
}

// show writes one value as JSON, rows as lines of JSON, or what table fills.
func show[R any](w io.Writer, form string, whole any, rows []R, table func(w io.Writer)) error {
	enc := json.NewEncoder(w)
	switch form {
	case formJSON:
		enc.SetIndent("", "  ")
		return enc.Encode(whole)
	case formLines:
		for i := range rows {
			if err := enc.Encode(&rows[i]); err != nil {
				return err
			}
		}
		return nil
	}
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	table(tw)
	return tw.Flush()
}

// checkPartitions checks the values of --partition.
func checkPartitions(list []int32) error {
	for _, p := range list {
		if p < 0 {
			return fmt.Errorf("--partition is %d, expected 0 or more", p)
		}
	}
	return nil
}
