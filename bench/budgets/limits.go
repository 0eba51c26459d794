package budgets

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mqd-broker/mqd/bench"
	"github.com/mqd-broker/mqd/bench/backlog"
	"github.com/mqd-broker/mqd/bench/catchup"
	"github.com/mqd-broker/mqd/bench/machine"
)

const (
	// restartPartitions is the number of partitions of a broker that is killed.
	restartPartitions = 64
	// restartDesign is how many bytes the budget speaks of.
	restartDesign = 20 << 30
	// memoryDefault is the budget of a broker whose settings nobody has changed:
	// cache.size and memory.limit.
	memoryDefault = 640 << 20
	// memoryOver is what it may have beyond.
	memoryOver = 1.1
)

// clientBacklog is how many messages at most the Go client is measured with.
const clientBacklog = 1_000_000

// catchUp measures a consumer that is behind: how it is served, and for comparison what the Go
// client reads.
func (s *session) catchUp(ctx context.Context) error {
	s.o.Progress("catch-up")
	r, err := catchup.Run(ctx, s.p, catchup.Options{
		Addr: s.broker.Addr, Dir: s.o.Dir, Messages: s.o.Backlog, Rounds: s.o.Rounds, Server: s.rep.Placement.Server, Client: s.rep.Placement.Client(),
	})
	if err != nil {
		return err
	}
	c, err := backlog.Run(ctx, backlog.Options{Addr: s.broker.Addr, Messages: min(s.o.Backlog, clientBacklog)})
	if err != nil {
		return err
	}
	row := atLeast("catch-up read / bare loop", r.Pairs.Median, 0.8, "×", fmt.Sprintf("%.0f / %.0f MB/s, batches checked", r.Broker()/1e6, r.Bare()/1e6))
	row.Note = fmt.Sprintf("%d pairs, 95 %% within %.2f to %.2f; %d MB in 8 partitions, pieces of 256 KiB; the bare loop reads a file with O_DIRECT and sends. The Go client reads %.2f million messages/s of %d B, %.2f of what a TCP connection carries",
		r.Pairs.Count, r.Pairs.Low, r.Pairs.High, r.Bytes/1e6, c.PerSecond/1e6, c.Size, c.Ratio)
	s.rep.Rows = append(s.rep.Rows, row)
	return nil
}

// limits are the rows about memory and restarts. They come last: the broker is not
// the same one afterwards.
func (s *session) limits(ctx context.Context) error {
	s.rep.Rows = append(s.rep.Rows, missing("allocations a batch on a shard; buffers home",
		"not to be seen from outside: TestProduceAllocatesNothing, TestProduceAndFetchAllocateNothing of both doors and their like hold it, and mqd_receive_buffers_free shows it"))
	row, err := s.memory()
	if err != nil {
		return err
	}
	s.rep.Rows = append(s.rep.Rows, row)
	return s.restart(ctx)
}

// memory is the most that the broker has had resident so far.
func (s *session) memory() (Row, error) {
	const what = "resident memory, at most"
	for _, a := range s.o.Args {
		if slices.ContainsFunc([]string{"cache-size", "memory-limit", "config"}, func(name string) bool { return strings.HasPrefix(strings.TrimLeft(a, "-"), name) }) {
			return missing(what, "the broker has other settings than the default: "+strings.Join(s.o.Args, " ")), nil
		}
	}
	peak, err := machine.PeakMemory("/", s.broker.PID)
	if err != nil {
		return Row{}, err
	}
	return atMost(what, float64(peak)/(1<<20), memoryDefault/(1<<20)*memoryOver, 1, "MiB", "1.1 × (cache.size + memory.limit)"), nil
}

// restart fills a topic, kills the broker and starts it again.
func (s *session) restart(ctx context.Context) error {
	s.o.Progress("restart")
	const size, frame = 8 << 10, 32
	res, err := s.run(ctx, bench.Load{
		Partitions: restartPartitions, Size: size, BatchMessages: frame, Depth: 8, Client: bench.Block, Reading: bench.After,
		Messages: max(frame, s.o.Restart/size), Duration: time.Hour, Warmup: -1, Keep: true,
	})
	if err != nil {
		return err
	}
	took, err := s.broker.Restart(ctx)
	if err != nil {
		return err
	}
	row := atMost("restart after kill -9 until it serves", took.Seconds(), 2, 1, "s",
		fmt.Sprintf("%.2f GB in %d partitions", float64(res.Acked)*size/1e9, restartPartitions))
	if s.o.Restart < restartDesign {
		row.Note = "the budget speaks of 20 GB: --restart-size 20GiB"
	}
	s.rep.Rows = append(s.rep.Rows, row)
	return nil
}
