package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/client/internal/lane"
	"github.com/mqd-broker/mqd/client/internal/link"
	"github.com/mqd-broker/mqd/client/internal/memory"
	"github.com/mqd-broker/mqd/net/wire"
)

// Producer appends records to one topic, for any number of goroutines. Records
// of one goroutine to one partition keep their order.
type Producer struct {
	c      *Client
	cfg    producerConfig
	topic  topic
	shared lane.Shared
	ways   atomic.Pointer[[]*lane.Lane] // to the partitions; more may come
	sticky atomic.Int32                 // lane of records without a key
	closed atomic.Bool
	done   chan struct{} // closed with it

	mu       sync.Mutex
	firstErr error // since the last Flush
}

// Producer opens a producer for a topic. It looks the topic up, within
// [WithTimeout]: an unknown topic, or one whose class is weaker than
// [WithMinClass], is an error here and not at the first record.
func (c *Client) Producer(topicName string, opts ...ProducerOption) (*Producer, error) {
	cfg, err := newProducerConfig(opts)
	if err != nil {
		return nil, err
	}
	ctx, cancel := c.implied()
	defer cancel()
	t, err := c.lookup(ctx, topicName)
	if err != nil {
		return nil, err
	}
	if t.class < cfg.minClass {
		return nil, codeError("produce", topicName, -1, wire.CodeClassTooWeak, fmt.Sprintf("%s, expected at least %s", t.class, cfg.minClass))
	}
	if int(cfg.partition) >= len(t.shards) {
		return nil, codeError("produce", topicName, cfg.partition, wire.CodeUnknownPartition, "")
	}
	p := &Producer{c: c, cfg: cfg, topic: t, done: make(chan struct{})}
	if err := p.share(ctx); err != nil {
		return nil, err
	}
	p.grow(&t)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, opError("produce", topicName, -1, ErrClosed)
	}
	c.producers[p] = struct{}{}
	return p, nil
}

// share sets up what the lanes have in common.
func (p *Producer) share(ctx context.Context) error {
	c, cfg, s := p.c, &p.cfg, &p.shared
	c.mu.Lock()
	s.MaxBatch = min(c.maxBatch, c.maxFrame-memory.Room, batch.MaxSize)
	c.mu.Unlock()
	if s.MaxBatch <= batch.HeaderSize {
		return opError("produce", p.topic.name, -1, fmt.Errorf("%w: the broker takes batches of at most %d bytes", ErrProtocol, s.MaxBatch))
	}
	s.Host, s.Topic = (*laneHost)(p), p.topic.name
	s.Messages, s.Bytes, s.Max, s.Window = cfg.messages, cfg.bytes, min(cfg.max, s.MaxBatch), cfg.window
	s.Linger = cfg.linger
	s.Codec, s.MinClass, s.NoAck = cfg.codec, cfg.minClass, cfg.noAck
	s.Watched = c.cfg.hooks.OnSend != nil
	s.Space.Limit, s.Space.Gauge = int64(cfg.buffer), &c.counters.buffered
	s.Packers.Limit, s.Packers.MaxBatch = 2*cfg.buffer, s.MaxBatch
	if s.Idempotent = cfg.idempotent; !s.Idempotent {
		return nil
	}
	var err error
	s.Producer, err = c.newProducerID(ctx, p.topic.name)
	return err
}

// newProducerID asks for an id for an idempotent producer.
func (c *Client) newProducerID(ctx context.Context, topic string) (wire.ProducerInitResponse, error) {
	body, err := do(ctx, c.control, callRead, topic, wire.OpProducerInit, wire.AppendProducerInitRequest)
	if err != nil {
		return wire.ProducerInitResponse{}, err
	}
	r, err := wire.DecodeProducerInitResponse(body)
	switch {
	case err != nil:
		return r, opError(wire.OpProducerInit.String(), topic, -1, err)
	case r.Code != wire.CodeNone:
		return r, codeError(wire.OpProducerInit.String(), topic, -1, r.Code, r.Message)
	}
	return r, nil
}

