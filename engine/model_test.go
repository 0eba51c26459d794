package engine

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sort"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine/layout"
)

// modelBatch is a batch that an append has accepted.
type modelBatch struct {
	req   Append
	m     *modelPart
	bytes []byte // as stamped
	base  int64
	last  int64
	class Class // in force when it was appended
	done  bool
	acked bool
	// kill and cut say whether it must survive the end of the process, and a
	// loss of power.
	kill, cut bool
	dead      bool // a recovery has not found it
	newer     int  // batches of its producer that came behind it

	records []modelRecord // where the topic is compacted
	at      int64         // when it was appended, of the world\'s time
}

// Appended notes the acknowledgement.
func (b *modelBatch) Appended(a *Append) {
	r := b.m.run
	b.done = true
	r.unacked--
	if a.Err != nil {
		if r.mayFail {
			return
		}
		r.failf("append at %d of %s: %v", b.base, b.m.name(), a.Err)
	}
	if a.Base != b.base || a.Class < b.class && !b.m.changing {
		r.failf("%s: acknowledged at %d as %v, appended at %d under %v", b.m.name(), a.Base, a.Class, b.base, b.class)
	}
	b.acked = true
	b.kill = a.Class >= ClassWritten
	b.cut = a.Class == ClassFlushed
	b.m.observe(b)
	if d := b.m.part.Durable(); d <= b.last {
		r.failf("%s: acknowledged up to %d, durable %d", b.m.name(), b.last, d)
	}
}

// modelPart is what the model knows of a partition.
type modelPart struct {
	run      *modelRun
	topic    *modelTopic
	n        int
	part     *Partition
	batches  []*modelBatch // in the order of appending
	seen     []*modelBatch // acknowledged or served, by base, one for each offset
	durable  int64         // the largest that has been shown
	start    int64         // the largest log start that has been shown
	trim     int64         // the largest that has been asked for
	weak     bool          // the class has been weaker than flushed
	changing bool          // a change of class is under way

	producers [2]*modelProducer

	newest  map[int]modelPlace // by key, where the topic is compacted
	covered [][2]int64         // offsets that the batches read last have
	dec     batch.Decoder
}

type modelTopic struct {
	id    TopicID
	parts []*modelPart
	class Class
	gone  bool

	keyed      bool              // it is, or was, compacted
	compaction layout.Compaction // now
	least      layout.Compaction // the least that held at any time
}

func (m *modelPart) name() string { return fmt.Sprintf("partition %x/%d", m.topic.id[0], m.n) }

// observe notes that b's offsets have been shown to somebody: no others may
// ever stand there.
func (m *modelPart) observe(b *modelBatch) {
	i := sort.Search(len(m.seen), func(i int) bool { return m.seen[i].last >= b.base })
	if i < len(m.seen) && m.seen[i].base <= b.last {
		if m.seen[i] != b {
			m.run.failf("%s: offsets %d to %d have two contents: %d to %d were shown before",
				m.name(), b.base, b.last, m.seen[i].base, m.seen[i].last)
		}
		return
	}
	m.seen = append(m.seen, nil)
	copy(m.seen[i+1:], m.seen[i:])
	m.seen[i] = b
}

// find is the batch with these bytes, or a failure: nothing is invented.
func (m *modelPart) find(h *batch.Header, b []byte) *modelBatch {
	for i := len(m.batches) - 1; i >= 0; i-- {
		if c := m.batches[i]; c.base == h.BaseOffset && bytes.Equal(c.bytes, b) {
			return c
		}
	}
	m.run.failf("%s: a batch at %d of %d bytes that nobody has appended", m.name(), h.BaseOffset, len(b))
	return nil
}

// check checks an answer to a fetch at offset, and returns how many batches it has.
func (m *modelPart) check(offset int64, all []byte, next int64) []*modelBatch {
	r, at := m.run, offset
	var got []*modelBatch
	for len(all) > 0 {
		b, rest, err := batch.Split(all)
		if err != nil {
			r.failf("%s: fetch at %d: %v", m.name(), offset, err)
		}
		h, err := batch.CheckStored(b)
		if err != nil {
			r.failf("%s: fetch at %d: %v", m.name(), offset, err)
		}
		c := m.find(&h, b)
		switch {
		case c.dead:
			r.failf("%s: the batch at %d was lost and is back", m.name(), c.base)
		case len(got) == 0 && c.base <= at && at <= c.last:
		case c.base == at:
		case m.weak && m.part.epochs.AllowsGap(at, c.base):
		default:
			r.failf("%s: fetch at %d: expected a batch at %d, found %d to %d", m.name(), offset, at, c.base, c.last)
		}
		if c.last >= m.part.Durable() {
			r.failf("%s: served up to %d, durable %d", m.name(), c.last, m.part.Durable())
		}
		m.observe(c)
		if m.part.Class() == ClassFlushed && c.class == ClassFlushed && !m.changing && !m.weak {
			c.kill, c.cut = true, true
		}
		got = append(got, c)
		at, all = c.last+1, rest
	}
	if len(got) > 0 && next != at {
		r.failf("%s: fetch at %d: next %d behind a batch that ends at %d", m.name(), offset, next, at)
	}
	return got
}

