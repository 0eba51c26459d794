package client

import (
	"context"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/mqd-broker/mqd/client/internal/lane"
)

// Option changes a [Client]; see the With functions.
type Option func(*config)

// Dialer opens one connection to an address given to [Dial].
type Dialer func(ctx context.Context, addr string) (net.Conn, error)

// config is what Options set.
type config struct {
	clientID, tenant string
	timeout          time.Duration // dial, hello and implied look-ups
	backoffMin       time.Duration
	backoffMax       time.Duration
	dial             Dialer
	refreshEvery     time.Duration // look-ups of topics in use
	log              *slog.Logger
	hooks            Hooks
}

func newConfig(opts []Option) config {
	c := config{
		timeout:      10 * time.Second,
		backoffMin:   10 * time.Millisecond,
		backoffMax:   2 * time.Second,
		refreshEvery: time.Minute,
		log:          slog.New(slog.DiscardHandler),
	}
	for _, o := range opts {
		o(&c)
	}
	if c.dial == nil {
		c.dial = dialTCP
	}
	return c
}

// keepAlive notices a dead peer in about 30 s, far sooner than TCP's own
// retransmission gives up.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

func dialTCP(ctx context.Context, addr string) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: keepAlive}
	return d.DialContext(ctx, "tcp", addr)
}

// WithClientID names the client in the broker's logs and lists.
func WithClientID(id string) Option { return func(c *config) { c.clientID = id } }

// WithTenant says for whom the client acts; default: the default tenant.
func WithTenant(name string) Option { return func(c *config) { c.tenant = name } }

// WithTimeout bounds one attempt to connect, handshake included, and the
// look-ups that [Client.Producer] and [Client.Consumer] imply. Default 10 s.
func WithTimeout(d time.Duration) Option { return func(c *config) { c.timeout = d } }

// WithBackoff bounds the pause before an attempt to connect again. It begins
// at least, doubles up to most, and is shortened at random by up to half.
// Default 10 ms to 2 s.
func WithBackoff(least, most time.Duration) Option {
	return func(c *config) { c.backoffMin, c.backoffMax = least, max(least, most) }
}

// WithDialer replaces how connections are opened: TLS, Unix sockets, tests.
func WithDialer(d Dialer) Option { return func(c *config) { c.dial = d } }

// WithHooks has functions called at events of the client.
func WithHooks(h Hooks) Option { return func(c *config) { c.hooks = h } }

// WithLogger has the client log connections that come and go. Default: nothing
// is logged.
func WithLogger(l *slog.Logger) Option {
	return func(c *config) {
		if l != nil {
			c.log = l
		}
	}
}

// ProducerOption changes a [Producer].
type ProducerOption func(*producerConfig)

// Partitioner chooses the partition, 0 to n-1, of a record with this key. It is
// called for every record, also for those without a key.
type Partitioner func(key []byte, n int32) int32

// producerConfig is what ProducerOptions set.
type producerConfig struct {
	messages    int
	bytes       int
	max         int
	window      int
	buffer      int
	codec       Codec
	minClass    Class
	noAck       bool
	idempotent  bool
	linger      time.Duration
	partition   int32
	partitioner Partitioner
}

func newProducerConfig(opts []ProducerOption) (producerConfig, error) {
	c := producerConfig{messages: 64, bytes: 4 << 10, max: 64 << 10, window: 64, buffer: 8 << 20, partition: -1}
	for _, o := range opts {
		o(&c)
	}
	for _, n := range []struct {
		option string
		value  int
	}{
		{"WithBatchMessages", c.messages}, {"WithBatchBytes", c.bytes}, {"WithBatchMax", c.max},
		{"WithMaxInFlight", c.window}, {"WithBuffer", c.buffer},
	} {
		if n.value < 1 {
			return c, invalid("%s(%d), expected 1 or more", n.option, n.value)
		}
	}
	switch {
	case c.codec > CompressZstd:
		return c, invalid("WithCompression(%d), expected %d to %d", c.codec, CompressNone, CompressZstd)
	case c.minClass > ClassFlushed:
		return c, invalid("WithMinClass(%d), expected at most %d", c.minClass, ClassFlushed)
	case c.linger < 0 || c.linger > maxLinger:
		return c, invalid("WithLinger(%v), expected 0 to %v", c.linger, maxLinger)
	case c.idempotent && c.noAck:
		return c, invalid("WithIdempotence and WithoutAck exclude each other")
	case c.partition >= 0 && c.partitioner != nil:
		return c, invalid("WithPartition and WithPartitioner exclude each other")
	}
	if c.idempotent {
		c.window = min(c.window, lane.Window)
	}
	c.bytes = min(c.bytes, c.max)
	return c, nil
}

