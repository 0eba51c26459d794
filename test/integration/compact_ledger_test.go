package integration

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/net/wire"
	"github.com/mqd-broker/mqd/test/rig"
)

const (
	keyedParts = 4
	// tombstonesStay is delete.retention.ms.
	tombstonesStay = time.Second
	idHeader       = "id"
)

// keyedRecord is a record that was sent to a compacted topic.
type keyedRecord struct {
	writer, n int
	key       string // "": it has none
	deletes   bool   // it has no value
	sent      time.Time
	partition int32
	offset    int64 // -1: nobody has told
	unknown   bool  // and perhaps nobody ever will
}

func (r *keyedRecord) id() string { return fmt.Sprintf("%d/%d", r.writer, r.n) }

// record is what is sent. Its size and its content follow from its number.
func (r *keyedRecord) record() client.Record {
	rec := client.Record{Headers: []client.Header{{Key: idHeader, Value: []byte(r.id())}}}
	if r.key != "" {
		rec.Key = []byte(r.key)
	}
	if !r.deletes {
		rec.Value = []byte(strings.Repeat(r.id()+" ", 1+r.n%60))
	}
	return rec
}

// is reports whether key and value are those that were sent.
func (r *keyedRecord) is(key, value []byte) bool {
	want := r.record()
	return string(key) == string(want.Key) && (key == nil) == (want.Key == nil) &&
		string(value) == string(want.Value) && (value == nil) == (want.Value == nil)
}

// keyLedger holds what is read of a compacted topic against what was sent to it.
type keyLedger struct {
	mu    sync.Mutex
	sent  map[string]*keyedRecord            // by id
	keys  map[string][]*keyedRecord          // by key, as sent
	at    [keyedParts]map[int64]*keyedRecord // what is, or was, at an offset
	gone  [keyedParts]map[int64]bool         // offsets at which nothing was found once
	dead  map[*keyedRecord]bool              // tombstones that have gone for good
	wrong []string
}

func newKeyLedger() *keyLedger {
	l := &keyLedger{sent: map[string]*keyedRecord{}, keys: map[string][]*keyedRecord{}, dead: map[*keyedRecord]bool{}}
	for p := range l.at {
		l.at[p], l.gone[p] = map[int64]*keyedRecord{}, map[int64]bool{}
	}
	return l
}

// fail is called with the lock held.
func (l *keyLedger) fail(format string, args ...any) {
	l.wrong = append(l.wrong, fmt.Sprintf(format, args...))
}

// sends notes a record that is about to be sent.
func (l *keyLedger) sends(r *keyedRecord) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.sent, r.offset = time.Now(), -1
	l.sent[r.id()] = r
	if r.key != "" {
		l.keys[r.key] = append(l.keys[r.key], r)
	}
}

// told notes what became of a record.
func (l *keyLedger) told(r *keyedRecord, at client.Position, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case errors.Is(err, client.ErrOutcomeUnknown):
		r.unknown = true
	case err != nil:
		l.fail("%s: %v", r.id(), err)
	default:
		l.stands(r, at.Partition, at.Offset)
	}
}

// stands notes where a record is, or was when it was acknowledged.
func (l *keyLedger) stands(r *keyedRecord, partition int32, offset int64) {
	if r.offset >= 0 && (r.offset != offset || r.partition != partition) {
		l.fail("%s is at %d/%d and %d/%d", r.id(), r.partition, r.offset, partition, offset)
	}
	if other := l.at[partition][offset]; other != nil && other != r {
		l.fail("%d/%d is %s and %s", partition, offset, other.id(), r.id())
	}
	r.partition, r.offset = partition, offset
	l.at[partition][offset] = r
}

// found notes a record that was read.
func (l *keyLedger) found(partition int32, offset int64, id, key, value []byte) *keyedRecord {
	r := l.sent[string(id)]
	if r == nil || !r.is(key, value) {
		l.fail("%d/%d: %q with key %q and %d bytes was never sent", partition, offset, id, key, len(value))
		return nil
	}
	l.stands(r, partition, offset)
	return r
}

// mayGo reports whether a record may have gone by now.
func (l *keyLedger) mayGo(r *keyedRecord) bool {
	sent := l.keys[r.key]
	switch {
	case r.key == "":
		return false
	case sent[len(sent)-1] != r:
		return true
	}
	return r.deletes && time.Since(r.sent) >= tombstonesStay
}

// newest is the newest record of a key that is known to have been written, and whether one
// behind it may have deleted it.
func (l *keyLedger) newest(key string) (r *keyedRecord, deleted bool) {
	sent := l.keys[key]
	for i := len(sent) - 1; i >= 0; i-- {
		if r := sent[i]; r.offset >= 0 {
			return r, deleted
		} else if r.unknown && r.deletes {
			deleted = true
		}
	}
	return nil, deleted
}

