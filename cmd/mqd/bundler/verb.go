package bundler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mqd-broker/mqd/cmd/mqd/adminclient"
	"github.com/mqd-broker/mqd/cmd/mqd/settings"
	"github.com/mqd-broker/mqd/cmd/mqd/signals"
	"github.com/mqd-broker/mqd/cmd/mqd/tuner"
	"github.com/mqd-broker/mqd/internal/quantity"
	"github.com/spf13/cobra"
)

const (
	// suffix ends the name of a bundle.
	suffix = ".tar.gz"
	// mostProfile is the longest profile of the CPU.
	mostProfile = time.Minute
	// mostBetween is the longest time between the two times that figures are asked for.
	mostBetween = 10 * time.Minute
	// statusLacks is the exit status when something that was asked for is missing.
	statusLacks = 2
)

// Needs are what the verb has of the program.
type Needs struct {
	// Resolve puts the settings together as mqd serve would, with the flags that a
	// command has of its.
	Resolve func(cmd *cobra.Command) (*settings.Config, error)
	// Build is what mqd version -o json prints.
	Build func() ([]byte, error)
	// Host are those of mqd check.
	Host tuner.Needs
}

// order is what flags ask for.
type order struct {
	out, dir     string
	logs         []string
	between, cpu time.Duration
}

// New makes the verb debug.
func New(n Needs) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "debug",
		Short: "Gather what a report of trouble needs",
	}
	cmd.AddCommand(newBundle(n))
	return cmd
}

func newBundle(n Needs) *cobra.Command {
	o := &order{}
	var broker *adminclient.Broker
	cmd := &cobra.Command{
		Use:   "bundle",
		Short: "Put what a report of trouble needs into one file",
		Long: `Put what a report of trouble needs into one file, a tar.gz: version, settings, what mqd
check says and the files of the kernel that it has read, state, health and metrics of the
broker twice, profiles if the broker serves them (--admin-pprof), its flight recorder's trace
(--trace-record), the names and sizes of
the files in the data directory, and the end of logs that are given with --log.

It works on the broker's machine, whether the broker runs or not. What cannot be had is
named with the reason, here and in the manifest.json of the bundle. Run it as the broker's
user or as root, who may read the data directory.

The exit status is 1 when no bundle was written, and 2 when one was and something that a
flag has asked for is not in it: the broker of --admin, --data-dir, --config, a --log, the
profile of --cpu.

Message contents are not in it, and what looks like a secret is hidden; names of topics,
groups, clients and files are in it, and so is what the logs say. Look through it before
you send it. It has at most 64 MiB, before it is compressed.`,
		Example: `  mqd debug bundle --log /var/log/mqd.log
  journalctl -u mqd -n 5000 | mqd debug bundle --log - --config /etc/mqd/mqd.yaml
  mqd debug bundle --cpu 10s --out trouble.tar.gz`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.cpu < 0 || o.cpu > mostProfile || o.cpu%time.Second != 0 {
				return fmt.Errorf("--cpu is %v, expected whole seconds up to %v", o.cpu, mostProfile)
			}
			if o.between < 0 || o.between > mostBetween {
				return fmt.Errorf("--between is %v, expected 0s to %v", o.between, mostBetween)
			}
			ctx, cancel := context.WithCancelCause(cmd.Context())
			defer cancel(nil)
			defer signals.OnInterrupt(cancel)()
			return o.run(ctx, cmd, n, broker)
		},
	}
	broker = adminclient.AddFlags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&o.out, "out", "", "`file` to write, a new one; by default mqd-bundle-TIME.tar.gz in this directory")
	flags.StringVar(&o.dir, "data-dir", "", "`directory` of all data; without it the running broker's, or what the settings say")
	flags.String("config", "", "configuration `file` of the broker ("+settings.ConfigVar+")")
	flags.StringArrayVar(&o.logs, "log", nil, "log `file` whose last MiB is put in, - for the standard input; may be given several times")
	flags.DurationVar(&o.between, "between", 5*time.Second, "time between the two looks at the broker's figures")
	flags.DurationVar(&o.cpu, "cpu", 0, "length of a profile of the broker's CPU, up to 1m; 0s is none")
	return cmd
}

// run gathers and writes. The error may also be that something is not in the bundle.
func (o *order) run(ctx context.Context, cmd *cobra.Command, n Needs, broker *adminclient.Broker) error {
	b := &bundle{manifest: manifest{Form: form, Created: time.Now().UTC(), Version: n.Host.Version}}
	if err := o.make(ctx, b, cmd, n, broker); err != nil {
		return err
	}
	return b.lacks(o.out, cmd.Flags().Changed)
}

