package journal

import "github.com/mqd-broker/mqd/engine/aio"

// Kick submits what waits, if there is room in flight: closed rounds, and the
// filling one when an entry in it needs something. The loop calls it once a turn,
// after everything was appended. now is the broker's time, Unix nanoseconds, which
// does not go back; it becomes the append time of the rounds.
func (j *Journal) Kick(now int64) {
	if j.state == failed || j.deviceFailed() {
		return
	}
	for j.mayWrite() {
		s := j.nextRound()
		if s == nil {
			return
		}
		j.submit(s, now)
	}
}

// KickAll is Kick, and lets the filling round go whatever its entries need, at once
// or as soon as there is room in flight.
func (j *Journal) KickAll(now int64) {
	if j.filling != nil {
		j.filling.send = true
	}
	j.Kick(now)
}

// mayWrite reports whether another round may be submitted. A round that still has
// to be flushed, after its write, for an entry that waits for it is in flight: if
// rounds were written behind it meanwhile, there would always be an unflushed one
// and no way back from write + flush to DSYNC.
func (j *Journal) mayWrite() bool {
	busy := j.flight.rounds
	if j.flush.hold > j.flight.flushed && j.flush.hold <= j.flight.written {
		busy++
	}
	return busy < j.opts.MaxInFlight
}

// nextRound takes the next round that should go.
func (j *Journal) nextRound() *slot {
	if s := j.closed.pop(); s != nil {
		return s
	}
	s := j.filling
	if s == nil || s.need == NeedNone && !s.send && j.state != closing {
		return nil
	}
	j.close(s)
	return j.closed.pop()
}

// submit writes a round, with its wrap round before it.
func (j *Journal) submit(s *slot, now int64) {
	j.appendTime = max(j.appendTime, now)
	if j.state == closing {
		s.need = NeedFlushed
	}
	if s.wrapped {
		j.wrap.add(&Entry{Kind: KindWrap}, nil, 0)
		j.wrap.need = s.need
		j.write(j.wrap)
		j.stats.Wraps++
	}
	j.write(s)
	j.startRelease()
}

// write seals a round and submits it.
func (j *Journal) write(s *slot) {
	h := Header{
		UUID: j.identity.UUID, Incarnation: j.identity.Incarnation,
		PrevLSN: j.lastLSN, PrevCRC: j.lastCRC, AppendTime: j.appendTime,
		CheckpointLSN: j.releaser.released, FlushedLSN: j.flight.flushed,
		ResumeLSN: j.identity.ResumeLSN, StartLSN: j.identity.StartLSN,
	}
	buf := s.seal(&h)
	how := j.how(s)
	j.live.push(live{lsn: s.lsn, pos: s.pos, prevLSN: j.lastLSN, prevCRC: j.lastCRC})
	s.flight = j.flight.push(flying{
		lsn: s.lsn, prev: j.lastLSN, proof: h.FlushedLSN, size: len(buf),
		dsync: how != 0, data: s.data,
	})
	j.lastLSN, j.lastCRC = s.lsn, h.CRC
	j.stats.Rounds++
	j.stats.Bytes += uint64(len(buf))
	j.region.Write(&s.op, buf, s.pos, how)
}

// how decides how a round is written; see the package comment.
func (j *Journal) how(s *slot) aio.Flags {
	if s.need == NeedFlushed && j.opts.Method == MethodDSYNC && j.flush.plain <= j.flight.flushed {
		j.stats.DSYNCs++
		return aio.FlagDSYNC
	}
	j.flush.plain = s.lsn
	if s.need == NeedFlushed {
		j.flush.hold, j.flush.wanted = s.lsn, s.lsn
	}
	return 0
}