// keyScan is one reading of a partition from its start to its end. Only one is made at a time.
type keyScan struct {
	*keyLedger
	partition int32
	began     time.Time
	next      int64
	state     map[string]*keyedRecord // the values that a reader has in the end
	last      map[int]int             // number of the newest record of each writer
	below     int64
	has       map[string]bool // keys of records below it
	stale     int             // records that another one below supersedes
}

func (l *keyLedger) scan(partition int32, below int64) *keyScan {
	return &keyScan{keyLedger: l, partition: partition, began: time.Now(), below: below,
		state: map[string]*keyedRecord{}, last: map[int]int{}, has: map[string]bool{}}
}

// read reads the partition and holds it against the ledger.
func (s *keyScan) read(c *rig.Conn, topic wire.TopicID) error {
	start, end, err := c.Bounds(topic, s.partition)
	if err != nil {
		return err
	}
	if start != 0 {
		return fmt.Errorf("partition %d starts at %d", s.partition, start)
	}
	var dec batch.Decoder
	for at := int64(0); at < end; {
		f, err := c.Fetch(wire.FetchRequest{Topic: topic, Partition: s.partition, Offset: at, MaxBytes: 1 << 20})
		if err != nil {
			return err
		}
		if f.Code != wire.CodeNone || f.NextOffset <= at {
			return fmt.Errorf("partition %d at %d: %v, next %d", s.partition, at, f.Code, f.NextOffset)
		}
		s.mu.Lock()
		err = s.answer(&dec, f.Batches)
		s.skip(f.NextOffset)
		s.mu.Unlock()
		if err != nil {
			return fmt.Errorf("partition %d at %d: %w", s.partition, at, err)
		}
		at = f.NextOffset
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.judge(end)
	return nil
}

// answer takes the batches of an answer. They leave no hole.
func (s *keyScan) answer(dec *batch.Decoder, batches []byte) error {
	for at := int64(-1); len(batches) > 0; {
		one, rest, err := batch.Split(batches)
		if err != nil {
			return err
		}
		h, it, err := dec.Open(one)
		if err != nil {
			return err
		}
		if at >= 0 && h.BaseOffset != at {
			return fmt.Errorf("a batch begins at %d where %d comes next", h.BaseOffset, at)
		}
		for it.Next() {
			if r := it.Record(); r.Offset >= s.next {
				s.record(&r)
			}
		}
		if it.Err() != nil {
			return it.Err()
		}
		at, batches = h.NextOffset(), rest
	}
	return nil
}

// skip notes that there is nothing up to an offset.
func (s *keyScan) skip(to int64) {
	for ; s.next < to; s.next++ {
		s.gone[s.partition][s.next] = true
		if r := s.at[s.partition][s.next]; r != nil && !s.mayGo(r) {
			s.fail("%d/%d: %s of key %q is missing", s.partition, s.next, r.id(), r.key)
		}
	}
}

func (s *keyScan) record(v *batch.RecordView) {
	s.skip(v.Offset)
	s.next++
	if s.gone[s.partition][v.Offset] {
		s.fail("%d/%d: what had gone is there again", s.partition, v.Offset)
	}
	var id []byte
	for it := v.Headers(); it.Next(); {
		id = it.Value()
	}
	r := s.found(s.partition, v.Offset, id, v.Key, v.Value)
	if r == nil {
		return
	}
	if n, ok := s.last[r.writer]; ok && n >= r.n {
		s.fail("%d/%d: %s comes behind number %d", s.partition, v.Offset, r.id(), n)
	}
	s.last[r.writer] = r.n
	if r.key == "" {
		return
	}
	if v.Offset < s.below {
		if s.has[r.key] {
			s.stale++
		}
		s.has[r.key] = true
	}
	s.state[r.key] = r
}

// judge compares what a reader knows in the end with what was acknowledged, for keys of which
// nothing was sent behind it.
func (s *keyScan) judge(end int64) {
	slow := time.Since(s.began) >= tombstonesStay // tombstones may have gone behind values that were read before
	for key, sent := range s.keys {
		want, deleted := s.newest(key)
		if want == nil || want.partition != s.partition || want.offset >= end || want != sent[len(sent)-1] && !sent[len(sent)-1].unknown {
			continue
		}
		got := s.state[key]
		switch {
		case got == want:
		case got == nil && want.deletes:
			s.dead[want] = true
		case got == nil && deleted:
		case got != nil && want.deletes && slow:
		default:
			s.fail("partition %d: key %q has %s, expected %s at %d", s.partition, key, idOf(got), want.id(), want.offset)
		}
	}
}

func idOf(r *keyedRecord) string {
	if r == nil {
		return "nothing"
	}
	return r.id()
}
