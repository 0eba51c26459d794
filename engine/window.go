package engine

import (
	"time"

	"github.com/mqd-broker/mqd/engine/shard"
)

// The window of class written where a topic does not say otherwise.
const (
	writtenFlushInterval = time.Second
	writtenFlushBytes    = 64 << 20
)

// noteUnflushed counts n bytes of round lsn that are acknowledged before they are
// flushed and makes sure that the flush comes in time.
func (s *Store) noteUnflushed(p *Partition, lsn uint64, n int64) {
	interval, limit := int64(writtenFlushInterval), int64(writtenFlushBytes)
	if p.class == ClassWritten && p.cfg.FlushInterval > 0 {
		interval = int64(p.cfg.FlushInterval)
	}
	if p.class == ClassWritten && p.cfg.FlushBytes > 0 {
		limit = min(limit, p.cfg.FlushBytes)
	}
	s.unflushed.Add(lsn, n, limit)
	when := s.loop.Now() + interval
	if !s.flushTimer.Armed() || s.flushTimer.When() > when {
		s.loop.Arm(&s.flushTimer, when)
	}
}

// flushWritten submits the flush of what has been acknowledged without one, if it is
// due.
func (s *Store) flushWritten() {
	if s.unflushed.Due() {
		s.unflushed.Submitted(s.journal.Flush())
	}
}

type flushTimer Store

// Fire begins the flush of what has been acknowledged without one.
func (t *flushTimer) Fire(*shard.Timer, int64) { t.unflushed.Want() }

// exposed is an upper bound of what a power cut would take from a partition.
func (s *Store) exposed(p *Partition) int64 {
	if p.memory == 0 && s.unflushed.Bytes() == 0 {
		return 0
	}
	return s.unflushed.Bytes() + s.memoryBytes
}