// Partitions is the number of partitions of the topic, as far as the producer knows. It
// grows when the topic has got more, at the latest a minute after that.
func (p *Producer) Partitions() int { return len(p.lanes()) }

// lanes are the ways to the partitions, by their numbers. The slice must not be changed.
func (p *Producer) lanes() []*lane.Lane {
	if l := p.ways.Load(); l != nil {
		return *l
	}
	return nil
}

// grow adds the lanes of partitions that have come. It is called by one goroutine at a time.
func (p *Producer) grow(t *topic) {
	lanes := slices.Clip(p.lanes())
	for i := len(lanes); i < len(t.shards); i++ {
		lanes = append(lanes, p.shared.New(t.id, int32(i), p.c.linkTo(t.shards[i])))
	}
	p.ways.Store(&lanes)
}

// Class is the durability class of the topic when the producer was opened.
func (p *Producer) Class() Class { return p.topic.class }

// Append queues a record and returns its ticket. It waits only for room in the
// buffer. An error means that the record was not queued: ctx's own, [ErrClosed]
// or [ErrTooLarge].
func (p *Producer) Append(ctx context.Context, r Record) (Ticket, error) {
	ln, t, kick, missing, err := p.tryAppend(ctx, &r, nil, lane.SendDue)
	if kick != nil {
		kick.Kick()
	}
	if err == nil {
		return t, nil
	}
	if errors.Is(err, lane.ErrNoRoom) {
		return p.appendSlow(ctx, ln, &r, missing, lane.SendDue)
	}
	return Ticket{}, p.appendError(ln, err)
}

// TryAppend is [Producer.Append] that never waits: without room in the buffer
// the error is [ErrBufferFull] and nothing was queued.
func (p *Producer) TryAppend(r Record) (Ticket, error) {
	ln, t, kick, _, err := p.tryAppend(context.Background(), &r, nil, lane.SendDue)
	if kick != nil {
		kick.Kick()
	}
	switch {
	case err == nil:
		return t, nil
	case errors.Is(err, lane.ErrNoRoom):
		return Ticket{}, ErrBufferFull
	}
	return Ticket{}, p.appendError(ln, err)
}

// Send appends a record and waits until the topic's durability class is reached.
// It goes out at once, together with whatever is queued. When ctx ends after
// the record was queued the error is [ErrOutcomeUnknown].
func (p *Producer) Send(ctx context.Context, r Record) (Position, error) {
	ln, t, kick, missing, err := p.tryAppend(ctx, &r, nil, lane.SendNow)
	if kick != nil {
		kick.Flush()
	}
	switch {
	case errors.Is(err, lane.ErrNoRoom):
		if t, err = p.appendSlow(ctx, ln, &r, missing, lane.SendNow); err != nil {
			return Position{}, err
		}
	case err != nil:
		return Position{}, p.appendError(ln, err)
	}
	return t.Wait(ctx)
}

// tryAppend appends to a lane, by default the one that the record belongs to.
func (p *Producer) tryAppend(ctx context.Context, r *Record, ln *lane.Lane, u lane.Urgency) (*lane.Lane, Ticket, *link.Link, int64, error) {
	if ln == nil {
		var err error
		if ln, err = p.laneOf(r.Key); err != nil {
			return nil, Ticket{}, nil, 0, err
		}
	}
	br := batch.Record{Timestamp: batch.NoTimestamp, Key: r.Key, Value: r.Value, Headers: r.Headers}
	if !r.Time.IsZero() {
		br.Timestamp = r.Time.UnixMilli()
	}
	at, kick, missing, err := ln.Append(ctx, &br, u)
	return ln, Ticket{at.Batch, at.Index}, kick, missing, err
}

