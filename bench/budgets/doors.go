package budgets

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mqd-broker/mqd/bench"
	"github.com/mqd-broker/mqd/bench/machine"
	"github.com/mqd-broker/mqd/net/wire"
)

// The two doors of a broker, as they are named in rows.
const (
	native = iota
	kafka
	numDoors
)

var doorNames = [numDoors]string{"native", "Kafka"}

const (
	// doorRatio is what Kafka's door may cost or take, in those of the native one.
	doorRatio = 1.3
	// doorBatch messages of doorSize bytes make a batch of 16 KiB.
	doorBatch, doorSize = 88, 180
	doorRate            = 50_000
	// doorPairs is how many pairs of latencies are measured for each round: a 99th percentile
	// differs from one measurement to the next far more than what a message costs.
	doorPairs = 3
	// doorLate: the doors are not told apart by a client that comes late to messages by more
	// than one part in this many of their latency, both at the 99th percentile.
	doorLate = 2
)

// doors measures Kafka's door beside the native one, with the same client, the same loads
// and the same bytes in batches, on brokers of their own: what Kafka's requests need is not
// in the memory of the other, and a broker that blocks when it is idle uses CPU for work
// alone.
func (s *session) doors(ctx context.Context) error {
	for _, step := range []struct {
		idle string
		do   func(*doors, context.Context) error
	}{
		{"block", (*doors).cost},
		// Each kind of connections has a broker that has not had any others, whose memory
		// would be there for them.
		{"block", func(d *doors, ctx context.Context) error { return d.idle(ctx, native) }},
		{"block", func(d *doors, ctx context.Context) error { return d.idle(ctx, kafka) }},
		{"adaptive", (*doors).endToEnd},
	} {
		d, err := s.openDoors(ctx, step.idle)
		if err != nil {
			return err
		}
		if err := errors.Join(step.do(d, ctx), d.broker.Stop()); err != nil {
			return err
		}
	}
	return nil
}

// doors is a broker with both.
type doors struct {
	s      *session
	broker *machine.Broker
	at     [numDoors]bench.Target
}

func (s *session) openDoors(ctx context.Context, idle string) (*doors, error) {
	b, err := machine.StartBroker(ctx, s.o.Program, s.o.Dir, append(slices.Clone(s.o.Args), "--kafka-listen", "127.0.0.1:0", "--idle", idle,
		"--log-level", "info", "--log-format", "text")...) // as Broker.Kafka reads it
	if err != nil {
		return nil, err
	}
	s.rep.Placement = s.o.Place(machine.PinnedCPUs("/", b.PID))
	addr, err := b.Kafka()
	if err != nil {
		return nil, errors.Join(err, b.Stop())
	}
	return &doors{s: s, broker: b, at: [numDoors]bench.Target{native: {Addr: b.Addr}, kafka: {Addr: b.Addr, Kafka: addr}}}, nil
}

// through is one measurement.
type through struct {
	*bench.Result
	produce, fetch float64 // CPU of the broker, in nanoseconds a message
	taken          float64 // the share of the time that other programs took
}

// interleave measures a load through both doors in turn, and which comes first in turn too.
// again is how many measurements were made once more, for a calm machine.
func (d *doors) interleave(ctx context.Context, load bench.Load, pairs int) (all [numDoors][]through, again int, err error) {
	cases := [numDoors]bench.Case{}
	for round := range pairs {
		for i := range numDoors {
			door := (round + i) % numDoors
			load.Name, load.Seed = doorNames[door]+"'s door", uint64(1+round)
			t, more, err := d.measure(ctx, door, load)
			if err != nil {
				return all, again, fmt.Errorf("%s: %w", load.Name, err)
			}
			again += more
			all[door] = append(all[door], t)
			cases[door].Add(t.Result)
		}
	}
	for i := range cases {
		cases[i].Finish()
		d.s.rep.Cases = append(d.s.rep.Cases, &cases[i])
	}
	return all, again, nil
}

// measure makes one measurement; where latency is asked for, one that is calm.
func (d *doors) measure(ctx context.Context, door int, load bench.Load) (through, int, error) {
	once := func() (through, error) { return d.run(ctx, door, load) }
	if load.Open() {
		return calmest(once)
	}
	t, err := once()
	return t, 0, err
}

func (d *doors) run(ctx context.Context, door int, load bench.Load) (t through, err error) {
	var at [3]time.Duration // of the broker's CPU: before, when all is acknowledged, after
	var watched [2]watch
	var errs [5]error
	take := func(i int) {
		at[i], errs[i] = machine.CPUTime("/", d.broker.PID)
		if i < len(watched) {
			watched[i], errs[3+i] = watchNow(d.broker.PID)
		}
	}
	load.CPUs, load.Produced = d.s.rep.Placement.Clients, func() { take(1) }
	take(0)
	t.Result, err = bench.Run(ctx, d.s.p, d.at[door], load)
	take(2)
	if err := errors.Join(err, errors.Join(errs[:]...)); err != nil {
		return t, err
	}
	t.taken = watched[1].taken(watched[0])
	t.BrokerCPU = float64(at[2]-at[0]) / float64(max(1, t.Sent))
	t.produce = float64(at[1]-at[0]) / float64(max(1, t.Sent))
	t.fetch = float64(at[2]-at[1]) / float64(max(1, t.Read))
	return t, nil
}

