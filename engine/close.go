package engine

// closeStage says how far an orderly end has come.
type closeStage uint8

const (
	closeNot        closeStage = iota
	closeDraining              // what is in flight ends
	closeCheckpoint            // everything is flushed and recorded
	closeJournal               // the journal ends
	closeDone
)

// Close begins an orderly end: appends are refused, what has been acknowledged is
// written and flushed, a last checkpoint says that nothing is missing, and the
// journal ends. The loop goes on turning until Closed.
func (s *Store) Close() {
	if s.closing == closeNot {
		s.closing = closeDraining
		s.cleaner.Stop()
		s.fullDisk, s.writeAfter = false, 0 // there may be room by now
	}
}

// Closed reports whether the end that Close began has been reached. A store whose
// log has failed, or whose disk is full, ends without the last checkpoint.
func (s *Store) Closed() bool { return s.closing == closeDone }

// CutShort reports whether the end did without the last checkpoint, so that the next
// start has to recover.
func (s *Store) CutShort() bool { return s.cutShort }

// turnClose does the next step of an orderly end.
func (s *Store) turnClose(now, wall int64) {
	switch s.closing {
	case closeDraining:
		s.drain()
	case closeCheckpoint:
		if s.givesUp() {
			s.giveUp()
		}
	case closeJournal:
		s.journal.Close(now, wall)
		s.progressed(s.journal.FlushedLSN()) // writers that wait for room get none any more
		busy := s.writing > 0 || s.indexes.Sealing() > 0 || s.files.Opening() > 0 || s.checkpoint.stage == checkpointWrite || s.remover.Busy() || !s.cleaner.Resting()
		if s.journal.Idle() && !busy {
			s.closing = closeDone
		}
	}
}

// givesUp reports whether the end does without the last checkpoint, because the log
// has failed or the disk is full. Nothing is lost by that: the next start finds in
// the journal what the segments have not.
func (s *Store) givesUp() bool { return s.failed != nil || s.fullDisk }

func (s *Store) giveUp() {
	s.checkpoint.abandon()
	s.closing, s.cutShort = closeJournal, true
}

// drain waits until everything is acknowledged, and then begins the last checkpoint.
func (s *Store) drain() {
	flushed := s.flushMemory() || s.givesUp() // a full disk may have filled the ring
	if !flushed || s.written.Len() > 0 || s.flushing.Len() > 0 {
		s.journal.Flush()
		return
	}
	if s.givesUp() {
		s.giveUp()
		return
	}
	if s.checkpoint.stage != checkpointIdle {
		return
	}
	s.closing = closeCheckpoint
	s.checkpoint.clean = true
	s.checkpoint.done = s.lastCheckpoint
	s.checkpoint.begin()
}

// lastCheckpoint ends the journal after the last checkpoint, whatever came of it.
func (s *Store) lastCheckpoint(err error) {
	if err != nil {
		s.stats.WriteErrors++
		s.cutShort = true
	}
	s.closing = closeJournal
}
