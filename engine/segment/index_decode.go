package segment

import (
	"encoding/binary"
	"hash/crc32"
	"math"
)

// Decode reads the whole file of a sealed index. It believes nothing that a
// checksum and the rules of the format do not confirm, and sizes nothing by a
// number in the file that the file's length does not bear out. Errors are
// [*IndexError]; all but ErrUnsupported wrap ErrRebuild. The pool may be nil.
func Decode(data []byte, id ID, pool *EntryPool) (*Index, error) {
	h, err := decodeHeader(data, id)
	if err != nil {
		return nil, err
	}
	if h.form != FormSealed {
		return nil, bad(ErrIndexOpen, "form", hForm, int64(FormSealed), int64(h.form))
	}
	if len(data) < headerBytes+footerBytes {
		return nil, bad(ErrIndexTruncated, "file", int64(len(data)), headerBytes+footerBytes, int64(len(data)))
	}
	at := len(data) - footerBytes
	f, err := decodeFooter(data[at:], int64(at), h.crc)
	if err != nil {
		return nil, err
	}
	want := int64(headerBytes) + int64(f.entries)*entryBytes + int64(f.regions)*regionBytes + int64(f.ranges)*rangeBytes + footerBytes
	if want != int64(len(data)) {
		return nil, bad(ErrIndexTruncated, "file size", int64(len(data)), want, int64(len(data)))
	}
	ix := NewIndex(id, h.interval, pool)
	if err := f.body(ix, data[headerBytes:at]); err != nil {
		ix.Release()
		return nil, err
	}
	return ix, nil
}

type header struct {
	form     Form
	interval int
	crc      uint32
}

func decodeHeader(data []byte, id ID) (header, error) {
	be := binary.BigEndian
	if len(data) < headerBytes {
		return header{}, bad(ErrIndexTruncated, "header", int64(len(data)), headerBytes, int64(len(data)))
	}
	b := data[:headerBytes]
	if m := be.Uint32(b[hMagic:]); m != headerMagic {
		return header{}, bad(ErrIndexDamaged, "magic", hMagic, headerMagic, int64(m))
	}
	h := header{form: Form(b[hForm]), crc: be.Uint32(b[hCRC:])}
	if sum := crc32.Checksum(b[:hCRC], castagnoli); sum != h.crc {
		return h, bad(ErrIndexDamaged, "header CRC", hCRC, int64(sum), int64(h.crc))
	}
	// From here on the header is what somebody wrote.
	if v := be.Uint16(b[hVersion:]); v != formatVersion {
		return h, bad(ErrUnsupported, "version", hVersion, formatVersion, int64(v))
	}
	if r := be.Uint32(b[hRequired:]); r != 0 {
		return h, bad(ErrUnsupported, "required features", hRequired, 0, int64(r))
	}
	if string(b[hTopic:hTopic+16]) != string(id.Topic[:]) {
		return h, bad(ErrIndexIdentity, "topic id", hTopic, int64(be.Uint64(id.Topic[:])), int64(be.Uint64(b[hTopic:])))
	}
	if p := be.Uint32(b[hPartition:]); p != id.Partition {
		return h, bad(ErrIndexIdentity, "partition", hPartition, int64(id.Partition), int64(p))
	}
	if base := int64(be.Uint64(b[hBase:])); base != id.Base {
		return h, bad(ErrIndexIdentity, "base offset", hBase, id.Base, base)
	}
	h.interval = int(be.Uint32(b[hInterval:]))
	if h.interval < MinIndexInterval || h.interval > MaxIndexInterval {
		return h, bad(ErrIndexDamaged, "index interval", hInterval, DefaultIndexInterval, int64(h.interval))
	}
	if h.form != FormOpen && h.form != FormSealed {
		return h, bad(ErrIndexDamaged, "form", hForm, int64(FormSealed), int64(h.form))
	}
	return h, nil
}

// footer is a decoded footer.
type footer struct {
	at                                int64 // position in the file
	entries, regions, ranges          uint32
	entriesCRC, regionsCRC, rangesCRC uint32
	first, next, max, newest          int64
	sealed                            Sealed
}

