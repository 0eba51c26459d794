package client

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/mqd-broker/mqd/client/internal/latency"
	"github.com/mqd-broker/mqd/client/internal/link"
)

// Hooks are called at events. Each is optional, and one that is nil costs
// nothing. They are called once a batch, never once a record, on goroutines of
// the client: a hook that waits holds up a connection.
type Hooks struct {
	// OnConnect follows every attempt to connect, the handshake included.
	OnConnect func(addr string, took time.Duration, err error)
	// OnSend follows the end of every batch of a producer, also of one that was
	// never sent. It has returned before a Wait, Send, Flush or Close that waits
	// for the batch does, and before the batch's tickets are done: what it has
	// counted is complete by then. So it must not wait for records itself. ctx has the
	// values, such as a trace's span, of the context with which the batch's first record
	// was appended, and never ends; after [Producer.TryAppend] it has none.
	OnSend func(ctx context.Context, s SendInfo)
	// OnThrottle follows a refusal for the moment, as [ErrThrottled] is, to a producer with
	// [WithIdempotence], which sends nothing to that partition for a while then. Other
	// producers see the refusal as the end of the batch.
	OnThrottle func(ThrottleInfo)
	// OnFetch follows every answer to a fetch. ctx is that of the partition's batches, see
	// [Batch.Context].
	OnFetch func(ctx context.Context, f FetchInfo)
}

// SendInfo is the life of one produced batch.
type SendInfo struct {
	Topic      string
	Partition  int32
	Records    int
	Bytes      int           // frame, after compression
	Queued     time.Duration // from its first record to the write of its frame
	Written    time.Duration // from then until the operating system had all of it
	Answered   time.Duration // from the write to the answer, Written included
	BaseOffset int64         // -1 with an error or without acknowledgement
	Class      Class         // the class that the batch has reached
	AppendTime time.Time     // by the broker's clock; zero with an error
	Err        error
}

// ThrottleInfo is a pause of a producer.
type ThrottleInfo struct {
	Topic     string
	Partition int32
	Pause     time.Duration // before the batches are sent again
	Err       error         // what the broker has said
}

// FetchInfo is one answer to a fetch.
type FetchInfo struct {
	Topic     string
	Partition int32
	Offset    int64 // asked for
	Bytes     int   // of batches
	Durable   int64 // end of what can be read
	Took      time.Duration
	Err       error
}

// Stats are totals since [Dial], and gauges where the name says "now". [Latency.Since] and
// differences of the numbers tell of the time between two calls of [Client.Stats].
type Stats struct {
	ConnectionsNow    int64
	Connects          uint64 // handshakes that succeeded
	ConnectFailures   uint64
	FramesSent        uint64
	Writes            uint64 // system calls that sent them
	FramesReceived    uint64
	BytesSent         uint64
	BatchesAcked      uint64
	BatchesFailed     uint64 // answered with an error, or never sent
	BatchesUnknown    uint64 // outcome unknown
	RecordsAcked      uint64
	BatchBufferNow    int64 // bytes queued by all producers
	FetchAnswers      uint64
	FetchedBytes      uint64
	FetchedRecords    uint64
	FetchBufferReuses uint64 // buffers of answers that came from the pool
	FetchBufferMakes  uint64 // and those that had to be made

	// QueueTimes are of batches that were sent, from the first record until the frame is
	// written: how long they have waited for those before them and for [WithLinger].
	QueueTimes Latency
	// AckTimes are of batches that were acknowledged, from the write of the frame, for the
	// last time if it was sent again, to the acknowledgement: the network, the broker and
	// its disk.
	AckTimes Latency
	// FetchTimes are of fetches that brought records, from the request to the answer. What
	// a fetch waits for records at the end of a log is in them.
	FetchTimes Latency
	// CommitTimes are of the commits of groups that the broker has answered.
	CommitTimes Latency
}

// counters are the live form of what the links do not count.
type counters struct {
	batchesAcked, batchesFailed, batchesUnknown atomic.Uint64
	recordsAcked                                atomic.Uint64
	buffered                                    atomic.Int64
	fetchAnswers, fetchedBytes, fetchedRecords  atomic.Uint64

	queued, acked, fetches, commits latency.Histogram
}

func (c *counters) snapshot(t *link.Config) Stats {
	n := &t.Counters
	return Stats{
		ConnectionsNow: n.Connections.Load(), Connects: n.Connects.Load(), ConnectFailures: n.ConnectFailures.Load(),
		FramesSent: n.FramesSent.Load(), Writes: n.Writes.Load(), FramesReceived: n.FramesReceived.Load(),
		BytesSent: n.BytesSent.Load(), BatchesAcked: c.batchesAcked.Load(), BatchesFailed: c.batchesFailed.Load(),
		BatchesUnknown: c.batchesUnknown.Load(), RecordsAcked: c.recordsAcked.Load(), BatchBufferNow: c.buffered.Load(),
		FetchAnswers: c.fetchAnswers.Load(), FetchedBytes: c.fetchedBytes.Load(), FetchedRecords: c.fetchedRecords.Load(),
		FetchBufferReuses: t.Buffers.Reuses.Load(), FetchBufferMakes: t.Buffers.Makes.Load(),
		QueueTimes: latencyOf(&c.queued), AckTimes: latencyOf(&c.acked),
		FetchTimes: latencyOf(&c.fetches), CommitTimes: latencyOf(&c.commits),
	}
}
