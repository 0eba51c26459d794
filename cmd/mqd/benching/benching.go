// Package benching is the verb mqd bench and those below it: what it measures is
// package bench's matter, what its reports look like that of the packages below it.
package benching

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/mqd-broker/mqd/bench"
	host "github.com/mqd-broker/mqd/bench/machine"
	"github.com/mqd-broker/mqd/cmd/mqd/backlogbench"
	"github.com/mqd-broker/mqd/cmd/mqd/placement"
	"github.com/mqd-broker/mqd/cmd/mqd/signals"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/node"
	"github.com/mqd-broker/mqd/tuning"
	"github.com/spf13/cobra"
)

// noiseTime is how long the machine's noise is measured for a report's head.
const noiseTime = 500 * time.Millisecond

// Forms of output.
const (
	formText = "text"
	formJSON = "json"
)

// Needs is what the verbs have from the program.
type Needs struct {
	// Platform picks the I/O driver.
	Platform func() (node.Platform, error)
	// Revision names the program.
	Revision func() string
	// Reach looks whether a broker answers at an address, as --server has it, and returns
	// host:port.
	Reach func(ctx context.Context, addr string) (string, error)
	// Check is what mqd check says of this machine, with a data directory and the limits
	// of a process, 0 for this one.
	Check func(dir string, pid int) (*tuning.Report, error)
}

// tool is what the verbs below bench have in common.
type tool struct {
	needs     Needs
	form      form
	dir       string
	serverCPU int
	clientCPU []int
}

// New makes the verb.
func New(n Needs) *cobra.Command {
	t := &tool{needs: n}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure this machine's disk and network, and a broker against them",
		Long: `Measure. The floors of the machine and the broker's figures come from the same
program, the same I/O driver and the same client loop, in the same minutes. Every
message is read back: lost, repeated, reordered, changed or moved ones are counted,
and any of them makes the exit status 1. Figures alone never do.`,
		PersistentPreRun: func(*cobra.Command, []string) {
			// A loop that polls keeps its processor for itself: the rest needs one more.
			runtime.GOMAXPROCS(max(2, runtime.NumCPU()) + 1)
		},
	}
	t.form = formText
	flags := cmd.PersistentFlags()
	flags.VarP(&t.form, "output", "o", "form of the output: text, json")
	flags.StringVar(&t.dir, "dir", ".", "`directory` for the files to measure on and a broker's data; both are removed afterwards")
	flags.IntVar(&t.serverCPU, "server-cpu", bench.NoCPU, "`CPU` of the floors that stand for the broker; -1 takes the broker's, or that of the disk's interrupts")
	flags.IntSliceVar(&t.clientCPU, "client-cpus", nil, "`CPUs` of client threads; by default those that no shard is tied to")
	backlog := backlogbench.New(&t.dir, func() bool { return t.form == formJSON }, n.Reach, t.paused)
	backlog.Args = serveFlags
	cmd.AddCommand(t.newRun(), t.newSweep(), t.newMax(), backlog, t.newAll(), t.newAgent(), t.newDisk(), t.newNet(), t.newJitter(), t.newReport(), t.newCompare())
	for _, sub := range cmd.Commands() {
		run := sub.RunE
		sub.RunE = func(cmd *cobra.Command, args []string) error {
			err := run(cmd, args)
			if errors.Is(err, context.Canceled) { // by a signal alone
				return signals.ErrInterrupted
			}
			return err
		}
	}
	return cmd
}

// serveFlags refuses words that do not stand after "--", where the flags of serve are.
func serveFlags(cmd *cobra.Command, args []string) error {
	dash := cmd.ArgsLenAtDash()
	if dash < 0 {
		dash = len(args)
	}
	if dash > 0 {
		return fmt.Errorf("found %q, expected no argument; flags of serve stand after --", args[:dash])
	}
	return nil
}

// form is the flag -o.
type form string

func (f *form) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *form) Type() string { return "form" }

