package batch

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/mqd-broker/mqd/internal/invariant"
)

// Sizes of the record batch v2, in bytes, and the bounds that this package puts
// on a batch.
const (
	// HeaderSize is the size of the header before the first record.
	HeaderSize = 61

	// LengthPrefix is the part of a batch that its length field does not count:
	// base offset and the length field itself.
	LengthPrefix = 12

	// UncoveredSize is the part of a batch that its CRC does not cover.
	UncoveredSize = AtAttributes

	// Magic is the message format that this package speaks, the only one.
	Magic = 2

	// MinRecordSize is the smallest encoded record: length, attributes,
	// timestamp delta, offset delta, key length, value length, header count.
	MinRecordSize = 7

	// MaxSize bounds a batch, as it is sent and decompressed: 128 MiB. The
	// limit that users see, max.message.bytes, is far below it.
	MaxSize = 1 << 27

	// MaxRecords bounds the records of one batch, and so its offsets: more
	// cannot fit into MaxSize.
	MaxRecords = (MaxSize - HeaderSize) / MinRecordSize
)

// Positions of the header's fields, in bytes from the start of the batch.
const (
	AtBaseOffset      = 0  // i64
	AtLength          = 8  // i32, bytes after this field
	AtLeaderEpoch     = 12 // i32
	AtMagic           = 16 // i8
	AtCRC             = 17 // u32, CRC-32C of everything from AtAttributes on
	AtAttributes      = 21 // i16
	AtLastOffsetDelta = 23 // i32
	AtBaseTimestamp   = 27 // i64, milliseconds since 1970
	AtMaxTimestamp    = 35 // i64
	AtProducerID      = 43 // i64
	AtProducerEpoch   = 51 // i16
	AtBaseSequence    = 53 // i32
	AtCount           = 57 // i32
	AtRecords         = 61
)

// Each index is 0, or the layout above has a gap or an overlap and this does
// not compile.
var (
	_ = [1]struct{}{}[AtLength-(AtBaseOffset+8)]
	_ = [1]struct{}{}[AtLeaderEpoch-(AtLength+4)]
	_ = [1]struct{}{}[AtMagic-(AtLeaderEpoch+4)]
	_ = [1]struct{}{}[AtCRC-(AtMagic+1)]
	_ = [1]struct{}{}[AtAttributes-(AtCRC+4)]
	_ = [1]struct{}{}[AtLastOffsetDelta-(AtAttributes+2)]
	_ = [1]struct{}{}[AtBaseTimestamp-(AtLastOffsetDelta+4)]
	_ = [1]struct{}{}[AtMaxTimestamp-(AtBaseTimestamp+8)]
	_ = [1]struct{}{}[AtProducerID-(AtMaxTimestamp+8)]
	_ = [1]struct{}{}[AtProducerEpoch-(AtProducerID+8)]
	_ = [1]struct{}{}[AtBaseSequence-(AtProducerEpoch+2)]
	_ = [1]struct{}{}[AtCount-(AtBaseSequence+4)]
	_ = [1]struct{}{}[AtRecords-(AtCount+4)]
	_ = [1]struct{}{}[HeaderSize-AtRecords]
	_ = [1]struct{}{}[LengthPrefix-(AtLength+4)]
	_ = [1]struct{}{}[UncoveredSize-21]
)

// Values of fields that are not in use.
const (
	// NoProducer is the producer id, epoch and sequence of a batch without one.
	NoProducer = -1

	// NoEpoch is the leader epoch that a producer writes; the broker overwrites
	// it.
	NoEpoch = -1

	// NoTimestamp is the timestamp of a record without one.
	NoTimestamp = -1
)

// Header is the decoded header of a record batch v2. [ParseHeader] fills it.
type Header struct {
	BaseOffset      int64 // offset of the batch's first record
	Length          int32 // bytes of the batch after its first 12
	LeaderEpoch     int32 // epoch of the partition at the append
	Magic           int8
	CRC             uint32 // CRC-32C of the bytes from AtAttributes on
	Attributes      Attributes
	LastOffsetDelta int32 // offset of the last record minus BaseOffset
	BaseTimestamp   int64 // milliseconds; the records' timestamps are deltas to it
	MaxTimestamp    int64 // milliseconds; the append time with [LogAppendTime]
	ProducerID      int64 // or NoProducer
	ProducerEpoch   int16
	BaseSequence    int32 // sequence number of the first record
	Count           int32 // records; compaction makes it < LastOffsetDelta + 1
}