func decodeFooter(b []byte, at int64, headerCRC uint32) (*footer, error) {
	be := binary.BigEndian
	if m := be.Uint32(b[fMagic:]); m != footerMagic {
		return nil, bad(ErrIndexTruncated, "footer magic", at+fMagic, footerMagic, int64(m))
	}
	stored := be.Uint32(b[fCRC:])
	if sum := crc32.Checksum(b[:fCRC], castagnoli); sum != stored {
		return nil, bad(ErrIndexDamaged, "footer CRC", at+fCRC, int64(sum), int64(stored))
	}
	if c := be.Uint32(b[fHeaderCRC:]); c != headerCRC {
		return nil, bad(ErrIndexDamaged, "CRC of the header", at+fHeaderCRC, int64(headerCRC), int64(c))
	}
	i64 := func(pos int) int64 { return int64(be.Uint64(b[pos:])) }
	f := &footer{
		at:         at,
		entries:    be.Uint32(b[fEntries:]),
		regions:    be.Uint32(b[fRegions:]),
		ranges:     be.Uint32(b[fRanges:]),
		entriesCRC: be.Uint32(b[fEntriesCRC:]),
		regionsCRC: be.Uint32(b[fRegionsCRC:]),
		rangesCRC:  be.Uint32(b[fRangesCRC:]),
		first:      i64(fFirstOffset),
		next:       i64(fNextOffset),
		max:        i64(fMaxTimestamp),
		newest:     i64(fNewestAppend),
		sealed: Sealed{
			LogBytes:     i64(fLogBytes),
			Batches:      be.Uint64(b[fBatches:]),
			Records:      be.Uint64(b[fRecords:]),
			MinTimestamp: i64(fMinTimestamp),
			Flags:        Flags(be.Uint32(b[fFlags:])),
		},
	}
	if f.sealed.Flags&^knownFlags != 0 {
		return nil, bad(ErrUnsupported, "flags", at+fFlags, int64(knownFlags), int64(f.sealed.Flags))
	}
	return f, nil
}

// body fills ix from what stands between header and footer, whose sizes have
// been checked.
func (f *footer) body(ix *Index, b []byte) error {
	size := f.sealed.LogBytes
	if size < 0 || size > math.MaxUint32 || int64(f.regions) != int64(regionCount(size)) {
		return bad(ErrIndexDamaged, "regions", f.at+fRegions, int64(regionCount(max(size, 0))), int64(f.regions))
	}
	if f.first < ix.id.Base || f.next < f.first {
		return bad(ErrIndexDamaged, "first offset", f.at+fFirstOffset, ix.id.Base, f.first)
	}
	if f.ranges > MaxRanges {
		return bad(ErrIndexDamaged, "ranges", f.at+fRanges, MaxRanges, int64(f.ranges))
	}
	entries, b := b[:int(f.entries)*entryBytes], b[int(f.entries)*entryBytes:]
	regions, ranges := b[:int(f.regions)*regionBytes], b[int(f.regions)*regionBytes:]
	for _, part := range []struct {
		field string
		b     []byte
		crc   uint32
		at    int64
	}{
		{"CRC of the entries", entries, f.entriesCRC, fEntriesCRC},
		{"CRC of the regions", regions, f.regionsCRC, fRegionsCRC},
		{"CRC of the ranges", ranges, f.rangesCRC, fRangesCRC},
	} {
		if sum := crc32.Checksum(part.b, castagnoli); sum != part.crc {
			return bad(ErrIndexDamaged, part.field, f.at+part.at, int64(sum), int64(part.crc))
		}
	}
	if err := ix.entries(entries); err != nil {
		return err
	}
	ix.first, ix.end, ix.next, ix.max, ix.newest = f.next, size, f.next, f.max, f.newest
	if n := ix.count; n > 0 {
		ix.first = ix.At(0).Offset
		if last := ix.At(n - 1); last.Pos >= size || last.Offset >= f.next || last.MaxBefore > f.max {
			return bad(ErrIndexStale, "last entry", EntryAt(n-1), size, last.Pos)
		}
	}
	if f.first != ix.first {
		return bad(ErrIndexDamaged, "first offset", f.at+fFirstOffset, ix.first, f.first)
	}
	s := f.sealed
	s.regions = make([]uint32, f.regions)
	for i := range s.regions {
		s.regions[i] = binary.BigEndian.Uint32(regions[i*regionBytes:])
	}
	ix.sealed = &s
	return f.quarantine(ix, ranges)
}

