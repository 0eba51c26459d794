package groups

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/mqd-broker/mqd/client"
	"github.com/spf13/cobra"
)

// move is a change of an offset in JSON.
type move struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	From      *int64 `json:"from"`
	To        int64  `json:"to"`
	Start     int64  `json:"start"`
	End       int64  `json:"end"`
}

func (v *verbs) newSeek() *cobra.Command {
	var topic, to string
	var partitions []int32
	var yes bool
	var chosen func() string
	cmd := &cobra.Command{
		Use:   "seek GROUP --topic TOPIC --to PLACE",
		Short: "Move where a group goes on reading",
		Long: `Move where a group goes on reading, of one topic. Without --yes nothing is changed, and
the output tells from where to where each partition would be moved.

PLACE is

  start    the first message stored
  end      behind all messages: only new ones are read
  OFFSET   a certain offset, such as 4711
  @TIME    the first message at or after a time: @2026-11-30T08:00:00Z, or @ and
           milliseconds since 1970
  +N, -N   N messages on or back from what is committed, but within the log

Partitions that a member reads are refused: stop the members first. A group that does not
exist is made.`,
		Example: `  mqd group seek risk --topic orders --to start
  mqd group seek risk --topic orders --to @2026-11-30T08:00:00Z --yes
  mqd group seek risk --topic orders --partition 3 --to -1000 --yes`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: v.groupNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			target, err := parseTarget(to)
			if err != nil {
				return err
			}
			if topic == "" {
				return errors.New("seek: --topic is missing; say which topic's offsets are moved")
			}
			if err := checkPartitions(partitions); err != nil {
				return err
			}
			var moves []client.GroupMove
			var was client.GroupDescription
			err = v.with(cmd, args[0], func(ctx context.Context, a *client.Admin) (err error) {
				if moves, err = a.PlanReset(ctx, args[0], topic, target, partitions...); err != nil {
					return err
				}
				if was, err = lookUp(ctx, a, args[0]); err != nil || !yes {
					return err
				}
				return a.ResetOffsets(ctx, args[0], moves)
			})
			if err != nil {
				return err
			}
			if was.Name == "" {
				if err := tellMade(cmd, args[0], chosen(), yes); err != nil {
					return err
				}
			}
			return showMoves(cmd.OutOrStdout(), chosen(), moves, yes)
		},
	}
	cmd.Flags().StringVar(&topic, "topic", "", "`topic` whose offsets are moved")
	cmd.Flags().StringVar(&to, "to", "", "`place`: start, end, OFFSET, @TIME, +N or -N")
	cmd.Flags().Int32SliceVar(&partitions, "partition", nil, "`number` of a partition; may be repeated; none is all")
	noDefault(cmd, "partition")
	cmd.Flags().BoolVar(&yes, "yes", false, "do it; without, only tell what would be done")
	// The flag exists: it has just been made.
	_ = cmd.RegisterFlagCompletionFunc("topic", v.Topics)
	chosen = v.form(cmd, formTable, formJSON, formLines)
	return cmd
}

// tellMade tells that a group is made, or would be.
func tellMade(cmd *cobra.Command, group, form string, done bool) error {
	text, to := "group %s does not exist, and would be made\n", cmd.OutOrStdout()
	if done {
		text = "group %s did not exist, and was made\n"
	}
	if form != formTable {
		to = cmd.ErrOrStderr() // programs read the rest
	}
	_, err := fmt.Fprintf(to, text, group)
	return err
}

func showMoves(w io.Writer, form string, moves []client.GroupMove, done bool) error {
	rows := make([]move, len(moves))
	for i, m := range moves {
		rows[i] = move{m.Topic, m.Partition, known(m.From), m.To, m.Start, m.End}
	}
	err := show(w, form, rows, rows, func(w io.Writer) {
		fmt.Fprint(w, "TOPIC\tPARTITION\tFROM\tTO\tSTART\tEND\n")
		for _, m := range rows {
			fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%d\t%d\n", m.Topic, m.Partition, number(m.From), m.To, m.Start, m.End)
		}
	})
	if err != nil || form != formTable {
		return err
	}
	what := "nothing has been changed; add --yes to do it"
	if done {
		what = "moved"
	}
	_, err = fmt.Fprintln(w, what)
	return err
}

// parseTarget reads where offsets go.
func parseTarget(text string) (client.GroupTarget, error) {
	bad := func() (client.GroupTarget, error) {
		return client.GroupTarget{}, fmt.Errorf("--to is %q, expected start, end, an offset, @TIME, +N or -N", text)
	}
	switch {
	case text == "start":
		return client.ToStart(), nil
	case text == "end":
		return client.ToEnd(), nil
	case strings.HasPrefix(text, "@"):
		if ms, err := strconv.ParseInt(text[1:], 10, 64); err == nil && ms >= 0 {
			return client.ToTime(time.UnixMilli(ms)), nil
		}
		at, err := time.Parse(time.RFC3339, text[1:])
		if err != nil {
			return client.GroupTarget{}, fmt.Errorf("--to is %q, expected a time such as @2026-11-30T08:00:00Z, or @ and milliseconds since 1970", text)
		}
		return client.ToTime(at), nil
	case text == "":
		return bad()
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return bad()
	case text[0] == '+', text[0] == '-':
		return client.ToMove(n), nil
	}
	return client.ToOffset(n), nil
}

func (v *verbs) newAssign() *cobra.Command {
	var topic, instance string
	var partitions []int32
	var nobody bool
	cmd := &cobra.Command{
		Use:   "assign GROUP --topic TOPIC --partition N (--instance NAME | --nobody)",
		Short: "Give partitions to an instance, by hand",
		Long: `Give partitions of a topic to an instance of a group with manual assignment, whether it
is connected or not, or take them away from whoever has them. An instance that reads them
now stops first; what it has committed is where the next one goes on.

Partitions of an instance that has died wait until it comes back or they are moved; see
them with mqd group describe.

The first partition that is given makes a group without members one with manual assignment:
partitions without an instance are read by nobody then. A group that does not exist is made.
When nobody has any partition, the group divides them by itself again.`,
		Example: `  mqd group assign risk --topic orders --partition 0 --partition 1 --instance risk-2
  mqd group assign risk --topic orders --partition 3 --nobody`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: v.groupNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case topic == "":
				return errors.New("assign: --topic is missing")
			case len(partitions) == 0:
				return errors.New("assign: --partition is missing; it may be repeated")
			case nobody == (instance != ""):
				return errors.New("assign: expected either --instance or --nobody")
			}
			if err := checkPartitions(partitions); err != nil {
				return err
			}
			var note string
			err := v.with(cmd, args[0], func(ctx context.Context, a *client.Admin) (err error) {
				note, err = assign(ctx, a, args[0], instance, topic, partitions)
				return err
			})
			if err != nil {
				return err
			}
			to := instance
			if nobody {
				to = "nobody"
			}
			for _, p := range partitions {
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "assigned %s/%d to %s\n", topic, p, to); err != nil {
					return err
				}
			}
			_, err = io.WriteString(cmd.OutOrStdout(), note)
			return err
		},
	}
	cmd.Flags().StringVar(&topic, "topic", "", "`topic` of the partitions")
	cmd.Flags().Int32SliceVar(&partitions, "partition", nil, "`number` of a partition; may be repeated")
	noDefault(cmd, "partition")
	cmd.Flags().StringVar(&instance, "instance", "", "`name` of the instance that is to read them")
	cmd.Flags().BoolVar(&nobody, "nobody", false, "take them away from whoever has them")
	// The flag exists: it has just been made.
	_ = cmd.RegisterFlagCompletionFunc("topic", v.Topics)
	return cmd
}
