package batch

import (
	"encoding/binary"

	"github.com/mqd-broker/mqd/internal/invariant"
)

// Stamp writes the two fields that belong to the broker into batch b: the offset
// of its first record and the partition's leader epoch. Both lie outside the
// CRC, so nothing else changes. It does not allocate. The caller has checked b.
func Stamp(b []byte, base int64, epoch int32) {
	if len(b) < HeaderSize {
		invariant.Violated("batch: stamp of less than a header")
	}
	binary.BigEndian.PutUint64(b[AtBaseOffset:], uint64(base))
	binary.BigEndian.PutUint32(b[AtLeaderEpoch:], uint32(epoch))
}

// StampAppendTime marks batch b as one of a LogAppendTime topic: bit 3 of the
// attributes, ms (milliseconds since 1970) as its maximum timestamp, and the CRC
// computed again over all of b, which must be exactly the batch. It does not
// allocate. The caller has checked b.
func StampAppendTime(b []byte, ms int64) {
	if len(b) < HeaderSize {
		invariant.Violated("batch: stamp of less than a header")
	}
	// The broker's bit is in the low byte of the field.
	b[AtAttributes+1] |= byte(AttrAppendTime)
	binary.BigEndian.PutUint64(b[AtMaxTimestamp:], uint64(ms))
	seal(b)
}

// StampProducer writes a producer's id, epoch and first sequence number into batch b,
// which must be exactly the batch, and computes the CRC of all of it again. It does not
// allocate.
func StampProducer(b []byte, id int64, epoch int16, sequence int32) {
	if len(b) < HeaderSize {
		invariant.Violated("batch: stamp of less than a header")
	}
	binary.BigEndian.PutUint64(b[AtProducerID:], uint64(id))
	binary.BigEndian.PutUint16(b[AtProducerEpoch:], uint16(epoch))
	binary.BigEndian.PutUint32(b[AtBaseSequence:], uint32(sequence))
	seal(b)
}

// seal writes the CRC of b into b.
func seal(b []byte) {
	binary.BigEndian.PutUint32(b[AtCRC:], Checksum(b))
}
