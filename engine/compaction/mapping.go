package compaction

import (
	"errors"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/segment"
)

// mapping is the job that finds the newest offset of each key in what has not been compacted
// yet. A run reads one piece.
type mapping struct {
	segs   []Segment
	from   int64 // offset up to which the log has been compacted
	lag    int64 // nanoseconds for which a record stays whatever comes behind it
	now    int64 // broker's time, nanoseconds since 1970
	budget int64 // bytes for keys

	keys *Keys
	to   int64 // all keys from from up to this offset are known
	more bool
	at   int // segment
	cur  cursor
	open bool // cur is in segs[at]

	bytes int64 // read by the last run
	blind int64 // base, and one, of the first segment whose keys are not all known; 0: none
}

// errFull ends a walk at a record whose key has no room any more.
var errFull = errors.New("no room for another key")

// Run implements aio.Job. A segment that is damaged is passed over: of its keys nothing is
// known, so that what they supersede stays.
func (m *mapping) Run(fs aio.FS) error {
	m.bytes = 0
	if m.keys == nil {
		m.keys = NewKeys(m.budget)
		m.to = m.from
	}
	for m.at < len(m.segs) && m.segs[m.at].Log.EndOffset <= m.from {
		m.at++
	}
	m.more = m.at < len(m.segs)
	if !m.more {
		return nil
	}
	s := &m.segs[m.at]
	if !m.open {
		if m.tooYoung(fs, s) {
			m.more = false
			return nil
		}
		buf, body := m.cur.buf, m.cur.body
		m.cur, m.open = newCursor(s), true
		m.cur.buf, m.cur.body = buf, body
	}
	before := m.cur.pos
	end, err := m.cur.read(fs, m.batch)
	m.bytes = m.cur.pos - before
	switch {
	case errors.Is(err, errFull):
		m.more = false
		return nil
	case errors.Is(err, segment.ErrCorrupt):
		end = true
		if m.blind == 0 {
			m.blind = s.Log.ID.Base + 1
		}
	case err != nil:
		return err
	}
	if end {
		m.to, m.open = s.Log.EndOffset, false
		m.at++
		m.more = m.at < len(m.segs)
	}
	return nil
}

// tooYoung reports whether the newest record of a segment has to stay for some time. Without
// an index it is as old as the segment behind.
func (m *mapping) tooYoung(fs aio.FS, s *Segment) bool {
	if m.lag <= 0 {
		return false
	}
	newest, ok := segment.SealedAppend(fs, s.Log.Dir, s.Log.ID, s.Bytes)
	if !ok {
		newest = s.Log.NeighbourAppend
	}
	return m.now-newest < m.lag
}

// batch enters the keys of a batch.
func (m *mapping) batch(h *batch.Header, b []byte) error {
	if h.Count == 0 || h.Attributes.Control() || h.LastOffset() < m.from {
		return nil
	}
	body, err := m.cur.expand(h, b)
	if err != nil {
		return nil // what it supersedes stays
	}
	it := h.Records(body)
	for it.Next() {
	}
	if it.Err() != nil {
		return nil // nobody can read it
	}
	it = h.Records(body)
	for it.Next() {
		r := it.Record()
		if r.Offset < m.from || r.Key == nil {
			continue
		}
		if !m.keys.Put(r.Key, r.Offset) {
			m.to = r.Offset
			return errFull
		}
	}
	return nil
}
