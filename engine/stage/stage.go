// Package stage measures where the time of batches and fetches goes on a shard: how long
// a batch waits for its place, for its round, for the device, and its answer for the
// network.
//
// Times are differences of readings of the loop's clock, which is read once a turn, and
// once more for completions, for each round that is submitted and, see [Reading], for
// batches that have been checked; any other stage that begins and ends in one turn takes 0.
// A sample costs a few nanoseconds and no memory. The loop alone writes; others have it copy
// a [Snapshot].
package stage

import "sync/atomic"

// Stage is a part of the way.
type Stage uint8

// The stages, in the order in which a batch passes them, and then a fetch.
const (
	// Socket is from when the kernel, or the network card, had the newest bytes of the
	// receive that brought the request's last ones until the loop took that receive: the
	// wake-up of the loop, and what it did before. It has no samples where nobody notes
	// when bytes come.
	Socket Stage = iota
	// Parse is from when the receive completed that brought the request's last bytes until
	// the batch has been checked: what is done for others before, waits for memory or for
	// the connection's turn, decoding, and the check.
	Parse
	// Append is from then to the append, which may be on another shard: the mesh, and
	// waits for room.
	Append
	// Round is from the append until the batch's round is submitted: the CPU time of the
	// rest of its turn, and the wait for the round before.
	Round
	// Device is from then until the round is as durable as the topic wants.
	Device
	// AckSend is from the turn that acknowledges until the kernel has taken the send.
	AckSend
	// FetchWait is from a fetch's arrival until there is something to answer it with, or
	// its time is over.
	FetchWait
	// ColdRead is a read of a segment's file, as the device takes it.
	ColdRead
	// FetchSend is from the turn that answers until the kernel has taken the send, which
	// it does at the pace at which the peer reads.
	FetchSend

	// Count is the number of stages.
	Count
)

// Info describes a stage.
type Info struct {
	Stage Stage
	// Name is the value of a label.
	Name string
	// Help says what is measured, as a sentence.
	Help string
}

// Table describes the stages, in order.
var Table = [Count]Info{
	{Socket, "socket", "From when the kernel has a produce's last bytes until the shard's loop has them; only with io.receive_times."},
	{Parse, "parse", "From the arrival of a produce's last bytes at the shard's loop until its batch is checked, waits included."},
	{Append, "append", "From then to the append: hand-over to the owning shard, and waits for room."},
	{Round, "round_wait", "From the append until the batch's round is submitted."},
	{Device, "device", "From then until the round is as durable as the topic wants."},
	{AckSend, "ack_send", "From the turn that acknowledges until the kernel has taken the answer."},
	{FetchWait, "fetch_wait", "From the arrival of a fetch until there is something to answer, or its time is over."},
	{ColdRead, "cold_read", "Reads of segment files."},
	{FetchSend, "fetch_send", "From the turn that answers a fetch until the kernel has taken all of it."},
}

// Limits are times, in nanoseconds, from which on a stage has taken too long; 0 is none.
type Limits [Count]int64

// Clock is a shard's: a histogram for each stage. The zero value is ready, without limits.
type Clock struct {
	stages [Count]Histogram
	rounds rounds
	limits Limits
	slow   Slow

	unsound atomic.Uint64
}

// Slow tells of samples that were too long. The loop alone writes it, and anybody may read.
type Slow struct {
	count atomic.Uint64
	// newest is the newest one: its nanoseconds, and its stage in the highest eight bits.
	newest atomic.Uint64
}

// stageShift is where the stage is in Slow.newest: 2^56 ns are two years.
const stageShift = 56

func (s *Slow) note(at Stage, nanos int64) {
	s.newest.Store(uint64(at)<<stageShift | min(uint64(nanos), 1<<stageShift-1))
	s.count.Add(1)
}

// Newest counts the samples that were too long, and tells the newest one.
func (s *Slow) Newest() (count uint64, at Stage, nanos int64) {
	count = s.count.Load()
	n := s.newest.Load()
	return count, Stage(n >> stageShift), int64(n & (1<<stageShift - 1))
}

// SetLimits says from when on a stage has taken too long. It is called before the first
// sample.
func (c *Clock) SetLimits(l Limits) { c.limits = l }

// Slow tells of samples that were too long.
func (c *Clock) Slow() *Slow { return &c.slow }

// Add adds a sample of so many nanoseconds to a stage.
func (c *Clock) Add(s Stage, nanos int64) {
	c.stages[s].add(nanos)
	if most := c.limits[s]; nanos >= most && most > 0 {
		c.slow.note(s, nanos)
	}
}

// mostSocket is how long bytes may have been in the kernel that it is believed: as long as a
// histogram knows times.
const mostSocket = 1 << maxBits

// Received adds the sample of a batch whose bytes the kernel had at the time stamp, 0 if it
// does not say, and the loop at another. One that cannot be is only counted: clocks of the
// calendar jump.
func (c *Clock) Received(stamp, at int64) {
	switch {
	case stamp == 0:
	case stamp < 0 || stamp > at || at-stamp >= mostSocket:
		c.unsound.Add(1)
	default:
		c.Add(Socket, at-stamp)
	}
}

// Unsound counts the batches that Received has not timed. Anybody may call it.
func (c *Clock) Unsound() uint64 { return c.unsound.Load() }

// Submitted notes that all rounds up to lsn that had not been submitted before were
// submitted at a time.
func (c *Clock) Submitted(lsn uint64, at int64) { c.rounds.add(lsn, at) }

// Durable adds the samples of a batch that was appended at one time to the round lsn and
// has become durable at another. A round that is not known any more gives none.
func (c *Clock) Durable(lsn uint64, appended, now int64) {
	if at, ok := c.rounds.of(lsn); ok {
		c.Add(Round, at-appended)
		c.Add(Device, now-at)
	}
}

// Snapshot are the histograms at a moment.
type Snapshot [Count]Histogram

// Copy copies the histograms. It is called on the loop.
func (c *Clock) Copy(to *Snapshot) { *to = c.stages }

// keptRounds is how many submissions are remembered, a power of two. More than those that
// may be in flight and unflushed at a time only age out: their batches are not counted.
const keptRounds = 256

// rounds remembers when rounds were submitted.
type rounds struct {
	ring  [keptRounds]submission
	n     uint64 // so many have been added
	found uint64 // where the last search ended
}

type submission struct {
	lsn uint64
	at  int64
}

func (r *rounds) at(i uint64) *submission { return &r.ring[i%keptRounds] }

func (r *rounds) add(lsn uint64, at int64) {
	*r.at(r.n) = submission{lsn, at}
	r.n++
}

// of finds the submission of a round: the first one that reaches it. Batches come in the
// order of their rounds, so that it mostly is where the last one was.
func (r *rounds) of(lsn uint64) (int64, bool) {
	first := uint64(0)
	if r.n > keptRounds {
		first = r.n - keptRounds
	}
	i := max(r.found, first)
	if i > first && i < r.n && r.at(i-1).lsn >= lsn {
		i = first
	}
	for ; i < r.n; i++ {
		if s := r.at(i); s.lsn >= lsn {
			r.found = i
			// The oldest one that is left may stand for rounds that have been forgotten.
			return s.at, i > first || first == 0
		}
	}
	return 0, false
}
