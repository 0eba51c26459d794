// Package budgets measures a broker beside the floors of the machine and holds the
// figures against the budgets of the design, which are made of these floors.
package budgets

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mqd-broker/mqd/bench"
	"github.com/mqd-broker/mqd/bench/machine"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/net/wire"
)

// Options are what [All] needs.
type Options struct {
	// Program is the broker's binary, Args what it gets beyond what machine.StartBroker
	// gives, Dir where its data and the disk's floor are measured.
	Program string
	Args    []string
	Dir     string
	// Interrupt is the CPU of the data device's interrupts, or NoCPU.
	Interrupt int
	// Revision of the program, for the report.
	Revision string
	// Place says where threads run beside a broker with shards tied to the given
	// CPUs; nil: machine.Place.
	Place func(shards []int) machine.Placement
	// Rounds of comparisons, 0: 7. Piece is the length of one measurement in
	// them, 0: 400 ms; Long that of the others, 0: 3 s.
	Rounds      int
	Piece, Long time.Duration
	// Backlog is the number of messages of a consumer's backlog, 0: 6,000,000;
	// Restart the bytes of messages in a broker that is killed, 0: 256 MiB.
	Backlog int
	Restart int64
	// Doors has only Kafka's door measured beside the native one, and idle connections.
	Doors bool
	// Progress gets a line now and then.
	Progress func(line string)
}

