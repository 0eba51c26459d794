package budgets

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/mqd-broker/mqd/bench"
)

// Row is one line of the report: a figure beside what it may be.
type Row struct {
	What string `json:"what"`
	// Measured and Budget are in Unit; Formula is the budget with its floors.
	Measured float64 `json:"measured"`
	Budget   float64 `json:"budget"`
	Unit     string  `json:"unit"`
	Formula  string  `json:"formula"`
	// Ratio is how the figure stands to its budget: 1 or less is within, whichever
	// direction is the good one. Allowed is the ratio that still passes.
	Ratio   float64 `json:"ratio"`
	Allowed float64 `json:"allowed"`
	Within  bool    `json:"within"`
	// Missing says why there is no figure: then the row tells nothing.
	Missing string `json:"missing,omitempty"`
	Note    string `json:"note,omitempty"`
}

// missing makes a row of a budget that has not been measured.
func missing(what, why string) Row { return Row{What: what, Missing: why} }

// of notes the result that a figure is from: with one that tells of the client there
// is no figure.
func (r Row) of(res *bench.Result) Row {
	if res.Verdict == bench.Invalid {
		r.Missing = string(res.Verdict) + ": " + res.Reason
		r.Within = false
	}
	return r
}

// verdict is the row's in a word or two.
func (r Row) verdict() string {
	switch {
	case r.Missing != "":
		return "NOT MEASURED"
	case r.Within:
		return "pass"
	default:
		return "FAIL"
	}
}

// atMost makes a row of a figure that may be budget or less, times allowed.
func atMost(what string, measured, budget, allowed float64, unit, formula string) Row {
	return Row{What: what, Measured: measured, Budget: budget, Unit: unit, Formula: formula, Allowed: allowed}.judge(measured, budget)
}

// atLeast makes a row of a figure that must be budget or more.
func atLeast(what string, measured, budget float64, unit, formula string) Row {
	return Row{What: what, Measured: measured, Budget: budget, Unit: unit, Formula: formula, Allowed: 1}.judge(budget, measured)
}

func (r Row) judge(of, to float64) Row {
	if to > 0 {
		r.Ratio = of / to
	}
	r.Within = to > 0 && r.Ratio <= r.Allowed
	return r
}

// latencyBudget is factor floors and a margin, in nanoseconds.
type latencyBudget struct {
	terms  []term
	margin int64
}

type term struct {
	factor int64
	name   string
	ns     int64
}

func (b latencyBudget) total() int64 {
	sum := b.margin
	for _, t := range b.terms {
		sum += t.factor * t.ns
	}
	return sum
}

// String is the formula with its numbers, in microseconds.
func (b latencyBudget) String() string {
	var parts []string
	for _, t := range b.terms {
		factor := ""
		if t.factor != 1 {
			factor = fmt.Sprintf("%d × ", t.factor)
		}
		parts = append(parts, fmt.Sprintf("%s%s %.1f", factor, t.name, float64(t.ns)/1e3))
	}
	return strings.Join(append(parts, fmt.Sprintf("%d", b.margin/1000)), " + ")
}

// within makes a row of a latency.
func (b latencyBudget) within(what string, ns int64) Row {
	return atMost(what, float64(ns)/1e3, float64(b.total())/1e3, 1, "µs", b.String())
}

// table writes rows for people, a note below its row.
func table(rows []Row) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "what\tmeasured\tbudget\tratio\tverdict\tfrom")
	for _, r := range rows {
		measured, budget, ratio := figure(r.Measured)+" "+r.Unit, figure(r.Budget), fmt.Sprintf("%.2f", r.Ratio)
		if r.Missing != "" && r.Measured == 0 {
			measured, budget, ratio = "-", "-", "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", r.What, measured, budget, ratio, r.verdict(), r.Formula)
	}
	_ = w.Flush() // into memory
	lines := strings.SplitAfter(out.String(), "\n")
	for i, r := range rows {
		for _, note := range []string{r.Missing, r.Note} {
			if note != "" {
				lines[i+1] += "    " + note + "\n"
			}
		}
	}
	return strings.Join(lines, "")
}

// Kept counts the rows that pass, that fail, and that were not measured.
func (r *Report) Kept() (pass, fail, missing int) {
	for _, row := range r.Rows {
		switch {
		case row.Missing != "":
			missing++
		case row.Within:
			pass++
		default:
			fail++
		}
	}
	return pass, fail, missing
}

func figure(f float64) string {
	switch {
	case f >= 10000:
		return fmt.Sprintf("%.0f", f)
	case f >= 10:
		return fmt.Sprintf("%.1f", f)
	default:
		return fmt.Sprintf("%.2f", f)
	}
}
