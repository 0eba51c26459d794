package catalog

import "encoding/binary"

// cursor reads fields one after another. The first failure sticks; what is read
// after it is zero.
type cursor struct {
	what string // for errors
	b    []byte
	p    int
	err  error
}

func (c *cursor) fail(kind error, field string, at int, expected, found int64) {
	if c.err == nil {
		c.err = &FormatError{What: c.what, Kind: kind, Field: field, At: at, Expected: expected, Found: found}
	}
}

// take returns the next n bytes, or nil when there are fewer.
func (c *cursor) take(n int, field string) []byte {
	if c.err != nil {
		return nil
	}
	if left := len(c.b) - c.p; left < n {
		c.fail(ErrDamaged, field, c.p, int64(n), int64(left))
		return nil
	}
	b := c.b[c.p : c.p+n]
	c.p += n
	return b
}

func (c *cursor) u8(field string) uint8 {
	if b := c.take(1, field); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) u16(field string) uint16 {
	if b := c.take(2, field); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (c *cursor) u32(field string) uint32 {
	if b := c.take(4, field); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) i64(field string) int64 {
	if b := c.take(8, field); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (c *cursor) id(field string) (id TopicID) {
	copy(id[:], c.take(len(id), field))
	return id
}

// name reads a topic's name.
func (c *cursor) name() string {
	at := c.p
	name := string(c.take(int(c.u16("name length")), "name"))
	if c.err == nil && CheckName(name) != nil {
		c.fail(ErrDamaged, "name", at, MaxName, int64(len(name)))
	}
	return name
}

// count checks a number of elements of at least size bytes each against what is
// left, before anything is sized by it.
func (c *cursor) count(n uint32, size int, field string) int {
	if left := (len(c.b) - c.p) / size; c.err == nil && int64(n) > int64(left) {
		c.fail(ErrDamaged, field, c.p, int64(left), int64(n))
	}
	if c.err != nil {
		return 0
	}
	return int(n)
}

// end checks that nothing follows.
func (c *cursor) end() error {
	if left := len(c.b) - c.p; c.err == nil && left > 0 {
		c.fail(ErrDamaged, "bytes after the end", c.p, 0, int64(left))
	}
	return c.err
}
