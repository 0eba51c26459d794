package engine

import (
	"bytes"
	"slices"
	"strconv"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/layout"
)

// modelRecord is a record of a batch in a topic that is compacted. No other has its time.
type modelRecord struct {
	key   int    // below 0: none
	value []byte // nil: it deletes its key
	time  int64
	gone  bool // somebody has been shown that it is not there any more
}

// modelPlace is a record and where it stands.
type modelPlace struct {
	b *modelBatch
	i int
}

func (p modelPlace) offset() int64        { return p.b.base + int64(p.i) }
func (p modelPlace) record() *modelRecord { return &p.b.records[p.i] }

// modelKeys is the number of keys of a partition.
const modelKeys = 12

// compaction draws how a topic is compacted, mostly not at all.
func (m *modelRun) compaction() (c layout.Compaction) {
	if m.rng.IntN(3) != 0 {
		return c
	}
	pick := func(v ...time.Duration) time.Duration { return v[m.rng.IntN(len(v))] }
	return layout.Compaction{
		On: true, Dirty: m.rng.IntN(2) * 300,
		MinLag: pick(0, 0, 0, 300*time.Millisecond), Tombstones: pick(0, 200*time.Millisecond, time.Hour),
	}
}

// keyed builds a batch of records with keys, some of which delete, and some without.
func (m *modelRun) keyed(pr *modelProducer, records, size int) ([]byte, []modelRecord) {
	b := batch.NewBuilder(nil, m.opts.maxBatch)
	if pr != nil {
		b.SetProducer(pr.id, pr.epoch, pr.next)
	}
	var made []modelRecord
	for range records {
		m.serial++
		r := modelRecord{key: m.rng.IntN(modelKeys+1) - 1, time: int64(1000 + m.serial)}
		rec := batch.Record{Timestamp: r.time}
		if r.key >= 0 {
			rec.Key = []byte(strconv.Itoa(r.key))
		}
		if r.key < 0 || m.rng.IntN(6) != 0 {
			r.value = make([]byte, max(8, size))
			content(r.value, m.serial)
			rec.Value = r.value
		}
		if b.Count() > 0 && !b.Fits(&rec) {
			break
		}
		if err := b.Append(&rec); err != nil {
			m.failf("build: %v", err)
		}
		made = append(made, r)
	}
	return b.Finish([]batch.Codec{batch.CodecNone, batch.CodecLz4, batch.CodecZstd}[m.rng.IntN(3)]), made
}

// hurry has the cleaners do at once what they do later.
func (m *modelRun) hurry() {
	for _, s := range m.shards {
		if s.store.cleaner.Resting() {
			s.store.cleaner.Fire(nil, s.loop.Now())
		}
	}
}

// entered notes the records of a batch that has been appended.
func (m *modelPart) entered(b *modelBatch) {
	for i := range b.records {
		if r := &b.records[i]; r.key >= 0 {
			m.newest[r.key] = modelPlace{b, i}
		}
	}
}

// at is the batch that holds an offset, nil if there is none.
func (m *modelPart) at(offset int64) *modelBatch {
	for i := len(m.batches) - 1; i >= 0; i-- {
		if b := m.batches[i]; !b.dead && b.base <= offset && offset <= b.last {
			return b
		}
	}
	return nil
}

// checkCompacted checks an answer to a fetch at offset from a log that is, or was, compacted:
// no offset between its batches is left out, each record is what was appended there, and one
// that is not there has reason not to be. It returns how many batches and records there are.
func (m *modelPart) checkCompacted(offset int64, all []byte, next int64) (n, records int) {
	r, at := m.run, offset
	for ; len(all) > 0; n++ {
		b, rest, err := batch.Split(all)
		if err != nil {
			r.failf("%s: fetch at %d: %v", m.name(), offset, err)
		}
		h, it, err := m.dec.Open(b)
		if err != nil {
			r.failf("%s: fetch at %d: %v", m.name(), offset, err)
		}
		switch {
		case n == 0 && h.BaseOffset <= at && at <= h.LastOffset():
		case h.BaseOffset == at:
		case m.weak && m.part.epochs.AllowsGap(at, h.BaseOffset):
		default:
			r.failf("%s: fetch at %d: expected a batch at %d, found %d to %d", m.name(), offset, at, h.BaseOffset, h.LastOffset())
		}
		if h.LastOffset() >= m.part.Durable() {
			r.failf("%s: served up to %d, durable %d", m.name(), h.LastOffset(), m.part.Durable())
		}
		o := h.BaseOffset
		for it.Next() {
			rec := it.Record()
			for ; o < rec.Offset; o++ {
				m.absent(o)
			}
			m.present(&rec)
			o++
		}
		if it.Err() != nil {
			r.failf("%s: batch at %d: %v", m.name(), h.BaseOffset, it.Err())
		}
		for ; o <= h.LastOffset(); o++ {
			m.absent(o)
		}
		m.covered = append(m.covered, [2]int64{h.BaseOffset, h.LastOffset()})
		at, all, records = h.NextOffset(), rest, records+int(h.Count)
	}
	if n > 0 && next != at {
		r.failf("%s: fetch at %d: next %d behind a batch that ends at %d", m.name(), offset, next, at)
	}
	return n, records
}