// ratio holds what Kafka's door took against the native one, in pairs.
func ratio(what string, all [numDoors][]through, unit float64, unitName string, of func(through) float64) Row {
	var ratios []float64
	for i := range all[kafka] {
		ratios = append(ratios, of(all[kafka][i])/max(1, of(all[native][i])))
	}
	pairs := bench.Ratios(ratios)
	row := atMost(what, pairs.Median, doorRatio, 1, "×", fmt.Sprintf("%.2f / %.2f %s",
		bench.Median(all[kafka], of)/unit, bench.Median(all[native], of)/unit, unitName))
	row.Note = fmt.Sprintf("%d pairs, 95 %% within %.2f to %.2f", pairs.Count, pairs.Low, pairs.High)
	return row
}

// cost measures what messages cost the broker.
func (d *doors) cost(ctx context.Context) error {
	d.s.o.Progress("Kafka's door: CPU")
	all, _, err := d.interleave(ctx, bench.Load{
		Class: wire.ClassMemory, Size: doorSize, BatchMessages: doorBatch, Depth: 16, Client: bench.Block,
		Reading: bench.After, Duration: d.s.o.Piece, Warmup: d.s.o.Piece / 4,
	}, d.s.o.Rounds)
	if err != nil {
		return err
	}
	const us = float64(time.Microsecond)
	produce := ratio("Kafka / native, CPU of the broker a message produced", all, us, "µs", func(t through) float64 { return t.produce })
	produce.Note += fmt.Sprintf("; class memory, 16 batches of %d × %d B in flight, the broker blocks when idle", doorBatch, doorSize)
	fetch := ratio("Kafka / native, CPU of the broker a message fetched", all, us, "µs", func(t through) float64 { return t.fetch })
	fetch.Note += "; read back in pieces of up to 1 MiB"
	d.s.rep.Rows = append(d.s.rep.Rows, produce, fetch)
	return nil
}

// endToEnd measures how long messages take that are read as they are written.
func (d *doors) endToEnd(ctx context.Context) error {
	return errors.Join(d.endToEndWith(ctx, bench.Poll), d.endToEndWith(ctx, bench.Block))
}

func (d *doors) endToEndWith(ctx context.Context, client bench.Idle) error {
	d.s.o.Progress("Kafka's door: end to end, client " + client.String())
	all, again, err := d.interleave(ctx, bench.Load{
		Class: wire.ClassMemory, Size: doorSize, Rate: doorRate, Client: client,
		Reading: bench.Live, Duration: d.s.o.Piece, Warmup: d.s.o.Piece / 4,
	}, doorPairs*d.s.o.Rounds)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("end to end, %d msg/s, client %s, p99", doorRate, client)
	budget := latencyBudget{[]term{{1, "J", d.s.rep.Jitter.Gaps.P99}}, 300 * int64(time.Microsecond)}
	last, share := d.s.rep.Cases[len(d.s.rep.Cases)-numDoors:], disturbed(all)
	worst := budget.within("Kafka, memory "+what, int64(bench.Median(all[kafka], wholeP99)))
	d.s.rep.Rows = append(d.s.rep.Rows,
		latencies("Kafka / native, memory "+what, all).inTime(last[native].Result).inTime(last[kafka].Result).calmly(share, again),
		worst.atWorst(worst.of(last[kafka].Result).quietly(d.s.rep.Jitter).calmly(share, again), float64(budget.margin)/1e3))
	return nil
}

// wholeP99 is from the intended time to the consumer, serviceP99 less what the client came late.
func wholeP99(t through) float64   { return float64(t.EndToEnd.P99) }
func serviceP99(t through) float64 { return float64(t.EndToEndService.P99) }

// latencies holds the doors against each other at the 99th percentile. What the client comes late
// is in the latency of either door and makes them alike, so the ratio is taken without it as well,
// and the larger of the two is judged.
func latencies(what string, all [numDoors][]through) Row {
	whole := ratio(what, all, float64(time.Microsecond), "µs", wholeP99)
	service := ratio(what+", less what the client was late", all, float64(time.Microsecond), "µs", serviceP99)
	row, other, name := whole, service, "less what the client was late"
	if service.Measured > whole.Measured {
		row, other, name = service, whole, "with what the client was late"
	}
	row.Note += fmt.Sprintf("; %s %.2f × (%s); %s", name, other.Measured, other.Note, percentiles(all))
	return row
}

// inTime is the row of the doors' latencies, but no figure if the client came so late to messages
// that they were another load.
func (r Row) inTime(res *bench.Result) Row {
	if res.Late.P99*doorLate > res.Ack.P99 && r.Missing == "" {
		r.Missing, r.Within = fmt.Sprintf("the client comes late to messages by %s, their latency is %s, both p99", bench.Micros(res.Late.P99), bench.Micros(res.Ack.P99)), false
	}
	return r
}

// percentiles holds the doors against each other where a machine's noise is not what decides.
func percentiles(all [numDoors][]through) string {
	ofPairs := func(of func(bench.Summary) int64) bench.Pairs {
		var ratios []float64
		for i := range all[kafka] {
			ratios = append(ratios, float64(of(all[kafka][i].EndToEnd))/float64(max(1, of(all[native][i].EndToEnd))))
		}
		return bench.Ratios(ratios)
	}
	half := ofPairs(func(s bench.Summary) int64 { return s.P50 })
	most := ofPairs(func(s bench.Summary) int64 { return s.P90 })
	return fmt.Sprintf("at p50 %.2f × (%.2f to %.2f), at p90 %.2f × (%.2f to %.2f)", half.Median, half.Low, half.High, most.Median, most.Low, most.High)
}
