package checkpoint

import "hash/crc32"

// The layouts; docs/format/checkpoint.md is their twin. All integers are
// big-endian, all checksums CRC-32C.
//
//	checkpoint:  header | slots | partitions, each with its epochs and producers
const (
	headerMagic = 0x4d514443 // "MQDC"
	nodeMagic   = 0x4d51444e // "MQDN"

	// checkpointVersion is written; version 1, which has no producers, is read.
	// nodeVersion is that of the node file.
	checkpointVersion = 2
	nodeVersion       = 1

	headerBytes    = 256
	slotBytes      = 16
	partitionBytes = 128
	epochBytes     = 24
	nodeBytes      = 128
)

// needGivenUp is the required feature of a checkpoint with an epoch table in which offsets
// were given up.
const needGivenUp = 1

// Positions in the header.
const (
	hMagic       = 0   // u32
	hVersion     = 4   // u16
	hZero        = 6   // u16
	hRequired    = 8   // u32
	hOptional    = 12  // u32
	hNode        = 16  // 16 bytes
	hJournal     = 32  // 16 bytes
	hShard       = 48  // u16
	hShards      = 50  // u16
	hFlags       = 52  // u32
	hSequence    = 56  // u64
	hLSN         = 64  // u64
	hIncarnation = 72  // u64
	hWall        = 80  // i64
	hAppendTime  = 88  // i64
	hBoot        = 96  // 16 bytes
	hDevice      = 112 // u64
	hMount       = 120 // u64
	hSlots       = 128 // u32
	hPartitions  = 132 // u32
	hBodyBytes   = 136 // u64
	hBodyCRC     = 144 // u32
	hRest        = 148 // zeros
	hCRC         = headerBytes - 4
)

// Positions in a slot.
const (
	sSlot  = 0 // u16
	sZero  = 2 // u16
	sTerm  = 4 // u32
	sIndex = 8 // u64
)

// Positions in a partition.
const (
	pTopic        = 0   // 16 bytes
	pPartition    = 16  // u32
	pSlot         = 20  // u16
	pClass        = 22  // u8
	pZero         = 23  // u8
	pTerm         = 24  // u32
	pUnused       = 28  // 4 bytes, written as zeros and not looked at
	pSegmentBase  = 32  // i64
	pEnd          = 40  // i64
	pNextOffset   = 48  // i64
	pLogStart     = 56  // i64
	pReserved     = 64  // i64
	pMaxTimestamp = 72  // i64
	pNewestAppend = 80  // i64
	pProducers    = 88  // u32
	pZero2        = 92  // 4 bytes
	pEpochVersion = 96  // u32
	pEpochs       = 100 // u32
	pCoarse       = 104 // i64
	pRest         = 112 // zeros
)

// Positions in an epoch.
const (
	eEpoch   = 0  // i32
	eReason  = 4  // u8
	eZero    = 5  // 3 bytes
	eStart   = 8  // i64
	eGapFrom = 16 // i64
)

// Positions in the node file.
const (
	nMagic    = 0  // u32
	nVersion  = 4  // u16
	nZero     = 6  // u16
	nRequired = 8  // u32
	nOptional = 12 // u32
	nID       = 16 // 16 bytes
	nCreated  = 32 // i64
	nSlots    = 40 // u16
	nShards   = 42 // u16
	nStarts   = 44 // u32
	nRest     = 48 // zeros
	nCRC      = nodeBytes - 4
)

