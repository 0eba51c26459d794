package segment

import (
	"hash/crc32"
	"path/filepath"

	"github.com/mqd-broker/mqd/engine/aio"
)

// SealedEnd is the offset behind the last batch of a sealed segment of logBytes bytes, as
// its index in the directory dir has it. An index that was made while the segment behind
// was gone ends where the one after that begins, and says that the offsets between are
// missing: they are not part of the segment. It reads the index's first and last bytes and
// nothing of the log, and reports false if there is any doubt.
func SealedEnd(fs aio.FS, dir string, id ID, logBytes int64) (next int64, ok bool) {
	e, last, ok := sealedFooter(fs, dir, id, logBytes)
	if !ok {
		return 0, false
	}
	if last != nil && last.behind(e.next, logBytes) {
		return last.FromOffset, true
	}
	return e.next, true
}

// SealedAppend is the newest append time in a sealed segment, in nanoseconds since 1970,
// as SealedEnd has its end.
func SealedAppend(fs aio.FS, dir string, id ID, logBytes int64) (newest int64, ok bool) {
	e, _, ok := sealedFooter(fs, dir, id, logBytes)
	if !ok {
		return 0, false
	}
	return e.newest, e.newest > 0
}

// SealedIndex is the index of a sealed segment of logBytes bytes, as its file has it. It reads
// nothing of the log, and reports false if there is any doubt.
func SealedIndex(fs aio.FS, l *Log, logBytes int64) (ix *Index, ok bool) {
	data, err := readIndex(fs, l, logBytes)
	if err != nil {
		return nil, false
	}
	ix, err = Decode(data, l.ID, nil)
	if err != nil || ix.sealed == nil || ix.sealed.LogBytes != logBytes {
		return nil, false
	}
	return ix, true
}

// sealedFooter reads the footer of an index, and the last of its ranges, if there are any.
func sealedFooter(fs aio.FS, dir string, id ID, logBytes int64) (e *footer, last *Range, ok bool) {
	f, err := fs.Open(filepath.Join(dir, id.IndexName()), 0)
	if err != nil {
		return nil, nil, false
	}
	defer func() { _ = f.Close() }() // read only: nothing can be lost
	size, err := f.Size()
	if err != nil || size < headerBytes+footerBytes {
		return nil, nil, false
	}
	var head [headerBytes]byte
	var foot [footerBytes]byte
	for _, part := range []struct {
		b  []byte
		at int64
	}{{head[:], 0}, {foot[:], size - footerBytes}} {
		if _, err := f.ReadAt(part.b, part.at); err != nil {
			return nil, nil, false
		}
	}
	h, err := decodeHeader(head[:], id)
	if err != nil {
		return nil, nil, false
	}
	e, err = decodeFooter(foot[:], size-footerBytes, h.crc)
	if err != nil || e.sealed.LogBytes != logBytes || e.first != id.Base {
		return nil, nil, false
	}
	if e.ranges == 0 {
		return e, nil, true
	}
	last, ok = lastRange(f, e, size)
	return e, last, ok
}

// lastRange reads the last range of an index of size bytes.
func lastRange(f aio.FSFile, e *footer, size int64) (last *Range, ok bool) {
	n := int64(e.ranges) * rangeBytes
	if e.ranges > MaxRanges || size < headerBytes+n+footerBytes {
		return nil, false
	}
	b := make([]byte, n)
	if _, err := f.ReadAt(b, size-footerBytes-n); err != nil || crc32.Checksum(b, castagnoli) != e.rangesCRC {
		return nil, false
	}
	r := decodeRange(b[n-rangeBytes:])
	return &r, true
}
