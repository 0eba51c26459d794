package benching

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/mqd-broker/mqd/bench"
	host "github.com/mqd-broker/mqd/bench/machine"
	"github.com/mqd-broker/mqd/net/wire"
	"github.com/spf13/cobra"
)

// runFlags are the flags of bench run. Those that are lists are combined, each
// value with each, and the cases measured in turn.
type runFlags struct {
	server          string
	classes, client []string
	partitions      []int
	batch, depths   []int
	rates           []int64
	burst           string
	spread, read    string
	repeat          int
	load            bench.Load
}

func (t *tool) newRun() *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use:   "run [flags] [-- flags of serve]",
		Short: "Measure a broker under a load",
		Long: `Measure a broker: the one at --server, or one that is started on a new directory below
--dir and ended afterwards. Each measurement makes a topic of its own and deletes it.

With --rate or --burst it is an open loop: messages have absolute intended times, and
latency is counted from them, so that waiting in a client that has fallen behind
counts. The send lag stands beside it; when it is more than a tenth of the latency, both
at the 99th percentile, the result is INVALID: it tells of the client. Otherwise it is a
closed loop that keeps --depth frames in flight.

Flags that take lists are combined, each value with each; with --repeat the cases are
measured in turn, A B A B.`,
		Example: `  mqd bench run --class flushed --depth 1 --client poll,block
  mqd bench run --rate 100000 --duration 30s
  mqd bench run --burst 50000/50ms/1s --class flushed
  mqd bench run --partitions 1,64 --batch-messages 16 --depth 16 --repeat 7 --read after
  mqd bench run --server 127.0.0.1:7878 --batch-messages 64 --depth 64 -o json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			loads, err := f.loads()
			if err != nil {
				return err
			}
			return t.run(cmd, f, loads, args)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.server, "server", "s", "", "`address` of a running broker, host:port; without it one is started")
	flags.StringSliceVar(&f.classes, "class", []string{"flushed"}, "durability `classes` of the topic: memory, written, flushed")
	flags.IntSliceVar(&f.partitions, "partitions", []int{1}, "`partitions` of the topic")
	flags.IntSliceVar(&f.batch, "batch-messages", []int{1}, "`messages` of a frame")
	flags.IntSliceVar(&f.depths, "depth", []int{0}, "`frames` in flight on a connection; 0 is 1 in a closed loop and 4096, as a limit, in an open one")
	flags.Int64SliceVar(&f.rates, "rate", []int64{0}, "`messages` a second, all connections together; 0 is a closed loop")
	flags.StringVar(&f.burst, "burst", "", "`bursts` instead of an even rate: messages/length/period, as 50000/50ms/1s")
	flags.StringSliceVar(&f.client, "client", []string{"poll", "block"}, "what the client does while it waits, in `words`: poll (and yield), block")
	flags.IntVar(&f.load.Connections, "connections", 1, "`connections` that produce")
	flags.IntVar(&f.load.Threads, "threads", 1, "`threads` of the client")
	flags.IntVar(&f.load.Size, "size", 0, "`bytes` of a message; 0 is the mix of 50 to 512 bytes with mean 180")
	flags.StringVar(&f.spread, "spread", "round-robin", "`partitions` that frames go to: round-robin, one")
	flags.StringVar(&f.read, "read", "live", "`when` messages are read back: live (with end to end latency), after")
	flags.DurationVar(&f.load.Duration, "duration", 5*time.Second, "length of each measurement")
	flags.DurationVar(&f.load.Warmup, "warmup", time.Second, "time before it that is not counted")
	flags.Int64Var(&f.load.Messages, "messages", 0, "end after about so many `messages`, if that is earlier")
	flags.IntVar(&f.repeat, "repeat", 1, "`times` that each case is measured")
	return cmd
}

// loads are the cases that the flags ask for.
func (f *runFlags) loads() ([]bench.Load, error) {
	base := f.load
	if base.Warmup <= 0 {
		base.Warmup = -1 // 0 would be the default
	}
	var err error
	if base.Burst, err = parseBurst(f.burst); err != nil {
		return nil, err
	}
	if base.Spread, err = bench.ParseSpread(f.spread); err != nil {
		return nil, err
	}
	if base.Reading, err = bench.ParseReading(f.read); err != nil {
		return nil, err
	}
	if f.repeat < 1 {
		return nil, fmt.Errorf("--repeat is %d, expected 1 or more", f.repeat)
	}
	var clients []bench.Idle
	if err := parseEach(f.client, &clients, bench.ParseIdle); err != nil {
		return nil, err
	}
	var classes []wire.Class
	if err := parseEach(f.classes, &classes, parseWireClass); err != nil {
		return nil, err
	}
	loads := []bench.Load{base}
	loads = combine(loads, classes, func(l *bench.Load, c wire.Class) { l.Class = c })
	loads = combine(loads, f.partitions, func(l *bench.Load, n int) { l.Partitions = n })
	loads = combine(loads, f.batch, func(l *bench.Load, n int) { l.BatchMessages = n })
	loads = combine(loads, f.depths, func(l *bench.Load, n int) { l.Depth = n })
	loads = combine(loads, f.rates, func(l *bench.Load, n int64) { l.Rate = n })
	return combine(loads, clients, func(l *bench.Load, i bench.Idle) { l.Client = i }), nil
}

// combine makes each load once for each value.
func combine[T any](loads []bench.Load, values []T, set func(*bench.Load, T)) []bench.Load {
	var all []bench.Load
	for _, l := range loads {
		for _, v := range values {
			set(&l, v)
			all = append(all, l)
		}
	}
	return all
}

func parseWireClass(name string) (wire.Class, error) {
	c, ok := wire.ParseClass(name)
	if !ok {
		return 0, fmt.Errorf("--class %q: expected memory, written or flushed", name)
	}
	return c, nil
}

// parseBurst reads messages/length/period; "" is none.
func parseBurst(text string) (bench.Burst, error) {
	if text == "" {
		return bench.Burst{}, nil
	}
	parts := strings.Split(text, "/")
	if len(parts) != 3 {
		return bench.Burst{}, fmt.Errorf("--burst %q: expected messages/length/period, as 50000/50ms/1s", text)
	}
	n, err := strconv.ParseInt(parts[0], 10, 64)
	length, lerr := time.ParseDuration(parts[1])
	period, perr := time.ParseDuration(parts[2])
	if err := errors.Join(err, lerr, perr); err != nil {
		return bench.Burst{}, fmt.Errorf("--burst %q: %w", text, err)
	}
	return bench.Burst{Messages: n, Length: length, Period: period}, nil
}

func (t *tool) run(cmd *cobra.Command, f *runFlags, loads []bench.Load, serve []string) error {
	ctx, end, p, err := t.begin(cmd)
	if err != nil {
		return err
	}
	defer end()
	target := bench.Target{Addr: f.server}
	var shards []int
	if f.server == "" {
		program, err := os.Executable()
		if err != nil {
			return err
		}
		b, err := host.StartBroker(ctx, program, t.dir, serve...)
		if err != nil {
			return err
		}
		target.Addr, shards = b.Addr, host.PinnedCPUs("/", b.PID)
		return errors.Join(t.measure(ctx, cmd, p, target, t.place(shards), loads, f.repeat), b.Stop())
	}
	if len(serve) > 0 {
		return fmt.Errorf("%q: flags of serve are for a broker that bench starts, not for one at --server", serve)
	}
	return t.measure(ctx, cmd, p, target, t.place(nil), loads, f.repeat)
}

// measure makes the measurements of bench run.
func (t *tool) measure(ctx context.Context, cmd *cobra.Command, p platform, target bench.Target,
	place host.Placement, loads []bench.Load, repeat int,
) error {
	out := cmd.OutOrStdout()
	report := struct {
		head
		Cases []*bench.Case `json:"cases"`
	}{}
	var err error
	if report.head, err = t.head(ctx, p, place, out); err != nil {
		return err
	}
	run := func(ctx context.Context, load bench.Load) (*bench.Result, error) {
		load.CPUs = place.Clients
		return bench.Run(ctx, p, target, load)
	}
	if report.Cases, err = bench.Interleave(ctx, run, loads, repeat); err != nil {
		return err
	}
	var failed []error
	for _, c := range report.Cases {
		t.line(out, c.Text())
		failed = append(failed, c.Result.Err())
	}
	return t.finish(out, report, errors.Join(failed...))
}
