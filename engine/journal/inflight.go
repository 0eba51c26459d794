package journal

// InFlight reports whether a round is being written or flushed: whether somebody
// may be waiting for the device.
func (j *Journal) InFlight() bool { return j.flight.writes > 0 || j.flush.busy }
