package journal

// marker writes marks.
//
// The proof that a round is durable is a later header with a watermark at or above
// it. Under load the next round brings it. When none has followed for MarkAfter,
// an empty round is written and flushed: the mark. Without it, damage to the last
// acknowledged round could not be told from the tail of a crash. Rounds of marks
// and wraps need no proof, so a mark is not followed by another, and an idle
// journal writes nothing.
type marker struct {
	due     int64 // when the mark goes, 0 if none is due
	anchors uint64
}

// Timer writes a mark when one is due. It returns the time of the next one, 0 if
// none is due. The loop calls it once a turn, and at that time at the latest. mono is
// monotonic time in nanoseconds, as is what it returns; now is the time of Kick, which
// stands still while the calendar has gone back.
func (j *Journal) Timer(mono, now int64) int64 {
	if !j.needsProof() || j.busy() {
		j.mark.due = 0
		return 0
	}
	if j.mark.due == 0 && j.state != closing {
		j.mark.due = mono + int64(j.opts.MarkAfter)
	}
	if mono < j.mark.due && j.state != closing {
		return j.mark.due
	}
	j.mark.due = 0
	s := j.filling
	if s == nil {
		var err error
		if s, err = j.place(KindMark, 0); err != nil {
			return 0
		}
		j.put(s, &Entry{Kind: KindMark}, nil, 0, NeedFlushed)
		j.stats.Marks++
	}
	// A round that was filling anyway, with entries that nobody waits for,
	// carries the watermark as well as a mark.
	s.need = NeedFlushed
	j.Kick(now)
	return 0
}

// needsProof reports whether the newest durable round has no durable proof yet.
func (j *Journal) needsProof() bool {
	return j.state != failed && j.flight.flushedData > max(j.flight.flushedProof, j.mark.anchors)
}

// busy reports whether a round is on its way that will carry the watermark.
func (j *Journal) busy() bool {
	return j.flight.first < j.flight.next || j.flush.busy || j.closed.n > 0 ||
		j.filling != nil && (j.filling.need != NeedNone || j.filling.send)
}

// Close begins the end: nothing more is accepted, what is there is written and
// flushed, and proven by a mark. The loop goes on calling Kick and Timer until
// Idle. The region is the caller's to close. The times are those of Timer.
func (j *Journal) Close(mono, now int64) {
	if j.state == running {
		j.state = closing
		j.flush.wanted = max(j.flush.wanted, j.lastLSN)
		j.startFlush()
	}
	j.Kick(now)
	j.Timer(mono, now)
}

// Idle reports whether nothing is in flight and nothing is left to do. A failed
// journal is idle when its operations have ended.
func (j *Journal) Idle() bool {
	if j.flight.writes > 0 || j.flush.op.InFlight() || j.releaser.op.InFlight() {
		return false
	}
	if j.state == failed {
		return true
	}
	return !j.busy() && j.filling == nil && j.releaser.phase == releaseNone && !j.needsProof()
}
