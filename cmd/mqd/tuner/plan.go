package tuner

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/mqd-broker/mqd/tuning"
	"github.com/mqd-broker/mqd/tuning/topology"
	"github.com/mqd-broker/mqd/tuning/undo"
	"github.com/spf13/cobra"
)

// plan is what mqd tune plan tells; version 1 of its JSON.
type plan struct {
	Version int             `json:"version"`
	Profile tuning.Profile  `json:"profile"`
	Class   string          `json:"class"`
	Persist bool            `json:"persist"`
	Changes []plannedChange `json:"changes"`
	// HostWide are changes that --class host would make too.
	HostWide []plannedChange `json:"host_wide"`
	// ByHand is what only a person can do.
	ByHand []task          `json:"by_hand"`
	CPUs   topology.Choice `json:"cpus"`
}

// plannedChange is a value of the kernel, or a file of which New is the content.
type plannedChange struct {
	ID   string `json:"id"`
	Kind string `json:"kind"` // of undo.Change
	Path string `json:"path"`
	// Found is empty for files.
	Found string `json:"found"`
	New   string `json:"new"`
}

// task is something to do for a person.
type task struct {
	ID    string `json:"id"`
	Found string `json:"found"`
	Fix   string `json:"fix"`
}

func newPlan(n Needs) *cobra.Command {
	c := &choice{subject: newSubject(n)}
	var form func() string
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Show what mqd tune apply would change",
		Long: `Show what mqd tune apply with the same flags would change, what is left to a person,
and which CPUs suit shards. Nothing is changed.

The lines are commands that do the same by hand.`,
		Example: `  mqd tune plan
  mqd tune plan --class host --persist
  mqd tune plan -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, r, changes, err := c.plan()
			if err != nil {
				return err
			}
			p := planOf(r, changes, c.class)
			p.Persist = c.persist
			if form() == formJSON {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				return enc.Encode(p)
			}
			return p.write(cmd.OutOrStdout())
		},
	}
	c.add(cmd)
	form = n.Form(cmd, formTable, formJSON)
	return cmd
}

func planOf(r *tuning.Report, changes []undo.Change, class string) *plan {
	p := &plan{Version: 1, Profile: r.Profile, Class: class, Changes: []plannedChange{}, HostWide: []plannedChange{}, ByHand: []task{}, CPUs: r.CPUs}
	found := map[string]string{}
	for _, f := range r.Findings {
		found[f.Path] = f.Found
		switch {
		case f.Set != "" && f.Class == tuning.HostWide && class == string(tuning.Safe):
			p.HostWide = append(p.HostWide, plannedChange{ID: f.Name(), Kind: undo.Kernel, Path: "/" + f.Path, Found: f.Found, New: f.Set})
		case f.Set == "" && f.Fix != "":
			p.ByHand = append(p.ByHand, task{ID: f.Name(), Found: f.Found, Fix: f.Fix})
		}
	}
	for _, ch := range changes {
		c := plannedChange{ID: ch.ID, Kind: ch.Kind, Path: "/" + ch.Path, New: ch.New}
		if ch.Kind == undo.Kernel {
			c.Found = found[ch.Path]
		}
		p.Changes = append(p.Changes, c)
	}
	return p
}

// write writes it for a person, who may give it to a shell.
func (p *plan) write(w io.Writer) error {
	var out strings.Builder
	for _, ch := range p.Changes {
		if ch.Kind == undo.Kernel {
			fmt.Fprintf(&out, "echo '%s' > %s  # %s\n", ch.New, ch.Path, ch.ID)
			continue
		}
		fmt.Fprintf(&out, "cat > %s <<'END'\n%sEND\n", ch.Path, ch.New)
	}
	if len(p.Changes) == 0 {
		fmt.Fprintln(&out, "# nothing to change")
	}
	for _, ch := range p.HostWide {
		fmt.Fprintf(&out, "# with --class host: %s, from %s to %s\n", ch.ID, ch.Found, ch.New)
	}
	for _, t := range p.ByHand {
		fmt.Fprintf(&out, "# for a person: %s is %s: %s\n", t.ID, t.Found, t.Fix)
	}
	var cpus strings.Builder
	if err := tuning.WriteCPUs(&cpus, p.CPUs); err != nil {
		return err
	}
	for line := range strings.Lines(cpus.String()) {
		fmt.Fprint(&out, "# "+line)
	}
	_, err := io.WriteString(w, out.String())
	return err
}
