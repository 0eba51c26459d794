package broker

import "github.com/mqd-broker/mqd/engine"

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
	Time int64
	// Trim has the log begin at offset Time, or at the durable end for TimeEnd, if it
	// begins below that. Offset is its start then.
	Trim bool
	// Newest asks for the first of the records with the largest timestamp instead; without
	// one Timestamp is -1.
	Newest bool
	// EndOf asks for the end of epoch Epoch instead; [engine.Partition.EpochEnd] says what
	// that is.
	EndOf bool
	Owner ListOffsetsOwner

	// Epoch is the leader epoch of the record at Offset, that of this life for TimeEnd, -1
	// where nobody knows it; with EndOf it is a part of the request too.
	Epoch int32

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

	listState
}

// ListOffsetsOwner is told of the outcome, on the loop of the shard that was
// asked, possibly inside [Shard.ListOffsets].
type ListOffsetsOwner interface {
	OffsetsListed(r *ListOffsets)
}

// listState is the broker's part of a ListOffsets.
type listState struct {
	origin int
	wait   waiter

	// While the owning shard has it.
	at     *Shard
	lookup engine.TimeLookup
}

// ListOffsets looks up an offset by time. r.Owner hears of the outcome once.
func (b *Shard) ListOffsets(r *ListOffsets) {
	r.Code, r.Offset, r.Timestamp, r.Message = OK, -1, -1, ""
	if !r.EndOf {
		r.Epoch = -1
	}
	if _, code := b.node.lookup(r.Topic, r.Partition); code != OK {
		r.Code = code
		b.listed(r)
		return
	}
	r.origin = b.id
	b.post(b.node.ShardOf(r.Topic, r.Partition), Message{kind: msgList, body: r}, &r.wait)
}

// list answers a ListOffsets for a partition of this shard.
func (b *Shard) list(r *ListOffsets) {
	p, code := b.partition(r.Topic, r.Partition)
	switch {
	case code != OK:
		r.Code = code
	case r.Trim:
		if r.at = b; r.Time == TimeEnd {
			r.Time = p.Durable()
		}
		b.store.Trim(p.Partition, r.Time, (*timeFound)(r))
		return
	case r.EndOf:
		r.Epoch, r.Offset = p.EpochEnd(r.Epoch)
	case r.Time == TimeEnd && !r.Newest:
		r.Offset, r.Epoch = p.Durable(), b.node.Term()
	case r.Time == TimeStart && !r.Newest:
		r.Offset, r.Epoch = p.LogStart(), p.EpochAt(p.LogStart())
	default:
		r.at = b
		r.lookup.Part, r.lookup.Time, r.lookup.Newest, r.lookup.Owner = p.Partition, r.Time, r.Newest, (*timeFound)(r)
		b.store.LookUpTime(&r.lookup)
		return
	}
	b.post(r.origin, Message{kind: msgListed, body: r}, &r.wait)
}

// timeFound is a ListOffsets as the engine's owner of its lookup.
type timeFound ListOffsets

// TimeFound takes the outcome over from the engine.
func (o *timeFound) TimeFound(t *engine.TimeLookup) {
	r, b := (*ListOffsets)(o), o.at
	if t.Err != nil {
		r.Code, r.Message = codeOf(t.Err), t.Err.Error()
	} else {
		r.Offset, r.Timestamp = t.Offset, t.Timestamp
		if t.Part != nil && t.Timestamp >= 0 {
			r.Epoch = t.Part.EpochAt(t.Offset)
		}
	}
	r.at, t.Part = nil, nil
	b.post(r.origin, Message{kind: msgListed, body: r}, &r.wait)
}

// Trimmed takes the outcome of a trim over from the engine.
func (o *timeFound) Trimmed(logStart int64, err error) {
	o.lookup.Offset, o.lookup.Timestamp, o.lookup.Err = logStart, -1, err
	o.TimeFound(&o.lookup)
}

// listed tells the owner.
func (b *Shard) listed(r *ListOffsets) { r.Owner.OffsetsListed(r) }