// Attributes is the attributes field of a batch.
type Attributes uint16

// The bits of [Attributes]. Bits 7 to 15 have no meaning and must be 0.
const (
	attrCodec         Attributes = 0x07
	AttrAppendTime    Attributes = 0x08 // MaxTimestamp is the broker's append time
	AttrTransactional Attributes = 0x10 // part of a transaction
	AttrControl       Attributes = 0x20 // a transaction marker, not data
	AttrDeleteHorizon Attributes = 0x40 // BaseTimestamp is a compaction's delete horizon
	attrKnown                    = attrCodec | AttrAppendTime | AttrTransactional | AttrControl | AttrDeleteHorizon
)

// TimestampType says whose clock a batch's timestamps are from.
type TimestampType uint8

// The two timestamp types.
const (
	CreateTime    TimestampType = iota // the producer's, one for each record
	LogAppendTime                      // the broker's, one for the batch
)

// Codec returns the codec bits; the value may be one that does not exist.
func (a Attributes) Codec() Codec { return Codec(a & attrCodec) }

// TimestampType returns whose clock the timestamps are from.
func (a Attributes) TimestampType() TimestampType { return TimestampType(a & AttrAppendTime >> 3) }

// Transactional says whether the batch is part of a transaction.
func (a Attributes) Transactional() bool { return a&AttrTransactional != 0 }

// Control says whether the batch is a transaction marker.
func (a Attributes) Control() bool { return a&AttrControl != 0 }

// DeleteHorizon says whether BaseTimestamp is a delete horizon.
func (a Attributes) DeleteHorizon() bool { return a&AttrDeleteHorizon != 0 }

// Unknown returns the bits that have no meaning.
func (a Attributes) Unknown() Attributes { return a &^ attrKnown }

// ParseHeader decodes the header at the start of b, which may be longer or
// shorter than the batch. It checks what is needed to read on: enough bytes
// ([ErrTruncated]), the format ([ErrMagic]) and a length within [Size]'s bounds.
// It verifies no checksum and believes every other field.
func ParseHeader(b []byte) (Header, error) {
	if _, err := formatSize(b); err != nil {
		return Header{}, err
	}
	if len(b) < HeaderSize {
		return Header{}, fail(ErrTruncated, "header", 0, HeaderSize, int64(len(b)))
	}
	return header(b), nil
}

// Size returns the size in bytes of the batch that starts b, HeaderSize to
// MaxSize, from its length field alone: b needs 12 bytes. It returns
// [ErrTruncated], [ErrInvalid] for a length that is negative or below a header,
// and [ErrTooLarge] for one above [MaxSize]. Nothing may be sized by the field
// before this has accepted it.
func Size(b []byte) (int, error) {
	if len(b) < LengthPrefix {
		return 0, fail(ErrTruncated, "batch length", AtLength, LengthPrefix, int64(len(b)))
	}
	n := int64(int32(binary.BigEndian.Uint32(b[AtLength:])))
	if n < HeaderSize-LengthPrefix {
		return 0, fail(ErrInvalid, "batch length", AtLength, HeaderSize-LengthPrefix, n)
	}
	if n > MaxSize-LengthPrefix {
		return 0, fail(ErrTooLarge, "batch length", AtLength, MaxSize-LengthPrefix, n)
	}
	return LengthPrefix + int(n), nil
}

// Split cuts the first whole batch off b, a run of batches such as a fetch
// answer. It returns [ErrTruncated] where b ends within the batch, and otherwise
// [Size]'s errors and [ErrMagic].
func Split(b []byte) (first, rest []byte, err error) {
	n, err := formatSize(b)
	if err != nil {
		return nil, b, err
	}
	if n > len(b) {
		return nil, b, fail(ErrTruncated, "batch length", AtLength, int64(n), int64(len(b)))
	}
	return b[:n:n], b[n:], nil
}

