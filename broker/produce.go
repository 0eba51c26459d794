package broker

import (
	"github.com/mqd-broker/mqd/engine"
)

// Produce is one batch on its way into a partition. The caller owns and pools it.
// From [Shard.Produce] until Produced it and Batch belong to the broker; after
// that it may be used again as it is, with the request's fields set anew.
type Produce struct {
	// Request.

	Topic     TopicID
	Partition int32
	// MinClass refuses a topic of a weaker class; ClassNone takes any.
	MinClass Class
	Encoding Encoding
	// Batch is one whole batch, unchecked, in memory that the broker may
	// write: offset and epoch are stamped in place.
	Batch []byte
	Owner ProduceOwner

	// Result.

	Code Code
	// Class is the class reached, ClassNone with a code. With ClassTooWeak it is
	// the topic's.
	Class Class
	// Base is the offset of the first record, AppendTime the broker's time of
	// the append in Unix nanoseconds; both -1 with a code.
	Base, AppendTime int64
	// Low and High are a valid range that the request missed (BatchTooLarge: 0
	// and the limit in bytes), else -1.
	Low, High int64
	// Message says more for people; mostly empty.
	Message string

	produceState
}

// ProduceOwner is told of a produce's outcome, on the loop of the shard that was
// asked, possibly inside [Shard.Produce].
type ProduceOwner interface {
	Produced(r *Produce)
}

// produceState is the broker's part of a Produce.
type produceState struct {
	append engine.Append
}
