package broker

// Fetch reads from one partition: a long poll. The caller owns and pools it. From
// [Shard.Fetch] until Fetched it belongs to the broker. Then its pieces stay where
// they are until [Shard.Release], which must be called exactly once for every
// Fetched, whatever the code; after it the Fetch may be used again.
type Fetch struct {
	// Request.

	Topic     TopicID
	Partition int32
	// Offset is the first offset wanted, at least 0.
	Offset int64
	// MaxBytes and MaxRecords bound the answer, which holds at least one batch
	// if there is one; 0 takes [Options.FetchBytes] and [Options.FetchRecords].
	MaxBytes, MaxRecords int
	// MinBytes is how much the answer should have before MaxWait is over; 0
	// answers at once.
	MinBytes int
	// MaxWait is how long the answer may be held back, in nanoseconds, at most
	// [Options.MaxFetchWait]; 0 answers at once.
	MaxWait int64
	Owner   FetchOwner

	// Result.

	Code Code
	// Class is the topic's class, ClassNone where the topic is not known.
	Class Class
	// LogStart is the first offset stored, Durable the end of what may be read,
	// End the offset that the next record gets, NewestAppend the broker's time
	// of the newest append in Unix nanoseconds, -1 for an empty partition. All
	// are -1 where the partition is not known. LogStart and Durable are the
	// valid range of an OffsetOutOfRange.
	LogStart, Durable, End, NewestAppend int64
	// Next is where to fetch next; it passes over recorded gaps.
	Next int64
	// Message says more for people; mostly empty.
	Message string

	fetchState
}

// FetchOwner is told that a fetch has been answered, on the loop of the shard that
// was asked, possibly inside [Shard.Fetch] or [Shard.CancelFetch].
type FetchOwner interface {
	Fetched(r *Fetch)
}

// fetchState is the broker's part of a Fetch.
type fetchState struct{}

// Pieces are the whole batches of the answer, in pieces of memory that can be
// sent as they are: at most [MaxPieces], none with a code or when the wait ended
// first. They are valid from Fetched until [Shard.Release].
func (r *Fetch) Pieces() [][]byte { return nil }

// Bytes is the size of all pieces together.
func (r *Fetch) Bytes() int { return 0 }