// watch checks what never goes back.
func (m *modelPart) watch() {
	p := m.part
	if p.Durable() < m.durable {
		m.run.failf("%s: durable %d after %d", m.name(), p.Durable(), m.durable)
	}
	if p.LogStart() < m.start || p.LogStart() > m.trim {
		m.run.failf("%s: log start %d after %d, asked for %d", m.name(), p.LogStart(), m.start, m.trim)
	}
	if p.LogStart() > p.Durable() || p.Durable() > p.End() {
		m.run.failf("%s: log start %d, durable %d, end %d", m.name(), p.LogStart(), p.Durable(), p.End())
	}
	m.durable, m.start = p.Durable(), p.LogStart()
}

// modelRead is a fetch under way, or one whose memory is still in use.
type modelRead struct {
	Read
	m      *modelPart
	done   bool
	copy   []byte
	issued int64
}

func (f *modelRead) ReadDone(*Read) {
	r := f.m.run
	f.done = true
	if f.Err != nil {
		if f.m.topic.gone && f.Err == ErrDropped || f.Err == ErrOutOfRange && f.Offset < f.m.part.LogStart() {
			return
		}
		r.failf("%s: fetch at %d: %v", f.m.name(), f.Offset, f.Err)
	}
	for i := 0; i < f.N; i++ {
		f.copy = append(f.copy, f.Pieces[i]...)
	}
	got, records := 0, 0
	if f.m.topic.keyed {
		f.m.covered = f.m.covered[:0]
		got, records = f.m.checkCompacted(f.Offset, f.copy, f.Next)
	} else {
		for _, b := range f.m.check(f.Offset, f.copy, f.Next) {
			got, records = got+1, records+int(b.last-b.base+1)
		}
	}
	switch {
	case got > 1 && (f.Bytes > f.MaxBytes || f.MaxRecords > 0 && records > f.MaxRecords):
		r.failf("%s: fetch at %d: %d bytes, %d records; asked for %d and %d", f.m.name(), f.Offset, f.Bytes, records, f.MaxBytes, f.MaxRecords)
	case got == 0 && f.m.part.epochs.SkipGap(f.Offset) < f.m.part.Durable():
		r.failf("%s: fetch at %d: nothing, durable %d", f.m.name(), f.Offset, f.m.part.Durable())
	case got == 0 && r.w.Now() < f.Until:
		r.failf("%s: fetch at %d: nothing, %d ns early", f.m.name(), f.Offset, f.Until-r.w.Now())
	}
}

// release checks that the memory of an answer has stayed as it was, and gives it
// back.
func (f *modelRead) release() {
	var now []byte
	for i := 0; i < f.N; i++ {
		now = append(now, f.Pieces[i]...)
	}
	if !bytes.Equal(now, f.copy) {
		f.m.run.failf("%s: memory of a fetch at %d has changed before its release", f.m.name(), f.Offset)
	}
	f.m.part.store.Release(&f.Read)
}

// survivors reads a partition whole after a start and decides what became of each
// batch.
func (m *modelPart) survivors(cut bool) {
	r, found := m.run, map[*modelBatch]bool{}
	var covered [][2]int64
	m.watch()
	for at := m.start; at < m.part.Durable(); {
		f := &modelRead{m: m}
		f.Part, f.Offset, f.MaxBytes, f.Owner = m.part, at, 1<<16, f
		m.part.store.Read(&f.Read)
		r.until("read", func() bool { return f.done })
		if m.topic.keyed {
			covered = append(covered, m.covered...)
		} else {
			for _, b := range m.check(at, f.copy, f.Next) {
				found[b] = true
			}
		}
		if f.Next <= at {
			r.failf("%s: fetch at %d: next %d", m.name(), at, f.Next)
		}
		at = f.Next
		f.release()
	}
	if m.topic.keyed {
		m.covered = covered
		m.survivorsCompacted(cut)
		return
	}
	for _, b := range m.batches {
		must := b.kill && !cut || b.cut
		switch {
		case b.dead:
		case b.last < m.start:
			b.dead = true
		case found[b]:
			b.kill, b.cut = true, true // recovery has made it durable
		case must:
			r.failf("%s: the batch at %d to %d (class %v, acknowledged: %v) is lost", m.name(), b.base, b.last, b.class, b.acked)
		default:
			b.dead = true
		}
	}
}

// content fills b with bytes that no other batch has.
func content(b []byte, serial uint64) {
	var seed [8]byte
	binary.BigEndian.PutUint64(seed[:], serial)
	for i := range b {
		if i < 8 {
			b[i] = seed[i]
			continue
		}
		b[i] = byte(serial) ^ byte(i*7)
	}
}
