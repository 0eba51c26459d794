package tuner

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/mqd-broker/mqd/tuning"
	"github.com/mqd-broker/mqd/tuning/undo"
	"github.com/spf13/cobra"
)

// bootID is the file with the kernel's id of this boot.
const bootID = "proc/sys/kernel/random/boot_id"

// NewTune makes the verb tune.
func NewTune(n Needs) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tune",
		Short: "Change what mqd check has found, and take it back",
	}
	cmd.AddCommand(newPlan(n), newApply(n), newStatus(n), newRevert(n), newExplain())
	return cmd
}

// choice is what plan and apply have in common.
type choice struct {
	*subject
	class   string
	persist bool
}

func (c *choice) add(cmd *cobra.Command) {
	c.addLook(cmd)
	cmd.Flags().StringVar(&c.class, "class", string(tuning.Safe), "changes to make: safe, or host, which is those that other programs feel too (a `word`)")
	cmd.Flags().BoolVar(&c.persist, "persist", false, "make the values last over a boot, with files in sysctl.d, udev/rules.d and tmpfiles.d")
}

// plan are the changes that flags ask for.
func (c *choice) plan() (machine, *tuning.Report, []undo.Change, error) {
	if c.class != string(tuning.Safe) && c.class != string(tuning.HostWide) {
		return nil, nil, nil, fmt.Errorf("--class is %q, expected safe or host; what is of class manual, reboot or unsafe is told and never changed", c.class)
	}
	m, r, err := c.look()
	if err != nil {
		return nil, nil, nil, err
	}
	changes, err := tuning.Plan(m, tuning.Selected(r, c.class == string(tuning.HostWide)), c.persist)
	return m, r, changes, err
}

func newApply(n Needs) *cobra.Command {
	c := &choice{subject: newSubject(n)}
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Change what is not as wanted",
		Long: `Change what mqd check finds not as wanted and mqd tune may change: with --class safe
what no other program notices, but for power, with --class host also what others feel.
mqd tune plan shows it beforehand.

All old values are written to a record in /` + undo.Dir + ` first, and synced, so that
mqd tune revert can take everything back, also after a kill or a power cut in between.
Boot files, mount options and write caches of drives are never touched.

The exit status is 0 when all was changed, and 1 when something was refused, or nothing
could be.`,
		Example: `  mqd tune apply
  mqd tune apply --class host --profile metal --persist`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, r, changes, err := c.plan()
			if err != nil {
				return err
			}
			return c.apply(cmd.OutOrStdout(), m, r, changes)
		},
	}
	c.add(cmd)
	return cmd
}

func (c *choice) apply(w io.Writer, m machine, r *tuning.Report, changes []undo.Change) error {
	record := &undo.Record{
		Began: time.Now().UTC().Truncate(time.Second), Boot: m.Text(bootID),
		Profile: string(r.Profile), Program: "mqd " + c.needs.Version, Changes: changes,
	}
	failed := undo.Apply(m, record)
	made := 0
	for _, ch := range record.Changes {
		if state, err := ch.State(m); err != nil || state != undo.Made {
			continue
		}
		made++
		if ch.Kind == undo.Kernel {
			fmt.Fprintf(w, "%s: %s, was %s\n", ch.ID, ch.New, ch.Old)
		} else {
			fmt.Fprintf(w, "%s: wrote /%s\n", ch.ID, ch.Path)
		}
	}
	if failed != nil {
		return explain(failed)
	}
	if made == 0 {
		_, err := fmt.Fprintln(w, "nothing to change")
		return err
	}
	_, err := fmt.Fprintf(w, "%d changes; mqd tune revert takes them back\n", made)
	return err
}

func newRevert(n Needs) *cobra.Command {
	s := newSubject(n)
	var force, last bool
	cmd := &cobra.Command{
		Use:   "revert",
		Short: "Take back what mqd tune has changed",
		Long: `Give everything that mqd tune apply has changed its old value, the newest change first,
and remove the files that it has written. It can be given again after it was interrupted.

What somebody else has changed since is left alone and reported, and stays recorded. With
--force it gets its old value too.`,
		Example: `  mqd tune revert
  mqd tune revert --last`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m := s.open(s.root)
			records, err := undo.Load(m)
			if err != nil {
				return explain(err)
			}
			if last && len(records) > 1 {
				records = records[len(records)-1:]
			}
			return revert(cmd.OutOrStdout(), m, records, force)
		},
	}
	s.addRoot(cmd)
	cmd.Flags().BoolVar(&force, "force", false, "give old values also to what has been changed since")
	cmd.Flags().BoolVar(&last, "last", false, "take back only the newest mqd tune apply")
	return cmd
}

func revert(w io.Writer, m machine, records []*undo.Record, force bool) error {
	count := 0
	for _, r := range slices.Backward(records) {
		if err := undo.Revert(m, r, force); err != nil {
			return explain(err)
		}
		count += len(r.Changes)
	}
	if err := undo.Clean(m); err != nil {
		return explain(err)
	}
	text := fmt.Sprintf("%d changes taken back", count)
	if len(records) == 0 {
		text = "mqd tune has changed nothing"
	}
	_, err := fmt.Fprintln(w, text)
	return err
}

func newExplain() *cobra.Command {
	ids := func() []string {
		var all []string
		for _, s := range tuning.Catalogue() {
			all = append(all, s.ID)
		}
		for _, a := range tuning.Refused() {
			all = append(all, a.ID)
		}
		return all
	}
	cmd := &cobra.Command{
		Use:   "explain [ID...]",
		Short: "Say why settings matter, and what advice is refused",
		Long: `Say of settings why they matter, what class of change they are, and what to do by hand.
Without an argument all are told, and then the advice that circulates and is not followed
here, with the reasons.`,
		Example: `  mqd tune explain
  mqd tune explain nvme.apst refused.tcp_mem`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: cobra.FixedCompletions(ids(), cobra.ShellCompDirectiveNoFileComp),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, id := range args {
				if !slices.Contains(ids(), id) {
					return fmt.Errorf("there is no setting %q; mqd tune explain lists them", id)
				}
			}
			return writeReasons(cmd.OutOrStdout(), args)
		},
	}
	return cmd
}

func writeReasons(w io.Writer, chosen []string) error {
	var out strings.Builder
	wanted := func(id string) bool { return len(chosen) == 0 || slices.Contains(chosen, id) }
	for _, s := range tuning.Catalogue() {
		if !wanted(s.ID) {
			continue
		}
		on := "all profiles"
		if len(s.On) > 0 {
			on = "profile"
			for _, p := range s.On {
				on += " " + string(p)
			}
		}
		fmt.Fprintf(&out, "%s (class %s, matters: %s, %s)\n  %s.\n", s.ID, s.Class, s.Matters, on, s.Why)
		if s.Fix != "" {
			fmt.Fprintf(&out, "  to do: %s\n", s.Fix)
		}
	}
	for _, a := range tuning.Refused() {
		if wanted(a.ID) {
			fmt.Fprintf(&out, "%s: \"%s\"\n  not done: %s.\n", a.ID, a.Text, a.Why)
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}
