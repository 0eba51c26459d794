package benching

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/mqd-broker/mqd/bench"
	"github.com/mqd-broker/mqd/bench/report"
	"github.com/spf13/cobra"
)

func (t *tool) newReport() *cobra.Command {
	var out string
	var schema bool
	cmd := &cobra.Command{
		Use:   "report RESULT",
		Short: "Show a result, or write its page and its other files again",
		Long: `Show the result of a run, a sweep or a search: RESULT is a result.json or the directory
that --out has made. With --out everything is written anew from it: the page report.html,
HdrHistogram's files, CSV.`,
		Example: "  mqd bench report ./result\n  mqd bench report ./result/result.json --out ./again\n  mqd bench report --schema",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if schema {
				_, err := cmd.OutOrStdout().Write(report.Schema)
				return err
			}
			if len(args) == 0 {
				return errors.New("report: expected a result.json or its directory")
			}
			d, err := report.Read(args[0])
			if err != nil {
				return err
			}
			if out != "" {
				return report.Write(out, d)
			}
			if t.form == formJSON {
				return d.JSON(cmd.OutOrStdout())
			}
			_, err = io.WriteString(cmd.OutOrStdout(), documentText(d))
			return err
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "`directory` to write the files to")
	cmd.Flags().BoolVar(&schema, "schema", false, "print the JSON Schema of result.json")
	return cmd
}

// documentText is a document for people.
func documentText(d *report.Document) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, mqd bench %s %s\n%snoise    %s\n", d.Started.Format("2006-01-02 15:04:05 MST"), d.Verb, strings.Join(d.Args, " "), d.Host, d.Jitter)
	if d.Check != nil {
		fmt.Fprintf(&b, "check    %s\n", d.Check)
	}
	for _, a := range d.Agents {
		b.WriteString(agentLine(a) + "\n")
	}
	for _, f := range d.Floors.Disk {
		fmt.Fprintf(&b, "floor    %s of %d bytes, depth %d: %s\n", f.Op, f.Size, f.Depth, f.Latency)
	}
	for _, f := range d.Floors.Network {
		fmt.Fprintf(&b, "floor    round trip, client %s, depth %d: %s\n", f.Client, f.Depth, f.RTT)
	}
	for _, c := range d.Cases {
		b.WriteString("\n" + c.Text())
	}
	return b.String()
}

func (t *tool) newCompare() *cobra.Command {
	var caseA, caseB int
	var most float64
	cmd := &cobra.Command{
		Use:   "compare A [B]",
		Short: "Compare two results, percentile by percentile",
		Long: `Compare the latencies of two cases: case 1 of two results, or the first two cases of one
result, which were measured in turn. Every percentile is given as the ratio A / B with
the bounds within which chance alone would have left it 95 times of 100. That there is no
difference is a result too.

With five or more rounds of both (--repeat) the rounds are compared. With fewer it is
the intervals within the two measurements, which says less: not how one run differs
from the next.

With --at-most the exit status is 1 if the upper bound at p99 is above it.`,
		Example: `  mqd bench compare ./before ./after
  mqd bench compare ./interleaved --at-most 1.2`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && caseB == caseA {
				caseB = caseA + 1
			}
			a, err := caseOf(args[0], caseA)
			if err != nil {
				return err
			}
			b, err := caseOf(args[len(args)-1], caseB)
			if err != nil {
				return err
			}
			c, err := report.Compare(a, b, len(args) == 1)
			if err != nil {
				return err
			}
			if t.form == formJSON {
				err = writeJSON(cmd.OutOrStdout(), c)
			} else {
				_, err = io.WriteString(cmd.OutOrStdout(), c.Text())
			}
			return errors.Join(err, gate(c, most))
		},
	}
	cmd.Flags().IntVar(&caseA, "case-a", 1, "`number` of the case of A")
	cmd.Flags().IntVar(&caseB, "case-b", 1, "`number` of the case of B; with one result, that after --case-a")
	cmd.Flags().Float64Var(&most, "at-most", 0, "`ratio` that the upper bound at p99 must not be above; 0 is any")
	return cmd
}

// errSlower: a comparison is above what it may be.
var errSlower = errors.New("A is too slow")

// gate holds the upper bound at p99 against the most that it may be.
func gate(c report.Comparison, most float64) error {
	for _, r := range c.Ratios {
		if r.Percentile == "p99" && most > 0 && r.High > most {
			return fmt.Errorf("%w: at p99 the ratio may be %.3f, expected at most %.3f", errSlower, r.High, most)
		}
	}
	return nil
}

// caseOf reads a case of a result, counted from 1.
func caseOf(path string, n int) (*bench.Case, error) {
	d, err := report.Read(path)
	if err != nil {
		return nil, err
	}
	if n < 1 || n > len(d.Cases) {
		return nil, fmt.Errorf("%s has %d cases, expected one with the number %d", path, len(d.Cases), n)
	}
	return d.Cases[n-1], nil
}
