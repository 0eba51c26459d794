package journal

// For how long a loop polls for a write or flush in flight instead of sleeping.
const (
	// pollFactor times what the device usually takes is about twice its 99th
	// percentile.
	pollFactor = 4
	// leastPoll is the least, in nanoseconds.
	leastPoll = 400_000
	// polledBytes is the most that may be in flight. A larger write takes so long
	// that the 20 to 30 us of a wake-up make little difference, and there are
	// many messages in it to pay for one: the CPU is left to others.
	polledBytes = 64 << 10
)

// polling follows the newest write or flush.
type polling struct {
	longest int64  // nanoseconds
	begun   uint64 // the count of them
	since   int64  // when that was first seen, loop time in nanoseconds
}

// SetDeviceTime says how long the device takes to make a small write durable, in
// nanoseconds. Small rounds are polled for as long as nearly all of them take.
func (j *Journal) SetDeviceTime(nanos int64) { j.polling.longest = pollFactor * nanos }

// PollUntil is the time until which the loop had better poll, in nanoseconds of its
// clock: while a small round is in flight, but not for longer than a device that works
// takes for one. 0 is for no wish.
func (j *Journal) PollUntil(now int64) int64 {
	if !j.InFlight() || j.InFlightBytes() > polledBytes {
		return 0
	}
	p := &j.polling
	if n := j.Begun(); n != p.begun {
		p.begun, p.since = n, now
	}
	return p.since + max(leastPoll, p.longest)
}
