package journal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Sizes of the format, in bytes. docs/format/journal.md is the byte table.
const (
	// BlockSize is the unit of everything written.
	BlockSize = 4096
	// HeaderSize is the fixed header of a round, before its entry table.
	HeaderSize = 128
	// EntrySize is one entry of the table.
	EntrySize = 80
	// PrefixSize is the part of a batch that its own CRC does not cover.
	PrefixSize = 21
	// RingStart is where the ring begins. Before it lie two anchors, the scratch
	// block that start-up measures the device with, and a reserved block.
	RingStart = 4 * BlockSize
	// MinRegion is the smallest region that is accepted.
	MinRegion = 32 * BlockSize
	// MaxTable bounds the entry table of a round.
	MaxTable = 1 << 20
)

// Version is the version of the format that this package writes and the newest
// that it reads.
const Version = 1

// roundMagic begins a round: "MQDR".
const roundMagic = 0x4d514452

// Offsets of the fields of a round's header.
const (
	offMagic       = 0
	offCRC         = 4
	offVersion     = 8
	offFlags       = 10
	offEntries     = 12
	offUUID        = 16
	offIncarnation = 32
	offLSN         = 40
	offPrevLSN     = 48
	offPrevCRC     = 56
	offReserved    = 60
	offAppendTime  = 64
	offCheckpoint  = 72
	offFlushed     = 80
	offPos         = 88
	offResume      = 96
	offStart       = 104
	offBodies      = 112
	offBodyBytes   = 116
	offTotal       = 120
	offTable       = 124
	endHeader      = 128
)

// Offsets of the fields of an entry.
const (
	entKind       = 0
	entFlags      = 1
	entSlot       = 2
	entTerm       = 4
	entIndex      = 8
	entTopic      = 16
	entPartition  = 32
	entLength     = 36
	entBaseOffset = 40
	entPrefix     = 48
	entPad        = entPrefix + PrefixSize
	entBodyCRC    = 72
	entReserved   = 76
	endEntry      = 80
)

