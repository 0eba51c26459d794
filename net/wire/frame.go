// Package wire is the codec of mqd's native batch protocol: frame headers,
// requests and responses, error codes. docs/format/wire.md is its twin; a
// change of bytes touches both and a golden file.
//
// The package does no I/O and keeps no state. Integers are big-endian.
// Encoders append to the caller's slice. Decoders check before they size
// anything, refuse trailing bytes, and for produce and fetch, the messages of
// the shard's hot path, they return slices of their input and allocate
// nothing. Decoding is strict enough that every accepted message has exactly
// one encoding.
package wire

import (
	"encoding/binary"
	"fmt"
)

const (
	// HeaderSize is the number of bytes before a frame's body: length, op,
	// version, flags and correlation id.
	HeaderSize = 12

	// lengthSize is the size of the length field, which does not count itself.
	lengthSize = 4

	// MaxFrameBeforeHello bounds a whole frame, length field included, until
	// the hello response has told the negotiated limit: 64 KiB.
	MaxFrameBeforeHello = 64 << 10

	// Protocol is the one protocol version this package speaks. Hello
	// negotiates it; the version byte of a frame is per op and separate.
	Protocol uint16 = 1
)

// Flags are the 16 flag bits of a frame header. Bits without a name are zero;
// a frame that sets one is refused.
type Flags uint16

const (
	// FlagResponse marks every frame that travels from broker to client.
	FlagResponse Flags = 1 << 0
	// FlagError marks a response whose body is an [ErrorResponse] instead of
	// the op's own response. It comes only together with FlagResponse.
	FlagError Flags = 1 << 1

	knownFlags = FlagResponse | FlagError
)

// Header is a decoded frame header.
type Header struct {
	// Length counts the bytes after the length field: 8 and the body.
	Length uint32
	// Op says what the body is.
	Op Op
	// Version is the version of the op's encoding, see [Op.Versions].
	Version uint8
	// Flags has only known bits after [ParseHeader].
	Flags Flags
	// Correlation is chosen by the client and repeated in the response.
	Correlation uint32
}

// FrameSize is the whole frame in bytes, length field included.
func (h Header) FrameSize() int { return int(h.Length) + lengthSize }

// BodySize is the number of bytes that follow the header.
func (h Header) BodySize() int { return int(h.Length) - (HeaderSize - lengthSize) }

// IsResponse reports whether the frame comes from a broker.
func (h Header) IsResponse() bool { return h.Flags&FlagResponse != 0 }

// IsError reports whether the body is an [ErrorResponse].
func (h Header) IsError() bool { return h.Flags&FlagError != 0 }

// ParseHeader decodes the first [HeaderSize] bytes of b and checks the length
// against maxFrame, the limit of a whole frame in bytes, before anything is
// sized by it. A shorter b is [ErrShort]: read more and call again.
//
// After any other error the header is filled in as far as it was read, so that
// an error response can carry the correlation id: [ErrMalformed] (length
// below 8, unknown flag) and [ErrFrameTooLarge]. The stream has lost its frame
// boundaries then; the connection closes after the error response.
func ParseHeader(b []byte, maxFrame uint32) (Header, error) {
	if len(b) < HeaderSize {
		return Header{}, ErrShort
	}
	h := Header{
		Length:      binary.BigEndian.Uint32(b),
		Op:          Op(b[4]),
		Version:     b[5],
		Flags:       Flags(binary.BigEndian.Uint16(b[6:])),
		Correlation: binary.BigEndian.Uint32(b[8:]),
	}
	switch {
	case h.Length < HeaderSize-lengthSize:
		return h, fmt.Errorf("%w: header: length %d, expected at least %d", ErrMalformed, h.Length, HeaderSize-lengthSize)
	case uint64(h.Length)+lengthSize > uint64(maxFrame):
		return h, fmt.Errorf("%w: %d bytes, limit %d", ErrFrameTooLarge, uint64(h.Length)+lengthSize, maxFrame)
	case h.Flags&^knownFlags != 0 || h.Flags&knownFlags == FlagError:
		return h, fmt.Errorf("%w: header: flags %#04x", ErrMalformed, uint16(h.Flags))
	}
	return h, nil
}

// CheckRequest reports whether a broker can decode the frame that h heads:
// [ErrMalformed] for a response, [ErrUnsupportedOp], [ErrUnsupportedVersion].
// The frame's boundaries are known, so the connection stays.
func CheckRequest(h Header) error {
	if h.Flags != 0 {
		return fmt.Errorf("%w: header: a request with flags %#04x", ErrMalformed, uint16(h.Flags))
	}
	lo, hi, ok := h.Op.Versions()
	if !ok {
		return fmt.Errorf("%w: op %d", ErrUnsupportedOp, uint8(h.Op))
	}
	if h.Version < lo || h.Version > hi {
		return fmt.Errorf("%w: %s version %d, supported %d to %d", ErrUnsupportedVersion, h.Op, h.Version, lo, hi)
	}
	return nil
}

// appendHeader appends the header of a frame whose body has bodySize bytes.
func appendHeader(dst []byte, op Op, flags Flags, corr uint32, bodySize int) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(bodySize+HeaderSize-lengthSize))
	dst = append(dst, byte(op), op.version())
	dst = binary.BigEndian.AppendUint16(dst, uint16(flags))
	return binary.BigEndian.AppendUint32(dst, corr)
}

// endFrame writes the length of the frame that starts at dst[start].
func endFrame(dst []byte, start int) []byte {
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-lengthSize))
	return dst
}
