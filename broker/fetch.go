package broker

import (
	"github.com/mqd-broker/mqd/engine/shard"
	"github.com/mqd-broker/mqd/engine/stage"
)

// Fetch reads from one partition: a long poll. The caller owns and pools it. From
// [Shard.Fetch] until Fetched it belongs to the broker. Then its pieces stay where
// they are until [Shard.Release], which must be called exactly once for every
// Fetched, whatever the code; after it the Fetch may be used again.
type Fetch struct {
	// Request.

	Topic     TopicID
	Partition int32
	// Offset is the first offset wanted.
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
	// Dated asks for AppendedFrom, AppendedTo, Left and Missing.
	Dated bool
	// Many says that it is one of very many of the same asker, which leave room for
	// those of others to wait.
	Many  bool
	Owner FetchOwner

	// Result.

	Code Code
	// Class is the topic's class in force, ClassNone where the partition is not
	// known.
	Class Class
	// LogStart is the first offset stored, Durable the end of what may be read,
	// End the offset that the next record gets, NewestAppend the broker's time
	// of the newest append in Unix nanoseconds, -1 for an empty partition. All
	// are -1 where the partition is not known. LogStart and Durable are the
	// valid range of an OffsetOutOfRange.
	LogStart, Durable, End, NewestAppend int64
	// AppendedFrom and AppendedTo bound the broker's time of the append of the newest
	// batch of the answer, in Unix nanoseconds, if Dated asks for it; both are -1 without one.
	AppendedFrom, AppendedTo int64
	// Left is the size in bytes of the log from the first batch of the answer to Durable,
	// if Dated asks for it; -1 without a batch.
	Left int64
	// Missing is how many of the offsets from Offset, or LogStart if that is higher, to Durable
	// are in recorded gaps, if Dated asks for it.
	Missing int64
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

// fetchStage says where a fetch is. It is the asking shard's.
type fetchStage uint8

const (
	fetchIdle   fetchStage = iota
	fetchQueued            // waits for a credit
	fetchSent              // the owning shard has it
	fetchParked            // the owning shard has a reading for it
	fetchLater             // the owning shard had no room to wait in; it is asked again
	fetchHeld              // answered, not released
)

// fetchState is the broker's part of a Fetch. The owning shard looks at nothing of
// it but until and left.
type fetchState struct {
	home     int // shard that owns the partition
	stage    fetchStage
	canceled bool
	early    bool  // the late answer has overtaken the note that it is late
	arrived  int64 // loop time
	until    int64 // loop time until which it waits; 0: it does not
	left     int64 // of that, when it was sent last, in nanoseconds
	rd       *reading
	wait     waiter // of the request, until it is asked again, then of its cancellation
	asks     *Shard
	end      shard.Timer // while it is to be asked again: the end of its wait
}

// Pieces are the whole batches of the answer, in pieces of memory that can be
// sent as they are: at most [MaxPieces], none with a code or when the wait ended
// first. They are valid from Fetched until [Shard.Release].
func (r *Fetch) Pieces() [][]byte {
	if r.rd == nil {
		return nil
	}
	return r.rd.read.Pieces[:r.rd.read.N]
}

// Bytes is the size of all pieces together.
func (r *Fetch) Bytes() int {
	if r.rd == nil {
		return 0
	}
	return r.rd.read.Bytes
}

// Fetch reads from a partition. r.Owner hears of the answer once.
func (b *Shard) Fetch(r *Fetch) {
	if r.stage != fetchIdle {
		violated("a fetch is released before it is used again")
	}
	r.unknown(OK)
	r.arrived = b.loop.Now()
	r.rd, r.canceled, r.early, r.Message = nil, false, false, ""
	r.until = 0
	if r.MaxWait > 0 && r.MinBytes > 0 {
		r.until = r.arrived + min(r.MaxWait, int64(b.node.opts.MaxFetchWait))
	}
	if _, code := b.node.lookup(r.Topic, r.Partition); code != OK {
		r.Code = code
		b.deliver(r)
		return
	}
	r.home = b.node.ShardOf(r.Topic, r.Partition)
	b.askHome(r)
}

// askHome has the owning shard read.
func (b *Shard) askHome(r *Fetch) {
	r.left = max(0, r.until-b.loop.Now())
	if r.home != b.id {
		r.stage = fetchQueued
		b.postFetch(r)
		return
	}
	r.stage = fetchSent
	switch m := b.startFetch(r, b.id); m.kind {
	case msgAnswered:
		b.deliver(r)
	case msgCrowded:
		b.askLater(r)
	case msgParked:
		b.parked(m.body.(*reading))
	case msgFetched:
		b.fetched(m.body.(*reading))
	}
}

// postFetch is post, with a note of whether the fetch has left.
func (b *Shard) postFetch(r *Fetch) {
	b.post(r.home, Message{kind: msgFetch, body: r}, &r.wait)
	if r.wait.in == nil {
		r.stage = fetchSent
	}
}

// unknown sets the results to those of a partition that is not known.
func (r *Fetch) unknown(code Code) {
	r.Code, r.Class, r.Next = code, ClassNone, r.Offset
	r.LogStart, r.Durable, r.End, r.NewestAppend, r.AppendedFrom, r.AppendedTo, r.Left = -1, -1, -1, -1, -1, -1, -1
	r.Missing = 0
}

// parked notes that the owning shard will answer later.
func (b *Shard) parked(rd *reading) {
	r := rd.r
	r.stage, r.rd = fetchParked, rd
	switch {
	case r.early:
		if b.answer(rd) { // r is its owner's again
			b.post(rd.at.id, Message{kind: msgRelease, body: rd}, &rd.wait)
		}
	case r.canceled:
		b.cancelParked(r)
	}
}

// fetched delivers the pieces of a reading.
func (b *Shard) fetched(rd *reading) {
	r := rd.r
	rd.results.copyTo(r)
	r.rd = rd
	b.stats.Fetched++
	b.stats.FetchedBytes += uint64(rd.read.Bytes)
	b.deliver(r)
}

// answer delivers a reading, and reports whether it is not needed any more.
func (b *Shard) answer(rd *reading) bool {
	if rd.read.N > 0 {
		b.fetched(rd)
		return false
	}
	r := rd.r
	rd.results.copyTo(r)
	r.rd = nil
	b.deliver(r)
	return true
}

// lateFetched handles an answer that comes by itself, and returns the reply.
func (b *Shard) lateFetched(rd *reading) Message {
	r := rd.r
	if r.stage != fetchParked {
		// Requests and replies have rings of their own: this one has overtaken
		// the reply that names the reading, which will deliver it.
		r.early = true
		return taken
	}
	canceling := r.canceled
	if r.wait.in != nil {
		r.wait.leave() // its cancellation, which is not needed any more
		canceling = false
	}
	switch {
	case !b.answer(rd):
		return taken
	case canceling && rd.at != b:
		// The cancellation is on the way. It must not find the reading in
		// another's use, and a reply could overtake it.
		b.post(rd.at.id, Message{kind: msgRelease, body: rd}, &rd.wait)
		return taken
	}
	return Message{kind: msgReturned, body: rd}
}

// deliver tells the owner.
func (b *Shard) deliver(r *Fetch) {
	r.stage = fetchHeld
	b.store.Stages().Add(stage.FetchWait, b.loop.Now()-r.arrived)
	r.Owner.Fetched(r)
}

// Release gives back the memory of a fetch's pieces, after they have been sent.
// It is called exactly once for every Fetched. After it r is the caller's again
// and its pieces are gone.
func (b *Shard) Release(r *Fetch) {
	if r.stage != fetchHeld {
		violated("a fetch is released once after every answer")
	}
	rd := r.rd
	r.stage, r.rd = fetchIdle, nil
	switch {
	case rd == nil:
	case r.home == b.id:
		b.recycle(rd)
	default:
		b.post(r.home, Message{kind: msgRelease, body: rd}, &rd.wait)
	}
}

// CancelFetch ends a fetch early: its connection is gone. r.Owner.Fetched is still
// called exactly once, now or later, with whatever there is, and wants its
// Release. A fetch that has been answered is left alone.
func (b *Shard) CancelFetch(r *Fetch) {
	switch r.stage {
	case fetchQueued:
		if r.wait.in == nil {
			// It left for the owning shard when a credit came.
			r.canceled = true
			return
		}
		r.wait.leave()
		b.deliver(r)
	case fetchSent:
		r.canceled = true
	case fetchLater:
		b.leaveCrowd(r)
		b.deliver(r)
	case fetchParked:
		if !r.canceled {
			r.canceled = true
			b.cancelParked(r)
		}
	}
}

func (b *Shard) cancelParked(r *Fetch) {
	if r.home == b.id {
		b.cancelReading(r.rd)
		return
	}
	b.post(r.home, Message{kind: msgCancel, body: r.rd}, &r.wait)
}
