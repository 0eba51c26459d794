package journal

import (
	"sync/atomic"
	"time"
)

// Need says what an entry waits for.
type Need uint8

const (
	// NeedNone: nobody waits. The entry goes with its round.
	NeedNone Need = iota
	// NeedWritten: the round's write has completed.
	NeedWritten
	// NeedFlushed: the round and all before it are durable.
	NeedFlushed
)

// Observer hears of a journal's progress, on the loop. It may append and kick.
type Observer interface {
	// JournalProgress: all rounds up to written have been written, all up to
	// flushed are durable. It is called when one of them has moved, and when
	// room has been made.
	JournalProgress(written, flushed uint64)
	// JournalFailed: the journal has failed for good; see Journal.Err. No
	// progress is reported after it.
	JournalFailed(err error)
}

// Defaults and bounds of Options.
const (
	defaultRounds     = 4
	defaultRoundBytes = 1 << 20
	defaultMarkAfter  = time.Millisecond
	maxInFlight       = 4
)

// Options sizes a journal. Zero fields take the defaults.
type Options struct {
	// Observer hears of progress. Required.
	Observer Observer
	// Method is how the device makes small writes durable: see ProbeMethod.
	Method Method
	// Rounds is the number of round buffers, 2 to 64. Default 4.
	Rounds int
	// RoundBytes is the size of a full round in bytes, header included, a
	// multiple of 4096. Default 1 MiB, at most an eighth of the region. Each
	// buffer takes a quarter more.
	RoundBytes int
	// MaxBody is the size in bytes of the largest body, at most an eighth of the
	// region. What does not fit into RoundBytes gets a buffer of this size.
	// Default: what fits into RoundBytes.
	MaxBody int
	// MaxInFlight is the number of rounds that are written at the same time, 1
	// to 4. Default 1.
	MaxInFlight int
	// MarkAfter is the silence after which the newest durable round gets its
	// proof. Default 1 ms.
	MarkAfter time.Duration
	// Reserve is the part of the ring, in bytes, that batches may not use, so
	// that the entries by which a checkpoint makes room always fit. Default a
	// sixteenth of the ring, at most a quarter.
	Reserve int64
	// Reach bounds how far behind the newest round, in bytes, a replay has to look for
	// others; an anchor is written whenever half of it is used up. At least four times
	// the largest round. Default a sixteenth of the ring, or four times that.
	Reach int64
	// DeviceFailed is shared by everything that stands on one device: set by
	// the first failed flush, checked before every report of progress.
	// Default: one of its own.
	DeviceFailed *atomic.Bool
}

// withDefaults returns o with its zero fields set, for a ring of a region.
func (o Options) withDefaults(r ring) Options {
	if o.Rounds == 0 {
		o.Rounds = defaultRounds
	}
	if o.RoundBytes == 0 {
		o.RoundBytes = int(min(defaultRoundBytes, r.end/8&^(BlockSize-1)))
	}
	if o.MaxBody == 0 {
		o.MaxBody = o.RoundBytes - BlockSize
	}
	if o.MaxInFlight == 0 {
		o.MaxInFlight = 1
	}
	if o.MarkAfter == 0 {
		o.MarkAfter = defaultMarkAfter
	}
	if o.Reserve == 0 {
		o.Reserve = r.size() / 16
	}
	if o.Reach == 0 {
		o.Reach = max(r.size()/16&^(BlockSize-1), 2*o.largest())
	}
	if o.DeviceFailed == nil {
		o.DeviceFailed = new(atomic.Bool)
	}
	return o
}

// valid reports whether o can be used on a ring of a region.
func (o Options) valid(r ring) bool {
	return o.Observer != nil && o.Rounds >= 2 && o.Rounds <= 64 &&
		o.RoundBytes >= 2*BlockSize && o.RoundBytes%BlockSize == 0 && int64(o.RoundBytes) <= r.end/8 &&
		o.MaxBody > 0 && int64(o.MaxBody) <= r.end/8 &&
		o.MaxInFlight >= 1 && o.MaxInFlight <= maxInFlight && o.MarkAfter > 0 &&
		o.Reserve >= 0 && o.Reserve <= r.size()/4 &&
		o.Reach >= 2*o.largest() && o.Reach%BlockSize == 0
}

// markReserve is the number of bytes of the ring that only marks may use.
const markReserve = 4 * BlockSize

// state is where a journal stands in its life.
type state uint8

const (
	running state = iota
	closing
	failed
)

