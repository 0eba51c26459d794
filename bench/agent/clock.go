package agent

// exchange is a question for the time: sent and received on the asker's clock, with the
// answer of the other.
type exchange struct{ sent, received, at int64 }

// Offset is how the clock of an agent stands to the coordinator's.
type Offset struct {
	// Ahead is what the agent's clock shows more, in nanoseconds; it is wrong by at most
	// Error.
	Ahead int64 `json:"ahead_ns"`
	Error int64 `json:"error_ns"`
}

// offset takes the exchange that was the shortest: whatever lay between question and
// answer, the other clock was read between the two.
func offset(all []exchange) Offset {
	var best Offset
	for i, e := range all {
		half := (e.received - e.sent + 1) / 2
		if i == 0 || half < best.Error {
			best = Offset{Ahead: e.at - e.sent - half, Error: half}
		}
	}
	return best
}

// between is by how much times of the clock from are to be moved to be times of the clock
// to, and by how much that is wrong.
func between(from, to Offset) Offset {
	return Offset{Ahead: to.Ahead - from.Ahead, Error: to.Error + from.Error}
}

// drifted is the error of an offset that was measured before and after: it may have been
// wherever the two leave it.
func drifted(before, after Offset) int64 {
	moved := after.Ahead - before.Ahead
	return max(before.Error, max(moved, -moved)+after.Error)
}
