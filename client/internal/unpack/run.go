// Package unpack checks and decompresses the record batches of an answer to a fetch.
package unpack

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/client/internal/link"
)

// target is how much decompressed data makes a Run large enough.
const target = 1 << 20

// plainPool holds memory for decompressed records; maxPooledPlain bounds a piece.
var plainPool = sync.Pool{New: func() any { return new([]byte) }}

const maxPooledPlain = 8 << 20

// plainPrefix is the length before each batch's records in Run.plain.
const plainPrefix = 8

// Run is a run of records: whole batches that were checked, and what they are
// decompressed.
type Run struct {
	// From is the first offset wanted: records before it are not counted.
	From int64
	// First and Last are the offsets of the first and the last record, N is their number.
	First, Last int64
	N           int
	// FirstEpoch and LastEpoch are the leader epochs of these two, 0 where there is none.
	FirstEpoch, LastEpoch int32

	raw   []byte
	plain *[]byte // decompressed records, each with a length; nil if there are none
}

// Take makes batches at the beginning of b part of the run: all, or until it is large,
// or up to the one that does not check. It returns what is left of b. limit bounds what
// one batch may be decompressed, in bytes. Errors are those of package batch, and
// [link.ErrProtocol] for offsets out of order. It is called once.
func (r *Run) Take(b []byte, limit int) (left []byte, err error) {
	left, r.Last = b, -1
	for len(left) > 0 {
		var next []byte
		if next, err = r.add(left, limit); err != nil {
			break
		}
		left = next
		if r.plain != nil && len(*r.plain) >= target {
			break
		}
	}
	r.raw = b[:len(b)-len(left)]
	return left, err
}

// add checks the first stored batch of rest and makes it part of the run. It returns
// what is left.
func (r *Run) add(rest []byte, limit int) ([]byte, error) {
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
		if body, err = r.decompress(h, body, limit); err != nil {
			return nil, err
		}
	}
	it := h.Records(body)
	last := max(r.Last, r.From-1)
	for it.Next() {
		offset := it.At().Offset
		if offset < r.From {
			continue
		}
		if offset <= last {
			return nil, fmt.Errorf("%w: offset %d follows %d", link.ErrProtocol, offset, last)
		}
		last = offset
		if r.N == 0 {
			r.First, r.FirstEpoch = offset, max(h.LeaderEpoch, 0)
		}
		r.LastEpoch = max(h.LeaderEpoch, 0)
		r.Last = offset
		r.N++
	}
	return rest, it.Err()
}

// decompress appends a batch's records to r.plain and returns them.
func (r *Run) decompress(h batch.Header, body []byte, limit int) ([]byte, error) {
	if r.plain == nil {
		r.plain = plainPool.Get().(*[]byte)
		*r.plain = (*r.plain)[:0]
	}
	at := len(*r.plain)
	out, err := batch.Decompress(append(*r.plain, make([]byte, plainPrefix)...), h, body, limit)
	if err != nil {
		*r.plain = (*r.plain)[:at]
		return nil, err
	}
	*r.plain = out
	records := out[at+plainPrefix:]
	binary.BigEndian.PutUint64(out[at:], uint64(len(records)))
	return records, nil
}

// Free gives the memory of the run back.
func (r *Run) Free() {
	if r.plain != nil && cap(*r.plain) <= maxPooledPlain {
		plainPool.Put(r.plain)
	}
	r.raw, r.plain, r.N = nil, nil, 0
}

// skipped reports whether a stored batch has nothing for a reader: transaction
// markers, and batches that compaction has emptied.
func skipped(h *batch.Header) bool { return h.Count == 0 || h.Attributes.Control() }

// Cursor walks what Take has checked, batch by batch.
type Cursor struct {
	// Epoch is the leader epoch of the batch that Next has returned.
	Epoch int32

	rest, plain []byte
}

// Batches begins to walk the run.
func (r *Run) Batches() Cursor {
	c := Cursor{rest: r.raw}
	if r.plain != nil {
		c.plain = *r.plain
	}
	return c
}

// Next is the records of the next batch, those before From included; false at the end.
func (c *Cursor) Next() (batch.Iterator, bool) {
	for len(c.rest) > 0 {
		h, err := batch.ParseHeader(c.rest)
		if err != nil || h.Size() > len(c.rest) {
			break // checked by Take
		}
		body := c.rest[batch.AtRecords:h.Size()]
		c.rest = c.rest[h.Size():]
		if skipped(&h) {
			continue
		}
		if h.Attributes.Codec() != batch.CodecNone {
			n := plainPrefix + int(binary.BigEndian.Uint64(c.plain))
			body, c.plain = c.plain[plainPrefix:n], c.plain[n:]
		}
		c.Epoch = max(h.LeaderEpoch, 0)
		return h.Records(body), true
	}
	return batch.Iterator{}, false
}
