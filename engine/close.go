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
	}
}

// Closed reports whether the end that Close began has been reached. A store whose
// log has failed, or whose disk is full, ends without the last checkpoint.
func (s *Store) Closed() bool { return s.closing == closeDone }

// turnClose does the next step of an orderly end.
func (s *Store) turnClose(wall int64) {
	switch s.closing {
	case closeDraining:
		s.drain()
	case closeCheckpoint:
		if s.givesUp() {
			s.checkpoint.abandon()
			s.closing = closeJournal
		}
	case closeJournal:
		s.journal.Close(wall)
		busy := s.writing > 0 || s.seals.Len() > 0 || s.opens > 0 || s.checkpoint.stage == checkpointWrite
		if s.journal.Idle() && !busy {
			s.closing = closeDone
		}
	}
}

// givesUp reports whether the end does without the last checkpoint, because the log
// has failed or the disk is full. Nothing is lost by that: the next start finds in
// the journal what the segments have not.
func (s *Store) givesUp() bool { return s.failed != nil || s.fullDisk }

// drain waits until everything is acknowledged, and then begins the last checkpoint.
func (s *Store) drain() {
	flushed := s.flushMemory() || s.givesUp() // a full disk may have filled the ring
	if !flushed || s.written.Len() > 0 || s.flushing.Len() > 0 {
		s.journal.Flush()
		return
	}
	if s.givesUp() {
		s.checkpoint.abandon()
		s.closing = closeJournal
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
	}
	s.closing = closeJournal
}
