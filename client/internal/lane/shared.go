package lane

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/client/internal/link"
	"github.com/mqd-broker/mqd/client/internal/memory"
	"github.com/mqd-broker/mqd/net/wire"
)

// Host is the producer as its lanes see it.
type Host interface {
	// Turn is called under a lane's lock when a batch is complete: records without a key
	// may go on to another partition.
	Turn(partition int32)
	// Tell has a batch with its outcome. Nobody has been woken for it yet, so whoever
	// waited for it finds Tell's work done. No lock is held.
	Tell(b *Batch)
	// Paused hears of a pause before batches are sent again that the broker has refused for
	// the moment. No lock is held.
	Paused(partition int32, d time.Duration, why wire.Code)
	// Ended counts a batch that has come to its end. The lane's lock is held.
	Ended(b *Batch)
	// Refused makes an error of the broker's answer.
	Refused(partition int32, r *wire.ProduceResponse) error
	// Failed makes one of a batch that has no answer; unknown says that it may have been
	// appended all the same.
	Failed(partition int32, err error, unknown bool) error
}

// Shared is what the lanes of a producer have in common.
type Shared struct {
	Host  Host
	Topic string
	// Messages and Bytes make a batch go while another is in flight; Max is how far it
	// grows while Window batches are; MaxBatch is the most that the broker takes, in bytes.
	Messages, Bytes, Max, Window, MaxBatch int

	// Linger is how long a batch waits for company although nothing is in flight.
	Linger time.Duration

	Codec    batch.Codec
	MinClass wire.Class
	NoAck    bool
	Watched  bool // [Batch.Context] and [Batch.Handed] are wanted

	// Idempotent lanes number their batches for this producer.
	Idempotent bool
	Producer   wire.ProducerInitResponse

	Space   memory.Space
	Packers memory.Packers

	slab    slab
	waiters sync.Pool // of *waiter
	closed  atomic.Bool
}

// charge charges for a batch of so many bytes, and returns how many are missing then.
func (p *Shared) charge(k *memory.Packer, size int, forced bool) (missing int64) {
	more := memory.ChargeFor(size) - k.Charged
	switch {
	case more <= 0:
		return 0
	case forced:
		p.Space.Force(more)
	case !p.Space.Take(more):
		return more
	}
	k.Charged += more
	return 0
}

// drop gives memory back when neither its batch nor a claim needs it any more.
func (p *Shared) drop(k *memory.Packer) {
	if !k.Leave() {
		return
	}
	if k.Frame == nil {
		k.Frame = k.Builder.Discard()
	}
	p.Space.Give(k.Charged)
	k.Charged, k.Key, k.Value = 0, nil, nil
	p.Packers.Put(k)
}

// Close has every lane refuse records.
func (p *Shared) Close() { p.closed.Store(true) }

// New makes the lane to a partition of a topic.
func (p *Shared) New(topic wire.TopicID, partition int32, l *link.Link) *Lane {
	ln := &Lane{p: p, partition: partition, link: l}
	ln.id.Store(topic)
	ln.seq.on, ln.seq.id, ln.seq.epoch = p.Idempotent, p.Producer.Producer, p.Producer.Epoch
	return ln
}
