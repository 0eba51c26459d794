package batch

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
)

// A fetch in plain encoding is answered with the messages that follow each other
// in the partition, without a header:
//
//	count × { u64 offset · u32 length · u32 CRC-32 (IEEE) of the body · body }

// PlainFetchSize is the size in bytes of what precedes each body in a plain fetch
// answer.
const PlainFetchSize = 16

// Positions of a fetched message's fields from its start.
const (
	atFetchOffset = 0
	atFetchLength = 8
	atFetchCRC    = 12
)

var (
	_ = [1]struct{}{}[atFetchLength-(atFetchOffset+8)]
	_ = [1]struct{}{}[atFetchCRC-(atFetchLength+4)]
	_ = [1]struct{}{}[PlainFetchSize-(atFetchCRC+4)]
)

// AppendPlainFetch appends the plain fetch encoding of the records that it still
// has, from offset from on, to dst: their values only, a missing value like an
// empty one. It adds at most limit bytes and returns the offset at which to go
// on, with a new iterator over the same batch or the next one. If not even the
// first message fits, that is [ErrTooLarge]; the iterator's errors are passed on.
// Control batches hold no messages; the caller skips them. On failure the result is dst as it was. It allocates only on failure or if dst
// lacks the room.
func AppendPlainFetch(dst []byte, it *Iterator, from int64, limit int) (out []byte, next int64, err error) {
	out = dst
	for it.Next() {
		r := &it.rec
		if r.Offset < from {
			continue
		}
		n := PlainFetchSize + len(r.Value)
		if n > limit-(len(out)-len(dst)) {
			if len(out) == len(dst) {
				return dst, from, failRecord(ErrTooLarge, int(it.index)-1, "plain fetch message", 0, int64(limit), int64(n))
			}
			return out, r.Offset, nil
		}
		p := len(out)
		out = slices.Grow(out, n)[:p+n]
		binary.BigEndian.PutUint64(out[p+atFetchOffset:], uint64(r.Offset))
		binary.BigEndian.PutUint32(out[p+atFetchLength:], uint32(len(r.Value)))
		binary.BigEndian.PutUint32(out[p+atFetchCRC:], crc32.ChecksumIEEE(r.Value))
		copy(out[p+PlainFetchSize:], r.Value)
	}
	if it.err != nil {
		return dst, from, it.err
	}
	return out, max(from, it.base+int64(it.max)+1), nil
}

// PlainFetchIterator walks a plain fetch answer without allocating and checks it
// as it goes: lengths, CRCs, rising offsets. The bodies point into the answer.
type PlainFetchIterator struct {
	b      []byte
	p      int // position of the next message in b
	index  int // of the next message
	offset int64
	body   []byte
	err    error
}

// PlainFetched returns an iterator over b, the messages of a plain fetch answer.
func PlainFetched(b []byte) PlainFetchIterator {
	return PlainFetchIterator{b: b, offset: -1}
}

// Next goes to the next message and reports whether there is one. False means
// the end or an error.
func (it *PlainFetchIterator) Next() bool {
	if it.err != nil || it.p == len(it.b) {
		return false
	}
	m := it.b[it.p:]
	if len(m) < PlainFetchSize {
		it.err = failRecord(ErrTruncated, it.index, "plain fetch message", it.p, PlainFetchSize, int64(len(m)))
		return false
	}
	offset := int64(binary.BigEndian.Uint64(m[atFetchOffset:]))
	if offset <= it.offset {
		it.err = failRecord(ErrInvalid, it.index, "offset", it.p, it.offset+1, offset)
		return false
	}
	n := binary.BigEndian.Uint32(m[atFetchLength:])
	if left := len(m) - PlainFetchSize; uint64(n) > uint64(left) {
		it.err = failRecord(ErrTruncated, it.index, "message length", it.p+atFetchLength, int64(n), int64(left))
		return false
	}
	end := PlainFetchSize + int(n)
	body := m[PlainFetchSize:end:end]
	stored := binary.BigEndian.Uint32(m[atFetchCRC:])
	if sum := crc32.ChecksumIEEE(body); sum != stored {
		it.err = failRecord(ErrCorrupt, it.index, "message crc", it.p+atFetchCRC, int64(stored), int64(sum))
		return false
	}
	it.offset, it.body = offset, body
	it.p += end
	it.index++
	return true
}

// Offset returns the offset of the message that Next went to.
func (it *PlainFetchIterator) Offset() int64 { return it.offset }

// Body returns the body of the message that Next went to; it may be empty.
func (it *PlainFetchIterator) Body() []byte { return it.body }

// Err returns what ended the walk before the end of the answer: an [Error] of
// kind [ErrTruncated], [ErrCorrupt] or [ErrInvalid], or nil.
func (it *PlainFetchIterator) Err() error { return it.err }
