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

// flushWindow follows what has been acknowledged before it is flushed, so that the
// flush comes within the window that the topic's configuration names.
type flushWindow struct {
	bytes  int64  // acknowledged, or about to be, and not flushed
	newest uint64 // newest round with such bytes

	// The flush that is due: it has to be among it what the window held then. A
	// round that still fills, or waits behind another, is not yet.
	due      bool
	dueLSN   uint64
	dueBytes int64

	// The flush that is under way.
	flying      uint64
	flyingBytes int64
}

// want makes a flush due.
func (w *flushWindow) want() { w.due, w.dueLSN, w.dueBytes = true, w.newest, w.bytes }

// noteUnflushed counts n bytes of round lsn that are acknowledged before they are
// flushed and makes sure that the flush comes in time.
func (s *Store) noteUnflushed(p *Partition, lsn uint64, n int64) {
	w := &s.unflushed
	w.bytes += n
	w.newest = lsn
	interval, limit := int64(writtenFlushInterval), int64(writtenFlushBytes)
	if p.class == ClassWritten && p.cfg.FlushInterval > 0 {
		interval = int64(p.cfg.FlushInterval)
	}
	if p.class == ClassWritten && p.cfg.FlushBytes > 0 {
		limit = min(limit, p.cfg.FlushBytes)
	}
	if !w.due && w.bytes-w.flyingBytes >= limit {
		w.want()
	}
	when := s.loop.Now() + interval
	if !s.flushTimer.Armed() || s.flushTimer.When() > when {
		s.loop.Arm(&s.flushTimer, when)
	}
}

// flushWritten submits the flush of what has been acknowledged without one, if it is
// due.
func (s *Store) flushWritten() {
	w := &s.unflushed
	if w.due && s.journal.Flush() >= w.dueLSN {
		w.due = false
		w.flying, w.flyingBytes = w.dueLSN, w.dueBytes
	}
}

// flushedUpTo takes off what is flushed now.
func (w *flushWindow) flushedUpTo(flushed uint64) {
	switch {
	case flushed >= w.newest:
		w.bytes, w.flyingBytes, w.due = 0, 0, false
	case w.flyingBytes > 0 && flushed >= w.flying:
		w.bytes -= w.flyingBytes
		w.dueBytes -= w.flyingBytes
		w.flyingBytes = 0
	}
}

type flushTimer Store

// Fire begins the flush of what has been acknowledged without one.
func (t *flushTimer) Fire(*shard.Timer, int64) {
	if t.unflushed.bytes > 0 {
		t.unflushed.want()
	}
}

// exposed is an upper bound of what a power cut would take from a partition.
func (s *Store) exposed(p *Partition) int64 {
	if p.memory == 0 && s.unflushed.bytes == 0 {
		return 0
	}
	return s.unflushed.bytes + s.memoryBytes
}
