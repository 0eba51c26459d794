package client

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/client/internal/link"
	"github.com/mqd-broker/mqd/net/wire"
)

// Batch is a run of records of one partition, in order of their offsets. Its
// memory is pooled: call Release when done. A batch that is not released is
// collected as garbage, which is merely slower.
type Batch struct {
	Topic     string
	Partition int32
	// First and Last are the offsets of the first and the last record.
	First, Last int64
	// HighWatermark is the end of what could be read when the batch was fetched.
	HighWatermark int64

	n     int
	from  int64        // records before it are not part of the batch
	buf   *link.Buffer // holds raw
	raw   []byte       // whole record batches, checked
	plain *[]byte      // decompressed records, each with a length; nil if there are none
}

// decodeTarget is how much decompressed data makes a Batch large enough.
const decodeTarget = 1 << 20

// plainPool holds memory for decompressed records; maxPooledPlain bounds a piece.
var plainPool = sync.Pool{New: func() any { return new([]byte) }}

const maxPooledPlain = 8 << 20

// plainPrefix is the length before each batch's records in Batch.plain.
const plainPrefix = 8

// Len is the number of records.
func (b *Batch) Len() int { return b.n }

// Records iterates over the records. They are views into the batch's memory.
func (b *Batch) Records() iter.Seq[RecordView] {
	return func(yield func(RecordView) bool) { b.each(yield) }
}

// each walks what add has checked.
func (b *Batch) each(yield func(RecordView) bool) {
	var plain []byte
	if b.plain != nil {
		plain = *b.plain
	}
	for rest := b.raw; len(rest) > 0; {
		h, err := batch.ParseHeader(rest)
		if err != nil || h.Size() > len(rest) {
			return // checked by add
		}
		body := rest[batch.AtRecords:h.Size()]
		rest = rest[h.Size():]
		if skipped(&h) {
			continue
		}
		if h.Attributes.Codec() != batch.CodecNone {
			n := plainPrefix + int(binary.BigEndian.Uint64(plain))
			body, plain = plain[plainPrefix:n], plain[n:]
		}
		it := h.Records(body)
		for it.Next() {
			r := it.Record()
			if r.Offset < b.from {
				continue
			}
			if !yield(viewOf(&r)) {
				return
			}
		}
	}
}

func viewOf(r *batch.RecordView) RecordView {
	v := RecordView{Offset: r.Offset, Key: r.Key, Value: r.Value, view: *r}
	if r.Timestamp != batch.NoTimestamp {
		v.Time = time.UnixMilli(r.Timestamp)
	}
	return v
}

// skipped reports whether a stored batch has nothing for a reader: transaction
// markers, and batches that compaction has emptied.
func skipped(h *batch.Header) bool { return h.Count == 0 || h.Attributes.Control() }

// Release gives the batch's memory back. Its records are gone then. A second
// call does nothing.
func (b *Batch) Release() {
	if b.buf != nil {
		b.buf.Release()
	}
	if b.plain != nil && cap(*b.plain) <= maxPooledPlain {
		plainPool.Put(b.plain)
	}
	b.buf, b.raw, b.plain, b.n = nil, nil, nil, 0
}

// add checks the first stored batch of rest and makes it part of b. It returns
// what is left.
func (b *Batch) add(rest []byte, limit int) ([]byte, error) {
	first, rest, err := batch.Split(rest)
	if err != nil {
		return nil, err
	}
	h, err := batch.CheckStored(first)
	if err != nil {
		return nil, err
	}
	if skipped(&h) {
		return rest, nil
	}
	body := first[batch.AtRecords:]
	if h.Attributes.Codec() != batch.CodecNone {
		if body, err = b.decompress(h, body, limit); err != nil {
			return nil, err
		}
	}
	it := h.Records(body)
	last := max(b.Last, b.from-1)
	for it.Next() {
		r := it.Record()
		if r.Offset < b.from {
			continue
		}
		if r.Offset <= last {
			return nil, fmt.Errorf("%w: offset %d follows %d", ErrProtocol, r.Offset, last)
		}
		last = r.Offset
		if b.n == 0 {
			b.First = r.Offset
		}
		b.Last = r.Offset
		b.n++
	}
	return rest, it.Err()
}

// decompress appends a batch's records to b.plain and returns them.
func (b *Batch) decompress(h batch.Header, body []byte, limit int) ([]byte, error) {
	if b.plain == nil {
		b.plain = plainPool.Get().(*[]byte)
		*b.plain = (*b.plain)[:0]
	}
	at := len(*b.plain)
	out, err := batch.Decompress(append(*b.plain, make([]byte, plainPrefix)...), h, body, limit)
	if err != nil {
		*b.plain = (*b.plain)[:at]
		return nil, err
	}
	*b.plain = out
	records := out[at+plainPrefix:]
	binary.BigEndian.PutUint64(out[at:], uint64(len(records)))
	return records, nil
}

// open turns the first answer of the feed, or a part of it, into a Batch. Both
// results are nil if it had nothing for a reader. The consumer's lock is held,
// and given up while the records are checked.
func (f *feed) open() (*Batch, error) {
	co, a, epoch := f.co, f.answers[0], f.epoch
	b := &Batch{
		Topic: f.name, Partition: f.partition, HighWatermark: a.durable,
		Last: -1, from: f.position, buf: a.buf,
	}
	f.opening = true
	co.mu.Unlock()

	rest, err := a.rest, error(nil)
	for len(rest) > 0 {
		var left []byte
		if left, err = b.add(rest, co.cfg.decode); err != nil {
			break
		}
		rest = left
		if b.plain != nil && len(*b.plain) >= decodeTarget {
			break
		}
	}
	b.raw = a.rest[:len(a.rest)-len(rest)]

	co.mu.Lock()
	f.opening = false
	if f.epoch != epoch {
		// A seek came between, and left this answer to us.
		a.buf.Release()
		b.buf = nil
		b.Release()
		f.list()
		return nil, nil
	}
	a.rest = rest
	a.buf.Retain()
	if b.n > 0 {
		f.position = b.Last + 1
	}
	kick := f.after(a, b, err)
	if b.n > 0 {
		co.c.counters.fetchedRecords.Add(uint64(b.n))
		err = nil // comes back with the next batch, as its first
	} else {
		b.Release()
		b = nil
	}
	if kick != nil {
		co.mu.Unlock()
		kick.Kick()
		co.mu.Lock()
	}
	return b, f.damaged(err)
}

// after moves the feed on when b was taken from answer a.
func (f *feed) after(a *answer, b *Batch, err error) *link.Link {
	if err != nil && b.n == 0 {
		// Fetch the same again, later: the bytes may have changed on the way.
		f.drop()
		f.offset = f.position
		f.retry()
		return nil
	}
	if len(a.rest) == 0 {
		f.position = max(f.position, a.next)
		a.buf.Release()
		f.answers = append(f.answers[:0], f.answers[1:]...)
	}
	if len(f.answers) == 0 {
		f.position = f.offset // answers without records may have come meanwhile
	}
	f.list()
	return f.fetchMore()
}

// damaged is the error of a batch that does not check.
func (f *feed) damaged(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, batch.ErrCorrupt) {
		err = fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	e := feedError(f, wire.CodeNone, err)
	e.Retriable = true
	return e
}