// WithBatchMessages sets how many records make a batch go although another of
// its partition is still in flight. Default 64; less is better latency, more
// is less work.
func WithBatchMessages(n int) ProducerOption { return func(c *producerConfig) { c.messages = n } }

// WithBatchBytes is [WithBatchMessages] in bytes before compression, default
// 4 KiB. The first limit reached counts.
func WithBatchBytes(n int) ProducerOption { return func(c *producerConfig) { c.bytes = n } }

// WithBatchMax bounds how far a batch grows while [WithMaxInFlight] batches of
// its partition are unanswered, in bytes before compression. Default 64 KiB. A
// record that is larger travels alone.
func WithBatchMax(n int) ProducerOption { return func(c *producerConfig) { c.max = n } }

// maxLinger bounds WithLinger: one that is longer is a mistake in the unit.
const maxLinger = time.Minute

// WithLinger has a batch that nothing of its partition is in flight for wait at most d for
// company, counted from its first record. It goes before that when it has as much as
// [WithBatchMessages] or [WithBatchBytes] say, at [Producer.Flush] and Close, with a record
// of [Producer.Send] or SendBatch, and when an Append waits for room in the buffer. While a
// batch of the partition is in flight the next one waits for its answer, as it does without
// a linger, and longer only until d is over. 0 to 1 min, default 0: batches form behind each
// other by themselves, and a lone record does not wait. More makes the batches of slow
// streams larger, and every record of theirs later by up to d.
func WithLinger(d time.Duration) ProducerOption { return func(c *producerConfig) { c.linger = d } }

// WithMaxInFlight sets how many batches of one partition may be sent and not
// answered. Default 64. They are appended in order whatever the number.
func WithMaxInFlight(n int) ProducerOption { return func(c *producerConfig) { c.window = n } }

// WithBuffer bounds the records that are queued and not yet sent, in bytes.
// Default 8 MiB. Memory that is kept for further batches may come to as much
// again.
func WithBuffer(n int) ProducerOption { return func(c *producerConfig) { c.buffer = n } }

// WithCompression compresses batches that become smaller by it. Default none.
func WithCompression(codec Codec) ProducerOption { return func(c *producerConfig) { c.codec = codec } }

// WithMinClass refuses topics whose durability class is weaker.
func WithMinClass(class Class) ProducerOption { return func(c *producerConfig) { c.minClass = class } }

// WithoutAck sends and forgets: the broker answers nothing, a ticket is
// resolved when the record is handed to the operating system, and its offset is
// -1.
func WithoutAck() ProducerOption { return func(c *producerConfig) { c.noAck = true } }

// WithIdempotence has every batch written once, however often it is sent. The producer then
// sends again by itself what a broken connection leaves unanswered, or the broker refuses
// for the moment, in order and for as long as it is open, so that [ErrOutcomeUnknown] means
// only that somebody has stopped waiting or the producer was closed. At most five batches
// of a partition are in flight, and their memory counts against [WithBuffer] until they
// are answered. The broker must be one that gives out producer ids. Off by default.
func WithIdempotence() ProducerOption { return func(c *producerConfig) { c.idempotent = true } }

// WithPartition sends every record to one partition, whatever its key.
func WithPartition(p int32) ProducerOption { return func(c *producerConfig) { c.partition = p } }

// WithPartitioner replaces the choice of the partition. The default is
// Kafka's: a hash of the key; records without a key stay on one partition
// until its batch is sent, and go on to the next one then.
func WithPartitioner(f Partitioner) ProducerOption {
	return func(c *producerConfig) { c.partitioner = f }
}

// RoundRobin is a [Partitioner] that gives every record to the next partition, whatever its
// key. Each producer needs one of its own.
func RoundRobin() Partitioner {
	var next atomic.Uint32
	return func(_ []byte, n int32) int32 { return int32((next.Add(1) - 1) % uint32(n)) }
}
