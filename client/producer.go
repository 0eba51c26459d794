package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/client/internal/link"
	"github.com/mqd-broker/mqd/client/internal/memory"
	"github.com/mqd-broker/mqd/net/wire"
)

// Producer appends records to one topic, for any number of goroutines. Records
// of one goroutine to one partition keep their order.
type Producer struct {
	c        *Client
	cfg      producerConfig
	topic    topic
	maxBatch int // bytes, of any batch that the broker takes
	lanes    []*lane
	sticky   atomic.Int32 // lane of records without a key
	space    memory.Space
	slab     slab
	packers  memory.Packers
	closed   atomic.Bool
	done     chan struct{} // closed with it

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
	p.space.Limit, p.space.Gauge = int64(cfg.buffer), &c.counters.buffered
	p.packers.Limit = 2 * cfg.buffer
	c.mu.Lock()
	p.maxBatch = min(c.maxBatch, c.maxFrame-memory.Room, batch.MaxSize)
	c.mu.Unlock()
	if p.maxBatch <= batch.HeaderSize {
		return nil, opError("produce", topicName, -1, fmt.Errorf("%w: the broker takes batches of at most %d bytes", ErrProtocol, p.maxBatch))
	}
	p.cfg.max = min(p.cfg.max, p.maxBatch)
	p.packers.MaxBatch = p.maxBatch
	var id wire.ProducerInitResponse
	if cfg.idempotent {
		if id, err = c.newProducerID(ctx, topicName); err != nil {
			return nil, err
		}
	}
	p.lanes = make([]*lane, len(t.shards))
	for i, shard := range t.shards {
		ln := &lane{p: p, partition: int32(i), link: c.linkTo(shard)}
		ln.id.Store(t.id)
		ln.seq.on, ln.seq.id, ln.seq.epoch = cfg.idempotent, id.Producer, id.Epoch
		p.lanes[i] = ln
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, opError("produce", topicName, -1, ErrClosed)
	}
	c.producers[p] = struct{}{}
	return p, nil
}

// Partitions is the number of partitions of the topic.
func (p *Producer) Partitions() int { return len(p.lanes) }

// Class is the durability class of the topic when the producer was opened.
func (p *Producer) Class() Class { return p.topic.class }

// Append queues a record and returns its ticket. It waits only for room in the
// buffer. An error means that the record was not queued: ctx's own, [ErrClosed]
// or [ErrTooLarge].
func (p *Producer) Append(ctx context.Context, r Record) (Ticket, error) {
	ln, t, kick, missing, err := p.tryAppend(&r, nil, sendDue)
	if kick != nil {
		kick.Kick()
	}
	if err == nil {
		return t, nil
	}
	if errors.Is(err, errNoRoom) {
		return p.appendSlow(ctx, ln, &r, missing, sendDue)
	}
	return Ticket{}, p.appendError(ln, err)
}

// TryAppend is [Producer.Append] that never waits: without room in the buffer
// the error is [ErrBufferFull] and nothing was queued.
func (p *Producer) TryAppend(r Record) (Ticket, error) {
	ln, t, kick, _, err := p.tryAppend(&r, nil, sendDue)
	if kick != nil {
		kick.Kick()
	}
	switch {
	case err == nil:
		return t, nil
	case errors.Is(err, errNoRoom):
		return Ticket{}, ErrBufferFull
	}
	return Ticket{}, p.appendError(ln, err)
}

// Send appends a record and waits until the topic's durability class is reached.
// It goes out at once, together with whatever is queued. When ctx ends after
// the record was queued the error is [ErrOutcomeUnknown].
func (p *Producer) Send(ctx context.Context, r Record) (Position, error) {
	ln, t, kick, missing, err := p.tryAppend(&r, nil, sendDue)
	if kick != nil {
		kick.Flush()
	}
	switch {
	case errors.Is(err, errNoRoom):
		if t, err = p.appendSlow(ctx, ln, &r, missing, sendDue); err != nil {
			return Position{}, err
		}
	case err != nil:
		return Position{}, p.appendError(ln, err)
	}
	return t.Wait(ctx)
}

