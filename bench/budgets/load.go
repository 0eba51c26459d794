package budgets

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mqd-broker/mqd/bench"
	"github.com/mqd-broker/mqd/bench/pace"
	"github.com/mqd-broker/mqd/net/wire"
)

// one measures a single load and keeps it.
func (s *session) one(ctx context.Context, load bench.Load) (*bench.Result, error) {
	cases, err := bench.Interleave(ctx, s.run, []bench.Load{load}, 1)
	if err != nil {
		return nil, err
	}
	s.rep.Cases = append(s.rep.Cases, cases...)
	return cases[0].Result, nil
}

// Of partitions against one: the ratio, and its upper bound.
const (
	partitionRatio = 1.2
	partitionBound = 1.5
)

// manyPartitions are the numbers that are held against one.
var manyPartitions = []int{16, 64, 256, 1024}

var twoPercentiles = []struct {
	name string
	of   func(bench.Round) int64
}{{"p50", bench.P50}, {"p99", bench.P99}}

// partitions compares the same frames over many partitions with one.
func (s *session) partitions(ctx context.Context) error {
	s.o.Progress("many partitions against 1")
	load := bench.Load{BatchMessages: 16, Depth: 16, Client: bench.Poll, Reading: bench.After, Duration: s.o.Piece, Warmup: s.o.Piece / 4}
	loads := []bench.Load{load}
	for _, n := range manyPartitions {
		load.Partitions = n
		loads = append(loads, load)
	}
	cases, err := bench.Interleave(ctx, s.run, loads, s.o.Rounds)
	if err != nil {
		return err
	}
	s.rep.Cases = append(s.rep.Cases, cases...)
	for i, n := range manyPartitions {
		for _, p := range twoPercentiles {
			many, one := bench.Median(cases[i+1].Rounds, p.of), bench.Median(cases[0].Rounds, p.of)
			pairs := bench.Compare(cases[i+1].Rounds, cases[0].Rounds, p.of)
			row := atMost(fmt.Sprintf("flushed ack %s, %d partitions / 1", p.name, n), pairs.Median, partitionRatio, 1, "×",
				fmt.Sprintf("%s / %s, 16 × 16 messages in flight", bench.Micros(many), bench.Micros(one)))
			row.Note = fmt.Sprintf("%d pairs, 95 %% within %.2f to %.2f; the upper bound may be %.1f", pairs.Count, pairs.Low, pairs.High, partitionBound)
			row.Within = row.Within && pairs.High <= partitionBound
			s.rep.Rows = append(s.rep.Rows, row)
		}
	}
	return nil
}

// burst measures the bursts of a load that is silent in between.
func (s *session) burst(ctx context.Context) error {
	s.o.Progress("bursts")
	load := bench.Load{
		Burst:         pace.Burst{Messages: 50_000, Length: 50 * time.Millisecond, Period: time.Second},
		BatchMessages: 50, Client: bench.Poll, Reading: bench.After, Duration: max(s.o.Long, time.Second), Warmup: -1,
	}
	res, err := s.one(ctx, load)
	if err != nil {
		return err
	}
	row := atMost("burst of 50,000 in 50 ms, flushed, last ack after its end", float64(slices.Max(res.AfterBurst))/1e6, 30, 1, "ms",
		"50 messages a frame, the worst burst; nothing refused")
	row.Note = fmt.Sprintf("%d bursts, median %.1f ms, %d refused", len(res.AfterBurst),
		float64(bench.Median(res.AfterBurst, func(ns int64) int64 { return ns }))/1e6, res.Faults.Refused)
	row.Within = row.Within && res.Faults.Refused == 0
	s.rep.Rows = append(s.rep.Rows, row.of(res))
	return nil
}

// rates are what 64 messages a frame over 8 partitions must reach, at how much of the
// broker's CPU.
var rates = []struct {
	class wire.Class
	rate  float64
	cpu   float64 // ns a message
}{{wire.ClassFlushed, 2e6, 350}, {wire.ClassMemory, 4e6, 200}}

// throughput measures 64 messages a frame, beside what the device makes durable in
// large pieces.
func (s *session) throughput(ctx context.Context) error {
	s.o.Progress("throughput")
	var floors []string
	for _, size := range []int{256 << 10, 1 << 20} {
		d, err := s.disk.Measure(ctx, bench.DiskResult{Op: bench.DSYNC, Size: size, Depth: 1, Idle: bench.Poll}, bench.NoCPU)
		if err != nil {
			return err
		}
		s.rep.Disk = append(s.rep.Disk, d)
		floors = append(floors, fmt.Sprintf("%.0f MB/s in pieces of %d KiB", d.Bytes/1e6, size>>10))
	}
	for _, c := range rates {
		res, err := s.one(ctx, bench.Load{
			Class: c.class, Partitions: 8, BatchMessages: 64, Depth: 64, Client: bench.Block, Reading: bench.After, Duration: s.o.Long, Warmup: s.o.Piece,
		})
		if err != nil {
			return err
		}
		from := fmt.Sprintf("8 partitions, 64 × 64 messages in flight, %v", s.o.Long)
		row := atLeast(c.class.String()+", 1 connection, 64 a frame", res.Rate, c.rate, "msg/s", from)
		row.Note = fmt.Sprintf("%.0f MB/s of messages; DSYNC alone makes durable %s", res.Bytes/1e6, strings.Join(floors, ", "))
		cpu := atMost(c.class.String()+", 64 a frame, CPU of the broker a message", res.BrokerCPU/1e3, c.cpu/1e3, 1, "µs", from)
		cpu.Note = "reading them back once included"
		s.rep.Rows = append(s.rep.Rows, row, cpu)
	}
	s.rep.Rows = append(s.rep.Rows, missing("produce with a follower", "there is no replication yet"))
	return nil
}

// growing are the sizes of messages that must not slow the bytes down. The last is a
// MiB but for what a batch has around it.
var growing = []int{180, 8 << 10, 64 << 10, 1<<20 - 4<<10}

// sizes measures the bytes a second of larger and larger messages.
func (s *session) sizes(ctx context.Context) error {
	s.o.Progress("sizes")
	var loads []bench.Load
	for _, n := range growing {
		loads = append(loads, bench.Load{Size: n, Depth: 16, Client: bench.Block, Reading: bench.After, Duration: s.o.Piece, Warmup: s.o.Piece / 4})
	}
	cases, err := bench.Interleave(ctx, s.run, loads, 1)
	if err != nil {
		return err
	}
	s.rep.Cases = append(s.rep.Cases, cases...)
	least, said := 0.0, make([]string, len(cases))
	for i, c := range cases {
		said[i] = fmt.Sprintf("%d B %.1f MB/s", growing[i], c.Result.Bytes/1e6)
		if i == 0 || cases[i-1].Result.Bytes == 0 {
			continue
		}
		if growth := c.Result.Bytes / cases[i-1].Result.Bytes; i == 1 || growth < least {
			least = growth
		}
	}
	row := atLeast("MB/s of the next larger size / of the smaller, the least", least, 1, "×", "flushed, 1 message a frame, 16 in flight")
	row.Note = strings.Join(said, ", ")
	s.rep.Rows = append(s.rep.Rows, row)
	return nil
}