// The layout is what the constants say.
var (
	_ [0]struct{} = [endHeader - HeaderSize]struct{}{}
	_ [0]struct{} = [endEntry - EntrySize]struct{}{}
	_ [0]struct{} = [entPad + 3 - entBodyCRC]struct{}{}
	_ [0]struct{} = [HeaderSize % 8]struct{}{}
	_ [0]struct{} = [EntrySize % 8]struct{}{}
	_ [0]struct{} = [RingStart % BlockSize]struct{}{}
	_             = uint(BlockSize - HeaderSize - EntrySize)
	_             = uint(BlockSize - anchorSize)
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Kind says what an entry is.
type Kind uint8

// The kinds of version 1, and the numbers set aside for later ones.
const (
	// KindBatch is a record batch, verbatim.
	KindBatch Kind = 1
	// KindTail is a fragment: the partial last block of a segment file.
	KindTail Kind = 2
	// KindMark fills a round that exists to carry the flushed watermark.
	KindMark Kind = 3
	// KindWrap fills a round behind which the rest of the lap is skipped.
	KindWrap Kind = 4
	// KindCheckpoint refers to a checkpoint.
	KindCheckpoint Kind = 5
	// KindHardState, KindConfiguration and KindTruncation are reserved for
	// replication, KindTransaction for transaction markers.
	KindHardState     Kind = 16
	KindConfiguration Kind = 17
	KindTruncation    Kind = 18
	KindTransaction   Kind = 19
)

// FlagRequired in Entry.Flags: a program that does not know the kind must not
// open the journal. The other bits belong to whoever writes the kind.
const FlagRequired = 1

// known reports whether version 1 defines k.
func (k Kind) known() bool { return k >= KindBatch && k <= KindCheckpoint }

// internal reports whether k is the journal's own and of no concern to others.
func (k Kind) internal() bool { return k == KindMark || k == KindWrap }

// Entry describes one body in a round.
type Entry struct {
	Kind      Kind
	Flags     uint8
	Slot      uint16
	Term      uint32 // 31 bits
	Index     uint64
	Topic     [16]byte
	Partition uint32
	// BaseOffset is the offset of a batch's first record; other kinds give it a
	// meaning of their own.
	BaseOffset int64
	// Prefix is a copy of a batch's first bytes, zero for other kinds.
	Prefix [PrefixSize]byte
	// BodyCRC is the CRC-32C of the body, zero for a batch: the prefix holds
	// the batch's own.
	BodyCRC uint32
	// Length is the size of the body in bytes.
	Length uint32
}

// Encode writes e into b[:EntrySize].
func (e *Entry) Encode(b []byte) {
	_ = b[EntrySize-1]
	b[entKind], b[entFlags] = byte(e.Kind), e.Flags
	binary.BigEndian.PutUint16(b[entSlot:], e.Slot)
	binary.BigEndian.PutUint32(b[entTerm:], e.Term)
	binary.BigEndian.PutUint64(b[entIndex:], e.Index)
	copy(b[entTopic:entPartition], e.Topic[:])
	binary.BigEndian.PutUint32(b[entPartition:], e.Partition)
	binary.BigEndian.PutUint32(b[entLength:], e.Length)
	binary.BigEndian.PutUint64(b[entBaseOffset:], uint64(e.BaseOffset))
	copy(b[entPrefix:entPad], e.Prefix[:])
	b[entPad], b[entPad+1], b[entPad+2] = 0, 0, 0
	binary.BigEndian.PutUint32(b[entBodyCRC:], e.BodyCRC)
	binary.BigEndian.PutUint32(b[entReserved:], 0)
}

// DecodeEntry reads an entry from b[:EntrySize]. It fails with ErrInvalid only.
func DecodeEntry(b []byte) (Entry, error) {
	_ = b[EntrySize-1]
	e := Entry{
		Kind: Kind(b[entKind]), Flags: b[entFlags],
		Slot:       binary.BigEndian.Uint16(b[entSlot:]),
		Term:       binary.BigEndian.Uint32(b[entTerm:]),
		Index:      binary.BigEndian.Uint64(b[entIndex:]),
		Topic:      [16]byte(b[entTopic:entPartition]),
		Partition:  binary.BigEndian.Uint32(b[entPartition:]),
		Length:     binary.BigEndian.Uint32(b[entLength:]),
		BaseOffset: int64(binary.BigEndian.Uint64(b[entBaseOffset:])),
		Prefix:     [PrefixSize]byte(b[entPrefix:entPad]),
		BodyCRC:    binary.BigEndian.Uint32(b[entBodyCRC:]),
	}
	switch {
	case e.Kind == 0:
		return e, fmt.Errorf("entry kind: found 0: %w", ErrInvalid)
	case e.Term>>31 != 0:
		return e, fmt.Errorf("entry term: expected 31 bits, found %#x: %w", e.Term, ErrInvalid)
	case e.Kind == KindBatch && e.Length < PrefixSize:
		return e, fmt.Errorf("batch length: expected at least %d bytes, found %d: %w", PrefixSize, e.Length, ErrInvalid)
	case b[entPad]|b[entPad+1]|b[entPad+2] != 0 || binary.BigEndian.Uint32(b[entReserved:]) != 0:
		return e, fmt.Errorf("reserved bytes of an entry are not zero: %w", ErrInvalid)
	}
	return e, nil
}

// BodyCRC is the checksum of a body that is not a batch.
func BodyCRC(body []byte) uint32 { return crc32.Checksum(body, castagnoli) }

// CheckBody holds a body of the right length against its entry and returns the
// checksum that was expected, the one that was found, and whether the body is
// what was written.
func CheckBody(e *Entry, body []byte) (expected, found uint32, ok bool) {
	if e.Kind != KindBatch {
		found = BodyCRC(body)
		return e.BodyCRC, found, found == e.BodyCRC
	}
	expected = binary.BigEndian.Uint32(e.Prefix[17:])
	found = crc32.Checksum(body[PrefixSize:], castagnoli)
	return expected, found, found == expected && [PrefixSize]byte(body) == e.Prefix
}

// Header is the fixed part of a round.
type Header struct {
	UUID        [16]byte
	Incarnation uint64
	LSN         uint64
	// PrevLSN and PrevCRC are the LSN and the header checksum of the round
	// before. PrevCRC is 0 where that round could not be read.
	PrevLSN uint64
	PrevCRC uint32
	// AppendTime is the broker's time of the round in Unix nanoseconds; it never
	// goes back along the journal.
	AppendTime int64
	// CheckpointLSN is the newest round that a durable anchor has released.
	CheckpointLSN uint64
	// FlushedLSN is the newest round that was durable, with all before it,
	// when this one was written.
	FlushedLSN uint64
	// Pos is the round's own byte offset in the region.
	Pos int64
	// ResumeLSN is the newest round that this incarnation took over from
	// earlier ones, StartLSN its own first.
	ResumeLSN, StartLSN uint64

	Entries      uint32 // count
	BodiesOffset uint32 // from the start of the round
	BodyBytes    uint32 // sum of the bodies' lengths
	Total        uint32 // size of the round with padding, a multiple of BlockSize

	// CRC is the checksum of header and entry table: set by Seal and by
	// DecodeHeader.
	CRC uint32
}

// Size is the size of the header with its entry table.
func (h *Header) Size() int { return HeaderSize + int(h.Entries)*EntrySize }

// Seal writes h into the start of b, in which the entry table already stands
// behind it, and sets the checksum over both.
func (h *Header) Seal(b []byte) {
	binary.BigEndian.PutUint32(b[offMagic:], roundMagic)
	binary.BigEndian.PutUint16(b[offVersion:], Version)
	binary.BigEndian.PutUint16(b[offFlags:], 0)
	binary.BigEndian.PutUint32(b[offEntries:], h.Entries)
	copy(b[offUUID:offIncarnation], h.UUID[:])
	binary.BigEndian.PutUint64(b[offIncarnation:], h.Incarnation)
	binary.BigEndian.PutUint64(b[offLSN:], h.LSN)
	binary.BigEndian.PutUint64(b[offPrevLSN:], h.PrevLSN)
	binary.BigEndian.PutUint32(b[offPrevCRC:], h.PrevCRC)
	binary.BigEndian.PutUint32(b[offReserved:], 0)
	binary.BigEndian.PutUint64(b[offAppendTime:], uint64(h.AppendTime))
	binary.BigEndian.PutUint64(b[offCheckpoint:], h.CheckpointLSN)
	binary.BigEndian.PutUint64(b[offFlushed:], h.FlushedLSN)
	binary.BigEndian.PutUint64(b[offPos:], uint64(h.Pos))
	binary.BigEndian.PutUint64(b[offResume:], h.ResumeLSN)
	binary.BigEndian.PutUint64(b[offStart:], h.StartLSN)
	binary.BigEndian.PutUint32(b[offBodies:], h.BodiesOffset)
	binary.BigEndian.PutUint32(b[offBodyBytes:], h.BodyBytes)
	binary.BigEndian.PutUint32(b[offTotal:], h.Total)
	binary.BigEndian.PutUint32(b[offTable:], h.Entries*EntrySize)
	h.CRC = checksum(b[:h.Size()])
	binary.BigEndian.PutUint32(b[offCRC:], h.CRC)
}

// DecodeHeader reads a header from b[:HeaderSize]. The checksum is not verified:
// that takes the table, whose size the header tells; see VerifyHeader. Errors:
// ErrMagic, ErrVersion, ErrInvalid.
func DecodeHeader(b []byte) (Header, error) {
	_ = b[HeaderSize-1]
	h := Header{
		CRC:           binary.BigEndian.Uint32(b[offCRC:]),
		Entries:       binary.BigEndian.Uint32(b[offEntries:]),
		UUID:          [16]byte(b[offUUID:offIncarnation]),
		Incarnation:   binary.BigEndian.Uint64(b[offIncarnation:]),
		LSN:           binary.BigEndian.Uint64(b[offLSN:]),
		PrevLSN:       binary.BigEndian.Uint64(b[offPrevLSN:]),
		PrevCRC:       binary.BigEndian.Uint32(b[offPrevCRC:]),
		AppendTime:    int64(binary.BigEndian.Uint64(b[offAppendTime:])),
		CheckpointLSN: binary.BigEndian.Uint64(b[offCheckpoint:]),
		FlushedLSN:    binary.BigEndian.Uint64(b[offFlushed:]),
		Pos:           int64(binary.BigEndian.Uint64(b[offPos:])),
		ResumeLSN:     binary.BigEndian.Uint64(b[offResume:]),
		StartLSN:      binary.BigEndian.Uint64(b[offStart:]),
		BodiesOffset:  binary.BigEndian.Uint32(b[offBodies:]),
		BodyBytes:     binary.BigEndian.Uint32(b[offBodyBytes:]),
		Total:         binary.BigEndian.Uint32(b[offTotal:]),
	}
	if m := binary.BigEndian.Uint32(b[offMagic:]); m != roundMagic {
		return h, fmt.Errorf("round: expected %#x, found %#x: %w", roundMagic, m, ErrMagic)
	}
	if v := binary.BigEndian.Uint16(b[offVersion:]); v != Version {
		return h, fmt.Errorf("round of version %d, this program reads %d: %w", v, Version, ErrVersion)
	}
	table := binary.BigEndian.Uint32(b[offTable:])
	rest := binary.BigEndian.Uint32(b[offReserved:]) | uint32(binary.BigEndian.Uint16(b[offFlags:]))
	return h, h.check(table, rest)
}

// check holds the fields against each other.
func (h *Header) check(table, rest uint32) error {
	if h.Entries > MaxTable/EntrySize || table != h.Entries*EntrySize {
		return fmt.Errorf("round: %d entries in a table of %d bytes: %w", h.Entries, table, ErrInvalid)
	}
	size := uint64(h.Size())
	end := uint64(h.BodiesOffset) + uint64(h.BodyBytes)
	switch {
	case h.Entries == 0 || rest != 0:
		return fmt.Errorf("round: no entries, or reserved bytes are not zero: %w", ErrInvalid)
	case uint64(h.BodiesOffset) < size || uint64(h.BodiesOffset) > blocks(size):
		return fmt.Errorf("round: header and table of %d bytes, bodies at %d: %w", size, h.BodiesOffset, ErrInvalid)
	case uint64(h.Total) != blocks(end):
		return fmt.Errorf("round: bodies end at %d, total %d: %w", end, h.Total, ErrInvalid)
	case h.LSN == 0 || h.PrevLSN >= h.LSN || h.FlushedLSN >= h.LSN || h.CheckpointLSN >= h.LSN:
		return fmt.Errorf("round %d: after %d, flushed %d, checkpoint %d: %w", h.LSN, h.PrevLSN, h.FlushedLSN, h.CheckpointLSN, ErrInvalid)
	case h.LSN < h.StartLSN || h.ResumeLSN >= h.StartLSN || h.Incarnation == 0,
		h.LSN == h.StartLSN && h.PrevLSN != h.ResumeLSN, h.LSN > h.StartLSN && h.PrevLSN != h.LSN-1:
		return fmt.Errorf("round %d: incarnation %d starts at %d after %d: %w", h.LSN, h.Incarnation, h.StartLSN, h.ResumeLSN, ErrInvalid)
	case h.Pos < RingStart || h.Pos%BlockSize != 0:
		return fmt.Errorf("round %d: position %d: %w", h.LSN, h.Pos, ErrInvalid)
	}
	return nil
}

// VerifyHeader checks the checksum over header and table, which are b[:h.Size()],
// and returns the one that was found.
func (h *Header) VerifyHeader(b []byte) (found uint32, ok bool) {
	found = checksum(b[:h.Size()])
	return found, found == h.CRC
}

// checksum covers b except its second word, where the checksum itself stands.
func checksum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:offCRC], castagnoli), castagnoli, b[offCRC+4:])
}

// blocks rounds a size in bytes up to whole blocks.
func blocks[T uint64 | int64 | int](n T) T { return (n + BlockSize - 1) &^ (BlockSize - 1) }
