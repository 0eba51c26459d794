package client

import (
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/client/internal/link"
	"github.com/mqd-broker/mqd/client/internal/pull"
)

// ConsumerOption changes a [Consumer].
type ConsumerOption func(*consumerConfig)

// Reset says what a consumer does when its offset lies outside the log, because
// retention has removed what it had not read, or because the log was lost.
type Reset uint8

const (
	// ResetNone stops the partition until [Consumer.Seek]. It is the default:
	// nothing is passed over unnoticed.
	ResetNone Reset = iota
	// ResetStart goes on at the first record stored.
	ResetStart
	// ResetEnd goes on at the end.
	ResetEnd
)

// consumerConfig is what ConsumerOptions set.
type consumerConfig struct {
	topics     []string
	partitions map[string][]int32
	positions  []Position
	from       Place
	reset      Reset
	resetSet   bool
	group      groupConfig
	minBytes   int
	maxBytes   int
	maxRecords int
	far        pull.Size
	bytesSet   bool
	farSet     bool
	maxWait    time.Duration
	prefetch   int
	decode     int
	filter     func(RecordView) bool
}

func newConsumerConfig(opts []ConsumerOption) (consumerConfig, error) {
	c := consumerConfig{
		partitions: map[string][]int32{}, minBytes: 1, maxBytes: 1 << 20, maxWait: 5 * time.Second,
		prefetch: 64 << 20, decode: batch.DefaultDecodeLimit,
		group: groupConfig{session: 10 * time.Second, every: 5 * time.Second, records: 1000},
	}
	for _, o := range opts {
		o(&c)
	}
	c.catchUp()
	switch {
	case c.from.kind == placeOffset && c.from.offset < 0:
		return c, invalid("From: offset %d, expected 0 or more", c.from.offset)
	case c.minBytes < 0 || c.maxBytes < 1 || c.maxBytes > link.MaxAnswer/2 || c.minBytes > c.maxBytes:
		return c, invalid("WithFetchBytes(%d, %d), expected 0 or more, and not more than the second, which is 1 to %d", c.minBytes, c.maxBytes, link.MaxAnswer/2)
	case c.maxRecords < 0:
		return c, invalid("WithFetchRecords(%d), expected 0 or more", c.maxRecords)
	case c.far.Bytes < 1 || c.far.Records < 1 || c.far.Bytes > link.MaxAnswer/2:
		return c, invalid("WithCatchUp(%d, %d), expected 1 to %d bytes, and 1 or more records", c.far.Bytes, c.far.Records, link.MaxAnswer/2)
	case c.maxWait < time.Millisecond || c.maxWait > time.Hour:
		return c, invalid("WithFetchWait(%v), expected 1ms to 1h", c.maxWait)
	case c.prefetch < 1:
		return c, invalid("WithPrefetch(%d), expected 1 or more", c.prefetch)
	case c.decode < 1 || c.decode > batch.MaxSize:
		return c, invalid("WithDecodeLimit(%d), expected 1 to %d", c.decode, batch.MaxSize)
	}
	return c, c.checkGroup()
}

// catchUp completes the bounds on answers.
func (c *consumerConfig) catchUp() {
	if !c.farSet {
		c.far = pull.Size{Bytes: 4 << 20, Records: 1 << 16}
		if c.bytesSet {
			c.far.Bytes = c.maxBytes
		}
		if c.maxRecords != 0 {
			c.far.Records = c.maxRecords
		}
	}
	if c.maxRecords == 0 {
		c.maxRecords = 500
	}
}

// policy is how much is asked for at a time.
func (c *consumerConfig) policy() pull.Policy {
	near := pull.Size{Bytes: c.maxBytes, Records: c.maxRecords}
	far := pull.Size{Bytes: max(c.far.Bytes, near.Bytes), Records: max(c.far.Records, near.Records)}
	return pull.Policy{Near: near, Far: far, Least: c.minBytes, Budget: c.prefetch}
}