// entries decodes b into an empty index.
func (ix *Index) entries(b []byte) error {
	seed := ix.seed
	for i := 0; len(b) > 0; i, b = i+1, b[entryBytes:] {
		e, ok := decodeEntry(b, seed)
		if !ok {
			return bad(ErrIndexDamaged, "entry", EntryAt(i), int64(crc32.Update(seed, castagnoli, b[:eCRC])), int64(binary.BigEndian.Uint32(b[eCRC:])))
		}
		if !ix.follows(e) {
			return bad(ErrIndexDamaged, "order of entries", EntryAt(i), ix.last, int64(e.pos))
		}
		ix.push(e)
	}
	return nil
}

// follows reports whether e can stand behind the entries of ix.
func (ix *Index) follows(e entry) bool {
	if ix.id.Base > math.MaxInt64-int64(e.rel) {
		return false
	}
	if ix.count == 0 {
		return true
	}
	last := ix.at(ix.count - 1)
	return e.rel > last.rel && e.pos > last.pos && e.maxBefore >= last.maxBefore
}

func decodeEntry(b []byte, seed uint32) (entry, bool) {
	be := binary.BigEndian
	if crc32.Update(seed, castagnoli, b[:eCRC]) != be.Uint32(b[eCRC:]) {
		return entry{}, false
	}
	return entry{
		rel:        be.Uint32(b[eRel:]),
		pos:        be.Uint32(b[ePos:]),
		maxBefore:  int64(be.Uint64(b[eMaxBefore:])),
		appendTime: int64(be.Uint64(b[eAppendTime:])),
	}, true
}

func decodeRange(b []byte) Range {
	be := binary.BigEndian
	return Range{
		FromOffset: int64(be.Uint64(b[rFromOffset:])),
		ToOffset:   int64(be.Uint64(b[rToOffset:])),
		FromPos:    int64(be.Uint32(b[rFromPos:])),
		ToPos:      int64(be.Uint32(b[rToPos:])),
		Check:      Check(b[rCheck]),
	}
}

func (f *footer) quarantine(ix *Index, b []byte) error {
	var last Range
	last.ToOffset = ix.id.Base
	for ; len(b) > 0; b = b[rangeBytes:] {
		r := decodeRange(b)
		ordered := r.FromOffset >= last.ToOffset && r.ToOffset >= r.FromOffset && r.ToOffset <= ix.next &&
			r.FromPos >= last.ToPos && r.ToPos >= r.FromPos && r.ToPos <= ix.end
		if !ordered {
			return bad(ErrIndexDamaged, "order of ranges", f.at, last.ToOffset, r.FromOffset)
		}
		ix.ranges, last = append(ix.ranges, r), r
	}
	return nil
}

// salvage returns an index of those entries of a file that are whole, in order,
// and this segment's, whatever else is wrong with the file. They are hints.
func salvage(data []byte, id ID) *Index {
	ix := NewIndex(id, DefaultIndexInterval, nil)
	for at := headerBytes; at+entryBytes <= len(data); at += entryBytes {
		e, ok := decodeEntry(data[at:], ix.seed)
		if !ok || !ix.follows(e) {
			continue
		}
		ix.push(e)
		ix.newest = max(ix.newest, e.appendTime)
	}
	return ix
}

// bad makes the error of an index.
func bad(kind error, field string, at, expected, found int64) error {
	return &IndexError{Kind: kind, Field: field, At: at, Expected: expected, Found: found}
}
