// Package client is the Go client of mqd over its batch protocol.
//
// A [Client] keeps one connection to each shard of the broker that it needs and
// brings it back when it dies. A [Producer] gathers records into batches and
// sends them without waiting for company, unless [WithLinger] has it do so: a
// batch goes at once when nothing of its partition is in flight, and the next
// one fills while the last is. A [Consumer] reads batches whose memory is pooled.
//
// There are no channels and no callbacks for records in the API: Append returns
// a [Ticket], a small value that says later where the record is, and batches
// are pulled. Every call that can wait takes a context, but for
// [Client.Producer] and [Client.Consumer], which wait as long as [WithTimeout]
// says. What is sent and not acknowledged when a connection dies is never sent
// again behind the caller's back; it ends as [ErrOutcomeUnknown], which is not
// the same as failed. With [WithIdempotence] it is sent again, and written once.
//
// The package imports only batch, net/wire and the standard library, and needs
// no linker flag.
package client

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/mqd-broker/mqd/client/internal/link"
	"github.com/mqd-broker/mqd/net/wire"
)

// noCopy has go vet complain when a client is copied.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// The order of locks.
//
// Locks are taken in this order, and none is held while waiting for anything but the next
// one: of a [Consumer], then of the Client or of a membership ([member.Member]) or of a
// [link.Link]; of a [lane.Lane], then of its Producer, of a link, or of the producer's
// memory. Those of the Client, of a membership, of a link, of a Producer and of memory are
// the last: nothing is called with them that takes another. So whoever holds the Client's
// lock and wants to know something of its consumers copies the list and gives the lock
// back first. Links call requests, members call their host, and everybody calls hooks,
// without any lock. The token that lets commits of a membership follow each other is taken
// before all locks, and held over a request.

// Client is a connection to one broker, for any number of goroutines.
type Client struct {
	_ noCopy

	cfg       config
	ctx       context.Context // ends when the client closes
	cancel    context.CancelCauseFunc
	transport link.Config // shared by the links
	counters  counters
	control   *link.Link // serves whatever needs no certain shard

	mu        sync.Mutex
	links     map[uint32]*link.Link
	shards    uint32 // as the last hello told
	maxBatch  int
	maxFrame  int
	producers map[*Producer]struct{}
	consumers map[*Consumer]struct{}
	closed    bool

	refreshC    chan struct{}
	refreshDone chan struct{}
}

// Dial connects to a broker and fails fast: the first connection and its
// handshake are made here, within ctx and [WithTimeout]. addrs are host:port of
// the same broker, tried in turn.
func Dial(ctx context.Context, addrs []string, opts ...Option) (*Client, error) {
	if len(addrs) == 0 {
		return nil, invalid("no address to dial")
	}
	c := &Client{
		cfg:         newConfig(opts),
		links:       map[uint32]*link.Link{},
		producers:   map[*Producer]struct{}{},
		consumers:   map[*Consumer]struct{}{},
		refreshC:    make(chan struct{}, 1),
		refreshDone: make(chan struct{}),
	}
	if len(c.cfg.clientID) > maxName || len(c.cfg.tenant) > maxName {
		return nil, invalid("client id or tenant longer than %d bytes", maxName)
	}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.transport = link.Config{
		Context: c.ctx, Addrs: slices.Clone(addrs), Dial: c.cfg.dial,
		ClientID: c.cfg.clientID, Tenant: c.cfg.tenant, Timeout: c.cfg.timeout,
		BackoffMin: c.cfg.backoffMin, BackoffMax: c.cfg.backoffMax,
		Log: c.cfg.log, OnConnect: c.cfg.hooks.OnConnect, OnHello: c.landed,
	}
	l := link.New(&c.transport, wire.AnyShard)
	s, err := l.Connect(ctx)
	if err != nil {
		c.cancel(err)
		return nil, refusal("dial", "", -1, err)
	}
	// From now on this connection asks for the shard where it landed.
	l.Pin(s.Hello.Shard)
	c.control = l
	c.links[s.Hello.Shard] = l
	c.shards = s.Hello.Shards
	c.landed(s.Hello)
	go l.Run(s)
	go c.refreshLoop()
	return c, nil
}

// maxName bounds the strings that a client gives itself, in bytes.
const maxName = 255

// landed takes what a new connection's hello told.
func (c *Client) landed(h wire.HelloResponse) {
	c.mu.Lock()
	moved := c.shards != h.Shards
	c.shards = h.Shards
	c.maxBatch = int(min(h.MaxBatch, 1<<30))
	c.maxFrame = int(min(h.MaxFrame, 1<<30))
	c.mu.Unlock()
	if moved {
		c.refresh()
	}
}

// linkTo returns the link to a shard and makes it if there is none.
func (c *Client) linkTo(shard uint16) *link.Link {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.links[uint32(shard)]
	switch {
	case l != nil:
	case c.closed:
		return c.control // closed as well, and refuses
	default:
		l = link.New(&c.transport, int32(shard))
		c.links[uint32(shard)] = l
		go l.Run(nil)
	}
	return l
}

// Close sends what producers have queued and waits for the answers, as long as
// ctx allows, and then ends everything: what is not sent fails with
// [ErrClosed], what is not answered is [ErrOutcomeUnknown]. When ctx has no
// deadline it gives up on a broker that says nothing at all for [WithTimeout].
// The error is that of flushing. Close may be called again.
func (c *Client) Close(ctx context.Context) error {
	ctx, stop := c.transport.WhileHeard(ctx)
	defer stop()
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	producers := make([]*Producer, 0, len(c.producers))
	for p := range c.producers {
		producers = append(producers, p)
	}
	c.mu.Unlock()
	var errs []error
	for _, p := range producers {
		errs = append(errs, p.end(ctx))
	}

	c.mu.Lock()
	c.closed = true
	links := make([]*link.Link, 0, len(c.links))
	for _, l := range c.links {
		links = append(links, l)
	}
	consumers := make([]*Consumer, 0, len(c.consumers))
	for co := range c.consumers {
		consumers = append(consumers, co)
	}
	c.mu.Unlock()
	for _, co := range consumers {
		errs = append(errs, co.Close(ctx))
	}
	c.cancel(ErrClosed)
	for _, l := range links {
		l.Close(ErrClosed)
	}
	for _, l := range links {
		<-l.Done()
	}
	<-c.refreshDone
	return errors.Join(errs...)
}

// Stats returns totals, gauges and histograms. It takes a few microseconds and some KiB: ask
// once a second, not for every batch.
func (c *Client) Stats() Stats { return c.counters.snapshot(&c.transport) }
