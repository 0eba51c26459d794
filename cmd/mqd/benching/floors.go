package benching

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mqd-broker/mqd/bench"
	host "github.com/mqd-broker/mqd/bench/machine"
	"github.com/mqd-broker/mqd/cmd/mqd/settings"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/spf13/cobra"
)

func (t *tool) newDisk() *cobra.Command {
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
			var err error
			if o.FileBytes, err = settings.ParseSize(fileSize); err != nil || o.FileBytes < bench.MaxDiskSize || o.FileBytes%bench.MaxDiskSize != 0 {
				return fmt.Errorf("--file-size is %s, expected 1MiB or a multiple of it", fileSize)
			}
			err = errors.Join(
				parseEach(ops, &o.Ops, bench.ParseDiskOp), parseEach(idle, &o.Idle, bench.ParseIdle),
				parseEach(sizes, &o.Sizes, parseDiskSize), within("depths", depths, 1, bench.MaxDiskDepth), positive("duration", duration))
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

// parseDiskSize reads the size of an operation.
func parseDiskSize(text string) (int, error) {
	n, err := settings.ParseSize(text)
	if err != nil || n < aio.BlockSize || n > bench.MaxDiskSize || n%aio.BlockSize != 0 {
		return 0, fmt.Errorf("--sizes has %s, expected 4KiB to 1MiB, in steps of 4KiB", text)
	}
	return int(n), nil
}

// within refuses values of a flag that are out of a range.
func within(flag string, values []int, least, most int) error {
	for _, v := range values {
		if v < least || v > most {
			return fmt.Errorf("--%s is %d, expected %d to %d", flag, v, least, most)
		}
	}
	return nil
}

// positive refuses the time of a flag that is none.
func positive(flag string, d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("--%s is %v, expected more than 0", flag, d)
	}
	return nil
}

func (t *tool) disk(cmd *cobra.Command, o bench.DiskOptions) error {
	ctx, end, p, err := t.begin(cmd)
	if err != nil {
		return err
	}
	defer end()
	out := cmd.OutOrStdout()
	place := t.place(nil)
	o.Dir, o.CPU = t.dir, place.Server
	report := struct {
		head
		Disk []bench.DiskResult `json:"disk"`
	}{}
	if report.head, err = t.head(ctx, p, place, out); err != nil {
		return err
	}
	t.line(out, bench.DiskHeader())
	err = bench.Disk(ctx, p, o, func(r bench.DiskResult) {
		report.Disk = append(report.Disk, r)
		t.line(out, r.Row())
	})
	return t.finish(out, report, err)
}

func (t *tool) newNet() *cobra.Command {
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
			err := errors.Join(parseEach(server, &o.Server, bench.ParseIdle), parseEach(client, &o.Client, bench.ParseIdle),
				within("depths", o.Depths, 1, bench.MaxDepth), within("batch-messages", []int{o.BatchMessages}, 1, bench.MaxBatch), positive("duration", o.Duration))
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

func (t *tool) net(cmd *cobra.Command, o bench.NetOptions) error {
	ctx, end, p, err := t.begin(cmd)
	if err != nil {
		return err
	}
	defer end()
	out := cmd.OutOrStdout()
	place := t.place(nil)
	o.ServerCPU, o.ClientCPU = place.Server, place.Client()
	report := struct {
		head
		Network []bench.NetResult `json:"network"`
	}{}
	if report.head, err = t.head(ctx, p, place, out); err != nil {
		return err
	}
	t.line(out, bench.NetHeader())
	err = bench.Network(ctx, p, o, func(r bench.NetResult) {
		report.Network = append(report.Network, r)
		t.line(out, r.Row())
	})
	return t.finish(out, report, err)
}

func (t *tool) newJitter() *cobra.Command {
	var duration time.Duration
	var cpus []int
	cmd := &cobra.Command{
		Use:   "jitter",
		Short: "Measure what the machine takes from a thread that wants to run",
		Long: `Run a thread that does nothing but yield and read the clock, on one CPU after another,
and count by how much its turns are longer than usual: interrupts, other threads, the
hypervisor. No latency below that can be shown on this machine.`,
		Example: "  mqd bench jitter\n  mqd bench jitter --cpus 2,3 --duration 10s -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := errors.Join(positive("duration", duration), mayUse(cpus, host.AllowedCPUs("/")))
			if err != nil {
				return err
			}
			return t.jitter(cmd, cpus, duration)
		},
	}
	cmd.Flags().IntSliceVar(&cpus, "cpus", nil, "`CPUs` to measure; by default all that this process may use")
	cmd.Flags().DurationVar(&duration, "duration", 2*time.Second, "length of each measurement")
	return cmd
}

// mayUse refuses CPUs of --cpus that this process may not use; allowed is empty where that
// is not known.
func mayUse(cpus, allowed []int) error {
	for _, cpu := range cpus {
		if len(allowed) > 0 && !slices.Contains(allowed, cpu) {
			return fmt.Errorf("--cpus has %d, expected some of %s", cpu, strings.Trim(fmt.Sprint(allowed), "[]"))
		}
	}
	return nil
}

// cpuJitter is the jitter of one CPU.
type cpuJitter struct {
	CPU int `json:"cpu"`
	bench.Jitter
}

func (t *tool) jitter(cmd *cobra.Command, cpus []int, duration time.Duration) error {
	ctx, end, p, err := t.begin(cmd)
	if err != nil {
		return err
	}
	defer end()
	if len(cpus) == 0 {
		cpus = host.AllowedCPUs("/")
	}
	if len(cpus) == 0 {
		cpus = []int{bench.NoCPU}
	}
	out := cmd.OutOrStdout()
	report := struct {
		Host host.Host   `json:"host"`
		CPUs []cpuJitter `json:"cpus"`
	}{Host: host.ReadHost("/", t.dir, interruptsOf(t.dir), t.needs.Revision())}
	t.line(out, report.Host.String())
	for _, cpu := range cpus {
		j, err := bench.MeasureJitter(ctx, p, cpu, duration)
		if err != nil {
			return err
		}
		report.CPUs = append(report.CPUs, cpuJitter{cpu, j})
		t.line(out, fmt.Sprintf("CPU %-3d  %s", cpu, j))
	}
	return t.finish(out, report, nil)
}