// appendSlow waits for room and tries again, on the same lane.
func (p *Producer) appendSlow(ctx context.Context, ln *lane.Lane, r *Record, missing int64, u lane.Urgency) (Ticket, error) {
	for {
		p.hurry()
		if err := p.shared.Space.Wait(ctx, missing, p.done); err != nil {
			return Ticket{}, p.appendError(ln, err)
		}
		_, t, kick, more, err := p.tryAppend(ctx, r, ln, u)
		if kick != nil {
			kick.Kick()
		}
		if !errors.Is(err, lane.ErrNoRoom) {
			if err != nil {
				err = p.appendError(ln, err)
			}
			return t, err
		}
		missing = more
	}
}

// hurry has nothing wait for company any more: somebody waits for its memory.
func (p *Producer) hurry() {
	if p.cfg.linger == 0 {
		return
	}
	for _, ln := range p.lanes() {
		if kick := ln.Send(); kick != nil {
			kick.Kick()
		}
	}
}

// appendError is the error of a record that was not queued.
func (p *Producer) appendError(ln *lane.Lane, err error) error {
	partition := int32(-1)
	if ln != nil {
		partition = ln.Partition()
	}
	if errors.Is(err, batch.ErrTooLarge) && !errors.Is(err, ErrTooLarge) {
		err = fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	return opError("append", p.topic.name, partition, err)
}

// laneOf is the lane that a record belongs to.
func (p *Producer) laneOf(key []byte) (*lane.Lane, error) {
	lanes := p.lanes()
	i := p.partitionOf(key, int32(len(lanes)))
	if uint(i) >= uint(len(lanes)) {
		return nil, fmt.Errorf("%w: the partitioner chose %d of %d", ErrUnknownPartition, i, len(lanes))
	}
	return lanes[i], nil
}

// partitionOf chooses one of n lanes.
func (p *Producer) partitionOf(key []byte, n int32) int32 {
	switch {
	case p.cfg.partition >= 0:
		return p.cfg.partition
	case p.cfg.partitioner != nil:
		return p.cfg.partitioner(key, n)
	case key != nil:
		return batch.Partition(key, n)
	}
	return p.sticky.Load()
}

// moved takes the new owners of the partitions.
func (p *Producer) moved(t *topic) {
	for i, ln := range p.lanes() {
		if i < len(t.shards) {
			ln.Moved(p.c.linkTo(t.shards[i]), t.id)
		}
	}
	if len(t.shards) > len(p.lanes()) {
		p.grow(t)
	}
}

// Flush sends what is queued and waits until every record so far has come to an
// end, or ctx does. The error is ctx's, or that of the first batch that failed
// since the last Flush.
func (p *Producer) Flush(ctx context.Context) error {
	var pending []*lane.Batch
	for _, ln := range p.lanes() {
		some, kick := ln.Push()
		pending = append(pending, some...)
		if kick != nil {
			kick.Kick()
		}
	}
	for _, b := range pending {
		if b.Resolved() {
			continue
		}
		if err := waitFor(ctx, b); err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.firstErr
	p.firstErr = nil
	return err
}

// Close refuses further records, flushes, and fails with [ErrClosed] what could
// not be sent before ctx ended. Without a deadline in ctx it gives up as
// [Client.Close] does. What was sent and is not answered resolves when its answer
// comes or the client closes.
func (p *Producer) Close(ctx context.Context) error {
	ctx, stop := p.c.transport.WhileHeard(ctx)
	defer stop()
	return p.end(ctx)
}

// end is Close for a ctx that is bounded.
func (p *Producer) end(ctx context.Context) error {
	if p.closed.Swap(true) {
		return nil
	}
	p.shared.Close()
	close(p.done)
	err := p.Flush(ctx)
	for _, ln := range p.lanes() {
		ln.Abandon(ErrClosed)
	}
	p.c.mu.Lock()
	delete(p.c.producers, p)
	p.c.mu.Unlock()
	return err
}