// Checksum returns the CRC-32C of batch b that belongs into its CRC field.
func Checksum(b []byte) uint32 {
	if len(b) < HeaderSize {
		invariant.Violated("batch: checksum of less than a header")
	}
	return crc32.Checksum(b[AtAttributes:], castagnoli)
}

// Put writes the header into the first HeaderSize bytes of b, all fields as
// they are.
func (h *Header) Put(b []byte) {
	if len(b) < HeaderSize {
		invariant.Violated("batch: header put into less than its size")
	}
	b = b[:HeaderSize]
	be := binary.BigEndian
	be.PutUint64(b[AtBaseOffset:], uint64(h.BaseOffset))
	be.PutUint32(b[AtLength:], uint32(h.Length))
	be.PutUint32(b[AtLeaderEpoch:], uint32(h.LeaderEpoch))
	b[AtMagic] = byte(h.Magic)
	be.PutUint32(b[AtCRC:], h.CRC)
	be.PutUint16(b[AtAttributes:], uint16(h.Attributes))
	be.PutUint32(b[AtLastOffsetDelta:], uint32(h.LastOffsetDelta))
	be.PutUint64(b[AtBaseTimestamp:], uint64(h.BaseTimestamp))
	be.PutUint64(b[AtMaxTimestamp:], uint64(h.MaxTimestamp))
	be.PutUint64(b[AtProducerID:], uint64(h.ProducerID))
	be.PutUint16(b[AtProducerEpoch:], uint16(h.ProducerEpoch))
	be.PutUint32(b[AtBaseSequence:], uint32(h.BaseSequence))
	be.PutUint32(b[AtCount:], uint32(h.Count))
}

// Size returns the size of the whole batch in bytes.
func (h *Header) Size() int { return LengthPrefix + int(h.Length) }

// LastOffset returns the offset of the batch's last record.
func (h *Header) LastOffset() int64 { return h.BaseOffset + int64(h.LastOffsetDelta) }

// NextOffset returns the offset after the batch.
func (h *Header) NextOffset() int64 { return h.LastOffset() + 1 }

// LastSequence returns the sequence number of the batch's last record. Sequence
// numbers go from 2^31-1 back to 0.
func (h *Header) LastSequence() int32 {
	return int32((uint32(h.BaseSequence) + uint32(h.LastOffsetDelta)) & 0x7fffffff)
}

// header decodes b, which has at least HeaderSize bytes.
func header(b []byte) Header {
	b = b[:HeaderSize]
	be := binary.BigEndian
	return Header{
		BaseOffset:      int64(be.Uint64(b[AtBaseOffset:])),
		Length:          int32(be.Uint32(b[AtLength:])),
		LeaderEpoch:     int32(be.Uint32(b[AtLeaderEpoch:])),
		Magic:           int8(b[AtMagic]),
		CRC:             be.Uint32(b[AtCRC:]),
		Attributes:      Attributes(be.Uint16(b[AtAttributes:])),
		LastOffsetDelta: int32(be.Uint32(b[AtLastOffsetDelta:])),
		BaseTimestamp:   int64(be.Uint64(b[AtBaseTimestamp:])),
		MaxTimestamp:    int64(be.Uint64(b[AtMaxTimestamp:])),
		ProducerID:      int64(be.Uint64(b[AtProducerID:])),
		ProducerEpoch:   int16(be.Uint16(b[AtProducerEpoch:])),
		BaseSequence:    int32(be.Uint32(b[AtBaseSequence:])),
		Count:           int32(be.Uint32(b[AtCount:])),
	}
}

// formatSize returns the size of the batch at the start of b. It looks at the
// format first: the older formats have the same first 17 bytes but may be
// shorter than a header, and are to be called by their name.
func formatSize(b []byte) (int, error) {
	if len(b) <= AtMagic {
		return 0, fail(ErrTruncated, "magic", AtMagic, AtMagic+1, int64(len(b)))
	}
	if b[AtMagic] != Magic {
		return 0, fail(ErrMagic, "magic", AtMagic, Magic, int64(int8(b[AtMagic])))
	}
	return Size(b)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
