package batch

import (
	"encoding/binary"
	"hash/crc32"
	"slices"

	"github.com/mqd-broker/mqd/internal/invariant"
)

// PlainBuilder makes plain batches out of message bodies, in memory that the
// caller sees and gives. Its cycle is that of [Builder]: Reset, Append until
// [ErrFull], Finish; with memory that is large enough none of them allocates.
type PlainBuilder struct {
	buf   []byte // the caller's bytes, then the plain batch
	start int    // of the plain batch in buf
	max   int    // bytes of the plain batch
	count uint32
}

// NewPlainBuilder returns a builder of plain batches of at most max bytes each,
// header included; max is PlainHeaderSize to MaxSize. The first is appended to
// dst.
func NewPlainBuilder(dst []byte, max int) *PlainBuilder {
	if max < PlainHeaderSize || max > MaxSize {
		invariant.Violated("batch: plain builder limit outside a batch's sizes")
	}
	b := &PlainBuilder{max: max}
	b.Reset(dst)
	return b
}

// Reset begins a new plain batch, which is appended to dst.
func (b *PlainBuilder) Reset(dst []byte) {
	b.buf = slices.Grow(dst, PlainHeaderSize)[:len(dst)+PlainHeaderSize]
	b.start = len(dst)
	b.count = 0
}

// Count returns the number of messages so far.
func (b *PlainBuilder) Count() int { return int(b.count) }

// Size returns the size of the plain batch so far in bytes, header included.
func (b *PlainBuilder) Size() int { return len(b.buf) - b.start }

// Fits says whether a body of n bytes can be appended.
func (b *PlainBuilder) Fits(n int) bool {
	return n <= b.max-b.Size()-PlainMessageSize
}

// Append adds a message. It returns [ErrFull], bare, if the message would fit
// only into an empty batch, and an [Error] of kind [ErrTooLarge] if not there
// either; the batch is then unchanged.
func (b *PlainBuilder) Append(body []byte) error {
	if !b.Fits(len(body)) {
		if n, most := len(body), b.max-PlainHeaderSize-PlainMessageSize; n > most {
			return failRecord(ErrTooLarge, int(b.count), "message length", b.Size(), int64(most), int64(n))
		}
		return ErrFull
	}
	p := len(b.buf)
	n := PlainMessageSize + len(body)
	b.buf = slices.Grow(b.buf, n)[:p+n]
	binary.BigEndian.PutUint32(b.buf[p+atMessageLength:], uint32(len(body)))
	binary.BigEndian.PutUint32(b.buf[p+atMessageCRC:], crc32.ChecksumIEEE(body))
	copy(b.buf[p+PlainMessageSize:], body)
	b.count++
	return nil
}

// Finish writes the header and returns the bytes given to Reset with the plain
// batch behind them. At least one message must have been appended.
func (b *PlainBuilder) Finish() []byte {
	if b.count == 0 {
		invariant.Violated("batch: finish of a plain builder without messages")
	}
	h := b.buf[b.start:]
	binary.BigEndian.PutUint32(h[atPlainTotal:], uint32(len(h)))
	binary.BigEndian.PutUint32(h[atPlainCount:], b.count)
	binary.BigEndian.PutUint32(h[atPlainBody:], uint32(len(h)-PlainHeaderSize-PlainMessageSize*int(b.count)))
	return b.buf
}
