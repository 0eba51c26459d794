package journal

import (
	"encoding/binary"
	"fmt"
)

// anchorMagic begins an anchor: "MQDJ".
const anchorMagic = 0x4d51444a

// AnchorVersion is the version of anchors that this package writes and the newest that
// it reads. Version 1 had no limit.
const AnchorVersion = 2

// Offsets of the fields of an anchor. Magic, checksum and version stand where
// they do in a round.
const (
	ancFlags       = 10
	ancBlock       = 12
	ancUUID        = 16
	ancRequired    = 32
	ancSequence    = 40
	ancShard       = 48
	ancHeadPrevCRC = 52
	ancIncarnation = 56
	ancHeadLSN     = 64
	ancHeadPos     = 72
	ancHeadPrevLSN = 80
	ancFlushed     = 88
	ancResume      = 96
	ancStart       = 104
	ancSize        = 112
	ancCreated     = 120
	ancLimit       = 128
	anchorSize     = 136
)

// anchorCount is the number of anchors, in the first blocks of the region.
const anchorCount = 2

// scratchPos is the block that ProbeMethod writes to; its content means nothing.
const scratchPos = anchorCount * BlockSize

// Anchor is a journal's superblock. Two of them are written in turn, and the
// intact one with the higher sequence counts.
type Anchor struct {
	UUID [16]byte
	// Required are bits for features that a program must know to open the
	// journal; none is defined.
	Required uint64
	// Sequence counts the anchors ever written.
	Sequence uint64
	Shard    uint32
	// Incarnation counts the lives of the journal, 0 before the first.
	Incarnation uint64
	// HeadLSN is the oldest round that recovery reads, or the bound below the
	// next round when there is none; HeadPos is its byte offset in the region,
	// HeadPrevLSN and HeadPrevCRC what it says of the round before it.
	HeadLSN     uint64
	HeadPos     int64
	HeadPrevLSN uint64
	HeadPrevCRC uint32
	// FlushedLSN is the newest round that was durable, with all before it,
	// when the anchor was written.
	FlushedLSN uint64
	// ResumeLSN is the newest round that this incarnation took over from
	// earlier ones, StartLSN its own first.
	ResumeLSN, StartLSN uint64
	// Size is the size of the region in bytes.
	Size int64
	// Limit is the byte offset in the region up to which, from the head on and round
	// the end, rounds may have been written while this is the newest anchor; 0 for
	// no limit but the head.
	Limit int64
	// Created is when the journal was made, Unix nanoseconds.
	Created int64
}

// Encode writes a into b[:BlockSize].
func (a *Anchor) Encode(b []byte) {
	b = b[:BlockSize]
	clear(b)
	binary.BigEndian.PutUint32(b[offMagic:], anchorMagic)
	binary.BigEndian.PutUint16(b[offVersion:], AnchorVersion)
	binary.BigEndian.PutUint32(b[ancBlock:], BlockSize)
	copy(b[ancUUID:ancRequired], a.UUID[:])
	binary.BigEndian.PutUint64(b[ancRequired:], a.Required)
	binary.BigEndian.PutUint64(b[ancSequence:], a.Sequence)
	binary.BigEndian.PutUint32(b[ancShard:], a.Shard)
	binary.BigEndian.PutUint32(b[ancHeadPrevCRC:], a.HeadPrevCRC)
	binary.BigEndian.PutUint64(b[ancIncarnation:], a.Incarnation)
	binary.BigEndian.PutUint64(b[ancHeadLSN:], a.HeadLSN)
	binary.BigEndian.PutUint64(b[ancHeadPos:], uint64(a.HeadPos))
	binary.BigEndian.PutUint64(b[ancHeadPrevLSN:], a.HeadPrevLSN)
	binary.BigEndian.PutUint64(b[ancFlushed:], a.FlushedLSN)
	binary.BigEndian.PutUint64(b[ancResume:], a.ResumeLSN)
	binary.BigEndian.PutUint64(b[ancStart:], a.StartLSN)
	binary.BigEndian.PutUint64(b[ancSize:], uint64(a.Size))
	binary.BigEndian.PutUint64(b[ancCreated:], uint64(a.Created))
	binary.BigEndian.PutUint64(b[ancLimit:], uint64(a.Limit))
	binary.BigEndian.PutUint32(b[offCRC:], checksum(b))
}

