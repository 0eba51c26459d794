// Package catchup measures how fast a broker serves a consumer that is far behind, beside a
// bare loop that only reads a file and sends: the same batches, frames, driver and client.
//
// The client checks the CRC of every batch and that its offsets follow those before; it does
// not decode records, so that who serves is measured. What a client library reads in a second
// is package backlog's.
package catchup

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/mqd-broker/mqd/bench"
	"github.com/mqd-broker/mqd/bench/drive"
	"github.com/mqd-broker/mqd/net/wire"
)

const (
	// pieceBytes is the most that an answer carries, and what the bare loop reads at once: what
	// a broker reads of a segment at a time.
	pieceBytes = 256 << 10
	// batchMessages of messageBytes bytes are in a batch.
	batchMessages, messageBytes = 64, 180
	// produceDepth is how many batches are in flight when the backlog is written.
	produceDepth = 64
	// startDelay is the time between the last connection and the first message.
	startDelay = 20 * time.Millisecond
	// MaxPartitions bounds the partitions that are read.
	MaxPartitions = 64
)

// Options say what is measured. Zero fields take the defaults.
type Options struct {
	// Addr is the broker.
	Addr string
	// Dir is where the file of the bare loop is made, which is removed afterwards.
	Dir string
	// Messages of 180 bytes, 64 in a batch, that the backlog has, at least one batch for
	// each partition. Default 6,000,000: more than a broker's cache has room for by
	// default, so that it reads from its files.
	Messages int
	// Partitions of the topic, 1 to MaxPartitions, with one fetch in flight each. Default 8.
	Partitions int
	// Rounds is how often both are measured, in turn. Default 3.
	Rounds int
	// Server is the CPU of the bare loop, Client that of the client, or bench.NoCPU.
	Server, Client int
}

func (o Options) withDefaults() (Options, error) {
	if o.Partitions == 0 {
		o.Partitions = 8
	}
	for _, f := range []struct {
		name             string
		field            *int
		def, least, most int
	}{
		{"partitions", &o.Partitions, 0, 1, MaxPartitions},
		{"messages", &o.Messages, 6_000_000, batchMessages * o.Partitions, 1 << 40},
		{"rounds", &o.Rounds, 3, 1, 1000},
	} {
		if *f.field == 0 {
			*f.field = f.def
		}
		if *f.field < f.least || *f.field > f.most {
			return o, fmt.Errorf("%w: %s: %d, expected %d to %d", bench.ErrConfig, f.name, *f.field, f.least, f.most)
		}
	}
	return o, nil
}

// Round is what was served in a second, in bytes of batches.
type Round struct {
	Broker float64 `json:"broker_bytes_per_second"`
	Bare   float64 `json:"bare_bytes_per_second"`
}

// Result is what [Run] has measured.
type Result struct {
	// Bytes of batches that the broker has sent each time.
	Bytes  int64   `json:"bytes"`
	Rounds []Round `json:"rounds"`
	// Pairs are the ratios of the broker to the bare loop.
	Pairs bench.Pairs `json:"pairs"`
}

// Bare is the median of the bare loop's rounds, in bytes a second.
func (r *Result) Bare() float64 {
	return bench.Median(r.Rounds, func(x Round) float64 { return x.Bare })
}

// Broker is the median of the broker's rounds, in bytes a second.
func (r *Result) Broker() float64 {
	return bench.Median(r.Rounds, func(x Round) float64 { return x.Broker })
}

// Run writes a backlog and has it served by both, in turn, and which comes first in turn too.
func Run(ctx context.Context, p bench.Platform, o Options) (r *Result, err error) {
	if o, err = o.withDefaults(); err != nil {
		return nil, err
	}
	defer drive.WithoutGC()()
	log, err := fill(ctx, p, &o)
	if err != nil {
		return nil, fmt.Errorf("backlog: %w", err)
	}
	defer func() { err = errors.Join(err, log.shared.Drop()) }()
	bare, err := startBare(p, filepath.Join(o.Dir, bareName()), o.Partitions, log.served.ends[0], o.Server)
	if err != nil {
		return nil, fmt.Errorf("bare loop: %w", err)
	}
	defer func() { err = errors.Join(err, bare.stop()) }()
	r = &Result{}
	for n := range o.Rounds {
		var round Round
		for i := range 2 {
			of, rate := bare.served, &round.Bare
			if (n+i)%2 == 0 {
				of, rate = log.served, &round.Broker
			}
			got, err := read(ctx, p, of, o.Client)
			if err != nil {
				return nil, err
			}
			if *rate = got.rate(); !of.target.Echo {
				r.Bytes = got.bytes
			}
		}
		r.Rounds = append(r.Rounds, round)
	}
	ratios := make([]float64, len(r.Rounds))
	for i, x := range r.Rounds {
		ratios[i] = x.Broker / x.Bare
	}
	r.Pairs = bench.Ratios(ratios)
	return r, nil
}

// served is something to read: partitions of a topic up to their ends.
type served struct {
	target bench.Target
	topic  wire.TopicID
	ends   []int64
}

// backlog is a topic with messages in it.
type backlog struct {
	shared *bench.Shared
	served served
}

// fill makes a topic and writes its messages.
func fill(ctx context.Context, p bench.Platform, o *Options) (b *backlog, err error) {
	load := bench.Load{
		Class: wire.ClassFlushed, Size: messageBytes, BatchMessages: batchMessages, Partitions: o.Partitions, Depth: produceDepth, Client: bench.Block,
		Reading: bench.After, Messages: int64(o.Messages), Duration: time.Hour, Warmup: -1,
	}
	if o.Client != bench.NoCPU {
		load.CPUs = []int{o.Client}
	}
	shared, err := bench.NewShared(p, bench.Target{Addr: o.Addr}, load)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, shared.Drop())
		}
	}()
	clock, err := bench.ClockOf(p)
	if err != nil {
		return nil, err
	}
	plan := shared.Plan(bench.Part{Produce: bench.Slice{Of: 1}}, nil)
	s, err := bench.Join(ctx, p, plan)
	if err != nil {
		return nil, err
	}
	s.Begin(clock.Now() + int64(startDelay))
	found, err := s.Wait(ctx)
	if err != nil {
		return nil, err
	}
	if found.Refused > 0 {
		return nil, fmt.Errorf("%w: refused %d messages: %s", bench.ErrFailed, found.Refused, found.Refusal)
	}
	ends := bench.Acked(plan.Load, []*bench.Found{found})
	return &backlog{shared: shared, served: served{target: plan.Target, topic: plan.Topic.ID, ends: ends}}, nil
}
