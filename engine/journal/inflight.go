package journal

// InFlight reports whether a round is being written or flushed: whether somebody
// may be waiting for the device.
func (j *Journal) InFlight() bool { return j.flight.writes > 0 || j.flush.busy }

// InFlightBytes is the size of the rounds that are being written.
func (j *Journal) InFlightBytes() int { return j.flight.bytes }

// Begun counts the writes and flushes of rounds that have been submitted.
func (j *Journal) Begun() uint64 { return j.stats.Rounds + j.stats.Flushes }

// Backlog is the number of full rounds that wait for their turn.
func (j *Journal) Backlog() int { return j.closed.n }

// FillingBytes is the size on disk of what has been put into the filling round.
func (j *Journal) FillingBytes() int {
	if j.filling == nil {
		return 0
	}
	return j.filling.size()
}