// Set implements pflag.Value.
func (f *form) Set(text string) error {
	if text != formText && text != formJSON {
		return fmt.Errorf("expected one of [%s %s]", formText, formJSON)
	}
	*f = form(text)
	return nil
}

// platform gives measurements the driver of shards.
type platform struct{ of node.Platform }

func (t *tool) platform() (platform, error) {
	p, err := t.needs.Platform()
	return platform{p}, err
}

func (p platform) NewDriver(o aio.Options) (aio.Driver, error) {
	d, err := p.of.NewDriver(0, o)
	if w, ok := d.(aio.Warmer); ok && err == nil {
		err = w.Warm()
	}
	return d, err
}

func (p platform) Pin(cpu int) error { return p.of.Pin(cpu) }

func (p platform) Yield() {
	if t := p.of.Thread(0); t != nil {
		t.Yield()
	} else {
		runtime.Gosched()
	}
}

// interruptsOf is the CPU that takes the interrupts of the directory's device.
func interruptsOf(dir string) int {
	if m, err := placement.Read("/", dir); err == nil && m.Interrupt >= 0 {
		return m.Interrupt
	}
	return bench.NoCPU
}

// place says where the threads run, beside a broker with shards on the given CPUs.
func (t *tool) place(shards []int) host.Placement {
	p := host.Place(host.AllowedCPUs("/"), shards, interruptsOf(t.dir))
	if t.serverCPU != bench.NoCPU {
		p.Server = t.serverCPU
		p.Clients = slices.DeleteFunc(p.Clients, func(cpu int) bool { return cpu == t.serverCPU })
	}
	if len(t.clientCPU) > 0 {
		p.Clients = t.clientCPU
	}
	return p
}

// head is the beginning of every report.
type head struct {
	Host      host.Host      `json:"host"`
	Jitter    bench.Jitter   `json:"jitter"`
	Placement host.Placement `json:"placement"`
}

// begin prepares a measurement; the context ends with a signal.
func (t *tool) begin(cmd *cobra.Command) (ctx context.Context, end func(), p platform, err error) {
	if p, err = t.platform(); err != nil {
		return nil, nil, p, err
	}
	if info, err := os.Stat(t.dir); errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return nil, nil, p, fmt.Errorf("--dir is %s, expected a directory that exists", t.dir)
	} else if err != nil {
		return nil, nil, p, fmt.Errorf("--dir: %w", err)
	}
	if t.dir, err = filepath.Abs(t.dir); err != nil {
		return nil, nil, p, err
	}
	ctx, end = signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	return ctx, end, p, nil
}

// head measures the noise and prints what is known of the machine.
func (t *tool) head(ctx context.Context, p platform, place host.Placement, out io.Writer) (head, error) {
	h := head{Host: host.ReadHost("/", t.dir, interruptsOf(t.dir), t.needs.Revision()), Placement: place}
	var err error
	if h.Jitter, err = bench.MeasureJitter(ctx, p, place.Client(), noiseTime); err != nil {
		return h, err
	}
	if t.form == formText {
		_, err = fmt.Fprintf(out, "%snoise    %s\n\n", h.Host, h.Jitter)
	}
	return h, err
}

// line prints a line of a table, unless the output is JSON.
func (t *tool) line(out io.Writer, text string) {
	if t.form == formText {
		fmt.Fprintln(out, text)
	}
}

// finish prints the report as JSON if that is wanted.
func (t *tool) finish(out io.Writer, report any, err error) error {
	if err != nil && !errors.Is(err, bench.ErrFailed) || t.form != formJSON {
		return err
	}
	return errors.Join(err, writeJSON(out, report))
}

// writeJSON writes one value, indented.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// parseEach reads a list of words.
func parseEach[T any](words []string, to *[]T, parse func(string) (T, error)) error {
	for _, w := range words {
		v, err := parse(w)
		if err != nil {
			return err
		}
		*to = append(*to, v)
	}
	return nil
}
