package batch

import (
	"encoding/binary"
	"hash/crc32"
	"slices"

	"github.com/mqd-broker/mqd/internal/invariant"
)

// The plain batch is the encoding for producers that cannot build varints:
//
//	u32 total bytes, this field included
//	u32 message count
//	u32 body bytes
//	count × { u32 length · u32 CRC-32 (IEEE) of the body · body }
//
// with total = 12 + 8 × count + body bytes, and the lengths adding up to the body
// bytes. plain_fetch.go has the encoding of the way back.

// Sizes of the plain batch in bytes.
const (
	PlainHeaderSize  = 12 // before the first message
	PlainMessageSize = 8  // before each body
)

// Positions of the plain batch's fields from its start, and of a message's from
// the message's.
const (
	atPlainTotal = 0
	atPlainCount = 4
	atPlainBody  = 8

	atMessageLength = 0
	atMessageCRC    = 4
)

var (
	_ = [1]struct{}{}[atPlainCount-(atPlainTotal+4)]
	_ = [1]struct{}{}[atPlainBody-(atPlainCount+4)]
	_ = [1]struct{}{}[PlainHeaderSize-(atPlainBody+4)]
	_ = [1]struct{}{}[atMessageCRC-(atMessageLength+4)]
	_ = [1]struct{}{}[PlainMessageSize-(atMessageCRC+4)]
)

// plainRecordOverhead is the most that a message's record takes beyond its body:
// record length, attributes, timestamp delta 0, offset delta, no key, value
// length, no headers.
const plainRecordOverhead = maxVarint32 + 1 + 1 + maxVarint32 + 1 + maxVarint32 + 1

// PlainHeader is the header of a plain batch.
type PlainHeader struct {
	Total uint32 // bytes of the plain batch
	Count uint32 // messages
	Body  uint32 // bytes of all bodies together
}

// ParsePlainHeader decodes the 12 bytes at the start of b, which may be shorter or
// longer than the plain batch. It returns [ErrTruncated], [ErrTooLarge] for a
// total above max or [MaxSize], and [ErrInvalid] for fields that do not add up
// or a batch without messages. What it accepts may size a buffer.
func ParsePlainHeader(b []byte, max int) (PlainHeader, error) {
	if len(b) < PlainHeaderSize {
		return PlainHeader{}, fail(ErrTruncated, "plain header", 0, PlainHeaderSize, int64(len(b)))
	}
	h := PlainHeader{
		Total: binary.BigEndian.Uint32(b[atPlainTotal:]),
		Count: binary.BigEndian.Uint32(b[atPlainCount:]),
		Body:  binary.BigEndian.Uint32(b[atPlainBody:]),
	}
	if limit := int64(min(max, MaxSize)); int64(h.Total) > limit {
		return PlainHeader{}, fail(ErrTooLarge, "plain total", atPlainTotal, limit, int64(h.Total))
	}
	sum := PlainHeaderSize + PlainMessageSize*int64(h.Count) + int64(h.Body)
	if sum != int64(h.Total) {
		return PlainHeader{}, fail(ErrInvalid, "plain total", atPlainTotal, sum, int64(h.Total))
	}
	if h.Count == 0 {
		return PlainHeader{}, fail(ErrInvalid, "plain count", atPlainCount, 1, 0)
	}
	return h, nil
}

// CheckPlain decides whether b is exactly one plain batch of at most max bytes:
// the fields add up exactly, also with every message's length, and every
// message's CRC matches ([ErrCorrupt]). It allocates only on failure.
func CheckPlain(b []byte, max int) (PlainHeader, error) {
	h, err := checkPlainShape(b, max)
	if err != nil {
		return PlainHeader{}, err
	}
	it := PlainMessages(b)
	for it.Next() {
		if err := it.checkBody(); err != nil {
			return PlainHeader{}, err
		}
	}
	return h, nil
}

// PlainBatchBound returns the most bytes that [PlainToBatch] can make of a plain
// batch with this header.
func PlainBatchBound(h PlainHeader) int {
	return HeaderSize + int(h.Body) + plainRecordOverhead*int(h.Count)
}

