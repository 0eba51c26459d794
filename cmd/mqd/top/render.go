package top

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mqd-broker/mqd/admin"
	"github.com/mqd-broker/mqd/engine/stage"
)

// mostShards are shown.
const mostShards = 16

// row is what a shard has done in an interval.
type row struct {
	shard    int
	answered bool
	failed   bool
	seconds  float64
	now      map[string]float64
	before   map[string]float64
}

// rate is how much a counter has grown in a second. One that is smaller than before has
// begun anew.
func (r *row) rate(name string) float64 {
	return max(r.now[name]-r.before[name], 0) / r.seconds
}

// share is one gauge in percent of another.
func (r *row) share(used, size string) string {
	if r.now[size] <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", 100*r.now[used]/r.now[size])
}

// log is what the shard's log does.
func (r *row) log() string {
	switch {
	case r.failed:
		return "FAILED"
	case !r.answered:
		return "silent"
	case r.now["mqd_disk_full"] > 0:
		return "disk full"
	}
	return "works"
}

// render is the screen.
func render(before, now *state) string {
	var out strings.Builder
	st := &now.status
	ready := "ready"
	if !st.Ready {
		ready = "NOT READY"
	}
	fmt.Fprintf(&out, "mqd %s: %s, %s", st.Version, st.State, ready)
	if n := st.Serving; n != nil {
		fmt.Fprintf(&out, ", %s, driver %s, %d connections, %d partitions", n.Address, n.Driver, n.Connections, n.Partitions)
	}
	fmt.Fprintf(&out, "  %s\n", now.at.Format(time.TimeOnly))
	for _, reason := range append(slices.Clone(st.Reasons), st.Warnings...) {
		fmt.Fprintf(&out, "  %s\n", reason)
	}
	rows := rowsOf(before, now)
	shown := rows
	if len(rows) > mostShards {
		shown = busiest(rows)
	}
	fmt.Fprintln(&out)
	table(&out, func(w io.Writer) {
		fmt.Fprintln(w, "SHARD\tLOG\tBUSY\tIN BATCH/S\tIN B/S\tREFUSED/S\tOUT B/S\tROUND/S\tBATCH/RND\tJOURNAL\tCACHE\tCONNS\tIOS\tSTALLS\t")
		for i := range shown {
			writeRow(w, &shown[i])
		}
	})
	if n := len(rows) - len(shown); n > 0 {
		fmt.Fprintf(&out, "and %d shards that are less busy\n", n)
	}
	fmt.Fprintln(&out, "\np50 / p99 / p99.9")
	table(&out, func(w io.Writer) { writeStages(w, before, now, shown) })
	return out.String()
}

func rowsOf(before, now *state) []row {
	was := map[int]map[string]float64{}
	for _, sh := range before.shards {
		was[sh.Shard] = sh.Metrics
	}
	var rows []row
	for _, sh := range now.shards {
		rows = append(rows, row{
			shard: sh.Shard, answered: sh.Answered, failed: sh.LogError != "",
			seconds: max(now.at.Sub(before.at).Seconds(), 1e-3), now: sh.Metrics, before: was[sh.Shard],
		})
	}
	return rows
}

// busiest are those with the most work, in the order of their numbers.
func busiest(rows []row) []row {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Compare(b.rate("mqd_shard_busy_seconds_total"), a.rate("mqd_shard_busy_seconds_total"))
	})
	rows = rows[:mostShards]
	slices.SortFunc(rows, func(a, b row) int { return a.shard - b.shard })
	return rows
}

func writeRow(w io.Writer, r *row) {
	rounds, perRound := r.rate("mqd_journal_rounds_total"), "-"
	if rounds > 0 {
		perRound = fmt.Sprintf("%.1f", r.rate("mqd_append_batches_total")/rounds)
	}
	fmt.Fprintf(w, "%d\t%s\t%.0f%%\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%.0f\t%.0f\t%.0f\t\n", r.shard, r.log(),
		100*r.rate("mqd_shard_busy_seconds_total"),
		short(r.rate("mqd_append_batches_total")), short(r.rate("mqd_append_bytes_total")), short(r.rate("mqd_produce_refused_total")),
		short(r.rate("mqd_fetch_bytes_total")), short(rounds), perRound,
		r.share("mqd_journal_used_bytes", "mqd_journal_size_bytes"), r.share("mqd_cache_used_bytes", "mqd_cache_size_bytes"),
		r.now["mqd_shard_connections"], r.now["mqd_shard_inflight_ios"], max(r.now["mqd_shard_stalls_total"]-r.before["mqd_shard_stalls_total"], 0))
}

// short writes a number with three digits.
func short(v float64) string {
	for _, unit := range []string{"", "k", "M", "G"} {
		if v < 999.5 {
			digits := 0
			if unit != "" && v < 99.5 {
				digits = 1
			}
			return fmt.Sprintf("%.*f%s", digits, v, unit)
		}
		v /= 1000
	}
	return fmt.Sprintf("%.0fT", v)
}

func writeStages(w io.Writer, before, now *state, shown []row) {
	head := []string{"SHARD"}
	stages := stage.Table[:]
	if !slices.ContainsFunc(now.stages, func(sh admin.ShardStages) bool { _, ok := sh.Stages[stages[stage.Socket].Name]; return ok }) {
		stages = stages[stage.Socket+1:] // it is the first, and only there where it is measured
	}
	for _, info := range stages {
		head = append(head, strings.ToUpper(strings.ReplaceAll(info.Name, "_", " ")))
	}
	fmt.Fprintln(w, strings.Join(head, "\t")+"\t")
	for _, sh := range now.stages {
		if !slices.ContainsFunc(shown, func(r row) bool { return r.shard == sh.Shard }) {
			continue
		}
		cells := []string{fmt.Sprint(sh.Shard)}
		for _, info := range stages {
			cells = append(cells, quantiles(times(before, sh.Shard, info.Name), sh.Stages[info.Name]))
		}
		fmt.Fprintln(w, strings.Join(cells, "\t")+"\t")
	}
}

// times are those of a shard in a stage.
func times(s *state, shard int, name string) admin.StageTimes {
	for _, sh := range s.stages {
		if sh.Shard == shard {
			return sh.Stages[name]
		}
	}
	return admin.StageTimes{}
}

// quantiles are those of what has come since before.
func quantiles(before, now admin.StageTimes) string {
	h := now.Histogram()
	if before.Count <= now.Count { // else the broker has begun anew
		h.Sub(before.Histogram())
	}
	if h.Total == 0 {
		return "-"
	}
	return fmt.Sprintf("%s / %s / %s", brief(h.Quantile(0.5)), brief(h.Quantile(0.99)), brief(h.Quantile(0.999)))
}

// brief writes a time with its unit.
func brief(nanos int64) string {
	d := time.Duration(nanos)
	switch {
	case d < time.Microsecond:
		return fmt.Sprintf("%dns", nanos)
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%dus", d.Microseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	}
	return fmt.Sprintf("%ds", int64(d.Seconds()))
}

// table aligns what fill writes.
func table(out *strings.Builder, fill func(w io.Writer)) {
	tw := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight|tabwriter.TabIndent)
	fill(tw)
	_ = tw.Flush() // a Builder takes everything
}
