package dialect

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/net/wire"
)

// ErrAnswer: an answer is not what was asked for.
var ErrAnswer = errors.New("an answer of Kafka's protocol")

// Kafka is Kafka's protocol: Produce version 8 and Fetch version 11, which are the newest
// whose lengths have a fixed size, of one topic and one partition each.
type Kafka struct {
	// Topic is the topic's name.
	Topic string
}

const (
	keyProduce, produceVersion = 0, 8
	keyFetch, fetchVersion     = 1, 11

	lengthSize = 4
	headSize   = lengthSize + 4 // with the correlation id

	clientID = "mqd bench"
	acksAll  = -1
	timeout  = 30_000 // milliseconds, of replicas

	// Overhead bounds what a request has around its batch, for a topic whose name has at
	// most 64 bytes.
	Overhead = 192
)

func appendI16(b []byte, v int16) []byte { return binary.BigEndian.AppendUint16(b, uint16(v)) }
func appendI32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }
func appendI64(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

func appendString(b []byte, s string) []byte { return append(appendI16(b, int16(len(s))), s...) }

// appendHead appends the head of a request, without its length.
func appendHead(b []byte, key, version int16, corr uint32) []byte {
	b = appendI16(appendI16(appendI32(b, 0), key), version)
	return appendString(appendI32(b, int32(corr)), clientID)
}

// end writes the length of the request that begins at dst[start], of which rest bytes follow.
func end(dst []byte, start, rest int) []byte {
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-lengthSize+rest))
	return dst
}

// HeadSize implements [Dialect].
func (Kafka) HeadSize() int { return headSize }

// Head implements [Dialect].
func (Kafka) Head(b []byte, limit uint32) (wire.Header, error) {
	if len(b) < headSize {
		return wire.Header{}, wire.ErrShort
	}
	h := wire.Header{Length: binary.BigEndian.Uint32(b), Flags: wire.FlagResponse, Correlation: binary.BigEndian.Uint32(b[lengthSize:])}
	if h.Length < headSize-lengthSize || uint64(h.Length)+lengthSize > uint64(limit) {
		return h, fmt.Errorf("%w: %d bytes, expected at most %d", ErrAnswer, h.Length, limit)
	}
	return h, nil
}

// AppendProduce implements [Dialect].
func (k Kafka) AppendProduce(dst []byte, corr uint32, r *wire.ProduceRequest, size int) []byte {
	start := len(dst)
	dst = appendHead(dst, keyProduce, produceVersion, corr)
	dst = appendI16(dst, -1) // no transaction
	dst = appendI32(appendI16(dst, acksAll), timeout)
	dst = appendString(appendI32(dst, 1), k.Topic)
	dst = appendI32(appendI32(dst, 1), r.Partition)
	return end(appendI32(dst, int32(size)), start, size)
}

// Produced implements [Dialect].
func (k Kafka) Produced(body []byte) (wire.ProduceResponse, error) {
	c := cursor{b: body}
	k.one(&c)
	c.i32() // partition
	code := c.i16()
	r := wire.ProduceResponse{BaseOffset: c.i64(), AppendTime: -1}
	c.i64() // time of the append, in milliseconds
	c.i64() // start of the log
	if n := c.i32(); n != 0 {
		c.bad = true
	}
	if n := c.i16(); n > 0 {
		r.Message = string(c.take(int(n)))
	}
	c.i32() // throttled
	if code != 0 {
		r.Code, r.Message = wire.CodeInternal, fmt.Sprintf("Kafka's error %d %s", code, r.Message)
	}
	return r, c.end()
}

// AppendFetch implements [Dialect].
func (k Kafka) AppendFetch(dst []byte, corr uint32, r *wire.FetchRequest) []byte {
	start := len(dst)
	dst = appendHead(dst, keyFetch, fetchVersion, corr)
	dst = appendI32(dst, -1) // no replica
	dst = appendI32(appendI32(appendI32(dst, int32(r.MaxWait)), int32(r.MinBytes)), int32(r.MaxBytes))
	dst = append(dst, 0)                   // read what is not committed
	dst = appendI32(appendI32(dst, 0), -1) // no session
	dst = appendString(appendI32(dst, 1), k.Topic)
	dst = appendI32(appendI32(dst, 1), r.Partition)
	dst = appendI32(dst, -1) // no epoch is known
	dst = appendI64(appendI64(dst, r.Offset), -1)
	dst = appendI32(appendI32(dst, int32(r.MaxBytes)), 0)
	return end(appendString(dst, ""), start, 0) // no rack
}

// Fetched implements [Dialect]. NextOffset is behind the batches; without any it is -1.
func (k Kafka) Fetched(body []byte) (wire.FetchResponse, error) {
	c := cursor{b: body}
	c.i32() // throttled
	code := c.i16()
	c.i32() // session
	r := wire.FetchResponse{NewestAppendTime: -1, NextOffset: -1}
	if code == 0 {
		k.one(&c)
		c.i32() // partition
		code = c.i16()
		r.Durable = c.i64()
		c.i64() // end of what is committed
		r.LogStart = c.i64()
		r.End = r.Durable
		if n := c.i32(); n > 0 {
			c.bad = true // nothing was aborted
		}
		c.i32() // the replica preferred
		r.Batches = c.take(int(max(0, c.i32())))
	}
	if code != 0 {
		return r, fmt.Errorf("%w: Kafka's error %d to a fetch", ErrAnswer, code)
	}
	if err := c.end(); err != nil {
		return r, err
	}
	next, err := behind(r.Batches)
	r.NextOffset = next
	return r, err
}

// behind is the offset behind the last of some batches, -1 for none.
func behind(b []byte) (next int64, err error) {
	next = -1
	for len(b) > 0 {
		first, rest, err := batch.Split(b)
		if err != nil {
			return next, err
		}
		h, err := batch.ParseHeader(first)
		if err != nil {
			return next, err
		}
		next, b = h.BaseOffset+int64(h.LastOffsetDelta)+1, rest
	}
	return next, nil
}

// cursor reads the fields of an answer; it is bad when there are too few.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) take(n int) []byte {
	if c.bad || n < 0 || n > len(c.b) {
		c.bad = true
		return nil
	}
	f := c.b[:n]
	c.b = c.b[n:]
	return f
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

// one passes over one topic, which must be k's, and the number of its partitions, one.
func (k Kafka) one(c *cursor) {
	topics, name := c.i32(), ""
	if n := c.i16(); n > 0 {
		name = string(c.take(int(n)))
	}
	if topics != 1 || name != k.Topic || c.i32() != 1 {
		c.bad = true
	}
}

func (c *cursor) end() error {
	if c.bad || len(c.b) > 0 {
		return fmt.Errorf("%w: %d bytes are left, or a field is missing or not what was asked for", ErrAnswer, len(c.b))
	}
	return nil
}
