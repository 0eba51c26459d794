package batch

import "math/bits"

// Records use the varints of Protocol Buffers, zigzag-encoded: 7 bits a byte,
// low bits first, at most 5 bytes for 32 and 10 for 64 bits. A longer form than
// needed is read, as Kafka does; bits beyond the type are an overflow.

// Results of a failed read, in place of the next position.
const (
	varintTruncated = -1
	varintOverflow  = -2
)

// Largest encodings, in bytes.
const (
	maxVarint32 = 5
	maxVarint64 = 10
)

func varintSize32(v int32) int {
	return (bits.Len32(zigzag32(v)|1) + 6) / 7
}

func varintSize64(v int64) int {
	return (bits.Len64(zigzag64(v)|1) + 6) / 7
}

// putVarint32 writes v at b[p:] and returns the next position. The caller has
// made room.
func putVarint32(b []byte, p int, v int32) int {
	u := zigzag32(v)
	for u >= 0x80 {
		b[p] = byte(u) | 0x80
		u >>= 7
		p++
	}
	b[p] = byte(u)
	return p + 1
}

// putVarint64 is putVarint32 for 64 bits.
func putVarint64(b []byte, p int, v int64) int {
	u := zigzag64(v)
	for u >= 0x80 {
		b[p] = byte(u) | 0x80
		u >>= 7
		p++
	}
	b[p] = byte(u)
	return p + 1
}

// shortVarint reads a varint of one or two bytes at b[p:], which has two. The next position
// is 0 if it is longer.
func shortVarint(b []byte, p int) (int32, int) {
	u := uint32(b[p])
	if u < 0x80 {
		return unzigzag32(u), p + 1
	}
	if b[p+1] >= 0x80 {
		return 0, 0
	}
	return unzigzag32(u&0x7f | uint32(b[p+1])<<7), p + 2
}

// varint32 reads the varint at b[p:] and returns it with the next position, or
// with varintTruncated or varintOverflow.
func varint32(b []byte, p int) (int32, int) {
	if p < len(b) && b[p] < 0x80 {
		return unzigzag32(uint32(b[p])), p + 1
	}
	if p+1 < len(b) && b[p+1] < 0x80 {
		return unzigzag32(uint32(b[p]&0x7f) | uint32(b[p+1])<<7), p + 2
	}
	var u uint32
	for i := range maxVarint32 {
		if p+i >= len(b) {
			return 0, varintTruncated
		}
		c := b[p+i]
		if i == maxVarint32-1 && c > 0x0f {
			return 0, varintOverflow
		}
		u |= uint32(c&0x7f) << (7 * i)
		if c < 0x80 {
			return unzigzag32(u), p + i + 1
		}
	}
	return 0, varintOverflow
}

// varint64 is varint32 for 64 bits.
func varint64(b []byte, p int) (int64, int) {
	if p < len(b) && b[p] < 0x80 {
		return unzigzag64(uint64(b[p])), p + 1
	}
	if p+1 < len(b) && b[p+1] < 0x80 {
		return unzigzag64(uint64(b[p]&0x7f) | uint64(b[p+1])<<7), p + 2
	}
	var u uint64
	for i := range maxVarint64 {
		if p+i >= len(b) {
			return 0, varintTruncated
		}
		c := b[p+i]
		if i == maxVarint64-1 && c > 0x01 {
			return 0, varintOverflow
		}
		u |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			return unzigzag64(u), p + i + 1
		}
	}
	return 0, varintOverflow
}

func zigzag32(v int32) uint32   { return uint32(v<<1) ^ uint32(v>>31) }
func zigzag64(v int64) uint64   { return uint64(v<<1) ^ uint64(v>>63) }
func unzigzag32(u uint32) int32 { return int32(u>>1) ^ -int32(u&1) }
func unzigzag64(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }
