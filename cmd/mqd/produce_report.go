package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/cmd/mqd/consent"
	"github.com/mqd-broker/mqd/internal/quantity"
)

const (
	// maxLatency is the largest latency that the histogram tells apart.
	maxLatency = 10 * time.Minute
	// latencyDigits are the digits that percentiles are exact to.
	latencyDigits = 3
	// watchInterval is how often progress is shown and looked for.
	watchInterval = 250 * time.Millisecond
)

// tally counts what becomes of messages.
type tally struct {
	cancel context.CancelCauseFunc
	began  time.Time
	read   atomic.Int64 // messages given to the producer
	bytes  atomic.Int64 // of their keys and values
	acked  atomic.Int64

	mu      sync.Mutex
	latency *hdrhistogram.Histogram // microseconds
	class   client.Class            // the weakest reached
	last    time.Time               // of the newest acknowledgement
	failed  int64                   // refused, or never sent
	unknown int64                   // sent without an answer
	err     error                   // the first of a batch
}

func newTally(cancel context.CancelCauseFunc) *tally {
	now := time.Now()
	return &tally{cancel: cancel, began: now, last: now, latency: hdrhistogram.New(1, maxLatency.Microseconds(), latencyDigits)}
}

// took counts a message that the producer has taken.
func (t *tally) took(bytes int) {
	t.read.Add(1)
	t.bytes.Add(int64(bytes))
}

// sent is the client's hook: one batch has come to its end.
func (t *tally) sent(_ context.Context, s client.SendInfo) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.Err != nil {
		if errors.Is(s.Err, client.ErrOutcomeUnknown) {
			t.unknown += int64(s.Records)
		} else {
			t.failed += int64(s.Records)
		}
		if t.err == nil {
			t.err = s.Err
			t.cancel(s.Err)
		}
		return
	}
	t.acked.Add(int64(s.Records))
	t.last = time.Now()
	if t.class == 0 || s.Class < t.class {
		t.class = s.Class
	}
	took := min(max(s.Queued+s.Answered, time.Microsecond), maxLatency)
	_ = t.latency.RecordValues(took.Microseconds(), int64(s.Records)) // in range
}

// errStalled is the end of a wait for acknowledgements.
type errStalled struct{ after time.Duration }

func (e errStalled) Error() string {
	return fmt.Sprintf("no acknowledgement for %v (--timeout)", e.after)
}

// watch shows progress on a terminal, and cancels when messages are waiting and
// nothing is acknowledged for as long as patience.
func (t *tally) watch(ctx context.Context, patience time.Duration, errs io.Writer) {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	shown := consent.Terminal(errs)
	idle := time.Now() // when everything was acknowledged, or progress was made
	seen := int64(0)
	for {
		select {
		case <-ctx.Done():
			if shown {
				fmt.Fprint(errs, "\r\x1b[K")
			}
			return
		case now := <-tick.C:
			acked, read := t.acked.Load(), t.read.Load()
			if acked > seen || acked == read {
				idle = now
			}
			if now.Sub(idle) > patience {
				t.cancel(errStalled{patience})
			}
			if shown {
				rate := float64(acked-seen) / watchInterval.Seconds()
				fmt.Fprintf(errs, "\r\x1b[K%s acknowledged, %s/s", quantity.Of(acked, "message", "messages"), quantity.Grouped(int64(rate)))
			}
			seen = acked
		}
	}
}

// cause is the reason behind an error that may only say that work was cancelled.
func (t *tally) cause(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil && !errors.Is(t.err, client.ErrClosed) {
		return t.err
	}
	return err
}

// produceReport is the summary.
type produceReport struct {
	Messages int64         `json:"messages"` // read and given to the client
	Acked    int64         `json:"acknowledged"`
	Failed   int64         `json:"failed"`
	Unknown  int64         `json:"unknown"`
	Bytes    int64         `json:"bytes"` // of keys and values
	Seconds  float64       `json:"seconds"`
	Ack      latencyReport `json:"ack_microseconds"`
	Class    string        `json:"class,omitempty"`
}

// latencyReport are percentiles.
type latencyReport struct {
	P50  int64 `json:"p50"`
	P99  int64 `json:"p99"`
	P999 int64 `json:"p99.9"`
	Max  int64 `json:"max"`
}

func (t *tally) report() produceReport {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := produceReport{
		Messages: t.read.Load(), Acked: t.acked.Load(), Failed: t.failed, Unknown: t.unknown,
		Bytes: t.bytes.Load(), Seconds: t.last.Sub(t.began).Seconds(),
		Ack: latencyReport{
			P50: t.latency.ValueAtQuantile(50), P99: t.latency.ValueAtQuantile(99),
			P999: t.latency.ValueAtQuantile(99.9), Max: t.latency.Max(),
		},
	}
	if t.class != 0 {
		r.Class = t.class.String()
	}
	return r
}

// String is the summary line.
func (r produceReport) String() string {
	if r.Messages == 0 {
		return "0 messages"
	}
	text := amount(r.Messages, r.Bytes, r.Seconds)
	if r.Acked > 0 {
		us := func(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
		text += fmt.Sprintf("; ack p50 %v, p99 %v, p99.9 %v", us(r.Ack.P50), us(r.Ack.P99), us(r.Ack.P999))
	}
	if r.Class != "" {
		text += "; class " + r.Class
	}
	return text
}

// amount says how many messages there were in how long, and how many a second. No
// time has no rate.
func amount(messages, bytes int64, seconds float64) string {
	text := fmt.Sprintf("%s, %s in %.3f s", quantity.Of(messages, "message", "messages"), quantity.Bytes(bytes), seconds)
	if seconds <= 0 {
		return text
	}
	rate := func(n int64) int64 { return int64(float64(n) / seconds) }
	return fmt.Sprintf("%s (%s/s, %s/s)", text, quantity.Of(rate(messages), "message", "messages"), quantity.Bytes(rate(bytes)))
}

// ackLog writes down which messages are acknowledged: partition, offset and
// number in the input, in the order of the input.
type ackLog struct {
	f       *os.File
	tickets chan client.Ticket
	spilled []client.Ticket // found no room when the work was to end
	done    chan error
}

// ackBacklog is how many messages may wait for their acknowledgement in the log.
const ackBacklog = 1 << 16

func openAckLog(path string, cancel context.CancelCauseFunc) (*ackLog, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("--acks-file: %w", err)
	}
	a := &ackLog{f: f, tickets: make(chan client.Ticket, ackBacklog), done: make(chan error, 1)}
	go func() {
		err := a.write()
		if err != nil {
			err = fmt.Errorf("--acks-file: %w", err)
			cancel(err)
			for range a.tickets { // whoever sends them shall not wait for ever
			}
		}
		a.done <- err
	}()
	return a, nil
}

// expect adds a message, the next one of the input. When ctx ends it does not
// wait for room: the messages before may have to be ended first.
func (a *ackLog) expect(ctx context.Context, t client.Ticket) {
	select {
	case a.tickets <- t:
	case <-ctx.Done():
		a.spilled = append(a.spilled, t)
	}
}

// close waits until all messages have come to an end and closes the file. Nobody
// calls expect any more.
func (a *ackLog) close() error {
	for _, t := range a.spilled {
		a.tickets <- t
	}
	close(a.tickets)
	return errors.Join(<-a.done, a.f.Close())
}

// write writes lines until there are no more messages. They are in the file as
// soon as nothing else is waiting.
func (a *ackLog) write() error {
	out := bufio.NewWriterSize(a.f, 64<<10)
	var line []byte
	for number := int64(1); ; number++ {
		if len(a.tickets) == 0 {
			if err := out.Flush(); err != nil {
				return err
			}
		}
		t, ok := <-a.tickets
		if !ok {
			return out.Flush()
		}
		if !t.Done() {
			if err := out.Flush(); err != nil {
				return err
			}
		}
		p, err := t.Wait(context.Background()) // ends when the client closes
		if err != nil {
			continue
		}
		line = strconv.AppendInt(line[:0], int64(p.Partition), 10)
		line = append(line, ' ')
		line = strconv.AppendInt(line, p.Offset, 10)
		line = append(line, ' ')
		line = strconv.AppendInt(line, number, 10)
		line = append(line, '\n')
		if _, err := out.Write(line); err != nil {
			return err
		}
	}
}
