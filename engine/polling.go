package engine

// For how long the loop polls for a round in flight instead of sleeping.
const (
	// pollFactor times what the device usually takes is about twice its 99th
	// percentile.
	pollFactor = 4
	// defaultPoll is the least, in nanoseconds.
	defaultPoll = 400_000
	// polledBytes is the most that may be in flight. A larger write takes so long
	// that the 20 to 30 us of a wake-up make little difference, and there are
	// many messages in it to pay for one: the CPU is left to others.
	polledBytes = 64 << 10
)

// polling follows the newest write or flush of the journal.
type polling struct {
	longest int64  // nanoseconds
	begun   uint64 // the journal's count of them
	since   int64  // when that was first seen, loop time in nanoseconds
}

// SetDeviceTime tells the store how long the device takes to make a small write
// durable, in nanoseconds. The loop polls for a small round in flight
// for as long as nearly all of them take.
func (s *Store) SetDeviceTime(nanos int64) { s.polling.longest = max(defaultPoll, pollFactor*nanos) }

// SpinHint is the time until which the loop had better poll: while a small round is
// in flight, but not for longer than a device that works takes for one. 0 is for no
// wish.
func (s *Store) SpinHint(now int64) int64 {
	j := s.journal
	if !j.InFlight() || j.InFlightBytes() > polledBytes {
		return 0
	}
	if n := j.Begun(); n != s.polling.begun {
		s.polling.begun, s.polling.since = n, now
	}
	return s.polling.since + s.polling.longest
}