// lackError is that something that was asked for is not in a bundle that was written.
type lackError struct{ text string }

func (e *lackError) Error() string { return e.text }

// ExitStatus is the program's.
func (e *lackError) ExitStatus() int { return statusLacks }

// lacks is the error for what flags have asked for and could not be had.
func (b *bundle) lacks(file string, given func(flag string) bool) error {
	var flags []string
	known := map[string]bool{} // with their reasons
	for _, e := range b.Entries {
		if e.Missing != "" && e.flag != "" && given(e.flag) && !known[e.flag+e.Missing] {
			known[e.flag+e.Missing] = true
			flags = append(flags, fmt.Sprintf("--%s (%s: %s)", e.flag, e.Name, e.Missing))
		}
	}
	if len(flags) == 0 {
		return nil
	}
	return &lackError{fmt.Sprintf("%s was written without what a flag has asked for: %s", file, strings.Join(flags, ", "))}
}

// make gathers and writes.
func (o *order) make(ctx context.Context, b *bundle, cmd *cobra.Command, n Needs, broker *adminclient.Broker) (err error) {
	if o.out == "" {
		o.out = "mqd-bundle-" + b.Created.Format("20060102T150405Z") + suffix
	}
	file, err := os.OpenFile(o.out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists; name another file with --out", o.out)
	}
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, file.Close()); err != nil {
			err = errors.Join(err, os.Remove(o.out))
		}
	}()
	o.gather(ctx, b, cmd, n, broker)
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := b.write(file, strings.TrimSuffix(filepath.Base(o.out), suffix)); err != nil {
		return err
	}
	size := int64(0)
	if info, err := file.Stat(); err == nil {
		size = info.Size()
	}
	return b.tell(cmd.OutOrStdout(), o.out, size)
}

// gather asks everybody for everything.
func (o *order) gather(ctx context.Context, b *bundle, cmd *cobra.Command, n Needs, broker *adminclient.Broker) {
	build, err := n.Build()
	b.add("version.json", "the program that made the bundle", text, build, err)
	var print bytes.Buffer
	cfg, err := n.Resolve(cmd)
	if err == nil {
		err = cfg.Print(&print, settings.WithSources)
	}
	b.add("settings.yaml", "settings by the flags, the environment and the file of this command", text, print.Bytes(), err).flag = "config"

	i := &informant{Broker: broker}
	b.Admin, _ = i.Address() // the first question has the error
	i.ask(ctx, b, "broker/1/", figures)
	began := time.Now()
	pid, dir := i.where(ctx)
	if o.dir != "" || dir == "" {
		if dir = n.Host.DataDir(o.dir); o.dir == "" && cfg != nil {
			dir = cfg.DataDir
		}
	}
	b.Directory = dir
	b.host(n.Host, dir, pid)
	list, err := listing(dir)
	b.add("data.txt", "names and sizes of the files in the data directory", text, list, err).flag = "data-dir"
	for at, name := range o.logs {
		end, err := endOf(ctx, name, cmd.InOrStdin())
		b.add(fmt.Sprintf("log-%d.txt", at+1), "the end of "+name, text, end, err).flag = "log"
	}
	i.ask(ctx, b, "broker/", others(int(o.cpu/time.Second)))
	if i.silent == nil {
		wait(ctx, o.between-time.Since(began))
	}
	i.ask(ctx, b, "broker/2/", figures)
}

// wait lets time pass.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(max(0, d))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// tell says what is in the bundle, and what is not.
func (b *bundle) tell(w io.Writer, name string, size int64) error {
	var out bytes.Buffer
	have := 0
	var reasons []string
	missing := map[string][]string{}
	for _, e := range b.Entries {
		if e.Missing == "" {
			have++
			continue
		}
		if missing[e.Missing] == nil {
			reasons = append(reasons, e.Missing)
		}
		missing[e.Missing] = append(missing[e.Missing], e.Name)
	}
	fmt.Fprintf(&out, "%s: %s, %s\n", name, quantity.Of(have, "file", "files"), quantity.Bytes(size))
	for _, reason := range reasons {
		names := missing[reason]
		if len(names) > 3 {
			names = append(names[:2:2], fmt.Sprintf("%d more", len(names)-2))
		}
		fmt.Fprintf(&out, "  not in it: %s: %s\n", strings.Join(names, ", "), reason)
	}
	fmt.Fprintln(&out, "look through it before you send it: names of topics, groups and files are in it, and what logs say")
	_, err := w.Write(out.Bytes())
	return err
}
