package batch

import (
	"slices"

	"github.com/mqd-broker/mqd/internal/invariant"
)

// Record is what a [Builder] appends. The builder copies everything and keeps
// no reference.
type Record struct {
	Timestamp int64 // milliseconds since 1970, or NoTimestamp
	Key       []byte
	Value     []byte // nil is "no value", which differs from empty
	Headers   []RecordHeader
}

// RecordHeader is a header of a record. The same key may appear more than once.
type RecordHeader struct {
	Key   string
	Value []byte // nil is "no value"
}

// Builder makes record batches out of records, in memory that the caller sees
// and gives. Its use is a cycle: Reset, Append until [ErrFull] or until it is
// time, Finish. In steady state, with memory that is large enough, no step of
// the cycle allocates.
//
// The bound on a batch holds for its uncompressed size and therefore for what
// Finish returns: records that do not become smaller stay uncompressed. Size and
// SizeOf are exact, so a caller can decide before it appends.
//
// A Builder is for one goroutine. Calls out of order (an Append after Finish, a
// Finish without a record) are the caller's bug and panic.
type Builder struct {
	buf     []byte // the caller's bytes, then the header, then records
	scratch []byte // compressed records
	start   int    // of the batch in buf
	max     int    // bytes of the batch
	done    bool   // Finish was called

	count    int32
	baseTime int64
	maxTime  int64

	reserved     int // bytes of a reserved record, behind buf; 0: there is none
	reservedTime int64

	attributes Attributes
	producer   int64
	epoch      int16
	sequence   int32
}

// NewBuilder returns a builder of batches of at most max bytes each, header
// included; max is HeaderSize to MaxSize. The first batch is appended to dst as
// with [Builder.Reset].
func NewBuilder(dst []byte, max int) *Builder {
	if max < HeaderSize || max > MaxSize {
		invariant.Violated("batch: builder limit outside a batch's sizes")
	}
	b := &Builder{max: max}
	b.Reset(dst)
	return b
}

// Reset begins a new batch, which is appended to dst: a caller may leave room for
// a frame header in front of it. The builder uses dst's spare capacity and
// allocates if that is not enough. It forgets the producer.
func (b *Builder) Reset(dst []byte) {
	b.buf = slices.Grow(dst, HeaderSize)[:len(dst)+HeaderSize]
	b.start = len(dst)
	b.done = false
	b.count, b.reserved = 0, 0
	b.attributes = 0
	b.producer, b.epoch, b.sequence = NoProducer, NoProducer, NoProducer
}

// SetProducer makes the batch idempotent: the broker answers a repetition of id,
// epoch and sequence (that of the first record) with the first result. All three
// are at least 0.
func (b *Builder) SetProducer(id int64, epoch int16, sequence int32) {
	if id < 0 || epoch < 0 || sequence < 0 {
		invariant.Violated("batch: producer id, epoch or sequence below 0")
	}
	b.producer, b.epoch, b.sequence = id, epoch, sequence
}

// SetTransactional makes the batch part of the producer's transaction.
// SetProducer must be called as well.
func (b *Builder) SetTransactional() { b.attributes |= AttrTransactional }

// Count returns the number of records in the batch so far.
func (b *Builder) Count() int { return int(b.count) }

// Size returns the size of the batch so far in bytes, header included, without
// compression.
func (b *Builder) Size() int { return len(b.buf) - b.start }

// Max returns the limit on the size of a batch.
func (b *Builder) Max() int { return b.max }

// SizeOf returns by how many bytes Append(r) would make the batch larger.
func (b *Builder) SizeOf(r *Record) int {
	if b.count == 0 {
		return sizeWithLength(r.bodySize(0, 0))
	}
	return sizeWithLength(r.bodySize(r.Timestamp-b.baseTime, b.count))
}

// Fits says whether Append(r) would succeed.
func (b *Builder) Fits(r *Record) bool {
	return b.count < MaxRecords && b.SizeOf(r) <= b.max-b.Size()
}

// Append adds r at the end of the batch. It returns [ErrFull], bare, if r does
// not fit but would fit into an empty batch, and an [Error] of kind
// [ErrTooLarge] if it would not fit there either; the batch is then unchanged.
func (b *Builder) Append(r *Record) error {
	if b.done || b.reserved > 0 {
		invariant.Violated("batch: append to a finished builder, or behind a reservation")
	}
	if b.count == 0 {
		b.baseTime, b.maxTime = r.Timestamp, r.Timestamp
	}
	delta := r.Timestamp - b.baseTime
	body := r.bodySize(delta, b.count)
	if sizeWithLength(body) > b.max-b.Size() || b.count == MaxRecords {
		return b.refusal(sizeWithLength(r.bodySize(0, 0)))
	}
	b.buf = appendRecord(b.buf, r, body, delta, b.count)
	b.maxTime = max(b.maxTime, r.Timestamp)
	b.count++
	return nil
}

