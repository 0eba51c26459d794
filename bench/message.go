package bench

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"math/rand/v2"
)

// MinSize is the smallest message in bytes: what it carries to be recognised by.
//
//	0  u32 CRC-32C of the rest
//	4  u32 run
//	8  u32 lane
//	12 u64 sequence number within the lane
//	20 i64 intended time, nanoseconds of the monotonic clock
//	28 u32 by how many nanoseconds the client came late to it
const MinSize = 32

// Offsets in a message.
const (
	payloadRunAt  = 4
	payloadLaneAt = 8
	payloadSeqAt  = 12
	payloadTimeAt = 20
	payloadLateAt = 28
)

var _ [0]struct{} = [payloadLateAt + 4 - MinSize]struct{}{}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// stamp says which message this is, when it was meant to be sent, and what part of the time
// since then is the client's own.
type stamp struct {
	run, lane uint32
	seq       uint64
	time      int64
	late      uint32
}

// lateness is by how much a client came late, as a stamp has it.
func lateness(ns int64) uint32 { return uint32(min(max(0, ns), math.MaxUint32)) }

// noise is random bytes from which messages are cut.
type noise struct {
	bytes []byte
	at    int
	// plain is the share of a message, behind its stamp, that is zeros: what a
	// codec makes nothing of.
	plain float64
}

// noiseSize is a prime, so that cuts differ for long.
const noiseSize = 65521

func newNoise(seed uint64, plain float64) *noise {
	var key [32]byte
	binary.BigEndian.PutUint64(key[:], seed)
	n := &noise{bytes: make([]byte, noiseSize), plain: plain}
	rand.NewChaCha8(key).Read(n.bytes) // never fails: see its documentation
	return n
}

// write fills b, at least MinSize bytes, with a message.
func (n *noise) write(b []byte, s stamp) {
	binary.BigEndian.PutUint32(b[payloadRunAt:], s.run)
	binary.BigEndian.PutUint32(b[payloadLaneAt:], s.lane)
	binary.BigEndian.PutUint64(b[payloadSeqAt:], s.seq)
	binary.BigEndian.PutUint64(b[payloadTimeAt:], uint64(s.time))
	binary.BigEndian.PutUint32(b[payloadLateAt:], s.late)
	body := b[MinSize:]
	if n.plain > 0 {
		random := len(body) - int(n.plain*float64(len(body)))
		clear(body[random:])
		body = body[:random]
	}
	for rest := body; len(rest) > 0; {
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
		late: binary.BigEndian.Uint32(b[payloadLateAt:]),
	}, true
}
