package producers

import (
	"cmp"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mqd-broker/mqd/batch"
)

// naive is the table as one would write it down: all batches of every producer, in the
// order in which they came.
type naive struct {
	limit   int
	expiry  int64
	list    []*naiveProducer // the one silent for longest first
	awaited map[[2]int64]naiveAwaited
}

// naiveAwaited is a batch that was judged where its producer could begin anywhere.
type naiveAwaited struct {
	at       int64
	epoch    int16
	sequence int32
}

// adopt is the verdict on a batch that may begin anywhere.
func (m *naive) adopt(log int, h *batch.Header, now int64) (Verdict, Batch) {
	key := [2]int64{int64(log), h.ProducerID}
	a, ok := m.awaited[key]
	if ok && now-a.at <= awaitedFor && a.epoch == h.ProducerEpoch && a.sequence != h.BaseSequence {
		return OutOfOrder, Batch{}
	}
	m.awaited[key] = naiveAwaited{at: now, epoch: h.ProducerEpoch, sequence: h.BaseSequence}
	return Fresh, Batch{}
}

type naiveProducer struct {
	log     int
	id      int64
	epoch   int16
	at      int64
	jumps   bool
	batches []Batch // of the epoch
}

func (m *naive) find(log int, id int64) *naiveProducer {
	for _, p := range m.list {
		if p.log == log && p.id == id {
			return p
		}
	}
	return nil
}

func (m *naive) remove(gone *naiveProducer) {
	m.list = slices.DeleteFunc(m.list, func(p *naiveProducer) bool { return p == gone })
}

// check judges in 64 bits, where sequence numbers do not wrap: the one that is meant is
// the one nearest to the newest.
func (m *naive) check(log int, h *batch.Header, now int64) (Verdict, Batch) {
	p := m.find(log, h.ProducerID)
	switch {
	case p == nil:
		return m.adopt(log, h, now)
	case now-p.at > m.expiry:
		m.remove(p)
		return m.adopt(log, h, now)
	case h.ProducerEpoch < p.epoch:
		return Fenced, Batch{}
	case h.ProducerEpoch > p.epoch && h.BaseSequence == 0:
		return Fresh, Batch{}
	case h.ProducerEpoch > p.epoch:
		return OutOfOrder, Batch{}
	}
	window := p.batches[max(0, len(p.batches)-Window):]
	const all = int64(1) << 31
	end := int64(window[0].Sequence) + all
	first := end
	for _, b := range window {
		for end%all != int64(b.Sequence) {
			end++
		}
		if b.Sequence == h.BaseSequence && b.Count == h.LastOffsetDelta+1 {
			return Duplicate, b
		}
		end += int64(b.Count)
	}
	meant := int64(h.BaseSequence)
	for meant < end-all/2 {
		meant += all
	}
	switch {
	case meant >= end && p.jumps:
		return m.adopt(log, h, now)
	case meant == end:
		return Fresh, Batch{}
	case meant < first:
		return Forgotten, Batch{}
	}
	return OutOfOrder, Batch{}
}

func (m *naive) add(log int, h *batch.Header, appendTime, now int64) {
	delete(m.awaited, [2]int64{int64(log), h.ProducerID})
	p := m.find(log, h.ProducerID)
	if p == nil {
		if len(m.list) == m.limit {
			m.list = m.list[1:]
		}
		p = &naiveProducer{log: log, id: h.ProducerID}
	}
	m.remove(p)
	m.list = append(m.list, p)
	if p.epoch != h.ProducerEpoch {
		p.batches = nil
	}
	p.epoch, p.at, p.jumps = h.ProducerEpoch, now, false
	p.batches = append(p.batches, Batch{Base: h.BaseOffset, AppendTime: appendTime, Sequence: h.BaseSequence, Count: h.LastOffsetDelta + 1})
}

// state is what a checkpoint says of a producer; ok is false where that is nothing.
func (p *naiveProducer) state(end int64) (st State, ok bool) {
	st = State{ID: p.id, Epoch: p.epoch, Jumps: p.jumps}
	for _, b := range p.batches[max(0, len(p.batches)-Window):] {
		if b.End() <= end {
			st.Batches[st.N] = b
			st.N++
		}
	}
	return st, st.N > 0
}

// newest is the time of the newest batch.
func (p *naiveProducer) newest() int64 { return p.batches[len(p.batches)-1].AppendTime }

// A table answers as the naive one does, whatever is appended, judged, dropped, lost,
// forgotten, or saved and restored in between.
func TestATableIsWhatOneWouldWriteDown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 12).Draw(t, "limit")
		m := &naive{limit: limit, expiry: int64(time.Second), awaited: map[[2]int64]naiveAwaited{}}
		w := &modelled{t: t, table: New(limit, time.Second), model: m, next: map[[2]int64]int32{}}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			w.step()
			w.agree()
		}
	})
}

// modelled drives both.
type modelled struct {
	t      *rapid.T
	table  *Table
	model  *naive
	logs   [3]Log
	now    int64
	offset int64
	next   map[[2]int64]int32 // sequence number that a producer would send next, by log and id
}

