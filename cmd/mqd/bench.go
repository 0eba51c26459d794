package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"github.com/mqd-broker/mqd/bench"
	host "github.com/mqd-broker/mqd/bench/machine"
	"github.com/mqd-broker/mqd/cmd/mqd/placement"
	"github.com/mqd-broker/mqd/cmd/mqd/settings"
	"github.com/mqd-broker/mqd/cmd/mqd/signals"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/node"
	"github.com/spf13/cobra"
)

// noiseTime is how long the machine's noise is measured for a report's head.
const noiseTime = 500 * time.Millisecond

// benchTool is what the verbs below bench have in common.
type benchTool struct {
	form      formatFlag
	dir       string
	serverCPU int
	clientCPU []int
}

func newBench() *cobra.Command {
	t := &benchTool{}
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
	t.addForm(cmd)
	flags := cmd.PersistentFlags()
	flags.StringVar(&t.dir, "dir", ".", "`directory` for the files to measure on and a broker's data; both are removed afterwards")
	flags.IntVar(&t.serverCPU, "server-cpu", bench.NoCPU, "`CPU` of the floors that stand for the broker; -1 takes the broker's, or that of the disk's interrupts")
	flags.IntSliceVar(&t.clientCPU, "client-cpus", nil, "`CPUs` of client threads; by default those that no shard is tied to")
	cmd.AddCommand(t.newDisk(), t.newNet(), t.newRun(), t.newAll())
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

// benchPlatform gives measurements the driver of shards.
type benchPlatform struct{ of node.Platform }

func newBenchPlatform() (benchPlatform, error) {
	p, _, err := newPlatform(settings.Auto)
	return benchPlatform{p}, err
}

func (p benchPlatform) NewDriver(o aio.Options) (aio.Driver, error) {
	d, err := p.of.NewDriver(0, o)
	if w, ok := d.(aio.Warmer); ok && err == nil {
		err = w.Warm()
	}
	return d, err
}

func (p benchPlatform) Pin(cpu int) error { return p.of.Pin(cpu) }

func (p benchPlatform) Yield() {
	if t := p.of.Thread(0); t != nil {
		t.Yield()
	} else {
		runtime.Gosched()
	}
}

// revision names the program: the build's version, or what Go knows of it.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if version != "unknown" || !ok {
		return version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return version
}

// interruptsOf is the CPU that takes the interrupts of the directory's device.
func interruptsOf(dir string) int {
	if m, err := placement.Read("/", dir); err == nil && m.Interrupt >= 0 {
		return m.Interrupt
	}
	return bench.NoCPU
}

