package tuner

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/mqd-broker/mqd/internal/quantity"
	"github.com/mqd-broker/mqd/tuning/undo"
	"github.com/spf13/cobra"
)

// noWakeLimit is what the kernel tells, in microseconds, when nobody holds a limit.
const noWakeLimit = 2_000_000_000

// status is what mqd tune has changed, and what of it holds.
type status struct {
	// WakeLimitMicros is the longest time in which CPUs may wake, in microseconds, which some
	// program holds; nil for none, or for one that cannot be read.
	WakeLimitMicros *int64         `json:"wake_limit_us"`
	Records         []recordStatus `json:"records"`
}

// recordStatus is an mqd tune apply.
type recordStatus struct {
	Number   int            `json:"number"`
	Began    time.Time      `json:"began"`
	ThisBoot bool           `json:"this_boot"`
	Profile  string         `json:"profile"`
	Program  string         `json:"program"`
	Changes  []changeStatus `json:"changes"`
}

// changeStatus is a change of it.
type changeStatus struct {
	ID    string     `json:"id"`
	Path  string     `json:"path"`
	State undo.State `json:"state"`
	// Old and New are values of the kernel, empty for files.
	Old string `json:"old"`
	New string `json:"new"`
}

func newStatus(n Needs) *cobra.Command {
	s := newSubject(n)
	var form func() string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what mqd tune has changed, and what of it holds",
		Long: `Show every change that mqd tune apply has made and that has not been taken back, with
what has become of it: "made" holds, "taken back" has the old value, as after a boot for
values that were not made to last, "changed since" has a third one, and "gone" has no file
any more. A limit on the time in which CPUs wake, as mqd serve --pm-qos holds one, is shown
too: it is no change, and ends with the program that holds it.

The exit status is 0 when every change holds, or there is none, 2 when one does not, and 1
when it could not be told.`,
		Example: `  mqd tune status
  mqd tune status -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m := s.open(s.root)
			records, err := undo.Load(m)
			if err != nil {
				return explain(err)
			}
			return tellStatus(cmd.OutOrStdout(), m, records, form())
		},
	}
	s.addRoot(cmd)
	form = n.Form(cmd, formTable, formJSON)
	return cmd
}

func tellStatus(w io.Writer, m machine, records []*undo.Record, form string) error {
	st, lost, err := statusOf(m, records)
	if err != nil {
		return explain(err)
	}
	if form == formJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		err = enc.Encode(st)
	} else {
		err = st.write(w)
	}
	if err == nil && lost > 0 {
		err = &statusError{quantity.Of(lost, "change does", "changes do") + " not hold any more", statusOff}
	}
	return err
}

// statusOf looks at every change, and counts those that do not hold.
func statusOf(m machine, records []*undo.Record) (st *status, lost int, err error) {
	st = &status{Records: []recordStatus{}}
	if b, err := m.Read("dev/cpu_dma_latency"); err == nil && len(b) == 4 {
		if us := int64(int32(binary.NativeEndian.Uint32(b))); us < noWakeLimit {
			st.WakeLimitMicros = &us
		}
	}
	for _, r := range records {
		one := recordStatus{Number: r.Number(), Began: r.Began, ThisBoot: r.Boot == m.Text(bootID), Profile: r.Profile, Program: r.Program}
		for _, ch := range r.Changes {
			state, err := ch.State(m)
			if err != nil {
				return nil, 0, err
			}
			if state != undo.Made {
				lost++
			}
			c := changeStatus{ID: ch.ID, Path: "/" + ch.Path, State: state}
			if ch.Kind == undo.Kernel {
				c.Old, c.New = ch.Old, ch.New
			}
			one.Changes = append(one.Changes, c)
		}
		st.Records = append(st.Records, one)
	}
	return st, lost, nil
}

// write writes it for a person.
func (st *status) write(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	if us := st.WakeLimitMicros; us != nil {
		fmt.Fprintf(tw, "CPUs wake within %d us, as long as a program holds that\n", *us)
	}
	if len(st.Records) == 0 {
		fmt.Fprintln(tw, "mqd tune has changed nothing")
	}
	for _, r := range st.Records {
		boot := "this boot"
		if !r.ThisBoot {
			boot = "an earlier boot"
		}
		fmt.Fprintf(tw, "%d: %s, %s, profile %s, by %s\n", r.Number, r.Began.Format(time.RFC3339), boot, r.Profile, r.Program)
		for _, ch := range r.Changes {
			what := ch.Old + " -> " + ch.New
			if ch.New == "" {
				what = ch.Path
			}
			fmt.Fprintf(tw, "  %s\t%s\t%s\n", ch.ID, ch.State, what)
		}
	}
	return tw.Flush()
}
