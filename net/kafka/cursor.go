package kafka

import (
	"encoding/binary"
	"errors"
)

// errTruncated: a request is shorter than its fields, or a length in it is wrong.
var errTruncated = errors.New("kafka: the request ends inside a field, or a length in it is wrong")

// cursor reads the fields of a request. With bytes missing or a length that cannot be
// it is bad from then on, and every field is zero.
type cursor struct {
	b        []byte
	flexible bool // compact lengths and tagged fields
	bad      bool
}

func (c *cursor) take(n int) []byte {
	if n < 0 || n > len(c.b) || c.bad {
		c.bad, c.b = true, nil
		return nil
	}
	f := c.b[:n:n]
	c.b = c.b[n:]
	return f
}

func (c *cursor) i8() int8 {
	if f := c.take(1); f != nil {
		return int8(f[0])
	}
	return 0
}

func (c *cursor) i16() int16 {
	if f := c.take(2); f != nil {
		return int16(binary.BigEndian.Uint16(f))
	}
	return 0
}

func (c *cursor) i32() int32 {
	if f := c.take(4); f != nil {
		return int32(binary.BigEndian.Uint32(f))
	}
	return 0
}

func (c *cursor) i64() int64 {
	if f := c.take(8); f != nil {
		return int64(binary.BigEndian.Uint64(f))
	}
	return 0
}

// uvarint is an unsigned varint of at most 32 bits.
func (c *cursor) uvarint() int {
	v, n := binary.Uvarint(c.b)
	if n <= 0 || v > 1<<32-1 {
		c.bad, c.b = true, nil
		return 0
	}
	c.b = c.b[n:]
	return int(v)
}

// length is a compact length, or one of four bytes; -1 stands for null.
func (c *cursor) length() int {
	if c.flexible {
		return c.uvarint() - 1
	}
	return int(c.i32())
}

// str is a string; null is nil.
func (c *cursor) str() []byte {
	n := 0
	if c.flexible {
		n = c.uvarint() - 1
	} else {
		n = int(c.i16())
	}
	if n < 0 {
		c.bad = c.bad || n < -1
		return nil
	}
	return c.take(n)
}

// name is a string that is not null.
func (c *cursor) name() []byte {
	s := c.str()
	c.bad = c.bad || s == nil
	return s
}

// bytes is a field of bytes; null is nil.
func (c *cursor) bytes() []byte {
	n := c.length()
	if n < 0 {
		c.bad = c.bad || n < -1
		return nil
	}
	return c.take(n)
}

// array is the number of elements that follow, each of at least least bytes; null is 0.
func (c *cursor) array(least int) int {
	n := c.length()
	if n < 0 {
		c.bad = c.bad || n < -1
		return 0
	}
	if n > len(c.b)/least {
		c.bad, c.b = true, nil
		return 0
	}
	return n
}

// tags passes over tagged fields.
func (c *cursor) tags() {
	if !c.flexible {
		return
	}
	for n := c.uvarint(); n > 0 && !c.bad; n-- {
		c.uvarint()
		c.take(c.uvarint())
	}
}

// err is [errTruncated] for a cursor that is bad.
func (c *cursor) err() error {
	if c.bad {
		return errTruncated
	}
	return nil
}

// The other direction.

func appendI16(b []byte, v int16) []byte { return binary.BigEndian.AppendUint16(b, uint16(v)) }
func appendI32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }
func appendI64(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

// appendLength appends the length of an array, or of bytes.
func appendLength(b []byte, n int, flexible bool) []byte {
	if flexible {
		return binary.AppendUvarint(b, uint64(n+1))
	}
	return appendI32(b, int32(n))
}

func appendString[T string | []byte](b []byte, s T, flexible bool) []byte {
	if flexible {
		b = binary.AppendUvarint(b, uint64(len(s)+1))
	} else {
		b = appendI16(b, int16(len(s)))
	}
	return append(b, s...)
}

// appendNullString is appendString with null for an empty one.
func appendNullString(b []byte, s string, flexible bool) []byte {
	switch {
	case s != "":
		return appendString(b, s[:min(len(s), maxMessage)], flexible)
	case flexible:
		return append(b, 0)
	}
	return appendI16(b, -1)
}

// maxMessage is the length of the longest message for people, in bytes.
const maxMessage = 1000

// appendTags ends a structure: none of ours has tagged fields.
func appendTags(b []byte, flexible bool) []byte {
	if flexible {
		return append(b, 0)
	}
	return b
}
