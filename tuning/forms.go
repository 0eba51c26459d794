package tuning

import (
	_ "embed" // for the schema
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/mqd-broker/mqd/internal/quantity"
	"github.com/mqd-broker/mqd/tuning/topology"
)

// Schema is the JSON Schema of reports as JSON.
//
//go:embed report.schema.json
var Schema string

// WriteJSON writes a report as JSON.
func WriteJSON(w io.Writer, r *Report) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// WriteTable writes a report for a person: what is not right, each with its reason, and
// a summary. With all set, what is right too.
func WriteTable(w io.Writer, r *Report, all bool) error {
	var out strings.Builder
	tw := tabwriter.NewWriter(&out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "LEVEL\tSETTING\tFOUND\tWANTED\tCLASS\tMATTERS")
	rows := 0
	for _, g := range grouped(r.Findings) {
		if f := g.first; all || f.Level != OK {
			rows++
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", f.Level, g.name(), f.Found, f.Want, f.Class, f.Matters)
		}
	}
	err := tw.Flush()
	if rows == 0 {
		out.Reset()
	}
	for _, g := range grouped(r.Findings) {
		f := g.first
		if f.Level == OK {
			continue
		}
		fmt.Fprintf(&out, "\n%s: %s.\n", g.name(), f.Why)
		switch {
		case f.Set != "" && f.Class == Safe:
			fmt.Fprintln(&out, "  to change it: mqd tune apply")
		case f.Set != "":
			fmt.Fprintln(&out, "  to change it: mqd tune apply --class host")
		case f.Fix != "":
			fmt.Fprintf(&out, "  to do: %s\n", f.Fix)
		}
	}
	if rows > 0 {
		fmt.Fprintln(&out)
	}
	fmt.Fprintf(&out, "%s, as a machine of profile %s\n", Summary(r), r.Profile)
	for line := range strings.Lines(out.String()) {
		_, werr := fmt.Fprintln(w, strings.TrimRight(line, " \n"))
		err = errors.Join(err, werr)
	}
	return err
}

// Summary is a report in a few words.
func Summary(r *Report) string { return summary(r.Counts) }

func summary(counts map[Level]int) string {
	return fmt.Sprintf("%d ok, %s, %s, %d critical", counts[OK],
		quantity.Of(counts[Note], "note", "notes"), quantity.Of(counts[Warning], "warning", "warnings"), counts[Critical])
}

// Brief is a report in short, to stand beside figures of the machine.
type Brief struct {
	Profile Profile       `json:"profile"`
	Counts  map[Level]int `json:"counts"`
	// Off is what is not as it should be. What is the same at several places is there
	// once.
	Off []Off `json:"off"`
}

// Off is a finding that is not as wanted.
type Off struct {
	Name  string `json:"name"`
	Level Level  `json:"level"`
	Found string `json:"found"`
	Want  string `json:"want"`
	Why   string `json:"why"`
}

// Brief is the report in short.
func (r *Report) Brief() *Brief {
	b := &Brief{Profile: r.Profile, Counts: r.Counts, Off: []Off{}}
	for _, g := range grouped(r.Findings) {
		if f := g.first; f.Level != OK {
			b.Off = append(b.Off, Off{g.name(), f.Level, f.Found, f.Want, f.Why})
		}
	}
	return b
}

// String is a line: the counts, and what costs latency or safety.
func (b *Brief) String() string {
	text := summary(b.Counts)
	var bad []string
	for _, o := range b.Off {
		if o.Level != Note {
			bad = append(bad, o.Name+" is "+o.Found)
		}
	}
	if len(bad) > 0 {
		text += ": " + strings.Join(bad, ", ")
	}
	return text
}

// group are findings that are equal but for their place, as of 64 CPUs.
type group struct {
	first Finding
	count int
}

func (g *group) name() string {
	if g.count > 1 {
		return fmt.Sprintf("%s (%d times)", g.first.ID, g.count)
	}
	return g.first.Name()
}

func grouped(all []Finding) []group {
	var groups []group
	for _, f := range all {
		if n := len(groups); n > 0 {
			last := &groups[n-1]
			if l := last.first; l.ID == f.ID && l.Level == f.Level && l.Found == f.Found && l.Want == f.Want {
				last.count++
				continue
			}
		}
		groups = append(groups, group{f, 1})
	}
	return groups
}

// WriteNagios writes a report as a plugin of Nagios does: a line, with figures behind a
// bar.
func WriteNagios(w io.Writer, r *Report) error {
	state := map[Level]string{OK: "OK", Note: "OK", Warning: "WARNING", Critical: "CRITICAL"}[r.Worst()]
	_, err := fmt.Fprintf(w, "MQD HOST %s - %s | ok=%d note=%d warning=%d critical=%d\n", state, strings.ReplaceAll(r.Brief().String(), "|", "/"),
		r.Counts[OK], r.Counts[Note], r.Counts[Warning], r.Counts[Critical])
	return err
}

// WriteProm writes a report in Prometheus' text format, for the textfile collector of
// the node exporter.
func WriteProm(w io.Writer, r *Report) error {
	var out strings.Builder
	out.WriteString("# HELP mqd_host_findings Findings of mqd check, by level.\n# TYPE mqd_host_findings gauge\n")
	for _, l := range Levels {
		fmt.Fprintf(&out, "mqd_host_findings{level=%q,profile=%q} %d\n", l, r.Profile, r.Counts[l])
	}
	out.WriteString("# HELP mqd_host_setting 0 when a setting of the host is as wanted, 1 for a note, 2 for a warning, 3 when it is critical.\n# TYPE mqd_host_setting gauge\n")
	for _, f := range r.Findings {
		value := 0
		for i, l := range Levels {
			if l == f.Level {
				value = i
			}
		}
		fmt.Fprintf(&out, "mqd_host_setting{id=\"%s\",at=\"%s\"} %d\n", f.ID, label.Replace(f.At), value)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// label escapes a value of a label.
var label = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// WriteCPUs writes where shards should run.
func WriteCPUs(w io.Writer, c topology.Choice) error {
	if len(c.Shards) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(w, "CPUs for shards: mqd serve --cpus %s\n", topology.List(c.Shards))
	for _, reason := range c.Reasons {
		_, werr := fmt.Fprintf(w, "  %s\n", reason)
		err = errors.Join(err, werr)
	}
	return err
}