// PlainToBatch checks b as [CheckPlain] does, without a limit below [MaxSize],
// and appends to dst the record batch that holds its messages: one record each,
// the body as value, no key, no headers, all with timestamp nowMs (milliseconds
// since 1970), without compression. The batch may be larger than b, so the limit
// on batches holds for the result: up to [PlainBatchBound]. It allocates only on
// failure or if dst lacks the room. On failure the result is dst as it was.
func PlainToBatch(dst, b []byte, nowMs int64) ([]byte, error) {
	h, err := checkPlainShape(b, MaxSize)
	if err != nil {
		return dst, err
	}
	size := HeaderSize
	it := PlainMessages(b)
	for it.Next() {
		size += sizeWithLength(plainRecordBody(it.body, it.index))
	}
	if size > MaxSize {
		return dst, fail(ErrTooLarge, "plain total", atPlainTotal, MaxSize, int64(size))
	}
	start := len(dst)
	out := slices.Grow(dst, size)[:start+size]
	p := start + HeaderSize
	it = PlainMessages(b)
	for it.Next() {
		if err := it.checkBody(); err != nil {
			return dst, err
		}
		p = putPlainRecord(out, p, it.body, it.index)
	}
	if p != len(out) {
		invariant.Violated("batch: a plain batch's size differs from its encoding")
	}
	rb := Header{
		Length:          int32(size - LengthPrefix),
		LeaderEpoch:     NoEpoch,
		Magic:           Magic,
		LastOffsetDelta: int32(h.Count) - 1,
		BaseTimestamp:   nowMs,
		MaxTimestamp:    nowMs,
		ProducerID:      NoProducer,
		ProducerEpoch:   NoProducer,
		BaseSequence:    NoProducer,
		Count:           int32(h.Count),
	}
	rb.Put(out[start:])
	seal(out[start:])
	return out, nil
}

// PlainIterator walks the messages of a plain batch without allocating. The
// bodies point into the batch.
type PlainIterator struct {
	rest  []byte // from the next message on
	body  []byte
	sum   uint32 // the message's CRC as sent
	index int32  // of the message that Next went to
}

// PlainMessages returns an iterator over b, a plain batch that [CheckPlain] has
// accepted.
func PlainMessages(b []byte) PlainIterator {
	return PlainIterator{rest: b[min(PlainHeaderSize, len(b)):], index: -1}
}

// Next goes to the next message and reports whether there is one.
func (it *PlainIterator) Next() bool {
	if len(it.rest) < PlainMessageSize {
		return false
	}
	n := binary.BigEndian.Uint32(it.rest[atMessageLength:])
	if uint64(n) > uint64(len(it.rest)-PlainMessageSize) {
		return false
	}
	end := PlainMessageSize + int(n)
	it.sum = binary.BigEndian.Uint32(it.rest[atMessageCRC:])
	it.body = it.rest[PlainMessageSize:end:end]
	it.rest = it.rest[end:]
	it.index++
	return true
}

// Body returns the body of the message that Next went to; it may be empty.
func (it *PlainIterator) Body() []byte { return it.body }

// checkBody compares the message's CRC.
func (it *PlainIterator) checkBody() error {
	if sum := crc32.ChecksumIEEE(it.body); sum != it.sum {
		return failRecord(ErrCorrupt, int(it.index), "message crc", atMessageCRC, int64(it.sum), int64(sum))
	}
	return nil
}

// checkPlainShape checks everything of a plain batch but its CRCs.
func checkPlainShape(b []byte, max int) (PlainHeader, error) {
	h, err := ParsePlainHeader(b, max)
	if err != nil {
		return PlainHeader{}, err
	}
	total := int(h.Total)
	if total > len(b) {
		return PlainHeader{}, fail(ErrTruncated, "plain total", atPlainTotal, int64(total), int64(len(b)))
	}
	if total < len(b) {
		return PlainHeader{}, fail(ErrInvalid, "bytes after the plain batch", total, int64(total), int64(len(b)))
	}
	it := PlainMessages(b)
	for it.Next() {
	}
	at, left := total-len(it.rest), len(it.rest)-PlainMessageSize
	switch n := it.index + 1; {
	case left >= 0:
		claimed := binary.BigEndian.Uint32(it.rest[atMessageLength:])
		return PlainHeader{}, failRecord(ErrInvalid, int(n), "message length", at, int64(left), int64(claimed))
	case len(it.rest) > 0:
		return PlainHeader{}, fail(ErrInvalid, "bytes after the messages", at, 0, int64(len(it.rest)))
	case uint32(n) != h.Count:
		return PlainHeader{}, fail(ErrInvalid, "plain count", atPlainCount, int64(n), int64(h.Count))
	}
	return h, nil
}

// plainRecordBody returns what the length field of message i's record says.
func plainRecordBody(body []byte, i int32) int {
	n := int32(len(body))
	return 1 + 1 + varintSize32(i) + 1 + varintSize32(n) + len(body) + 1
}

// putPlainRecord writes message i as a record at b[p:] and returns the next
// position.
func putPlainRecord(b []byte, p int, body []byte, i int32) int {
	p = putVarint32(b, p, int32(plainRecordBody(body, i)))
	b[p], b[p+1] = 0, 0 // attributes, timestamp delta
	p = putVarint32(b, p+2, i)
	p = putVarint32(b, p, -1) // no key
	p = putVarint32(b, p, int32(len(body)))
	p += copy(b[p:], body)
	b[p] = 0 // no headers
	return p + 1
}