func (o Options) withDefaults() Options {
	if o.Rounds == 0 {
		o.Rounds = 7
	}
	if o.Piece == 0 {
		o.Piece = 400 * time.Millisecond
	}
	if o.Long == 0 {
		o.Long = 3 * time.Second
	}
	if o.Backlog == 0 {
		o.Backlog = 6_000_000
	}
	if o.Restart == 0 {
		o.Restart = 256 << 20
	}
	if o.Place == nil {
		o.Place = func(shards []int) machine.Placement {
			return machine.Place(machine.AllowedCPUs("/"), shards, o.Interrupt)
		}
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	return o
}

// Report is the outcome of [All].
type Report struct {
	Host      machine.Host       `json:"host"`
	Jitter    bench.Jitter       `json:"jitter"`
	Placement machine.Placement  `json:"placement"`
	Disk      []bench.DiskResult `json:"disk"`
	Network   []bench.NetResult  `json:"network"`
	Cases     []*bench.Case      `json:"cases"`
	Rows      []Row              `json:"rows"`
	Seconds   float64            `json:"seconds"`
	// Complete says that everything was measured: nothing has ended it before.
	Complete bool `json:"complete"`
}

// session of [All] under way.
type session struct {
	p      bench.Platform
	o      Options
	broker *machine.Broker
	disk   *bench.DiskFile
	rep    *Report
}

// floorSize is the write of D: the smallest round.
const floorSize = aio.BlockSize

// noisy is the share of time taken by others above which a report warns.
const noisy = 0.05

// settle is how long a broker is left alone before its idle time is measured, and
// how long the machine's noise is. Where Long is shorter, that.
const settle = time.Second

// All measures the floors of the machine and a broker, which it starts, against
// them. The error is ErrFailed if messages did not come back as they went out;
// figures outside their budgets are no error.
func All(ctx context.Context, p bench.Platform, o Options) (*Report, error) {
	o = o.withDefaults()
	began := time.Now()
	s := &session{p: p, o: o, rep: &Report{Host: machine.ReadHost("/", o.Dir, o.Interrupt, o.Revision)}}
	o.Progress("machine: noise")
	var err error
	if s.rep.Jitter, err = bench.MeasureJitter(ctx, p, o.Place(nil).Client(), min(settle, o.Long)); err != nil {
		return nil, err
	}
	s.rep.Placement = o.Place(nil)
	if !o.Doors {
		err = s.alone(ctx)
	}
	if err == nil {
		err = s.doors(ctx)
	}
	s.rep.Seconds = time.Since(began).Seconds()
	if err != nil {
		return s.rep, err
	}
	s.rep.Complete = true
	var failed []error
	for _, c := range s.rep.Cases {
		failed = append(failed, c.Result.Err())
	}
	return s.rep, errors.Join(failed...)
}

// alone measures a broker, which it starts, without Kafka's door.
func (s *session) alone(ctx context.Context) error {
	s.o.Progress("broker: start")
	var err error
	if s.broker, err = machine.StartBroker(ctx, s.o.Program, s.o.Dir, s.o.Args...); err != nil {
		return err
	}
	s.rep.Placement = s.o.Place(machine.PinnedCPUs("/", s.broker.PID))
	return errors.Join(s.measure(ctx), s.broker.Stop())
}

func (s *session) measure(ctx context.Context) error {
	var err error
	s.disk, err = bench.OpenDisk(s.p, bench.DiskOptions{Dir: s.o.Dir, Duration: s.o.Piece, CPU: s.rep.Placement.Server})
	if err != nil {
		return err
	}
	defer s.disk.Remove()
	idle, err := s.idleCPU(ctx)
	if err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{s.acks, s.partitions, s.endToEnd, s.burst, s.throughput, s.sizes, s.catchUp, s.limits} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	s.rep.Rows = append(s.rep.Rows, idle)
	return nil
}

func (s *session) run(ctx context.Context, load bench.Load) (*bench.Result, error) {
	load.CPUs = s.rep.Placement.Clients
	before, err := machine.CPUTime("/", s.broker.PID)
	if err != nil {
		return nil, err
	}
	res, err := bench.Run(ctx, s.p, bench.Target{Addr: s.broker.Addr}, load)
	if err != nil {
		return nil, err
	}
	after, err := machine.CPUTime("/", s.broker.PID)
	if err == nil && res.Sent > 0 {
		res.BrokerCPU = float64(after-before) / float64(res.Sent)
	}
	return res, err
}

// idleCPU measures a broker that has nothing to do.
func (s *session) idleCPU(ctx context.Context) (Row, error) {
	s.o.Progress("broker: idle")
	if err := sleep(ctx, min(settle, s.o.Long)); err != nil {
		return Row{}, err
	}
	before, err := machine.CPUTime("/", s.broker.PID)
	if err != nil {
		return Row{}, err
	}
	start := time.Now()
	if err := sleep(ctx, s.o.Long); err != nil {
		return Row{}, err
	}
	after, err := machine.CPUTime("/", s.broker.PID)
	if err != nil {
		return Row{}, err
	}
	share := 100 * float64(after-before) / float64(time.Since(start))
	return atMost("idle broker, CPU", share, 1, 1, "%", "of one CPU"), nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// floors are the floors of one idle mode of the client, over all rounds.
type floors struct {
	disk, net []bench.Round
}

// acks measures one message in flight, with the floors beside it in every round.
func (s *session) acks(ctx context.Context) error {
	modes := []bench.Idle{bench.Poll, bench.Block}
	classes := []wire.Class{wire.ClassFlushed, wire.ClassMemory}
	fl := make([]floors, len(modes))
	cases := make([]*bench.Case, len(modes)*len(classes))
	for round := range s.o.Rounds {
		s.o.Progress(fmt.Sprintf("one message in flight: round %d of %d", round+1, s.o.Rounds))
		for m, mode := range modes {
			if err := s.measureFloors(ctx, mode, &fl[m]); err != nil {
				return err
			}
			for c, class := range classes {
				load := bench.Load{Class: class, Client: mode, Reading: bench.After, Duration: s.o.Piece, Warmup: s.o.Piece / 4, Seed: uint64(1 + round)}
				res, err := s.run(ctx, load)
				if err != nil {
					return err
				}
				at := &cases[c*len(modes)+m]
				if *at == nil {
					*at = &bench.Case{}
				}
				(*at).Add(res)
			}
		}
	}
	for _, c := range cases {
		c.Finish()
	}
	s.rep.Cases = append(s.rep.Cases, cases...)
	for m, mode := range modes {
		s.rep.Rows = append(s.rep.Rows, ackRows(mode, fl[m], cases[m], cases[len(modes)+m])...)
	}
	return nil
}

// measureFloors measures D and P as a client in this mode would find them.
func (s *session) measureFloors(ctx context.Context, mode bench.Idle, f *floors) error {
	companion := bench.NoCPU
	if mode == bench.Poll {
		companion = s.rep.Placement.Client()
	}
	d, err := s.disk.Measure(ctx, bench.DiskResult{Op: bench.DSYNC, Size: floorSize, Depth: 1, Idle: bench.Poll}, companion)
	if err != nil {
		return err
	}
	n, err := bench.PingPong(ctx, s.p, bench.NetOptions{Duration: s.o.Piece, ServerCPU: s.rep.Placement.Server, ClientCPU: s.rep.Placement.Client()},
		bench.NetResult{Server: bench.Adaptive, Client: mode, Depth: 1})
	if err != nil {
		return err
	}
	s.rep.Disk, s.rep.Network = append(s.rep.Disk, d), append(s.rep.Network, n)
	f.disk = append(f.disk, bench.NewRound(d.Latency, s.o.Piece))
	f.net = append(f.net, bench.NewRound(n.RTT, s.o.Piece))
	return nil
}

// ackRows are the first and the third line of the budgets.
func ackRows(mode bench.Idle, f floors, flushed, memory *bench.Case) []Row {
	d50, d99 := bench.Median(f.disk, bench.P50), bench.Median(f.disk, bench.P99)
	n50, n99 := bench.Median(f.net, bench.P50), bench.Median(f.net, bench.P99)
	us := int64(time.Microsecond)
	name := " ack, 1 in flight, client " + mode.String()
	return []Row{
		latencyBudget{[]term{{1, "D", d50}, {1, "P", n50}}, 30 * us}.within("flushed"+name+", p50", flushed.P50),
		latencyBudget{[]term{{2, "D", d99}, {1, "P", n99}}, 100 * us}.within("flushed"+name+", p99", flushed.P99),
		latencyBudget{[]term{{1, "P", n50}}, 15 * us}.within("memory"+name+", p50", memory.P50),
	}
}

// endToEnd measures an open loop that is read as it is written.
func (s *session) endToEnd(ctx context.Context) error {
	us := int64(time.Microsecond)
	j := term{1, "J", s.rep.Jitter.Gaps.P99}
	var small []bench.DiskResult
	for _, r := range s.rep.Disk {
		if r.Size == floorSize {
			small = append(small, r)
		}
	}
	d := term{2, "D", bench.Median(small, func(r bench.DiskResult) int64 { return r.Latency.P99 })}
	for _, class := range []wire.Class{wire.ClassMemory, wire.ClassFlushed} {
		s.o.Progress("end to end: " + class.String())
		load := bench.Load{Class: class, Rate: 100_000, Client: bench.Poll, Reading: bench.Live, Duration: s.o.Long, Warmup: s.o.Piece}
		cases, err := bench.Interleave(ctx, s.run, []bench.Load{load}, 1)
		if err != nil {
			return err
		}
		s.rep.Cases = append(s.rep.Cases, cases...)
		budget := latencyBudget{[]term{j}, 300 * us}
		if class == wire.ClassFlushed {
			budget = latencyBudget{[]term{d, j}, 400 * us}
		}
		res := cases[0].Result
		row := budget.within(class.String()+" end to end, 100,000 msg/s, client poll, p99", res.EndToEnd.P99)
		s.rep.Rows = append(s.rep.Rows, row.of(res))
	}
	return nil
}

// Text is the report for people, empty if nothing has been measured.
func (r *Report) Text() string {
	if len(r.Rows) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(r.Host.String())
	fmt.Fprintf(&b, "noise    %s\n", r.Jitter)
	if r.Jitter.Stolen > noisy {
		fmt.Fprintf(&b, "         NOISY: other work takes the CPUs, and the figures tell of that as well\n")
	}
	fmt.Fprintf(&b, "threads  broker's shard and floors on CPU %s, client on CPU %s\n\n", cpuName(r.Placement.Server), cpuName(r.Placement.Client()))
	b.WriteString("D: O_DIRECT+DSYNC write of 4 KiB, p50 or p99. P: TCP ping-pong in the same frames. J: the machine's own gaps, p99.\n" +
		"Floors and broker in turn, medians over rounds; messages of 50-512 B, mean 180; microseconds.\n\n")
	b.WriteString(table(r.Rows))
	b.WriteString("\n")
	for _, c := range r.Cases {
		b.WriteString(c.Text())
	}
	pass, fail, missing := r.Kept()
	fmt.Fprintf(&b, "%d budgets pass, %d fail, %d were not measured\n", pass, fail, missing)
	if !r.Complete {
		b.WriteString("INCOMPLETE: it ended before everything was measured\n")
	}
	fmt.Fprintf(&b, "took %.0f s\n", r.Seconds)
	return b.String()
}

func cpuName(cpu int) string {
	if cpu == bench.NoCPU {
		return "any"
	}
	return fmt.Sprint(cpu)
}
