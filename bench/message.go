package bench

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
)

// The default mix of message sizes, in bytes: a truncated exponential
// distribution between MixMin and MixMax whose mean is MixMean.
const (
	MixMin  = 50
	MixMax  = 512
	MixMean = 180

	// sizeSteps is the length of a table of sizes, a power of two.
	sizeSteps = 8192
	// MaxSize is the largest message, in bytes.
	MaxSize = 1 << 20
)

// Sizes gives the sizes of messages, one after another, from a table: a draw
// costs a load. Its zero value is not usable.
type Sizes struct {
	table []uint32
	next  uint32
	max   int
}

// FixedSize gives messages of n bytes each.
func FixedSize(n int) (*Sizes, error) {
	if n < MinSize || n > MaxSize {
		return nil, fmt.Errorf("%w: message size %d bytes, expected %d to %d", ErrConfig, n, MinSize, MaxSize)
	}
	return &Sizes{table: []uint32{uint32(n)}, max: n}, nil
}

// MixedSizes gives sizes of the default mix in an order that seed decides. The
// table holds one size for each of 8192 equal parts of the distribution, so that
// its mean does not depend on the seed.
func MixedSizes(seed uint64) *Sizes {
	s := &Sizes{table: make([]uint32, sizeSteps), max: MixMax}
	rate := truncatedRate(MixMax-MixMin, MixMean-MixMin)
	whole := 1 - math.Exp(-rate*(MixMax-MixMin))
	for i := range s.table {
		u := (float64(i) + 0.5) / sizeSteps
		s.table[i] = uint32(math.Round(MixMin - math.Log1p(-u*whole)/rate))
	}
	r := rand.New(rand.NewPCG(seed, 0))
	r.Shuffle(len(s.table), func(i, j int) { s.table[i], s.table[j] = s.table[j], s.table[i] })
	return s
}

// Next is the next size in bytes.
func (s *Sizes) Next() int {
	n := s.table[s.next&uint32(len(s.table)-1)]
	s.next++
	return int(n)
}

// Max is the largest size that comes, in bytes.
func (s *Sizes) Max() int { return s.max }

// Mean is the mean size in bytes.
func (s *Sizes) Mean() float64 {
	sum := 0.0
	for _, n := range s.table {
		sum += float64(n)
	}
	return sum / float64(len(s.table))
}

// truncatedRate is the rate of the exponential distribution that, cut off at
// limit, has the given mean, which must be below half of limit.
func truncatedRate(limit, mean float64) float64 {
	// The mean falls as the rate rises: halve the interval.
	low, high := 1e-9, 1.0
	for range 200 {
		mid := (low + high) / 2
		if 1/mid-limit/math.Expm1(mid*limit) > mean {
			low = mid
		} else {
			high = mid
		}
	}
	return (low + high) / 2
}

// MinSize is the smallest message in bytes: what it carries to be recognised by.
//
//	0  u32 CRC-32C of the rest
//	4  u32 run
//	8  u32 lane
//	12 u64 sequence number within the lane
//	20 i64 intended time, nanoseconds of the monotonic clock
const MinSize = 28

// Offsets in a message.
const (
	payloadRunAt  = 4
	payloadLaneAt = 8
	payloadSeqAt  = 12
	payloadTimeAt = 20
)

var _ [0]struct{} = [payloadTimeAt + 8 - MinSize]struct{}{}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// stamp says which message this is and when it was meant to be sent.
type stamp struct {
	run, lane uint32
	seq       uint64
	time      int64
}

// noise is random bytes from which messages are cut.
type noise struct {
	bytes []byte
	at    int
}

// noiseSize is a prime, so that cuts differ for long.
const noiseSize = 65521

func newNoise(seed uint64) *noise {
	var key [32]byte
	binary.BigEndian.PutUint64(key[:], seed)
	n := &noise{bytes: make([]byte, noiseSize)}
	rand.NewChaCha8(key).Read(n.bytes) // never fails: see its documentation
	return n
}

// write fills b, at least MinSize bytes, with a message.
func (n *noise) write(b []byte, s stamp) {
	binary.BigEndian.PutUint32(b[payloadRunAt:], s.run)
	binary.BigEndian.PutUint32(b[payloadLaneAt:], s.lane)
	binary.BigEndian.PutUint64(b[payloadSeqAt:], s.seq)
	binary.BigEndian.PutUint64(b[payloadTimeAt:], uint64(s.time))
	for rest := b[MinSize:]; len(rest) > 0; {
		k := copy(rest, n.bytes[n.at:])
		rest = rest[k:]
		if n.at += k; n.at == noiseSize {
			n.at = 0
		}
	}
	binary.BigEndian.PutUint32(b, crc32.Checksum(b[payloadRunAt:], castagnoli))
}

// readStamp reads a message; ok is false for bytes that are none or have changed.
func readStamp(b []byte) (s stamp, ok bool) {
	if len(b) < MinSize || binary.BigEndian.Uint32(b) != crc32.Checksum(b[payloadRunAt:], castagnoli) {
		return stamp{}, false
	}
	return stamp{
		run:  binary.BigEndian.Uint32(b[payloadRunAt:]),
		lane: binary.BigEndian.Uint32(b[payloadLaneAt:]),
		seq:  binary.BigEndian.Uint64(b[payloadSeqAt:]),
		time: int64(binary.BigEndian.Uint64(b[payloadTimeAt:])),
	}, true
}
