package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/mqd-broker/mqd/bench"
)

// side is a broker by one protocol, under one class.
type side struct {
	name, durability string
	pid              int
	measure          measurement
	rounds           [][]*bench.Result // by case
}

// figures are the columns of a table.
var figures = []struct {
	name string
	of   func(*bench.Result) float64
	show func(float64) string
}{
	{"ack p50", func(r *bench.Result) float64 { return float64(r.Ack.P50) }, latency},
	{"p99", func(r *bench.Result) float64 { return float64(r.Ack.P99) }, latency},
	{"p99.9", func(r *bench.Result) float64 { return float64(r.Ack.P999) }, latency},
	{"end to end p50", func(r *bench.Result) float64 { return float64(r.EndToEnd.P50) }, latency},
	{"p99", func(r *bench.Result) float64 { return float64(r.EndToEnd.P99) }, latency},
	{"messages/s", func(r *bench.Result) float64 { return r.Rate }, func(v float64) string { return fmt.Sprintf("%.0f", v) }},
	{"broker's CPU a message", func(r *bench.Result) float64 { return r.BrokerCPU }, latency},
}

func latency(ns float64) string {
	switch {
	case ns >= 100e6:
		return fmt.Sprintf("%.0f ms", ns/1e6)
	case ns >= 1e6:
		return fmt.Sprintf("%.3g ms", ns/1e6)
	default:
		return fmt.Sprintf("%.3g µs", ns/1e3)
	}
}

// table writes the medians of all cases, and how the last side stands to the others. The
// error is that of measurements whose messages did not come back.
func table(out io.Writer, class string, sides []*side) error {
	fmt.Fprintf(out, "Class %s\n\n| case | broker | acknowledged when |", class)
	for _, f := range figures {
		fmt.Fprintf(out, " %s |", f.name)
	}
	fmt.Fprintf(out, " client |\n|---|---|---|%s---|\n", strings.Repeat("--:|", len(figures)))
	var failed []error
	last := sides[len(sides)-1]
	for i := range last.rounds {
		for _, s := range sides {
			fmt.Fprintf(out, "| %s | %s | %s |", s.rounds[i][0].Load.Name, s.name, s.durability)
			for _, f := range figures {
				fmt.Fprintf(out, " %s |", f.show(bench.Median(s.rounds[i], f.of)))
			}
			fmt.Fprintf(out, " %s |\n", verdicts(s.rounds[i]))
			for _, r := range s.rounds[i] {
				if err := r.Err(); err != nil {
					failed = append(failed, fmt.Errorf("%s: %w", s.name, err))
				}
			}
		}
		for _, s := range sides[:len(sides)-1] {
			fmt.Fprintf(out, "| | %s : %s | |", last.name, s.name)
			for _, f := range figures {
				fmt.Fprintf(out, " %s |", ratio(bench.Median(last.rounds[i], f.of), bench.Median(s.rounds[i], f.of)))
			}
			fmt.Fprintln(out, " |")
		}
	}
	fmt.Fprintln(out)
	return errors.Join(failed...)
}

// ratio is a : b, "-" where there is none.
func ratio(a, b float64) string {
	if b == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3g", a/b)
}

// verdicts says in how many rounds the result is not to be believed.
func verdicts(rounds []*bench.Result) string {
	late, failed := 0, 0
	for _, r := range rounds {
		switch r.Verdict {
		case bench.Invalid:
			late++
		case bench.Failed:
			failed++
		}
	}
	switch {
	case failed > 0:
		return fmt.Sprintf("FAILED %d of %d", failed, len(rounds))
	case late > 0:
		return fmt.Sprintf("late in %d of %d", late, len(rounds))
	default:
		return "in time"
	}
}
