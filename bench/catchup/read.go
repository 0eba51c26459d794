package catchup

import (
	"context"
	"fmt"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/bench"
	"github.com/mqd-broker/mqd/bench/drive"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/net/wire"
)

const (
	// sendBuf holds a fetch for each partition.
	sendBuf = 64 << 10
	// silence is how long a reader waits for an answer before it gives up.
	silence = 10 * time.Second
	// fetchWait is how long a fetch waits where there is nothing, in milliseconds.
	fetchWait = 500
	// unlimited records: the bytes are what bounds an answer.
	unlimited = 1 << 30
)

// reader reads partitions up to their ends, with one fetch in flight for each.
type reader struct {
	of      served
	link    *drive.Link
	offsets []int64
	due     []int32 // partitions that have no fetch in flight
	left    int     // partitions that are not at their ends
	bytes   int64   // of batches
	last    int64   // when an answer came
	took    time.Duration
}

// rate is bytes a second.
func (r *reader) rate() float64 { return float64(r.bytes) / r.took.Seconds() }

// read reads everything once.
func read(ctx context.Context, p bench.Platform, of served, cpu int) (*reader, error) {
	r := &reader{of: of, offsets: make([]int64, len(of.ends))}
	for n, end := range of.ends {
		if end > 0 {
			r.left++
			r.due = append(r.due, int32(n))
		}
	}
	o := aio.Options{Entries: 256, ArenaBytes: 1 << 20, RecvBuffers: 64, Files: 1, Helpers: 1}
	err := drive.OnThread(p, cpu, o, func(drv aio.Driver) error {
		lp := drive.NewLoop(drv, p, drive.Poll)
		var err error
		if r.link, err = bench.Connect(lp, of.target, sendBuf, 2*pieceBytes); err != nil {
			return err
		}
		r.link.To = r
		if err := r.run(ctx, lp); err != nil {
			return err
		}
		return r.link.Close(lp)
	})
	if err != nil {
		return nil, fmt.Errorf("reading: %w", err)
	}
	return r, nil
}

func (r *reader) run(ctx context.Context, lp *drive.Loop) error {
	began := lp.Clock.Now()
	for r.last = began; r.left > 0; {
		if err := r.ask(); err != nil {
			return err
		}
		if err := lp.Turn(r.last + int64(silence)); err != nil {
			return err
		}
		switch {
		case r.link.Err != nil:
			return r.link.Err
		case ctx.Err() != nil:
			return ctx.Err()
		case lp.Clock.Now()-r.last > int64(silence):
			return fmt.Errorf("%w: no answer within %v", bench.ErrBroker, silence)
		}
	}
	r.took = time.Duration(lp.Clock.Now() - began)
	return nil
}

// ask sends what fetches are due.
func (r *reader) ask() error {
	for _, n := range r.due {
		dst := r.link.Room(wire.HeaderSize + wire.FetchRequestSize)
		if dst == nil {
			return fmt.Errorf("%w: no room for the fetches of %d partitions", bench.ErrConnection, len(r.offsets))
		}
		r.link.Filled(wire.AppendFetchRequest(dst, uint32(n), &wire.FetchRequest{
			Topic: r.of.topic, Partition: n, Offset: r.offsets[n],
			MaxWait: fetchWait, MinBytes: 1, MaxBytes: pieceBytes, MaxRecords: unlimited,
		}))
	}
	r.due = r.due[:0]
	r.link.Flush()
	return nil
}

// Frame implements drive.Framer: it takes the answer to a fetch.
func (r *reader) Frame(_ *drive.Link, h wire.Header, body []byte, now int64) error {
	if h.IsError() || h.Op != wire.OpFetch || int(h.Correlation) >= len(r.offsets) {
		return fmt.Errorf("%w: an answer to no fetch: %s, correlation %d", bench.ErrBroker, h.Op, h.Correlation)
	}
	n := h.Correlation
	a, err := wire.DecodeFetchResponse(body)
	if err != nil {
		return err
	}
	if a.Code != wire.CodeNone {
		return fmt.Errorf("%w: fetch of partition %d at %d: %s", bench.ErrBroker, n, r.offsets[n], a.Code)
	}
	for rest := a.Batches; len(rest) > 0; {
		var first []byte
		if first, rest, err = batch.Split(rest); err != nil {
			return err
		}
		head, err := batch.CheckStored(first)
		if err != nil {
			return fmt.Errorf("partition %d at %d: %w", n, r.offsets[n], err)
		}
		if head.BaseOffset != r.offsets[n] {
			return fmt.Errorf("%w: partition %d has a batch at %d, expected at %d", bench.ErrFailed, n, head.BaseOffset, r.offsets[n])
		}
		r.offsets[n] = head.NextOffset()
	}
	r.bytes += int64(len(a.Batches))
	if r.last = now; r.offsets[n] >= r.of.ends[n] {
		r.left--
		return nil
	}
	r.due = append(r.due, int32(n))
	return nil
}
