package history

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Message is the identity of a message: the Seq-th, from 0, that a producer sent
// to a partition.
type Message struct {
	// Stream names the partition among all that are checked.
	Stream uint32
	// Producer is a number of its own for everything that sends in order.
	Producer uint32
	Seq      uint32
}

// String is stream, producer and sequence.
func (m Message) String() string { return fmt.Sprintf("%d/%d/%d", m.Stream, m.Producer, m.Seq) }

// ErrChanged: bytes are not what any message consists of.
var ErrChanged = errors.New("history: contents changed")

const (
	payloadMagic = uint32('H'<<24 | 'I'<<16 | 'S'<<8 | 'T')

	// MinSize is the smallest message in bytes: magic, stream, producer, sequence
	// and size, 4 bytes each. The rest is noise that follows from these.
	MinSize = 20
	// MaxSize is the largest.
	MaxSize = 64 << 20
)

// Append appends the contents of a message of size bytes, [MinSize] to [MaxSize],
// to dst.
func Append(dst []byte, m Message, size int) []byte {
	start := len(dst)
	dst = slices.Grow(dst, size)
	for _, v := range [...]uint32{payloadMagic, m.Stream, m.Producer, m.Seq, uint32(size)} {
		dst = binary.BigEndian.AppendUint32(dst, v)
	}
	n := newNoise(m, size)
	for len(dst)-start+8 <= size {
		dst = binary.BigEndian.AppendUint64(dst, n.next())
	}
	for v := n.next(); len(dst)-start < size; v >>= 8 {
		dst = append(dst, byte(v))
	}
	return dst
}

// Identify says which message b is. The error is [ErrChanged] unless every byte
// is as [Append] made it.
func Identify(b []byte) (Message, error) {
	if len(b) < MinSize {
		return Message{}, fmt.Errorf("%w: %d bytes, expected at least %d", ErrChanged, len(b), MinSize)
	}
	m := Message{binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:]), binary.BigEndian.Uint32(b[12:])}
	if magic := binary.BigEndian.Uint32(b); magic != payloadMagic {
		return m, fmt.Errorf("%w: magic %08x, expected %08x", ErrChanged, magic, payloadMagic)
	}
	if size := binary.BigEndian.Uint32(b[16:]); int(size) != len(b) {
		return m, fmt.Errorf("%w: %d bytes of a message of %d", ErrChanged, len(b), size)
	}
	n := newNoise(m, len(b))
	at := MinSize
	for ; at+8 <= len(b); at += 8 {
		if binary.BigEndian.Uint64(b[at:]) != n.next() {
			return m, fmt.Errorf("%w: within 8 bytes from byte %d of message %v", ErrChanged, at, m)
		}
	}
	for v := n.next(); at < len(b); at++ {
		if b[at] != byte(v) {
			return m, fmt.Errorf("%w: byte %d of message %v", ErrChanged, at, m)
		}
		v >>= 8
	}
	return m, nil
}

// noise is a stream of numbers that look random to whoever compares or compresses
// them. There is one multiplication to a number: they are made for every byte that is
// sent and again for every byte that is read.
type noise uint64

func newNoise(m Message, size int) noise {
	n := noise(m.Stream)<<32 | noise(m.Producer)
	n = noise(mix(n.next())) ^ (noise(m.Seq)<<32 | noise(size))
	return noise(mix(n.next()))
}

func (n *noise) next() uint64 {
	*n += 0x9e3779b97f4a7c15
	v := uint64(*n)
	return (v ^ v>>32) * 0xbf58476d1ce4e5b9
}

// mix lets every bit of v change all others.
func mix(v uint64) uint64 {
	v = (v ^ v>>30) * 0xbf58476d1ce4e5b9
	v = (v ^ v>>27) * 0x94d049bb133111eb
	return v ^ v>>31
}
