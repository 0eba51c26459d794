package batch

import (
	"slices"

	"github.com/mqd-broker/mqd/internal/invariant"
)

// Reserve makes room for a record at the end of the batch, without headers and with a value
// of n bytes, which the caller writes itself. The record belongs to the batch from
// [Builder.Commit] on. key and value are those of the record, in the builder's memory, value
// all zero; they may be read and written until that memory is used again, also after Finish.
//
// One record may be reserved at a time, and nothing is appended meanwhile. Finish leaves it
// out. Errors are those of [Builder.Append]; the batch is unchanged then.
func (b *Builder) Reserve(timestamp int64, key []byte, n int) (own, value []byte, err error) {
	if b.done || b.reserved > 0 {
		invariant.Violated("batch: reservation in a finished builder, or a second one")
	}
	if b.count == 0 {
		b.baseTime, b.maxTime = timestamp, timestamp
	}
	delta := timestamp - b.baseTime
	body := reservedBody(delta, b.count, key, n)
	size := sizeWithLength(body)
	if size > b.max-b.Size() || b.count == MaxRecords {
		return nil, nil, b.refusal(sizeWithLength(reservedBody(0, 0, key, n)))
	}
	p := len(b.buf)
	b.buf = slices.Grow(b.buf, size)
	dst := b.buf[:p+size]
	p = putVarint32(dst, p, int32(body))
	dst[p] = 0 // attributes
	p = putVarint64(dst, p+1, delta)
	p = putVarint32(dst, p, b.count)
	p = putNullable(dst, p, key)
	if key != nil {
		own = dst[p-len(key) : p : p]
	}
	p = putVarint32(dst, p, int32(n))
	value = dst[p : p+n : p+n]
	clear(value) // memory is used again: what nobody writes must not be another record's
	if p = putVarint32(dst, p+n, 0); p != len(dst) {
		invariant.Violated("batch: a reserved record's size differs from its encoding")
	}
	b.reserved, b.reservedTime = size, timestamp
	return own, value, nil
}

// Commit makes the reserved record part of the batch.
func (b *Builder) Commit() {
	if b.done || b.reserved == 0 {
		invariant.Violated("batch: commit without a reservation or to a finished builder")
	}
	b.buf = b.buf[:len(b.buf)+b.reserved]
	b.maxTime = max(b.maxTime, b.reservedTime)
	b.count++
	b.reserved = 0
}

// Withdraw takes the reservation back.
func (b *Builder) Withdraw() { b.reserved = 0 }

// Discard ends a batch that nobody wants, and returns the bytes given to Reset. They belong
// to the caller until it hands them to Reset again.
func (b *Builder) Discard() []byte {
	b.done = true
	return b.buf[:b.start]
}

// SizeOfReserved returns by how many bytes Reserve and Commit would make the batch larger.
func (b *Builder) SizeOfReserved(timestamp int64, key []byte, n int) int {
	if b.count == 0 {
		return sizeWithLength(reservedBody(0, 0, key, n))
	}
	return sizeWithLength(reservedBody(timestamp-b.baseTime, b.count, key, n))
}

// reservedBody is the size of a reserved record as its length field counts it. More than
// MaxSize is only compared, never encoded.
func reservedBody(timeDelta int64, offsetDelta int32, key []byte, n int) int {
	return 1 + varintSize64(timeDelta) + varintSize32(offsetDelta) + nullableSize(key) +
		varintSize32(int32(min(n, MaxSize))) + n + 1 // 1: attributes, no headers
}
