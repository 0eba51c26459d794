package journal

// InFlight reports whether a round is being written or flushed: whether somebody
// may be waiting for the device.
func (j *Journal) InFlight() bool { return j.flight.writes > 0 || j.flush.busy }

// InFlightBytes is the size of the rounds that are being written.
func (j *Journal) InFlightBytes() int { return j.flight.bytes }

// Begun counts the writes and flushes of rounds that have been submitted.
func (j *Journal) Begun() uint64 { return j.stats.Rounds + j.stats.Flushes }