// DecodeAnchor reads an anchor from b[:BlockSize]. Errors: ErrNotJournal for a
// block of zeros, ErrMagic, ErrChecksum, ErrVersion, ErrInvalid.
func DecodeAnchor(b []byte) (Anchor, error) {
	b = b[:BlockSize]
	if zero(b) {
		return Anchor{}, ErrNotJournal
	}
	if m := binary.BigEndian.Uint32(b[offMagic:]); m != anchorMagic {
		return Anchor{}, fmt.Errorf("anchor: expected %#x, found %#x: %w", anchorMagic, m, ErrMagic)
	}
	if want, found := binary.BigEndian.Uint32(b[offCRC:]), checksum(b); want != found {
		return Anchor{}, fmt.Errorf("anchor: expected %#08x, found %#08x: %w", want, found, ErrChecksum)
	}
	if v := binary.BigEndian.Uint16(b[offVersion:]); v < 1 || v > AnchorVersion {
		return Anchor{}, fmt.Errorf("anchor of version %d, this program reads up to %d: %w", v, AnchorVersion, ErrVersion)
	}
	a := Anchor{
		UUID:        [16]byte(b[ancUUID:ancRequired]),
		Required:    binary.BigEndian.Uint64(b[ancRequired:]),
		Sequence:    binary.BigEndian.Uint64(b[ancSequence:]),
		Shard:       binary.BigEndian.Uint32(b[ancShard:]),
		HeadPrevCRC: binary.BigEndian.Uint32(b[ancHeadPrevCRC:]),
		Incarnation: binary.BigEndian.Uint64(b[ancIncarnation:]),
		HeadLSN:     binary.BigEndian.Uint64(b[ancHeadLSN:]),
		HeadPos:     int64(binary.BigEndian.Uint64(b[ancHeadPos:])),
		HeadPrevLSN: binary.BigEndian.Uint64(b[ancHeadPrevLSN:]),
		FlushedLSN:  binary.BigEndian.Uint64(b[ancFlushed:]),
		ResumeLSN:   binary.BigEndian.Uint64(b[ancResume:]),
		StartLSN:    binary.BigEndian.Uint64(b[ancStart:]),
		Size:        int64(binary.BigEndian.Uint64(b[ancSize:])),
		Created:     int64(binary.BigEndian.Uint64(b[ancCreated:])),
		Limit:       int64(binary.BigEndian.Uint64(b[ancLimit:])),
	}
	if a.Required != 0 {
		return a, fmt.Errorf("anchor: required features %#x are unknown to version %d: %w", a.Required, AnchorVersion, ErrVersion)
	}
	return a, a.check(b)
}

func (a *Anchor) check(b []byte) error {
	block := binary.BigEndian.Uint32(b[ancBlock:])
	flags := binary.BigEndian.Uint16(b[ancFlags:])
	switch {
	case block != BlockSize || flags != 0 || !zero(b[anchorSize:]):
		return fmt.Errorf("anchor: block size %d, or reserved bytes are not zero: %w", block, ErrInvalid)
	case a.Size < MinRegion || a.Size%BlockSize != 0:
		return fmt.Errorf("anchor: region of %d bytes: %w", a.Size, ErrInvalid)
	case a.HeadPos < RingStart || a.HeadPos >= a.Size || a.HeadPos%BlockSize != 0:
		return fmt.Errorf("anchor: head at %d in a region of %d bytes: %w", a.HeadPos, a.Size, ErrInvalid)
	case a.Limit != 0 && (a.Limit < RingStart || a.Limit >= a.Size || a.Limit%BlockSize != 0 ||
		a.Limit == a.HeadPos || binary.BigEndian.Uint16(b[offVersion:]) == 1):
		return fmt.Errorf("anchor: limit at %d, head at %d in a region of %d bytes: %w", a.Limit, a.HeadPos, a.Size, ErrInvalid)
	case a.HeadPrevLSN >= a.HeadLSN || a.ResumeLSN >= a.StartLSN:
		return fmt.Errorf("anchor: head %d after %d, start %d after %d: %w", a.HeadLSN, a.HeadPrevLSN, a.StartLSN, a.ResumeLSN, ErrInvalid)
	}
	return nil
}

// zero reports whether b holds nothing but zeros.
func zero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
