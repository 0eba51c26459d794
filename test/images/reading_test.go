package images

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/engine/recovery"
	"github.com/mqd-broker/mqd/engine/segment"
	"github.com/mqd-broker/mqd/net/wire"
	"github.com/mqd-broker/mqd/test/history"
)

// found is what a start has made of an image.
type found struct {
	err    error
	notes  []string // what it has told its operator
	stats  recovery.Stats
	topics map[wire.TopicID]*topicFound
	parts  map[layout.Key]*reading
}

type topicFound struct {
	name  string
	class history.Class
}

// reading is what a partition holds, from its start to its end.
type reading struct {
	start, end int64
	records    []record
}

// record is a message at an offset, or, without a value, a gap from there up to the
// next record or the end: one that is told of, or what has gone from a batch.
type record struct {
	offset int64
	value  []byte
	gone   bool
}

// Record and Skip implement rig.Reader.
func (r *reading) Record(offset int64, v *batch.RecordView) {
	if offset < r.end {
		r.records = append(r.records, record{offset: offset, value: slices.Clone(v.Value)})
	}
}

func (r *reading) Skip(from, to int64) { r.records = append(r.records, record{offset: from}) }

// Gone implements rig.Compacted.
func (r *reading) Gone(from, to int64) {
	r.records = append(r.records, record{offset: from, gone: true})
}

// into has a history judge the reading.
func (r *reading) into(p *history.Partition) {
	s := p.Scan(p.End(), r.start, r.end)
	for i, rec := range r.records {
		if rec.value != nil {
			s.Record(rec.offset, rec.value)
			continue
		}
		to := r.end
		if i+1 < len(r.records) {
			to = r.records[i+1].offset
		}
		if rec.gone {
			s.Gone(rec.offset, to)
		} else {
			s.Skip(rec.offset, to)
		}
	}
	s.Done()
}

// equal says how the readings differ.
func (r *reading) differs(o *reading) string {
	if r.start != o.start || r.end != o.end || len(r.records) != len(o.records) {
		return fmt.Sprintf("%d to %d with %d records and gaps, and %d to %d with %d", r.start, r.end, len(r.records), o.start, o.end, len(o.records))
	}
	for i := range r.records {
		if a, b := r.records[i], o.records[i]; a.offset != b.offset || a.gone != b.gone || string(a.value) != string(b.value) {
			return fmt.Sprintf("record %d, at offsets %d and %d", i, a.offset, b.offset)
		}
	}
	return ""
}

// judge holds what a start has found against what was known.
func judge(f *facts, got *found, ends ...func(*history.Partition)) error {
	switch {
	case got.err != nil:
		return fmt.Errorf("the start failed: %w", got.err)
	case got.stats.Damaged > 0 || got.stats.Losses > 0 || len(got.notes) > 0:
		return fmt.Errorf("the start reported %d damaged rounds and %d losses: %s", got.stats.Damaged, got.stats.Losses, strings.Join(got.notes, "; "))
	}
	for id, tp := range got.topics {
		switch known := f.topics[id]; {
		case known == nil && !f.asked[tp.name]:
			return fmt.Errorf("topic %s (%v) is there and was not created", tp.name, id)
		case known == nil:
		case known.gone:
			return fmt.Errorf("topic %s (%v) is there and was deleted", tp.name, id)
		case known.certain && tp.class != known.class:
			return fmt.Errorf("topic %s is of class %v, expected %v", tp.name, tp.class, known.class)
		}
	}
	for _, end := range ends {
		f.each(end)
	}
	for id, tp := range f.topics {
		if tp.going {
			continue
		}
		if got.topics[id] == nil {
			return fmt.Errorf("topic %s (%v) is not there", tp.name, id)
		}
		for n, p := range tp.parts {
			r := got.parts[tp.topic.parts[n].key()]
			if r == nil {
				r = &reading{}
			}
			r.into(p)
			if v := p.Violations(); len(v) > 0 {
				return fmt.Errorf("%v (%v): %v", tp.topic.parts[n], tp.class, v[0])
			}
		}
	}
	return nil
}

// diskReader reads what a recovery has left on the disk, where the state that it has
// handed out says it is.
type diskReader struct {
	fs     aio.FS
	buf    []byte
	values map[string][]byte // of messages, each once
}

func (d *diskReader) read(rec *recovery.Recovered, topics recovery.Topics, got *found) error {
	topics.Partitions(func(k layout.Key) {
		info, _ := topics.Topic(k.Topic)
		got.topics[wire.TopicID(k.Topic)] = &topicFound{info.Name, history.Class(info.Config.Class)}
	})
	for _, shard := range rec.Partitions {
		for _, st := range shard {
			info, status := topics.Topic(st.Key.Topic)
			if status != recovery.TopicLive {
				continue // the catalog itself, or deleted meanwhile
			}
			r, err := d.partition(layout.PartitionDir(dataDir, info.Name, st.Key), st)
			if err != nil {
				return fmt.Errorf("%s/%d: %w", info.Name, st.Key.Partition, err)
			}
			got.parts[st.Key] = r
		}
	}
	return nil
}

func (d *diskReader) partition(dir string, st *recovery.PartitionState) (*reading, error) {
	r := &reading{start: st.LogStart, end: st.NextOffset}
	next := st.LogStart
	skip := func(to int64) error {
		if to == next {
			return nil
		}
		if !st.Epochs.AllowsGap(next, to) {
			return fmt.Errorf("offset %d comes next, and then %d, and no gap is recorded", next, to)
		}
		r.Skip(next, to)
		next = to
		return nil
	}
	for _, s := range st.Segments {
		path := filepath.Join(dir, segment.LogName(s.Base))
		log, err := d.log(path, s.Size)
		for len(log) > 0 && err == nil {
			var one []byte
			if one, log, err = batch.Split(log); err != nil {
				break
			}
			var h batch.Header
			if h, err = batch.CheckStored(one); err != nil {
				break
			}
			if err = skip(h.BaseOffset); err == nil {
				err = d.records(r, &h, one)
			}
			next = h.NextOffset()
		}
		if err != nil {
			return r, fmt.Errorf("%s: %w", path, err)
		}
	}
	return r, skip(r.end)
}

// log reads the bytes of a segment; they are good until the next.
func (d *diskReader) log(path string, size int64) ([]byte, error) {
	f, err := d.fs.Open(path, 0)
	if err != nil {
		return nil, err
	}
	d.buf = slices.Grow(d.buf[:0], int(size))[:size]
	_, err = f.ReadAt(d.buf, 0)
	return d.buf, errors.Join(err, f.Close())
}

func (d *diskReader) records(r *reading, h *batch.Header, one []byte) error {
	it, next := h.Records(one[batch.AtRecords:]), h.BaseOffset
	gone := func(to int64) {
		if next < to {
			r.Gone(next, to)
		}
		next = to + 1
	}
	for it.Next() {
		v := it.Record()
		gone(v.Offset)
		value := d.values[string(v.Value)]
		if value == nil {
			value = slices.Clone(v.Value)
			d.values[string(value)] = value
		}
		r.records = append(r.records, record{offset: v.Offset, value: value})
	}
	gone(h.NextOffset())
	return it.Err()
}

// keys are the partitions that were found, in order.
func (g *found) keys() []layout.Key {
	return slices.SortedFunc(maps.Keys(g.parts), func(a, b layout.Key) int {
		if c := strings.Compare(string(a.Topic[:]), string(b.Topic[:])); c != 0 {
			return c
		}
		return int(a.Partition) - int(b.Partition)
	})
}