// Topics has the consumer read all partitions of these topics. Partitions that come later
// it finds at the latest a minute after that, and reads them from their start.
func Topics(names ...string) ConsumerOption {
	return func(c *consumerConfig) { c.topics = append(c.topics, names...) }
}

// Partitions has the consumer read some partitions of a topic.
func Partitions(topic string, ps ...int32) ConsumerOption {
	return func(c *consumerConfig) { c.partitions[topic] = append(c.partitions[topic], ps...) }
}

// FromPositions has the consumer read these partitions from these offsets,
// [OffsetStart] and [OffsetEnd] included, whatever [From] says.
func FromPositions(ps ...Position) ConsumerOption {
	return func(c *consumerConfig) { c.positions = append(c.positions, ps...) }
}

// From says where the partitions begin. Default [Start]. With a group it is where those
// begin of which the group has committed nothing.
func From(at Place) ConsumerOption { return func(c *consumerConfig) { c.from = at } }

// WithReset says what to do when an offset lies outside the log. The error is
// returned in any case. The default of a group's consumer follows [From]: ResetEnd for
// [End], else ResetStart.
func WithReset(r Reset) ConsumerOption {
	return func(c *consumerConfig) { c.reset, c.resetSet = r, true }
}

// WithFetchBytes says how much the broker waits for and how much it sends at
// most in one answer for one partition. Default 1 byte and 1 MiB. A single
// larger batch is sent all the same.
func WithFetchBytes(least, most int) ConsumerOption {
	return func(c *consumerConfig) { c.minBytes, c.maxBytes, c.bytesSet = least, most, true }
}

// WithFetchRecords bounds the records of one answer for one partition, but for those of
// its first batch. Default, also for 0: 500.
func WithFetchRecords(n int) ConsumerOption { return func(c *consumerConfig) { c.maxRecords = n } }

// WithCatchUp bounds how far answers for a partition grow beyond [WithFetchBytes] and
// [WithFetchRecords] when the consumer is behind in it. A fetch asks for as much as the
// answer before it has left in the log, up to this many bytes and records; and as many
// records as it asks for has a consumer of a group finish before it commits, if that is
// more than [WithAutoCommit] says. Near the end of the log everything is small again.
// Default 4 MiB and 65,536 records; where [WithFetchBytes] or [WithFetchRecords] is given,
// that.
func WithCatchUp(bytes, records int) ConsumerOption {
	return func(c *consumerConfig) { c.far, c.farSet = pull.Size{Bytes: bytes, Records: records}, true }
}

// WithFetchWait says how long the broker holds a fetch that finds nothing.
// Default 5 s. It delays no record.
func WithFetchWait(d time.Duration) ConsumerOption { return func(c *consumerConfig) { c.maxWait = d } }

// WithPrefetch bounds the bytes that are fetched ahead of [Consumer.Poll], over
// all partitions. Default 64 MiB. Each partition may have two answers waiting,
// of at least 64 KiB each whatever the bound, and more where the consumer is behind, all
// together as much as [WithCatchUp] says.
func WithPrefetch(n int) ConsumerOption { return func(c *consumerConfig) { c.prefetch = n } }

// WithDecodeLimit bounds what one batch may become when it is decompressed, in
// bytes. Default 16 MiB. A larger one is an error.
func WithDecodeLimit(n int) ConsumerOption { return func(c *consumerConfig) { c.decode = n } }

// WithFilter has [Batch.Records] show only the records for which keep is true. Nothing else
// knows of it: a batch without any such record is returned all the same, so that its offsets
// can be committed, and Len, First, Last, commits and lag count every record. keep is called
// each time that somebody iterates, on that goroutine, and must not keep the view's memory.
// The records are fetched all the same.
func WithFilter(keep func(RecordView) bool) ConsumerOption {
	return func(c *consumerConfig) { c.filter = keep }
}
