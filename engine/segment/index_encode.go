package segment

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/mqd-broker/mqd/internal/invariant"
)

// AppendHeader appends the header block of an index file to dst: the first 4 KiB
// of the file of an open segment. created is Unix time in nanoseconds.
func AppendHeader(dst []byte, ix *Index, created int64) []byte {
	return appendHeader(dst, ix, created, FormOpen)
}

func appendHeader(dst []byte, ix *Index, created int64, as Form) []byte {
	dst, b := extend(dst, headerBytes)
	be := binary.BigEndian
	be.PutUint32(b[hMagic:], headerMagic)
	be.PutUint16(b[hVersion:], formatVersion)
	b[hForm] = byte(as)
	copy(b[hTopic:], ix.id.Topic[:])
	be.PutUint32(b[hPartition:], ix.id.Partition)
	be.PutUint32(b[hInterval:], uint32(ix.interval))
	be.PutUint64(b[hBase:], uint64(ix.id.Base))
	be.PutUint64(b[hCreated:], uint64(created))
	be.PutUint32(b[hCRC:], crc32.Checksum(b[:hCRC], castagnoli))
	return dst
}

// AppendEntries appends the entries from to to (excluding it) to dst as the index
// file holds them, from [EntryAt](from) on. With dst large enough it does not
// allocate.
func AppendEntries(dst []byte, ix *Index, from, to int) []byte {
	dst, b := extend(dst, (to-from)*entryBytes)
	seed := ix.seed
	be := binary.BigEndian
	for i := from; i < to; i++ {
		e := ix.at(i)
		be.PutUint32(b[eRel:], e.rel)
		be.PutUint32(b[ePos:], e.pos)
		be.PutUint64(b[eMaxBefore:], uint64(e.maxBefore))
		be.PutUint64(b[eAppendTime:], uint64(e.appendTime))
		be.PutUint32(b[eCRC:], crc32.Update(seed, castagnoli, b[:eCRC]))
		b = b[entryBytes:]
	}
	return dst
}

// AppendSealed appends the whole file of a sealed index to dst.
func AppendSealed(dst []byte, ix *Index, created int64) []byte {
	s := ix.sealed
	if s == nil {
		invariant.Violated("segment: an index is sealed before it is encoded so")
	}
	start := len(dst)
	dst = appendHeader(dst, ix, created, FormSealed)
	header := dst[start:]

	entries := len(dst)
	dst = AppendEntries(dst, ix, 0, ix.count)
	regions := len(dst)
	dst = appendRegions(dst, s.regions)
	ranges := len(dst)
	dst = appendRanges(dst, ix.ranges)
	end := len(dst)

	dst, b := extend(dst, footerBytes)
	be := binary.BigEndian
	be.PutUint32(b[fMagic:], footerMagic)
	be.PutUint32(b[fFlags:], uint32(s.Flags))
	be.PutUint32(b[fEntries:], uint32(ix.count))
	be.PutUint32(b[fRegions:], uint32(len(s.regions)))
	be.PutUint32(b[fRanges:], uint32(len(ix.ranges)))
	be.PutUint64(b[fLogBytes:], uint64(s.LogBytes))
	be.PutUint64(b[fFirstOffset:], uint64(ix.first))
	be.PutUint64(b[fNextOffset:], uint64(ix.next))
	be.PutUint64(b[fMinTimestamp:], uint64(s.MinTimestamp))
	be.PutUint64(b[fMaxTimestamp:], uint64(ix.max))
	be.PutUint64(b[fNewestAppend:], uint64(ix.newest))
	be.PutUint64(b[fBatches:], s.Batches)
	be.PutUint64(b[fRecords:], s.Records)
	be.PutUint32(b[fEntriesCRC:], crc32.Checksum(dst[entries:regions], castagnoli))
	be.PutUint32(b[fRegionsCRC:], crc32.Checksum(dst[regions:ranges], castagnoli))
	be.PutUint32(b[fRangesCRC:], crc32.Checksum(dst[ranges:end], castagnoli))
	copy(b[fHeaderCRC:fHeaderCRC+4], header[hCRC:])
	be.PutUint32(b[fCRC:], crc32.Checksum(b[:fCRC], castagnoli))
	return dst
}

func appendRegions(dst []byte, regions []uint32) []byte {
	dst, b := extend(dst, len(regions)*regionBytes)
	for i, crc := range regions {
		binary.BigEndian.PutUint32(b[i*regionBytes:], crc)
	}
	return dst
}

func appendRanges(dst []byte, ranges []Range) []byte {
	dst, b := extend(dst, len(ranges)*rangeBytes)
	be := binary.BigEndian
	for _, r := range ranges {
		be.PutUint64(b[rFromOffset:], uint64(r.FromOffset))
		be.PutUint64(b[rToOffset:], uint64(r.ToOffset))
		be.PutUint32(b[rFromPos:], uint32(r.FromPos))
		be.PutUint32(b[rToPos:], uint32(r.ToPos))
		b[rCheck] = byte(r.Check)
		b = b[rangeBytes:]
	}
	return dst
}

// extend appends n zero bytes to dst and returns it with those bytes.
func extend(dst []byte, n int) (all, added []byte) {
	at := len(dst)
	if cap(dst)-at < n {
		dst = append(make([]byte, 0, at+n+at/2), dst...)
	}
	dst = dst[:at+n]
	clear(dst[at:])
	return dst, dst[at:]
}