func (w *modelled) step() {
	t := w.t
	log := rapid.IntRange(0, len(w.logs)-1).Draw(t, "log")
	switch kind := rapid.IntRange(0, 20).Draw(t, "kind"); kind {
	case 0:
		w.now += int64(rapid.SampledFrom([]time.Duration{time.Millisecond, 500 * time.Millisecond, 2 * time.Second, 3 * time.Minute}).Draw(t, "time"))
	case 1:
		w.table.Drop(&w.logs[log])
		w.model.list = slices.DeleteFunc(w.model.list, func(p *naiveProducer) bool { return p.log == log })
		maps.DeleteFunc(w.model.awaited, func(key [2]int64, _ naiveAwaited) bool { return key[0] == int64(log) })
	case 2:
		w.table.Lost(&w.logs[log])
		for _, p := range w.model.list {
			p.jumps = p.jumps || p.log == log
		}
	case 3:
		w.restart()
	case 4:
		n := w.table.Expire(w.now, 3)
		for range n {
			if w.now-w.model.list[0].at <= w.model.expiry {
				t.Fatalf("a producer expired before its time")
			}
			w.model.list = w.model.list[1:]
		}
	default:
		w.produce(log)
	}
}

// produce judges a batch, and appends it if it is to be. Most follow what was sent last.
func (w *modelled) produce(log int) {
	t := w.t
	id := int64(rapid.IntRange(0, 5).Draw(t, "id"))
	key := [2]int64{int64(log), id}
	seq, known := w.next[key]
	if !known {
		seq = rapid.SampledFrom([]int32{0, 7, maxSequence - 3}).Draw(t, "first sequence")
	}
	h := batch.Header{ProducerID: id, BaseOffset: w.offset, LastOffsetDelta: int32(rapid.IntRange(0, 3).Draw(t, "count"))}
	h.BaseSequence = seq
	if p := w.model.find(log, id); p != nil {
		h.ProducerEpoch = p.epoch
		switch rapid.IntRange(0, 9).Draw(t, "sequence") {
		case 0, 1, 2: // again
			b := p.batches[len(p.batches)-1-rapid.IntRange(0, min(7, len(p.batches)-1)).Draw(t, "which")]
			h.BaseSequence, h.LastOffsetDelta = b.Sequence, b.Count-1
		case 3:
			h.BaseSequence = (seq + int32(rapid.IntRange(-20, 20).Draw(t, "off"))) & maxSequence
		case 4:
			h.ProducerEpoch += int16(rapid.IntRange(-1, 1).Draw(t, "epoch"))
			h.BaseSequence = rapid.SampledFrom([]int32{0, seq}).Draw(t, "sequence of the epoch")
		}
	}
	got, was := w.table.Check(&w.logs[log], &h, w.now)
	want, wanted := w.model.check(log, &h, w.now)
	if got != want || was != wanted {
		t.Fatalf("log %d, producer %d, epoch %d, sequence %d: %v %+v, want %v %+v", log, id, h.ProducerEpoch, h.BaseSequence, got, was, want, wanted)
	}
	if got != Fresh || rapid.IntRange(0, 5).Draw(t, "room") == 0 {
		return
	}
	w.table.Add(&w.logs[log], &h, w.now, w.now)
	w.model.add(log, &h, w.now, w.now)
	w.offset = h.NextOffset()
	w.next[key] = (h.BaseSequence + h.LastOffsetDelta + 1) & maxSequence
	w.now++ // no two are equally old
}

// restart saves what lies below some offset, restores it into a new table and appends
// what follows again.
func (w *modelled) restart() {
	t := w.t
	w.now++
	end := w.offset - int64(rapid.IntRange(0, 6).Draw(t, "behind the checkpoint"))
	table, old := New(w.model.limit, time.Second), w.logs
	w.logs = [3]Log{}
	var kept []*naiveProducer
	for log := range old {
		var states []State
		var st State
		for w.table.Walk(&old[log]); w.table.Walking(); {
			if w.table.Step(end, w.now, &st) {
				states = append(states, st)
			}
		}
		for _, st := range states {
			p := w.model.find(log, st.ID)
			if want, _ := p.state(end); st != want {
				t.Fatalf("state %+v, want %+v", st, want)
			}
		}
		table.Restore(&w.logs[log], states, w.now)
	}
	for _, p := range w.model.list {
		if st, ok := p.state(end); ok && w.now-p.at <= w.model.expiry {
			p.at, p.batches = w.now, slices.Clone(st.Batches[:st.N])
			kept = append(kept, p)
		}
	}
	slices.SortStableFunc(kept, func(a, b *naiveProducer) int { return cmp.Compare(a.newest(), b.newest()) })
	w.table, w.model.list = table, kept
	clear(w.model.awaited)
}

// agree compares what both have.
func (w *modelled) agree() {
	n := 0
	for log := range w.logs {
		got := w.table.States(&w.logs[log])
		n += len(got)
		if len(got) != w.logs[log].Len() {
			w.t.Fatalf("log %d: %d producers, %d counted", log, len(got), w.logs[log].Len())
		}
		for _, st := range got {
			p := w.model.find(log, st.ID)
			if p == nil {
				w.t.Fatalf("log %d: producer %d is there", log, st.ID)
			}
			if want, _ := p.state(1<<63 - 1); st != want {
				w.t.Fatalf("log %d: %+v, want %+v", log, st, want)
			}
		}
	}
	if n != len(w.model.list) || n != w.table.Len() {
		w.t.Fatalf("%d producers, %d counted, want %d", n, w.table.Len(), len(w.model.list))
	}
}