// Journal is a shard's journal. It belongs to the loop's thread: all methods, and
// the completions, run there. It allocates nothing after Open.
//
// A round is in one of these places: filling, where entries are added; closed, in
// the queue of rounds that wait for their turn; in flight, being written; and,
// when it has been written, a live round in the ring, of which only LSN and
// position are remembered. LSN and position are fixed when a round begins to fill,
// the header when it is submitted, so that it carries the newest watermark.
type Journal struct {
	region Region
	ring   ring
	opts   Options
	state  state
	err    error

	// What every header repeats.
	identity Anchor

	filling *slot
	closed  slotQueue
	free    []*slot
	big     *slot // for a body that fits no other; nil if none is allowed
	wrap    *slot // the wrap round
	bigBusy bool
	wrapped bool // the wrap slot waits or is in flight
	one     [1][]byte

	// The ring. The filling round begins at tail; used counts the bytes from the
	// head to there, left those from there to the limit.
	nextLSN uint64
	tail    int64
	used    int64
	left    int64
	live    liveQueue

	// The last submitted round, which the next one follows.
	lastLSN    uint64
	lastCRC    uint32
	appendTime int64

	flight   flight
	flush    flusher
	mark     marker
	releaser releaser
	polling  polling

	reportedWritten, reportedFlushed uint64
	stats                            Stats
}

// Stats counts what a journal has done since Open.
type Stats struct {
	Rounds, Entries, Bytes uint64 // Bytes on disk, padding included
	DSYNCs, Flushes        uint64
	Marks, Wraps, Anchors  uint64
	Full                   uint64 // appends refused with ErrFull
	// Writes that have failed, and flushes, which some writes contain.
	WriteErrors, FlushErrors uint64
}

// Append adds an entry to the filling round and returns the LSN of that round.
// body is copied. Of e, Length, Prefix and BodyCRC are not read: they come from
// body; an Index of 0 stands for the round's LSN. Errors: ErrFull, ErrTooLarge,
// ErrFailed, ErrClosed; then nothing has happened.
func (j *Journal) Append(e *Entry, body []byte, need Need) (uint64, error) {
	j.one[0] = body
	lsn, err := j.AppendVec(e, j.one[:], need)
	j.one[0] = nil
	return lsn, err
}

// AppendVec is Append for a body in pieces.
func (j *Journal) AppendVec(e *Entry, body [][]byte, need Need) (uint64, error) {
	n := 0
	for _, part := range body {
		n += len(part)
	}
	checkEntry(e, n)
	s, err := j.place(e.Kind, n)
	if err != nil {
		return 0, err
	}
	return j.put(s, e, body, n, need), nil
}

// FillingLSN is the LSN of the filling round, or of the next one to fill. An
// append may still begin another round, with a greater LSN.
func (j *Journal) FillingLSN() uint64 {
	if j.filling != nil {
		return j.filling.lsn
	}
	return j.nextLSN
}

// RoomToSpare is the size in bytes of the largest body that could be appended with
// NeedNone without making the filling round longer: it goes for free, in what
// would be padding. 0 when no round is about to go.
func (j *Journal) RoomToSpare() int {
	s := j.filling
	if s == nil || s.need == NeedNone || s.entries == s.most || j.state != running {
		return 0
	}
	total := s.size()
	room := total - HeaderSize - (s.entries+1)*EntrySize - s.bodies
	if s.bodies+room > moveLimit || s.bodies > moveLimit {
		table := HeaderSize + (s.entries+1)*EntrySize
		apart := total - blocks(table) - s.bodies
		room = max(apart, min(room, moveLimit-s.bodies))
	}
	return max(0, room)
}

// SubmittedLSN is the newest round that has been submitted.
func (j *Journal) SubmittedLSN() uint64 { return j.lastLSN }

// WrittenLSN: all rounds up to it have been written.
func (j *Journal) WrittenLSN() uint64 { return j.flight.written }

// FlushedLSN: all rounds up to it are durable.
func (j *Journal) FlushedLSN() uint64 { return j.flight.flushed }

// Err is why the journal has failed, nil while it has not.
func (j *Journal) Err() error { return j.err }

// UUID, Shard and Incarnation identify the journal and its life.
func (j *Journal) UUID() [16]byte { return j.identity.UUID }

// Shard is the shard that the journal was created for.
func (j *Journal) Shard() uint32 { return j.identity.Shard }

// Incarnation counts the journal's lives.
func (j *Journal) Incarnation() uint64 { return j.identity.Incarnation }

// Stats returns the counters.
func (j *Journal) Stats() Stats { return j.stats }

// Capacity is the size of the ring in bytes.
func (j *Journal) Capacity() int64 { return j.ring.size() }

// Fill is the number of bytes of the ring that are in use.
func (j *Journal) Fill() int64 {
	if j.filling != nil {
		return j.used + int64(j.filling.size())
	}
	return j.used
}

// Free is the number of bytes of the ring that batches may still take.
func (j *Journal) Free() int64 {
	return max(0, j.ring.size()-j.Fill()-j.floor(KindBatch))
}