// place says where the threads run, beside a broker with shards on the given CPUs.
func (t *benchTool) place(shards []int) host.Placement {
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

// benchHead is the beginning of every report.
type benchHead struct {
	Host      host.Host      `json:"host"`
	Jitter    bench.Jitter   `json:"jitter"`
	Placement host.Placement `json:"placement"`
}

// begin prepares a measurement; the context ends with a signal.
func (t *benchTool) begin(cmd *cobra.Command) (ctx context.Context, end func(), p benchPlatform, err error) {
	if p, err = newBenchPlatform(); err != nil {
		return nil, nil, p, err
	}
	if t.dir, err = filepath.Abs(t.dir); err != nil {
		return nil, nil, p, err
	}
	ctx, end = signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	return ctx, end, p, nil
}

// head measures the noise and prints what is known of the machine.
func (t *benchTool) head(ctx context.Context, p benchPlatform, place host.Placement, out io.Writer) (benchHead, error) {
	h := benchHead{Host: host.ReadHost("/", t.dir, interruptsOf(t.dir), revision()), Placement: place}
	var err error
	if h.Jitter, err = bench.MeasureJitter(ctx, p, place.Client(), noiseTime); err != nil {
		return h, err
	}
	if t.form.text == formatText {
		_, err = fmt.Fprintf(out, "%snoise    %s\n\n", h.Host, h.Jitter)
	}
	return h, err
}

// line prints a line of a table, unless the output is JSON.
func (t *benchTool) line(out io.Writer, text string) {
	if t.form.text == formatText {
		fmt.Fprintln(out, text)
	}
}

func (t *benchTool) newDisk() *cobra.Command {
	var ops, sizes, idle []string
	var depths []int
	var duration time.Duration
	fileSize := "128MiB"
	cmd := &cobra.Command{
		Use:   "disk",
		Short: "Measure writes, durable writes and reads of a file",
		Long: `Measure O_DIRECT writes, writes that are durable when they end (DSYNC) and reads of a
file that has been written before, through the broker's own driver, on a thread that
polls (and yields) or sleeps.`,
		Example: "  mqd bench disk --dir /var/lib/mqd\n  mqd bench disk --ops dsync --sizes 4KiB --depths 1 --duration 5s",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o := bench.DiskOptions{Depths: depths, Duration: duration}
			err := errors.Join(
				parseEach(ops, &o.Ops, bench.ParseDiskOp), parseEach(idle, &o.Idle, bench.ParseIdle),
				parseEach(sizes, &o.Sizes, func(s string) (int, error) { n, err := settings.ParseSize(s); return int(n), err }))
			if size, serr := settings.ParseSize(fileSize); serr == nil {
				o.FileBytes = size
			} else {
				err = errors.Join(err, serr)
			}
			if err != nil {
				return err
			}
			return t.disk(cmd, o)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&ops, "ops", []string{"write", "dsync", "read"}, "`operations` to measure: write, dsync, read")
	flags.StringSliceVar(&sizes, "sizes", []string{"4KiB", "16KiB", "64KiB", "256KiB", "1MiB"}, "`sizes` of operations")
	flags.IntSliceVar(&depths, "depths", []int{1, 4, 16}, "`operations` in flight")
	flags.StringSliceVar(&idle, "idle", []string{"poll", "block"}, "what the thread does while it waits, in `words`: poll, block, adaptive")
	flags.DurationVar(&duration, "duration", 300*time.Millisecond, "length of each measurement")
	flags.StringVar(&fileSize, "file-size", fileSize, "`size` of the file")
	return cmd
}

func (t *benchTool) disk(cmd *cobra.Command, o bench.DiskOptions) error {
	ctx, end, p, err := t.begin(cmd)
	if err != nil {
		return err
	}
	defer end()
	out := cmd.OutOrStdout()
	place := t.place(nil)
	o.Dir, o.CPU = t.dir, place.Server
	report := struct {
		benchHead
		Disk []bench.DiskResult `json:"disk"`
	}{}
	if report.benchHead, err = t.head(ctx, p, place, out); err != nil {
		return err
	}
	t.line(out, bench.DiskHeader())
	err = bench.Disk(ctx, p, o, func(r bench.DiskResult) {
		report.Disk = append(report.Disk, r)
		t.line(out, r.Row())
	})
	return t.finish(out, report, err)
}

// finish prints the report as JSON if that is wanted.
func (t *benchTool) finish(out io.Writer, report any, err error) error {
	if err != nil && !errors.Is(err, bench.ErrFailed) || t.form.text != formatJSON {
		return err
	}
	return errors.Join(err, printJSON(out, report))
}

func (t *benchTool) newNet() *cobra.Command {
	var server, client []string
	o := bench.NetOptions{}
	cmd := &cobra.Command{
		Use:   "net",
		Short: "Measure TCP ping-pong on the loopback interface",
		Long: `Measure the floor of the network: produce frames one way, acknowledgements the other,
with the broker's driver and the client loop that measures brokers. The server does
nothing but answer.`,
		Example: `  mqd bench net
  mqd bench net --depths 1 --client poll --duration 5s`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := errors.Join(parseEach(server, &o.Server, bench.ParseIdle), parseEach(client, &o.Client, bench.ParseIdle))
			if err != nil {
				return err
			}
			return t.net(cmd, o)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&server, "server-idle", []string{"adaptive", "poll", "block"}, "what the server does while it waits, in `words`: adaptive, poll, block; a broker's shards are adaptive")
	flags.StringSliceVar(&client, "client", []string{"poll", "block"}, "what the client does while it waits, in `words`: poll (and yield), block")
	flags.IntSliceVar(&o.Depths, "depths", []int{1, 16}, "`frames` in flight")
	flags.IntVar(&o.Size, "size", 0, "`bytes` of a message; 0 is the mix of 50 to 512 bytes with mean 180")
	flags.IntVar(&o.BatchMessages, "batch-messages", 1, "`messages` of a frame")
	flags.DurationVar(&o.Duration, "duration", time.Second, "length of each measurement")
	return cmd
}

func (t *benchTool) net(cmd *cobra.Command, o bench.NetOptions) error {
	ctx, end, p, err := t.begin(cmd)
	if err != nil {
		return err
	}
	defer end()
	out := cmd.OutOrStdout()
	place := t.place(nil)
	o.ServerCPU, o.ClientCPU = place.Server, place.Client()
	report := struct {
		benchHead
		Network []bench.NetResult `json:"network"`
	}{}
	if report.benchHead, err = t.head(ctx, p, place, out); err != nil {
		return err
	}
	t.line(out, bench.NetHeader())
	err = bench.Network(ctx, p, o, func(r bench.NetResult) {
		report.Network = append(report.Network, r)
		t.line(out, r.Row())
	})
	return t.finish(out, report, err)
}

func (t *benchTool) newAll() *cobra.Command {
	o := bench.AllOptions{}
	cmd := &cobra.Command{
		Use:   "all [flags] [-- flags of serve]",
		Short: "Measure the floors and a broker against its budgets, in about two minutes",
		Long: `Start a broker on a new directory below --dir, measure disk, network and machine, and
the broker against budgets made of these floors; then end the broker. The verdicts in
the table are information: the exit status is 1 only if messages did not come back as
they went out.`,
		Example: `  mqd bench all
  mqd bench all --dir /var/lib/mqd -- --shards 1`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Args = args
			return t.all(cmd, o)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&o.Rounds, "rounds", 7, "`rounds` of what is compared in turn")
	flags.DurationVar(&o.Piece, "piece", 400*time.Millisecond, "length of a measurement in a round")
	flags.DurationVar(&o.Long, "long", 3*time.Second, "length of other measurements")
	return cmd
}

func (t *benchTool) all(cmd *cobra.Command, o bench.AllOptions) error {
	ctx, end, p, err := t.begin(cmd)
	if err != nil {
		return err
	}
	defer end()
	if o.Program, err = os.Executable(); err != nil {
		return err
	}
	o.Dir, o.Interrupt, o.Revision, o.Place = t.dir, interruptsOf(t.dir), revision(), t.place
	o.Progress = func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) }
	out := cmd.OutOrStdout()
	report, err := bench.All(ctx, p, o)
	if report != nil && t.form.text == formatText {
		_, werr := io.WriteString(out, report.Text())
		err = errors.Join(err, werr)
	}
	return t.finish(out, report, err)
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

// addForm gives all verbs the flag -o.
func (t *benchTool) addForm(cmd *cobra.Command) {
	t.form.text, t.form.allowed = formatText, []string{formatText, formatJSON}
	cmd.PersistentFlags().VarP(&t.form, "output", "o", "form of the output: text, json")
}