// refusal is the error of a record that does not fit, and would take n bytes of an empty
// batch.
func (b *Builder) refusal(n int) error {
	if n > b.max-HeaderSize {
		return failRecord(ErrTooLarge, int(b.count), "record size", b.Size()-HeaderSize, int64(b.max-HeaderSize), int64(n))
	}
	return ErrFull
}

// Finish compresses the records with codec, unless they would not become
// smaller, writes the header, and returns the bytes given to Reset with the
// batch behind them. They belong to the caller until it hands them to Reset
// again. Base offset is 0 and the leader epoch is NoEpoch, both for the broker to
// set. The builder takes no more records until it is reset.
func (b *Builder) Finish(codec Codec) []byte {
	if b.done || b.count == 0 {
		invariant.Violated("batch: finish of a builder without records or finished before")
	}
	if b.attributes.Transactional() && b.producer == NoProducer {
		invariant.Violated("batch: a transactional batch without a producer")
	}
	b.done = true
	attributes := b.attributes
	if codec != CodecNone {
		body := b.buf[b.start+HeaderSize:]
		b.scratch = Compress(b.scratch[:0], codec, body)
		if len(b.scratch) < len(body) {
			b.buf = append(b.buf[:b.start+HeaderSize], b.scratch...)
			attributes |= Attributes(codec)
		}
	}
	out := b.buf[b.start:]
	h := Header{
		Length:          int32(len(out) - LengthPrefix),
		LeaderEpoch:     NoEpoch,
		Magic:           Magic,
		Attributes:      attributes,
		LastOffsetDelta: b.count - 1,
		BaseTimestamp:   b.baseTime,
		MaxTimestamp:    b.maxTime,
		ProducerID:      b.producer,
		ProducerEpoch:   b.epoch,
		BaseSequence:    b.sequence,
		Count:           b.count,
	}
	h.Put(out)
	seal(out)
	return b.buf
}

// bodySize returns the size of r as its length field counts it.
func (r *Record) bodySize(timeDelta int64, offsetDelta int32) int {
	n := 1 + varintSize64(timeDelta) + varintSize32(offsetDelta) + // 1: attributes
		nullableSize(r.Key) + nullableSize(r.Value) + varintSize32(int32(len(r.Headers)))
	for i := range r.Headers {
		h := &r.Headers[i]
		n += varintSize32(int32(len(h.Key))) + len(h.Key) + nullableSize(h.Value)
	}
	return n
}

// sizeWithLength returns the size of a record whose length field says body.
func sizeWithLength(body int) int {
	// More than MaxSize is only compared, never encoded.
	return varintSize32(int32(min(body, MaxSize))) + body
}

// appendRecord appends r, whose body has body bytes, at most MaxSize, to dst.
func appendRecord(dst []byte, r *Record, body int, timeDelta int64, offsetDelta int32) []byte {
	p := len(dst)
	n := sizeWithLength(body)
	dst = slices.Grow(dst, n)[:p+n]
	p = putVarint32(dst, p, int32(body))
	dst[p] = 0 // attributes
	p = putVarint64(dst, p+1, timeDelta)
	p = putVarint32(dst, p, offsetDelta)
	p = putNullable(dst, p, r.Key)
	p = putNullable(dst, p, r.Value)
	p = putVarint32(dst, p, int32(len(r.Headers)))
	for i := range r.Headers {
		h := &r.Headers[i]
		p = putVarint32(dst, p, int32(len(h.Key)))
		p += copy(dst[p:], h.Key)
		p = putNullable(dst, p, h.Value)
	}
	if p != len(dst) {
		invariant.Violated("batch: a record's size differs from its encoding")
	}
	return dst
}

// nullableSize returns the encoded size of v.
func nullableSize(v []byte) int {
	if v == nil {
		return 1
	}
	return varintSize32(int32(len(v))) + len(v)
}

// putNullable writes v with its length, -1 for nil, at b[p:] and returns the
// next position.
func putNullable(b []byte, p int, v []byte) int {
	if v == nil {
		return putVarint32(b, p, -1)
	}
	p = putVarint32(b, p, int32(len(v)))
	return p + copy(b[p:], v)
}