// tryAppend appends to a lane, by default the one that the record belongs to.
func (p *Producer) tryAppend(r *Record, ln *lane, u urgency) (*lane, Ticket, *link.Link, int64, error) {
	if ln == nil {
		i := p.partitionOf(r.Key)
		if uint(i) >= uint(len(p.lanes)) {
			return nil, Ticket{}, nil, 0, fmt.Errorf("%w: the partitioner chose %d of %d", ErrUnknownPartition, i, len(p.lanes))
		}
		ln = p.lanes[i]
	}
	br := batch.Record{Timestamp: batch.NoTimestamp, Key: r.Key, Value: r.Value, Headers: r.Headers}
	if !r.Time.IsZero() {
		br.Timestamp = r.Time.UnixMilli()
	}
	t, kick, missing, err := ln.append(&br, u)
	return ln, t, kick, missing, err
}

// appendSlow waits for room and tries again, on the same lane.
func (p *Producer) appendSlow(ctx context.Context, ln *lane, r *Record, missing int64, u urgency) (Ticket, error) {
	for {
		if err := p.space.Wait(ctx, missing, p.done); err != nil {
			return Ticket{}, p.appendError(ln, err)
		}
		_, t, kick, more, err := p.tryAppend(r, ln, u)
		if kick != nil {
			kick.Kick()
		}
		if !errors.Is(err, errNoRoom) {
			if err != nil {
				err = p.appendError(ln, err)
			}
			return t, err
		}
		missing = more
	}
}

// appendError is the error of a record that was not queued.
func (p *Producer) appendError(ln *lane, err error) error {
	partition := int32(-1)
	if ln != nil {
		partition = ln.partition
	}
	if errors.Is(err, batch.ErrTooLarge) && !errors.Is(err, ErrTooLarge) {
		err = fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	return opError("append", p.topic.name, partition, err)
}

// partitionOf chooses a lane.
func (p *Producer) partitionOf(key []byte) int32 {
	n := int32(len(p.lanes))
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

// turn moves records without a key on to the next lane when their batch on this
// one is complete.
func (p *Producer) turn(partition int32) {
	next := partition + 1
	if int(next) == len(p.lanes) {
		next = 0
	}
	p.sticky.CompareAndSwap(partition, next)
}

// ended counts a batch that has come to its end.
func (p *Producer) ended(b *sendBatch) {
	n := &p.c.counters
	switch {
	case b.err == nil:
		n.batchesAcked.Add(1)
		n.recordsAcked.Add(uint64(b.count))
		return
	case errors.Is(b.err, ErrOutcomeUnknown):
		n.batchesUnknown.Add(1)
	default:
		n.batchesFailed.Add(1)
	}
	p.mu.Lock()
	if p.firstErr == nil {
		p.firstErr = b.err
	}
	p.mu.Unlock()
}

// moved takes the new owners of the partitions.
func (p *Producer) moved(t *topic) {
	for i, ln := range p.lanes {
		if i < len(t.shards) {
			ln.moved(p.c.linkTo(t.shards[i]), t.id)
		}
	}
}

// Flush sends what is queued and waits until every record so far has come to an
// end, or ctx does. The error is ctx's, or that of the first batch that failed
// since the last Flush.
func (p *Producer) Flush(ctx context.Context) error {
	var pending []*sendBatch
	for _, ln := range p.lanes {
		some, kick := ln.push()
		pending = append(pending, some...)
		if kick != nil {
			kick.Kick()
		}
	}
	for _, b := range pending {
		if b.resolved.Load() {
			continue
		}
		if err := b.wait(ctx); err != nil {
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
	close(p.done)
	err := p.Flush(ctx)
	for _, ln := range p.lanes {
		ln.abandon(ErrClosed)
	}
	p.c.mu.Lock()
	delete(p.c.producers, p)
	p.c.mu.Unlock()
	return err
}
