package benching

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/bench"
	"github.com/mqd-broker/mqd/bench/pace"
	"github.com/mqd-broker/mqd/cmd/mqd/backlogbench"
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
	sizes, arrival  string
	codec           string
	repeat          int
	spec, out       string
	profile         string
	floors          bool
	scrapes         []time.Duration
	admin           string
	load            bench.Load
	agents          agentFlags
	samples         time.Duration
	live            bool
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

A file given with --spec has several cases instead, each with a name; its keys are the
names of the flags. Without --rate and --burst in it, a case is a closed loop.

Flags that take lists are combined, each value with each; with --repeat the cases are
measured in turn, A B B A.`,
		Example: `  mqd bench run --class flushed --depth 1 --client poll,block
  mqd bench run --rate 100000 --duration 30s
  mqd bench run --rate 100000 --arrival poisson --repeat 7 --out ./result
  mqd bench run --profile day --class memory
  mqd bench run --spec cases.yaml --out ./result
  mqd bench run --burst 50000/50ms/1s --class flushed
  mqd bench run --partitions 1,64 --batch-messages 16 --depth 16 --repeat 7 --read after
  mqd bench run --rate 10000 --client block --scrape 1s,0s --repeat 15 --out ./result
  mqd bench run --server 10.0.0.5:7878 --produce-on 10.0.0.7:7879 --consume-on 10.0.0.8:7879 --token-file token --rate 100000
  mqd bench run --server 127.0.0.1:7878 --batch-messages 64 --depth 64 -o json`,
		Args: serveFlags,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.repeat < 1 {
				return fmt.Errorf("--repeat is %d, expected 1 or more", f.repeat)
			}
			loads, err := f.cases(cmd)
			if err != nil {
				return err
			}
			for _, l := range loads {
				if err := l.Validate(); err != nil {
					return err
				}
			}
			if err := f.findAdmin(loads, &args); err != nil {
				return err
			}
			return t.against(cmd, f, args, func(s *session) error {
				cases, err := bench.Interleave(s.ctx, s.run, loads, f.repeat)
				return errors.Join(err, s.take(cases))
			})
		},
	}
	f.add(cmd)
	f.addCases(cmd)
	return cmd
}

// paused measures a consumer that pauses, for mqd bench backlog.
func (t *tool) paused(cmd *cobra.Command, o backlogbench.Paused, args []string) error {
	f := &runFlags{}
	f.add(&cobra.Command{}) // its defaults
	f.server, f.out = o.Server, o.Out
	loads, err := caseLoads(nil, o.Case, nil)
	if err != nil {
		return err
	}
	if err := loads[0].Validate(); err != nil {
		return err
	}
	if err := f.findAdmin(loads, &args); err != nil {
		return err
	}
	return t.against(cmd, f, args, func(s *session) error {
		cases, err := bench.Interleave(s.ctx, s.run, loads, 1)
		return errors.Join(err, s.take(cases))
	})
}

// addCases gives cmd the flags that say which loads, and how often.
func (f *runFlags) addCases(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.spec, "spec", "", "`file` of cases, in YAML, instead of the flags that describe a load")
	flags.StringVar(&f.profile, "profile", "", "`name` of cases that come with the program: "+strings.Join(profileNames(), ", ")+"; flags that describe a load win over them")
	flags.IntVar(&f.repeat, "repeat", 1, "`times` that each case is measured, in turn with the others")
}

// add gives cmd the flags of a load.
func (f *runFlags) add(cmd *cobra.Command) {
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
	flags.IntVar(&f.load.Size, "size", 0, "`bytes` of a message, instead of --sizes")
	flags.StringVar(&f.spread, "spread", "round-robin", "`partitions` that frames go to: round-robin, one, key")
	flags.StringVar(&f.read, "read", "live", "`when` messages are read back: live (with end to end latency), after")
	flags.DurationVar(&f.load.Duration, "duration", 5*time.Second, "length of each measurement")
	flags.DurationVar(&f.load.Warmup, "warmup", time.Second, "time before it that is not counted")
	flags.Int64Var(&f.load.Messages, "messages", 0, "end after about so many `messages`, if that is earlier")
	flags.StringVar(&f.sizes, "sizes", "mix", "`bytes` of messages: mix (50 to 512, mean 180), a number, a range as 50-512, or lognormal:MEDIAN:SIGMA:LOW-HIGH")
	flags.StringVar(&f.arrival, "arrival", "constant", "`gaps` between messages of --rate: constant, poisson, or day, whose rates are those of a day of which --rate is the mean, in the time of --duration")
	flags.IntVar(&f.load.Keys, "keys", 0, "`number` of different keys; 0 is messages without")
	flags.Float64Var(&f.load.KeySkew, "key-skew", 0, "`skew` of keys: 0 is even, else Zipf's law with an exponent of 1 more")
	flags.Float64Var(&f.load.Plain, "compressible", 0, "`part` of a message, 0 to 1, that compresses to nothing; the rest is random")
	flags.StringVar(&f.codec, "codec", "none", "`compression` of frames: none, gzip, snappy, lz4, zstd")
	flags.DurationSliceVar(&f.scrapes, "scrape", []time.Duration{0}, "how often the broker's metrics are fetched during a measurement, in `durations`; 0s is never")
	flags.DurationVar(&f.load.Pause, "pause", 0, "`time` for which a second consumer stops when the measurement begins; then it catches up")
	flags.StringVar(&f.admin, "admin", "", "`address` of the admin HTTP of the broker at --server, for --scrape and --samples")
	flags.DurationVar(&f.samples, "samples", time.Second, "how often CPU, garbage collector and stages are looked at, for the page; 0s is never, and without --out it is only done when asked for")
	flags.BoolVar(&f.floors, "floors", true, "measure the floors of disk and network too, for a broker on this machine")
	flags.BoolVar(&f.live, "live", true, "show the last second of a measurement while it goes on, on a terminal")
	f.agents.add(cmd)
	flags.StringVar(&f.out, "out", "", "`directory` to write result.json, report.html, histograms and CSV to")
}

// loads are the cases that the flags ask for.
func (f *runFlags) loads() ([]bench.Load, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
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
	if base.Codec, err = batch.ParseCodec(f.codec); err != nil {
		return nil, fmt.Errorf("--codec: %w", err)
	}
	switch f.arrival {
	case "constant":
	case "poisson":
		base.Poisson = true
	case "day":
		base.Day = base.Duration
	default:
		return nil, fmt.Errorf("--arrival %q: expected constant, poisson or day", f.arrival)
	}
	if base.Sizes = f.sizes; base.Size != 0 {
		base.Sizes = ""
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
	loads = combine(loads, clients, func(l *bench.Load, i bench.Idle) { l.Client = i })
	return combine(loads, f.scrapes, func(l *bench.Load, d time.Duration) { l.Scrape = d }), nil
}

// check refuses values that a load would take for "not said", and measure its defaults.
func (f *runFlags) check() error {
	for _, c := range [...]struct {
		flag        string
		values      []int
		least, most int
	}{
		{"partitions", f.partitions, 1, bench.MaxPartitions},
		{"batch-messages", f.batch, 1, bench.MaxBatch},
		{"depth", f.depths, 0, bench.MaxDepth},
		{"connections", []int{f.load.Connections}, 1, bench.MaxConnections},
		{"threads", []int{f.load.Threads}, 1, bench.MaxThreads},
	} {
		if err := within(c.flag, c.values, c.least, c.most); err != nil {
			return err
		}
	}
	for _, r := range f.rates {
		if r < 0 {
			return fmt.Errorf("--rate is %d, expected 0 or more", r)
		}
	}
	switch {
	case f.load.Warmup < 0:
		return fmt.Errorf("--warmup is %v, expected 0 or more", f.load.Warmup)
	case f.load.Size < 0:
		return fmt.Errorf("--size is %d, expected 0 or more", f.load.Size)
	}
	return positive("duration", f.load.Duration)
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
func parseBurst(text string) (pace.Burst, error) {
	if text == "" {
		return pace.Burst{}, nil
	}
	parts := strings.Split(text, "/")
	if len(parts) != 3 {
		return pace.Burst{}, fmt.Errorf("--burst %q: expected messages/length/period, as 50000/50ms/1s", text)
	}
	n, err := strconv.ParseInt(parts[0], 10, 64)
	length, lerr := time.ParseDuration(parts[1])
	period, perr := time.ParseDuration(parts[2])
	if err := errors.Join(err, lerr, perr); err != nil {
		return pace.Burst{}, fmt.Errorf("--burst %q: %w", text, err)
	}
	if n < 1 {
		return pace.Burst{}, fmt.Errorf("--burst %q: expected 1 message or more", text)
	}
	return pace.Burst{Messages: n, Length: length, Period: period}, nil
}
