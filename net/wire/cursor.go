package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/mqd-broker/mqd/internal/invariant"
)

const (
	// MaxString is the longest string or byte field in bytes: its length is a
	// u16.
	MaxString = 1<<16 - 1

	// MaxText is the longest message for a person in bytes. Encoders cut a
	// longer one, decoders refuse it.
	MaxText = 1024
)

// cursor reads a body from front to back. The first error stays; reads after
// it return zero values, so a decoder checks once, at its end.
type cursor struct {
	msg  string // message name, for errors
	body []byte
	off  int
	err  error
}

// fail records the first error.
func (c *cursor) fail(what string, found, limit int64) {
	if c.err == nil {
		c.err = malformed(c.msg, what, found, limit)
	}
}

// malformed is the error of a decoder: what was found and what was expected.
func malformed(msg, what string, found, expected int64) error {
	return fmt.Errorf("%w: %s: %s %d, expected %d", ErrMalformed, msg, what, found, expected)
}

func (c *cursor) remaining() int { return len(c.body) - c.off }

// take returns the next n bytes of the input itself, nil after an error.
func (c *cursor) take(n int) []byte {
	if c.err != nil {
		return nil
	}
	if n > c.remaining() {
		c.fail("bytes left", int64(c.remaining()), int64(n))
		return nil
	}
	b := c.body[c.off : c.off+n : c.off+n]
	c.off += n
	return b
}

func (c *cursor) u8() uint8 {
	if b := c.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) u16() uint16 {
	if b := c.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (c *cursor) u32() uint32 {
	if b := c.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) i64() int64 {
	if b := c.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (c *cursor) id() (t [16]byte) {
	copy(t[:], c.take(16))
	return t
}

func (c *cursor) class() Class {
	v := Class(c.u8())
	if v > ClassFlushed {
		c.fail("class", int64(v), int64(ClassFlushed))
	}
	return v
}

func (c *cursor) bytes() []byte { return c.take(int(c.u16())) }

// string copies, because a string that aliased a receive buffer would change.
func (c *cursor) string() string { return string(c.bytes()) }

// text reads a message for a person.
func (c *cursor) text() string {
	b := c.bytes()
	if len(b) > MaxText {
		c.fail("message bytes", int64(len(b)), MaxText)
		return ""
	}
	return string(b)
}

// count checks n elements of at least minSize bytes against what is left,
// before a caller makes room for them.
func (c *cursor) count(n uint64, minSize int) int {
	if c.err != nil {
		return 0
	}
	if n > uint64(c.remaining()/minSize) {
		c.fail("elements", int64(n), int64(c.remaining()/minSize))
		return 0
	}
	return int(n)
}

// end refuses trailing bytes and returns the first error.
func (c *cursor) end() error {
	if c.err == nil && c.remaining() != 0 {
		c.fail("trailing bytes", int64(c.remaining()), 0)
	}
	return c.err
}

// appendString appends a length and the bytes. The caller has checked names
// and values that come from outside against [MaxString].
func appendString[T string | []byte](dst []byte, s T) []byte {
	if len(s) > MaxString {
		invariant.Violated("wire: a string to encode fits its length field")
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(s)))
	return append(dst, s...)
}

// appendText appends a message for a person, cut at [MaxText].
func appendText(dst []byte, s string) []byte {
	return appendString(dst, s[:min(len(s), MaxText)])
}

func appendI64(dst []byte, v int64) []byte { return binary.BigEndian.AppendUint64(dst, uint64(v)) }
