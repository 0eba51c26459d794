package benching

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/mqd-broker/mqd/bench/budgets"
	"github.com/mqd-broker/mqd/cmd/mqd/settings"
	"github.com/spf13/cobra"
)

func (t *tool) newAll() *cobra.Command {
	o := budgets.Options{}
	var restart string
	var strict bool
	cmd := &cobra.Command{
		Use:   "all [flags] [-- flags of serve]",
		Short: "Measure the floors and a broker against its budgets, in about three minutes",
		Long: `Start a broker on a new directory below --dir, measure disk, network and machine, and
the broker against budgets made of these floors; then end the broker. The verdicts in
the table are information: the exit status is 1 only if messages did not come back as
they went out, or with --strict.`,
		Example: `  mqd bench all
  mqd bench all --doors
  mqd bench all --dir /var/lib/mqd -- --shards 1`,
		Args: serveFlags,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Args = args
			var err error
			if o.Restart, err = settings.ParseSize(restart); err != nil {
				return fmt.Errorf("--restart-size: %w", err)
			}
			return t.all(cmd, o, strict)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&o.Rounds, "rounds", 7, "`rounds` of what is compared in turn")
	flags.DurationVar(&o.Piece, "piece", 400*time.Millisecond, "length of a measurement in a round")
	flags.DurationVar(&o.Long, "long", 3*time.Second, "length of other measurements")
	flags.IntVar(&o.Backlog, "backlog", 6_000_000, "`messages` of a consumer's backlog")
	flags.StringVar(&restart, "restart-size", "256MiB", "`size` of the messages in a broker that is killed and started again")
	flags.BoolVar(&o.Doors, "doors", false, "measure only Kafka's door beside the native one, and idle connections")
	flags.BoolVar(&strict, "strict", false, "exit with 1 as well if a budget fails")
	return cmd
}

// errBudget: a figure is outside its budget.
var errBudget = errors.New("budgets")

func (t *tool) all(cmd *cobra.Command, o budgets.Options, strict bool) error {
	ctx, end, p, err := t.begin(cmd)
	if err != nil {
		return err
	}
	defer end()
	if o.Program, err = os.Executable(); err != nil {
		return err
	}
	o.Dir, o.Interrupt, o.Revision, o.Place = t.dir, interruptsOf(t.dir), t.needs.Revision(), t.place
	o.Progress = func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) }
	out := cmd.OutOrStdout()
	report, err := budgets.All(ctx, p, o)
	if report != nil && t.form == formText {
		_, werr := io.WriteString(out, report.Text())
		err = errors.Join(err, werr)
	}
	err = t.finish(out, report, err)
	if err == nil && strict {
		if _, fail, _ := report.Kept(); fail > 0 {
			err = fmt.Errorf("%w: %d fail", errBudget, fail)
		}
	}
	return err
}
