// Package backlogbench is the verb that measures how fast a backlog is read back.
package backlogbench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/pprof"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/mqd-broker/mqd/bench/backlog"
	"github.com/mqd-broker/mqd/bench/machine"
	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/net/wire"
)

// verb is a command line.
type verb struct {
	dir     *string
	asJSON  func() bool
	reach   func(context.Context, string) (string, error)
	options backlog.Options
	server  string
	class   string
	profile string
	bytes   int // of an answer, with records
	records int

	// Of a consumer that pauses.
	paused   func(*cobra.Command, Paused, []string) error
	pause    time.Duration
	duration time.Duration
	rate     int64
	out      string
}

// Paused is a measurement of a consumer that pauses while messages come.
type Paused struct {
	// Server is the broker, "" for one that is started.
	Server string
	// Out is the directory for the result, "" for none.
	Out string
	// Case is the load, by the names of the flags of mqd bench run.
	Case map[string]any
}

// New makes the command. dir is where a broker's data goes; asJSON says in which form the
// report is wanted; reach looks whether a broker answers at an address and returns its
// host:port; paused measures a consumer that pauses.
func New(dir *string, asJSON func() bool, reach func(context.Context, string) (string, error), paused func(*cobra.Command, Paused, []string) error) *cobra.Command {
	v := &verb{dir: dir, asJSON: asJSON, reach: reach, paused: paused}
	cmd := &cobra.Command{
		Use:   "backlog [flags] [-- flags of serve]",
		Short: "Measure how fast a consumer that is far behind catches up",
		Long: `Write a backlog and read it back with one consumer of the Go client, as often as
--rounds says. Beside each reading as many bytes go over a bare TCP connection of the
loopback interface, which is what the network gives when nobody looks at the bytes. The
broker is the one at --server, or one that is started on a new directory below --dir and
ended afterwards.

With --pause it is another measurement: messages come at --rate for --duration, one
consumer reads them as they come, and a second one stops for so long and then catches up.
The result has how far it is behind then, how fast it catches up, and the latency of the
first one meanwhile.`,
		Example: `  mqd bench backlog
  mqd bench backlog --partitions 1 --rounds 7 -o json
  mqd bench backlog --pause 10s --rate 50000 --out ./result
  mqd bench backlog --messages 1000000 -- --cache-size 1GiB`,
		RunE: v.run,
	}
	flags := cmd.Flags()
	flags.StringVarP(&v.server, "server", "s", "", "`address` of a running broker, host:port; without it one is started")
	flags.IntVar(&v.options.PID, "server-pid", 0, "`process` of the broker at --server, to know its CPU time")
	flags.StringVar(&v.class, "class", "flushed", "durability `class` of the topic: memory, written, flushed")
	flags.IntVar(&v.options.Messages, "messages", 5_000_000, "`messages` of the backlog")
	flags.IntVar(&v.options.Size, "size", 180, "`bytes` of a message")
	flags.IntVar(&v.options.Batch, "batch-messages", 64, "`messages` of a batch")
	flags.IntVar(&v.options.Partitions, "partitions", 8, "`partitions` of the topic")
	flags.IntVar(&v.options.Rounds, "rounds", 3, "`times` that it is read")
	flags.IntVar(&v.bytes, "answer-bytes", 4<<20, "most `bytes` of an answer when the consumer is far behind")
	flags.IntVar(&v.records, "answer-records", 1<<16, "most `messages` of an answer then; 500 is what it is at the end of the log")
	flags.DurationVar(&v.pause, "pause", 0, "`time` for which a consumer stops while messages come, instead of a backlog that is read at once")
	flags.Int64Var(&v.rate, "rate", 20_000, "`messages` a second, with --pause")
	flags.DurationVar(&v.duration, "duration", 0, "length of the measurement with --pause; 0s is three times as long as that")
	flags.StringVar(&v.out, "out", "", "`directory` to write result.json, report.html, histograms and CSV to, with --pause")
	flags.StringVar(&v.profile, "cpu-profile", "", "`file` for a profile of this program, in pprof's format")
	return cmd
}

func (v *verb) run(cmd *cobra.Command, args []string) (err error) {
	class, ok := wire.ParseClass(v.class)
	if !ok {
		return fmt.Errorf("--class %q: expected memory, written or flushed", v.class)
	}
	if v.server != "" && len(args) > 0 {
		return fmt.Errorf("%q: flags of serve are for a broker that bench starts, not for one at --server", args)
	}
	if err := v.nonsense(); err != nil {
		return err
	}
	if v.pause != 0 {
		return v.paused(cmd, v.load(), args)
	}
	ctx, end := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer end()
	v.options.Class, v.options.Addr = client.Class(class), v.server
	v.options.Consumer = []client.ConsumerOption{client.WithCatchUp(v.bytes, v.records)}
	if v.server == "" {
		program, startErr := os.Executable()
		if startErr != nil {
			return startErr
		}
		b, startErr := machine.StartBroker(ctx, program, *v.dir, args...)
		if startErr != nil {
			return startErr
		}
		defer func() { err = errors.Join(err, b.Stop()) }()
		v.options.Addr, v.options.PID = b.Addr, b.PID
	} else if v.options.Addr, err = v.reach(ctx, v.server); err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if !v.asJSON() {
		fmt.Fprintln(out, backlog.Header())
		v.options.Progress = func(line string) { fmt.Fprintln(out, line) }
	}
	stop, err := v.profiled()
	if err != nil {
		return err
	}
	r, err := backlog.Run(ctx, v.options)
	return errors.Join(stop(), v.report(out, r, err))
}

// nonsense is the error of flags that ask for nothing, which would be taken for the
// defaults.
func (v *verb) nonsense() error {
	o, size := &v.options, 16
	if v.pause != 0 {
		size = 0 // that measurement needs none
	}
	for _, n := range []struct {
		flag         string
		value, least int
	}{
		{"messages", o.Messages, 1}, {"size", o.Size, size}, {"batch-messages", o.Batch, 1}, {"partitions", o.Partitions, 1}, {"rounds", o.Rounds, 1},
		{"answer-bytes", v.bytes, 1}, {"answer-records", v.records, 1}, {"server-pid", o.PID, 0},
	} {
		if n.value < n.least {
			return fmt.Errorf("--%s is %d, expected %d or more", n.flag, n.value, n.least)
		}
	}
	switch {
	case v.pause < 0:
		return fmt.Errorf("--pause is %v, expected 0s or more", v.pause)
	case v.duration < 0:
		return fmt.Errorf("--duration is %v, expected 0s or more", v.duration)
	case v.pause > 0 && v.rate < 1:
		return fmt.Errorf("--rate is %d, expected 1 or more", v.rate)
	}
	return nil
}

// load is what a measurement of a pause is asked for. A frame has one message unless that
// is said: its latency is to be seen.
func (v *verb) load() Paused {
	if v.duration == 0 {
		v.duration = 3 * v.pause
	}
	return Paused{Server: v.server, Out: v.out, Case: map[string]any{
		"class": v.class, "size": v.options.Size, "partitions": v.options.Partitions, "rate": v.rate,
		"duration": v.duration, "pause": v.pause,
	}}
}

// report prints the result.
func (v *verb) report(out io.Writer, r *backlog.Result, err error) error {
	switch {
	case r == nil:
		return err
	case !v.asJSON():
		fmt.Fprintln(out, r)
		return err
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return errors.Join(err, enc.Encode(r))
}

// profiled begins a profile if one is wanted.
func (v *verb) profiled() (stop func() error, err error) {
	if v.profile == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(v.profile)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}
