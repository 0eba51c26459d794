package benching

import (
	"errors"
	"fmt"
	"time"

	"github.com/mqd-broker/mqd/bench"
	"github.com/mqd-broker/mqd/bench/report"
	"github.com/mqd-broker/mqd/bench/search"
	"github.com/spf13/cobra"
)

// objectiveHelp is what sweep and max have in common.
const objectiveHelp = `A rate breaks the objective when the 99.9th percentile of latency, from the intended
time, is over --objective, when less than 99.9 % of the rate is achieved, so that a
backlog grows, or when the result is INVALID: then it is the client's limit, and is said
to be so.`

// newSearch makes a verb that tries rates under one load.
func (t *tool) newSearch(cmd *cobra.Command, find func(s *session, load bench.Load, o search.Objective, each func(report.Step)) (search.Outcome, error)) *cobra.Command {
	f := &runFlags{repeat: 1}
	o := search.Objective{}
	f.add(cmd)
	flags := cmd.Flags()
	flags.DurationVar(&o.P999, "objective", 5*time.Millisecond, "largest 99.9th percentile of latency")
	for _, name := range []string{"rate", "burst"} {
		_ = flags.MarkHidden(name) // they exist
	}
	flags.Lookup("client").DefValue = "poll"
	flags.Lookup("arrival").Usage = "`gaps` between messages: constant, poisson, or day, whose rates are those of a day of which the rate that is tried is the mean, in the time of --duration"
	cmd.Args = serveFlags
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if flags.Changed("rate") || flags.Changed("burst") {
			return fmt.Errorf("--rate and --burst are for mqd bench run: %s tries rates by itself", cmd.Name())
		}
		if !flags.Changed("client") {
			f.client = f.client[:1]
		}
		loads, err := f.loads()
		if err != nil {
			return err
		}
		if len(loads) != 1 {
			return fmt.Errorf("the flags describe %d loads, expected one", len(loads))
		}
		loads[0].Rate = 1 // until the search sets it
		if err := loads[0].Validate(); err != nil {
			return err
		}
		if err := f.findAdmin(loads, &args); err != nil {
			return err
		}
		return t.against(cmd, f, args, func(s *session) error {
			t.line(s.out, fmt.Sprintf("%12s %12s %10s %10s %10s", "messages/s", "achieved", "p50", "p99", "p99.9"))
			out, err := find(s, loads[0], o, func(step report.Step) {
				t.line(s.out, fmt.Sprintf("%12d %12.0f %10s %10s %10s  %s", step.Rate, step.Achieved,
					bench.Micros(step.P50), bench.Micros(step.P99), bench.Micros(step.P999), step.Broken))
			})
			s.doc.Steps, s.doc.Cases = out.Steps, out.Cases
			if err == nil {
				t.line(s.out, "\n"+summary(out))
			}
			return err
		})
	}
	return cmd
}

// summary says what a search has found.
func summary(out search.Outcome) string {
	switch {
	case out.Rate == 0 && out.Client:
		return "no rate that was tried keeps to the objective: the client is the limit, see the reasons"
	case out.Rate == 0:
		return "no rate that was tried keeps to the objective"
	case out.Client:
		return fmt.Sprintf("%d messages/s keep to the objective; above, the client is the limit", out.Rate)
	default:
		return fmt.Sprintf("%d messages/s keep to the objective", out.Rate)
	}
}

func (t *tool) newSweep() *cobra.Command {
	var rates []int64
	cmd := t.newSearch(&cobra.Command{
		Use:   "sweep [flags] [-- flags of serve]",
		Short: "Measure latency against rate, until an objective breaks",
		Long:  "Measure a broker at one rate after another, each an open loop.\n\n" + objectiveHelp,
		Example: `  mqd bench sweep --class flushed --out ./result
  mqd bench sweep --rates 10000,20000,40000 --arrival poisson --objective 2ms`,
	}, func(s *session, load bench.Load, o search.Objective, each func(report.Step)) (search.Outcome, error) {
		for _, r := range rates {
			if r < 1 {
				return search.Outcome{}, fmt.Errorf("--rates: %d, expected 1 or more", r)
			}
		}
		return search.Sweep(s.ctx, s.run, load, rates, o, each)
	})
	cmd.Flags().Int64SliceVar(&rates, "rates", []int64{1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000, 5_000_000},
		"`rates` to try, messages a second")
	return cmd
}

func (t *tool) newMax() *cobra.Command {
	var from int64
	var resolution float64
	cmd := t.newSearch(&cobra.Command{
		Use:   "max [flags] [-- flags of serve]",
		Short: "Find the highest rate that keeps to an objective",
		Long:  "Double and halve the rate of an open loop until the highest that keeps to the\nobjective is found.\n\n" + objectiveHelp,
		Example: `  mqd bench max --class flushed --batch-messages 16
  mqd bench max --from 100000 --objective 1ms --resolution 0.02 --out ./result`,
	}, func(s *session, load bench.Load, o search.Objective, each func(report.Step)) (search.Outcome, error) {
		if from < 1 || !(resolution > 0 && resolution < 1) {
			return search.Outcome{}, errors.New("--from must be 1 or more, --resolution between 0 and 1")
		}
		return search.Max(s.ctx, s.run, load, from, resolution, o, each)
	})
	cmd.Flags().Int64Var(&from, "from", 10_000, "`rate` to begin with, messages a second")
	cmd.Flags().Float64Var(&resolution, "resolution", 0.05, "how close the result has to be, as a `part` of it")
	return cmd
}
