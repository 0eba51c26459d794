package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"
)

const (
	// lengthSize is the length field that begins a frame, in bytes.
	lengthSize = 4
	// minFrame is the shortest frame: its length, key, version, correlation id and
	// a client id of null.
	minFrame = lengthSize + 2 + 2 + 4 + 2
	// maxCold is the largest frame of any API but Produce, in bytes.
	maxCold = 512 << 10
)

// Why a connection is closed.
var (
	errNotKafka = errors.New("kafka: the peer does not speak Kafka's protocol")
	errLength   = errors.New("kafka: the length of a frame is wrong")
	errUnserved = errors.New("kafka: an API or version that is not served")
)

// header is what begins a request.
type header struct {
	key         int16
	version     int16
	correlation int32
	client      []byte // its id; it lies in the frame
	flexible    bool
	body        []byte
}

// frameSize is the size of the frame that begins with prefix, its length included.
func frameSize(prefix []byte) (int, error) {
	switch {
	case prefix[0] == 0x16 && prefix[1] == 3:
		return 0, fmt.Errorf("%w: this looks like TLS, and the port has none", errNotKafka)
	case isText(prefix):
		return 0, fmt.Errorf("%w: it begins with %q", errNotKafka, prefix)
	}
	n := int64(int32(binary.BigEndian.Uint32(prefix)))
	if n < minFrame-lengthSize {
		return 0, fmt.Errorf("%w: %d, expected at least %d", errLength, n, minFrame-lengthSize)
	}
	return lengthSize + int(n), nil
}

// isText reports whether four bytes are letters and what stands between words, as
// of HTTP. As a length they would be more than a gigabyte.
func isText(b []byte) bool {
	for _, c := range b[:lengthSize] {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == ' ' || c == '/' || c == '*') {
			return false
		}
	}
	return true
}

// parseHeader reads the header of a whole frame. A version that is not served is not
// read any further than its number, because nobody knows what follows.
func parseHeader(frame []byte) (header, error) {
	c := cursor{b: frame[lengthSize:]}
	h := header{key: c.i16(), version: c.i16(), correlation: c.i32()}
	a := find(h.key)
	switch {
	case a == nil:
		return h, fmt.Errorf("%w: key %d", errUnserved, h.key)
	case h.version < a.Min || h.version > a.Max:
		return h, fmt.Errorf("%w: %s version %d, served are %d to %d", errUnserved, a.Name, h.version, a.Min, a.Max)
	}
	h.client = c.str() // never a compact one
	h.flexible = h.version >= a.Flexible
	c.flexible = h.flexible
	c.tags()
	h.body = c.b
	if err := c.err(); err != nil {
		return h, fmt.Errorf("%w: header of %s version %d", err, a.Name, h.version)
	}
	return h, nil
}

// errAnswer: an answer would be too long.
func errAnswer(size int) error {
	return fmt.Errorf("kafka: the answer would have some %d bytes, the limit is %d", size, maxAnswer)
}

// errUnacknowledged: a produce that wants no answer has failed.
var errUnacknowledged = errors.New("kafka: a produce with acks=0 failed, and a close is all that its client can be told")