// Each index is 0, or a layout above has a gap or an overlap and this does not
// compile.
var (
	_ = [1]struct{}{}[hVersion-(hMagic+4)]
	_ = [1]struct{}{}[hZero-(hVersion+2)]
	_ = [1]struct{}{}[hRequired-(hZero+2)]
	_ = [1]struct{}{}[hOptional-(hRequired+4)]
	_ = [1]struct{}{}[hNode-(hOptional+4)]
	_ = [1]struct{}{}[hJournal-(hNode+16)]
	_ = [1]struct{}{}[hShard-(hJournal+16)]
	_ = [1]struct{}{}[hShards-(hShard+2)]
	_ = [1]struct{}{}[hFlags-(hShards+2)]
	_ = [1]struct{}{}[hSequence-(hFlags+4)]
	_ = [1]struct{}{}[hLSN-(hSequence+8)]
	_ = [1]struct{}{}[hIncarnation-(hLSN+8)]
	_ = [1]struct{}{}[hWall-(hIncarnation+8)]
	_ = [1]struct{}{}[hAppendTime-(hWall+8)]
	_ = [1]struct{}{}[hBoot-(hAppendTime+8)]
	_ = [1]struct{}{}[hDevice-(hBoot+16)]
	_ = [1]struct{}{}[hMount-(hDevice+8)]
	_ = [1]struct{}{}[hSlots-(hMount+8)]
	_ = [1]struct{}{}[hPartitions-(hSlots+4)]
	_ = [1]struct{}{}[hBodyBytes-(hPartitions+4)]
	_ = [1]struct{}{}[hBodyCRC-(hBodyBytes+8)]
	_ = [1]struct{}{}[hRest-(hBodyCRC+4)]
	_ = [1]struct{}{}[headerBytes-(hCRC+4)]

	_ = [1]struct{}{}[sZero-(sSlot+2)]
	_ = [1]struct{}{}[sTerm-(sZero+2)]
	_ = [1]struct{}{}[sIndex-(sTerm+4)]
	_ = [1]struct{}{}[slotBytes-(sIndex+8)]

	_ = [1]struct{}{}[pPartition-(pTopic+16)]
	_ = [1]struct{}{}[pSlot-(pPartition+4)]
	_ = [1]struct{}{}[pClass-(pSlot+2)]
	_ = [1]struct{}{}[pZero-(pClass+1)]
	_ = [1]struct{}{}[pTerm-(pZero+1)]
	_ = [1]struct{}{}[pUnused-(pTerm+4)]
	_ = [1]struct{}{}[pSegmentBase-(pUnused+4)]
	_ = [1]struct{}{}[pEnd-(pSegmentBase+8)]
	_ = [1]struct{}{}[pNextOffset-(pEnd+8)]
	_ = [1]struct{}{}[pLogStart-(pNextOffset+8)]
	_ = [1]struct{}{}[pReserved-(pLogStart+8)]
	_ = [1]struct{}{}[pMaxTimestamp-(pReserved+8)]
	_ = [1]struct{}{}[pNewestAppend-(pMaxTimestamp+8)]
	_ = [1]struct{}{}[pProducers-(pNewestAppend+8)]
	_ = [1]struct{}{}[pZero2-(pProducers+4)]
	_ = [1]struct{}{}[pEpochVersion-(pZero2+4)]
	_ = [1]struct{}{}[pEpochs-(pEpochVersion+4)]
	_ = [1]struct{}{}[pCoarse-(pEpochs+4)]
	_ = [1]struct{}{}[pRest-(pCoarse+8)]
	_ = [1]struct{}{}[partitionBytes-(pRest+16)]

	_ = [1]struct{}{}[eReason-(eEpoch+4)]
	_ = [1]struct{}{}[eZero-(eReason+1)]
	_ = [1]struct{}{}[eStart-(eZero+3)]
	_ = [1]struct{}{}[eGapFrom-(eStart+8)]
	_ = [1]struct{}{}[epochBytes-(eGapFrom+8)]

	_ = [1]struct{}{}[nVersion-(nMagic+4)]
	_ = [1]struct{}{}[nZero-(nVersion+2)]
	_ = [1]struct{}{}[nRequired-(nZero+2)]
	_ = [1]struct{}{}[nOptional-(nRequired+4)]
	_ = [1]struct{}{}[nID-(nOptional+4)]
	_ = [1]struct{}{}[nCreated-(nID+16)]
	_ = [1]struct{}{}[nSlots-(nCreated+8)]
	_ = [1]struct{}{}[nShards-(nSlots+2)]
	_ = [1]struct{}{}[nStarts-(nShards+2)]
	_ = [1]struct{}{}[nRest-(nStarts+4)]
	_ = [1]struct{}{}[nodeBytes-(nCRC+4)]
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// allZero reports whether b, which the format reserves, is unused.
func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
