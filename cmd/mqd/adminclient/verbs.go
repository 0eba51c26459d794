package adminclient

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/mqd-broker/mqd/admin"
	"github.com/mqd-broker/mqd/cmd/mqd/settings"
	"github.com/mqd-broker/mqd/internal/quantity"
	"github.com/spf13/cobra"
)

// Forms of output.
const (
	formatText = "text"
	formatJSON = "json"
)

// NotReady is the exit status of mqd admin status when the broker is not ready.
const NotReady = 2

// notReady is the error of a broker that is not.
type notReady struct{ error }

// ExitStatus is the program's.
func (notReady) ExitStatus() int { return NotReady }

// New makes the verb admin. Form gives a command the flag -o with the forms that it has,
// and returns what tells the chosen one.
func New(form func(cmd *cobra.Command, forms ...string) func() string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "admin",
		Short: "Look after a running broker",
	}
	b := &broker{}
	flags := cmd.PersistentFlags()
	flags.StringVar(&b.addr, "admin", defaultAddr, "`address` of the broker's admin HTTP, host:port ("+settings.AdminVar+")")
	b.given = func() bool { return flags.Changed("admin") }
	cmd.AddCommand(newStatus(b, form), newReopen(b), newTrace(b))
	return cmd
}

func newStatus(b *broker, form func(cmd *cobra.Command, forms ...string) func() string) *cobra.Command {
	var chosen func() string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show whether a broker is ready, and if not, why",
		Long: `Show what a broker does, whether it is ready, why it is not, and the logs of its shards.

The exit status is 0 when it is ready, 2 when it is not, and 1 when it could not be
asked.`,
		Example: `  mqd admin status
  mqd admin status --admin 127.0.0.1:9645 -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			st, err := b.status(cmd.Context())
			if err != nil {
				return err
			}
			if chosen() == formatJSON {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				err = enc.Encode(st)
			} else {
				err = write(cmd.OutOrStdout(), st)
			}
			if err == nil && !st.Ready {
				return notReady{errors.New("the broker is not ready")}
			}
			return err
		},
	}
	cmd.Flags().DurationVar(&b.timeout, "timeout", defaultTimeout, "longest wait for the broker's answer")
	chosen = form(cmd, formatText, formatJSON)
	return cmd
}

func newReopen(b *broker) *cobra.Command {
	timeout := 10 * time.Minute
	cmd := &cobra.Command{
		Use:   "reopen",
		Short: "Open logs again that have failed",
		Long: `Have a broker open its logs again after a write or a flush has failed, without a restart
of the process. Put the cause right first.

The broker ends its connections, forgets everything that it has in memory, and does what
a start does: it recovers the data directory, with all that was acknowledged, and serves
at the same address. When that fails, as on a device that still fails, nothing is served,
the broker stays not ready, and reopen can be ordered again. A broker whose logs all work
refuses.

Orders are taken over the loopback interface only. The order is carried out even when
this command ends before.`,
		Example: `  mqd admin reopen`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b.timeout = timeout
			if err := b.reopen(cmd.Context()); err != nil {
				return err
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "reopened: the broker serves what was acknowledged, and takes more")
			return err
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "longest wait for the recovery")
	return cmd
}

func newTrace(b *broker) *cobra.Command {
	var out string
	timeout := time.Minute
	cmd := &cobra.Command{
		Use:   "trace",
		Short: "Write down what Go's scheduler has done in the last seconds",
		Long: `Have a broker whose flight recorder is on (--trace-record) hand over the execution trace
of its newest seconds: which goroutine and thread ran when and where, what it waited for,
and what the garbage collector did. It is for whoever looks for the cause of a pause, and
is read with "go tool trace FILE" by a Go of the version that mqd version names, or a newer
one.

By itself a broker writes such files to --trace-dir, when a turn of a loop was too long.`,
		Example: `  mqd admin trace
  mqd admin trace --out pause.trace`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b.timeout = timeout
			if out == "" {
				out = time.Now().UTC().Format("mqd-20060102T150405Z.trace")
			}
			trace, err := b.trace(cmd.Context())
			if err != nil {
				return err
			}
			if _, err := os.Stat(out); err == nil {
				return fmt.Errorf("%s exists; name another file with --out", out)
			}
			if err := os.WriteFile(out, trace, 0o600); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s; look at it with: go tool trace %s\n", out, quantity.Bytes(int64(len(trace))), out)
			return err
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "`file` to write, a new one; by default mqd-TIME.trace in this directory")
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "longest wait for the trace")
	return cmd
}

// write writes the state for a person.
func write(w io.Writer, st *admin.Status) error {
	ready := "ready"
	if !st.Ready {
		ready = "NOT READY"
	}
	var errs []error
	say := func(format string, args ...any) {
		_, err := fmt.Fprintf(w, format, args...)
		errs = append(errs, err)
	}
	say("mqd %s: %s, %s\n", st.Version, st.State, ready)
	for _, r := range st.Reasons {
		say("  not ready: %s\n", r)
	}
	for _, r := range st.Warnings {
		say("  warning: %s\n", r)
	}
	n := st.Serving
	if n == nil {
		return errors.Join(errs...)
	}
	say("\naddress      %s\n", n.Address)
	say("directory    %s\n", n.Directory)
	say("driver       %s\n", n.Driver)
	say("process      %d\n", st.PID)
	say("up           %v, reopened %s\n", time.Duration(st.UptimeSeconds*float64(time.Second)).Round(time.Second), quantity.Of(st.Reopened, "time", "times"))
	say("start        %v, %s replayed\n", time.Duration(n.StartSeconds*float64(time.Second)).Round(time.Millisecond), quantity.Of(n.Replayed, "batch", "batches"))
	if us := st.WakeLimitMicros; us != nil {
		say("CPUs wake    within %v, as long as the broker runs\n", time.Duration(*us)*time.Microsecond)
	}
	say("connections  %d\n", n.Connections)
	say("topics       %d with %s, the broker's own among them\n\n", n.Topics, quantity.Of(n.Partitions, "partition", "partitions"))
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "SHARD\tLOG\tJOURNAL\tCACHE")
	for _, sh := range n.Shards {
		state := "works"
		switch {
		case sh.LogFailed:
			state = "FAILED"
		case !sh.Answered:
			state = "no answer"
		case sh.DiskFull:
			state = "disk full"
		}
		fmt.Fprintf(tw, "%d\t%s\t%s\t%s\n", sh.Shard, state, share(sh.JournalUsed, sh.JournalBytes), share(sh.CacheUsed, sh.CacheBytes))
	}
	return errors.Join(append(errs, tw.Flush())...)
}

// share says how much of something is used.
func share(used, all int64) string {
	if all == 0 {
		return "-"
	}
	return fmt.Sprintf("%d%% of %s", 100*used/all, quantity.Bytes(all))
}
