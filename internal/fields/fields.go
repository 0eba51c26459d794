// Package fields reads the fields of a stored record one after another, without
// trusting a length: every format of records that has no CPU to lose is read by it.
package fields

import "encoding/binary"

// Error is a field that is not as it has to be.
type Error struct {
	Field string
	// At is its position in bytes from the start.
	At int
	// Expected and Found are lengths, counts or values, as the field has it.
	Expected, Found int64
	// Newer: a newer program would understand the bytes; they are not damaged.
	Newer bool
}

// Reader reads big-endian fields. The first failure sticks; what is read after it is
// zero.
type Reader struct {
	b   []byte
	p   int
	err *Error
}

// Of makes a reader of b.
func Of(b []byte) Reader { return Reader{b: b} }

// At is the position in bytes from the start.
func (r *Reader) At() int { return r.p }

// Left is the number of bytes not read yet.
func (r *Reader) Left() int { return len(r.b) - r.p }

// Err is the first failure.
func (r *Reader) Err() *Error { return r.err }

// Fail notes a failure, unless there has been one.
func (r *Reader) Fail(field string, at int, expected, found int64) {
	if r.err == nil {
		r.err = &Error{Field: field, At: at, Expected: expected, Found: found}
	}
}

// FailNewer is Fail for bytes of a newer program.
func (r *Reader) FailNewer(field string, at int, expected, found int64) {
	if r.err == nil {
		r.err = &Error{Field: field, At: at, Expected: expected, Found: found, Newer: true}
	}
}

// Take returns the next n bytes, which are those of the input, or nil when there are
// fewer.
func (r *Reader) Take(n int, field string) []byte {
	if r.err != nil {
		return nil
	}
	if left := r.Left(); n < 0 || left < n {
		r.Fail(field, r.p, int64(n), int64(left))
		return nil
	}
	b := r.b[r.p : r.p+n : r.p+n]
	r.p += n
	return b
}

// U8 reads a byte.
func (r *Reader) U8(field string) uint8 {
	if b := r.Take(1, field); b != nil {
		return b[0]
	}
	return 0
}

// U16 reads two bytes.
func (r *Reader) U16(field string) uint16 {
	if b := r.Take(2, field); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

// U32 reads four bytes.
func (r *Reader) U32(field string) uint32 {
	if b := r.Take(4, field); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

// I64 reads eight bytes.
func (r *Reader) I64(field string) int64 {
	if b := r.Take(8, field); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// ID reads 16 bytes.
func (r *Reader) ID(field string) (id [16]byte) {
	copy(id[:], r.Take(len(id), field))
	return id
}

// Bytes reads a length of two bytes and as many bytes.
func (r *Reader) Bytes(field string) []byte { return r.Take(int(r.U16(field)), field) }

// Count reads a count of four bytes and checks that so many elements of at least size
// bytes can follow, before anything is sized by it.
func (r *Reader) Count(size int, field string) int {
	at := r.p
	n := r.U32(field)
	return r.Fits(n, size, field, at)
}

// Fits checks that n elements of at least size bytes can follow, and returns how many,
// 0 when they cannot. At is where the count stands.
func (r *Reader) Fits(n uint32, size int, field string, at int) int {
	if left := r.Left() / size; r.err == nil && int64(n) > int64(left) {
		r.Fail(field, at, int64(left), int64(n))
	}
	if r.err != nil {
		return 0
	}
	return int(n)
}

// End checks that nothing follows, and returns the first failure.
func (r *Reader) End() *Error {
	if left := r.Left(); r.err == nil && left > 0 {
		r.Fail("bytes after the end", r.p, 0, int64(left))
	}
	return r.err
}
