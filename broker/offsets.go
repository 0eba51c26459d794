package broker

// Times with a meaning of their own in a [ListOffsets].
const (
	// TimeEnd asks for the durable offset.
	TimeEnd int64 = -1
	// TimeStart asks for the first offset stored.
	TimeStart int64 = -2
)

// ListOffsets looks an offset up by time. The caller owns it; it belongs to the
// broker from [Shard.ListOffsets] until OffsetsListed.
type ListOffsets struct {
	// Request.

	Topic     TopicID
	Partition int32
	// Time is TimeEnd, TimeStart or milliseconds since 1970.
	Time  int64
	Owner ListOffsetsOwner

	// Result.

	Code Code
	// Offset is that of the first record at or after Time; for a time after the
	// newest record the durable offset; -1 with a code.
	Offset int64
	// Timestamp is that record's in milliseconds since 1970, -1 where no
	// record was looked up.
	Timestamp int64
	// Message says more for people; mostly empty.
	Message string
}

// ListOffsetsOwner is told of the outcome, on the loop of the shard that was
// asked, possibly inside [Shard.ListOffsets].
type ListOffsetsOwner interface {
	OffsetsListed(r *ListOffsets)
}