// shown is the batch of an offset that has been served, with or without its record.
func (m *modelPart) shown(offset int64) modelPlace {
	b := m.at(offset)
	if b == nil {
		m.run.failf("%s: offset %d is served, which nobody has appended or which was lost", m.name(), offset)
	}
	m.observe(b)
	if m.part.Class() == ClassFlushed && b.class == ClassFlushed && !m.changing && !m.weak {
		b.kill, b.cut = true, true
	}
	return modelPlace{b, int(offset - b.base)}
}

// present checks a record that has been served.
func (m *modelPart) present(rec *batch.RecordView) {
	if rec.Offset < m.part.LogStart() { // the batch begins below it
		return
	}
	p := m.shown(rec.Offset)
	r, run := p.record(), m.run
	key := ""
	if r.key >= 0 {
		key = strconv.Itoa(r.key)
	}
	if rec.Timestamp != r.time || string(rec.Key) != key || (rec.Value == nil) != (r.value == nil) || !bytes.Equal(rec.Value, r.value) {
		run.failf("%s: offset %d: key %q, %d bytes, time %d; appended %+v", m.name(), rec.Offset, rec.Key, len(rec.Value), rec.Timestamp, *r)
	}
	if r.gone {
		run.failf("%s: the record at %d was gone and is back", m.name(), rec.Offset)
	}
	if r.key < 0 {
		return
	}
	if newest := m.newest[r.key]; newest.b != nil && newest.offset() > rec.Offset && newest.record().gone {
		run.failf("%s: the record at %d is there, which the one at %d, which is gone, has deleted", m.name(), rec.Offset, newest.offset())
	}
}

// absent checks that a record that is not there any more may be gone. The answer may begin
// below the log start, where nothing has to be.
func (m *modelPart) absent(offset int64) {
	if offset < m.part.LogStart() {
		return
	}
	p := m.shown(offset)
	if p.record().gone {
		return
	}
	p.record().gone = true
	m.run.compacted++
	m.mayBeGone(p)
	if age := m.run.w.Now() - p.b.at; age < int64(m.topic.least.MinLag) {
		m.run.failf("%s: the record at %d is gone after %v, the lag is %v", m.name(), offset, time.Duration(age), m.topic.least.MinLag)
	}
}

// mayBeGone checks that a record has been superseded by one that others can see, or that it
// has itself deleted its key and stayed for its time.
func (m *modelPart) mayBeGone(p modelPlace) {
	r := p.record()
	if r.key < 0 {
		m.run.failf("%s: the record at %d is gone, and has no key", m.name(), p.offset())
	}
	for i := len(m.batches) - 1; i >= 0; i-- {
		b := m.batches[i]
		if b.dead || b.last <= p.offset() || b.last >= m.part.Durable() {
			continue
		}
		for j := range b.records {
			if b.records[j].key == r.key && b.base+int64(j) > p.offset() {
				return
			}
		}
	}
	age := time.Duration(m.run.w.Now() - p.b.at)
	if r.value != nil || age < m.topic.least.Tombstones {
		m.run.failf("%s: the record at %d, the newest with key %d (%d bytes), is gone after %v", m.name(), p.offset(), r.key, len(r.value), age)
	}
}

// survivorsCompacted decides behind a start, which has found what covered says, what became
// of each batch, and whether what compaction has taken is still superseded.
func (m *modelPart) survivorsCompacted(cut bool) {
	for _, b := range m.batches {
		must := b.kill && !cut || b.cut
		switch {
		case b.dead:
		case b.last < m.start:
			b.dead = true
		case m.isCovered(max(b.base, m.start), b.last):
			b.kill, b.cut = true, true
		case must:
			m.run.failf("%s: the batch at %d to %d (class %v, acknowledged: %v) is lost", m.name(), b.base, b.last, b.class, b.acked)
		default:
			b.dead = true
		}
	}
	clear(m.newest)
	for _, b := range m.batches {
		if !b.dead {
			m.entered(b)
		}
	}
	for _, b := range m.batches {
		for i := range b.records {
			if p := (modelPlace{b, i}); !b.dead && b.records[i].gone && p.offset() >= m.start {
				m.mayBeGone(p)
			}
		}
	}
}

// isCovered reports whether the batches that were read last hold all offsets from first to
// last. They are in order.
func (m *modelPart) isCovered(first, last int64) bool {
	for _, c := range m.covered {
		if c[0] <= first && first <= c[1] {
			first = c[1] + 1
		}
	}
	return first > last
}

// compactedHome waits until no compaction is under way in the directory of a partition.
func (m *modelRun) compactedHome(p *Partition) {
	m.until("the end of a compaction", func() bool {
		for range 50 {
			m.hurry()
			m.turn()
		}
		return p.store.cleaner.Resting() && p.store.indexes.Sealing() == 0 && !slices.ContainsFunc(m.names(p.dir), aio.IsTemp)
	})
}
