package segment

import (
	"encoding/binary"
	"hash/crc32"
)

// The layout of an index file; docs/format/index.md is its twin. All integers
// are big-endian, all checksums CRC-32C.
//
//	open:    header block | entries
//	sealed:  header block | entries | regions | ranges | footer
const (
	headerMagic   = 0x4d514449 // "MQDI"
	footerMagic   = 0x4d514446 // "MQDF"
	formatVersion = 1

	headerBytes = 4096
	entryBytes  = 32
	regionBytes = 4 // of a region's checksum
	rangeBytes  = 32
	footerBytes = 128
)

// Positions in the header block.
const (
	hMagic     = 0  // u32
	hVersion   = 4  // u16
	hForm      = 6  // u8
	hZero      = 7  // u8
	hRequired  = 8  // u32
	hOptional  = 12 // u32
	hTopic     = 16 // 16 bytes
	hPartition = 32 // u32
	hInterval  = 36 // u32
	hBase      = 40 // i64
	hCreated   = 48 // i64
	hRest      = 56 // zeros
	hCRC       = headerBytes - 4
)

// Positions in an entry.
const (
	eRel        = 0  // u32
	ePos        = 4  // u32
	eMaxBefore  = 8  // i64
	eAppendTime = 16 // i64
	eZero       = 24 // u32
	eCRC        = 28 // u32
)

// Positions in a quarantined range.
const (
	rFromOffset = 0  // i64
	rToOffset   = 8  // i64
	rFromPos    = 16 // u32
	rToPos      = 20 // u32
	rCheck      = 24 // u8
	rZero       = 25 // 7 bytes
)

// Positions in the footer.
const (
	fMagic        = 0   // u32
	fFlags        = 4   // u32
	fEntries      = 8   // u32
	fRegions      = 12  // u32
	fRanges       = 16  // u32
	fZero         = 20  // u32
	fLogBytes     = 24  // i64
	fFirstOffset  = 32  // i64
	fNextOffset   = 40  // i64
	fMinTimestamp = 48  // i64
	fMaxTimestamp = 56  // i64
	fNewestAppend = 64  // i64
	fBatches      = 72  // u64
	fRecords      = 80  // u64
	fEntriesCRC   = 88  // u32
	fRegionsCRC   = 92  // u32
	fRangesCRC    = 96  // u32
	fHeaderCRC    = 100 // u32
	fRest         = 104 // zeros
	fCRC          = footerBytes - 4
)

// Each index is 0, or the layout above has a gap or an overlap and this does
// not compile.
var (
	_ = [1]struct{}{}[hVersion-(hMagic+4)]
	_ = [1]struct{}{}[hForm-(hVersion+2)]
	_ = [1]struct{}{}[hZero-(hForm+1)]
	_ = [1]struct{}{}[hRequired-(hZero+1)]
	_ = [1]struct{}{}[hOptional-(hRequired+4)]
	_ = [1]struct{}{}[hTopic-(hOptional+4)]
	_ = [1]struct{}{}[hPartition-(hTopic+16)]
	_ = [1]struct{}{}[hInterval-(hPartition+4)]
	_ = [1]struct{}{}[hBase-(hInterval+4)]
	_ = [1]struct{}{}[hCreated-(hBase+8)]
	_ = [1]struct{}{}[hRest-(hCreated+8)]
	_ = [1]struct{}{}[headerBytes-(hCRC+4)]

	_ = [1]struct{}{}[ePos-(eRel+4)]
	_ = [1]struct{}{}[eMaxBefore-(ePos+4)]
	_ = [1]struct{}{}[eAppendTime-(eMaxBefore+8)]
	_ = [1]struct{}{}[eZero-(eAppendTime+8)]
	_ = [1]struct{}{}[eCRC-(eZero+4)]
	_ = [1]struct{}{}[entryBytes-(eCRC+4)]
	_ = [1]struct{}{}[headerBytes%entryBytes]

	_ = [1]struct{}{}[rToOffset-(rFromOffset+8)]
	_ = [1]struct{}{}[rFromPos-(rToOffset+8)]
	_ = [1]struct{}{}[rToPos-(rFromPos+4)]
	_ = [1]struct{}{}[rCheck-(rToPos+4)]
	_ = [1]struct{}{}[rZero-(rCheck+1)]
	_ = [1]struct{}{}[rangeBytes-(rZero+7)]

	_ = [1]struct{}{}[fFlags-(fMagic+4)]
	_ = [1]struct{}{}[fEntries-(fFlags+4)]
	_ = [1]struct{}{}[fRegions-(fEntries+4)]
	_ = [1]struct{}{}[fRanges-(fRegions+4)]
	_ = [1]struct{}{}[fZero-(fRanges+4)]
	_ = [1]struct{}{}[fLogBytes-(fZero+4)]
	_ = [1]struct{}{}[fFirstOffset-(fLogBytes+8)]
	_ = [1]struct{}{}[fNextOffset-(fFirstOffset+8)]
	_ = [1]struct{}{}[fMinTimestamp-(fNextOffset+8)]
	_ = [1]struct{}{}[fMaxTimestamp-(fMinTimestamp+8)]
	_ = [1]struct{}{}[fNewestAppend-(fMaxTimestamp+8)]
	_ = [1]struct{}{}[fBatches-(fNewestAppend+8)]
	_ = [1]struct{}{}[fRecords-(fBatches+8)]
	_ = [1]struct{}{}[fEntriesCRC-(fRecords+8)]
	_ = [1]struct{}{}[fRegionsCRC-(fEntriesCRC+4)]
	_ = [1]struct{}{}[fRangesCRC-(fRegionsCRC+4)]
	_ = [1]struct{}{}[fHeaderCRC-(fRangesCRC+4)]
	_ = [1]struct{}{}[fRest-(fHeaderCRC+4)]
	_ = [1]struct{}{}[footerBytes-(fCRC+4)]
)

// Form says whether an index file has its footer.
type Form uint8

const (
	// FormOpen is the index of a log that may grow: entries only.
	FormOpen Form = 1
	// FormSealed is the index of a log that is complete.
	FormSealed Form = 2
)

// EntryAt is the byte position of entry i in an index file.
func EntryAt(i int) int64 { return headerBytes + int64(i)*entryBytes }

// MaxIndexFileBytes bounds the size of the index file of a log of logBytes with
// the given index interval.
func MaxIndexFileBytes(logBytes int64, intervalBytes int) int64 {
	return headerBytes + (logBytes/int64(intervalBytes)+1)*entryBytes +
		int64(regionCount(logBytes))*regionBytes + MaxRanges*rangeBytes + footerBytes
}

// sealedBytes is the size of the file of a sealed index.
func sealedBytes(ix *Index) int64 {
	return EntryAt(ix.count) + int64(len(ix.sealed.regions))*regionBytes + int64(len(ix.ranges))*rangeBytes + footerBytes
}

// entrySeed is the start of every entry's checksum: an entry of another segment
// does not pass.
func entrySeed(id ID) uint32 {
	var b [28]byte
	copy(b[:], id.Topic[:])
	binary.BigEndian.PutUint32(b[16:], id.Partition)
	binary.BigEndian.PutUint64(b[20:], uint64(id.Base))
	return crc32.Checksum(b[:], castagnoli)
}
